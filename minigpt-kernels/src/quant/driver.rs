//! Products with 8-bit activations, for weights whose blocks have integers of 2 to 8 bits: the formats of llama.cpp.
//!
//! An activation is rounded to 8 bits, in blocks as long as the weight's, and the products of a block are summed as integers.
//! That is what llama.cpp does; it is several times faster than expanding the weights, and not what their numbers say to the
//! last digit, so [`QuantizedProduct`](super::quantized_matrix::QuantizedProduct) leaves the choice.
//!
//! The layout is that of `panels`: sixteen columns side by side, which a product reads from front to back, so that one row and
//! five hundred read the same panels and threads share them. `tile` says in which order an element is summed, `integers` and
//! `scales` how a unit of a panel is laid out, `formats` how each format is read into units, and `rows` how activations are
//! rounded.
#![expect(unsafe_code, reason = "threads write disjoint columns of one buffer through pointers")]

use super::activations::EightBitRows;
use super::block_format::Unit;
pub use super::block_format::{BlockFormat, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
use super::micro::tile::{TILE_ROWS, tile_portable};
use crate::gemm::matrix::Matrix;
use crate::gemm::panel_format::COLUMNS;
use crate::gemm::panels::{parts, split};
use crate::gemm::product::Output;
use crate::simd;
use candle_core::quantized::GgmlType;
use rayon::prelude::*;
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::micro::tile::{tile_avx2, tile_vnni, vnni_rows};

/// Multiply-adds that are worth a task of their own, where the threads are awake.
const TASK: usize = 1 << 17;
/// A product of fewer multiply-adds than so many takes less time alone than waking another thread does.
const ALONE: usize = 1 << 19;

/// A weight (out, in) for products with 8-bit activations.
pub struct EightBitPanels<F: BlockFormat> {
    /// The units of the first panel, then those of the second, and so on.
    units: Vec<Unit<F>>,
    k: usize,
    n: usize,
}

impl<F: BlockFormat> EightBitPanels<F> {
    /// A weight of `n` rows, each some whole blocks.
    pub fn new(bytes: &[u8], n: usize) -> Self {
        let size = size_of::<F::Block>();
        let length = bytes.len() / size / n;
        let count = n.div_ceil(COLUMNS) * length;
        let mut units: Vec<Unit<F>> = Vec::with_capacity(count);
        let room = &mut units.spare_capacity_mut()[..count];
        room.par_chunks_mut(length.max(1)).enumerate().for_each(|(panel, room)| {
            let columns = panel * COLUMNS..((panel + 1) * COLUMNS).min(n);
            for (unit, room) in room.iter_mut().enumerate() {
                let block = |column: usize| &bytes[(column * length + unit) * size..][..size];
                let mut blocks = [&[][..]; COLUMNS];
                columns.clone().zip(&mut blocks).for_each(|(column, to)| *to = block(column));
                room.write(Unit::new(&blocks[..columns.len()]));
            }
        });
        // SAFETY: every unit of every panel has been written.
        unsafe { units.set_len(count) };
        Self { units, k: length * Unit::<F>::STEPS, n }
    }

    /// One row as the file has it.
    pub fn write_row(&self, row: usize, bytes: &mut [u8]) {
        let blocks = bytes.chunks_exact_mut(size_of::<F::Block>());
        for (unit, block) in self.panel(row / COLUMNS).iter().zip(blocks) {
            unit.write(row % COLUMNS, block);
        }
    }

    /// The bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.k / F::Block::BLCK_SIZE * size_of::<F::Block>()
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.n
    }

    fn panel(&self, panel: usize) -> &[Unit<F>] {
        let length = self.k / Unit::<F>::STEPS;
        &self.units[panel * length..][..length]
    }

    /// `x · Wᵀ + b` in a new buffer, on the threads of the current pool. `x` has contiguous rows.
    pub fn product(&self, x: Matrix, bias: Option<&[f32]>) -> Vec<f32> {
        x.check();
        assert!(x.columns == self.k && (x.column_stride == 1 || x.columns <= 1), "rows of this weight");
        assert!(bias.is_none_or(|bias| bias.len() == self.n), "the size of a bias");
        let (m, n) = (x.rows, self.n);
        let mut y: Vec<f32> = Vec::with_capacity(m * n);
        let base = bias.map(|bias| (bias.as_ptr(), 0));
        let x = EightBitRows::new(x, Unit::<F>::STEPS);
        let product = Product { weight: self, x: &x, m, y: Output { to: y.as_mut_ptr(), stride: n, base } };
        let parts = parts(m * n * self.k, ALONE, TASK);
        // SAFETY: `x` has m rows, and `y` room for m·n elements.
        split(0..n.div_ceil(COLUMNS), parts, &|panels| unsafe { product.panels(panels) });
        // SAFETY: each panel has written its columns of every row.
        unsafe { y.set_len(m * n) };
        y
    }
}

/// A product that threads share.
struct Product<'a, F: BlockFormat> {
    weight: &'a EightBitPanels<F>,
    x: &'a EightBitRows,
    m: usize,
    y: Output,
}

// SAFETY: threads are given panels that don't overlap, and write their columns only.
unsafe impl<F: BlockFormat> Sync for Product<'_, F> {}

impl<F: BlockFormat> Product<'_, F> {
    /// All rows times some panels.
    ///
    /// # Safety
    /// `x` has `m` rows, and the output has room for all rows and columns.
    unsafe fn panels(&self, panels: Range<usize>) {
        #[cfg(target_arch = "x86_64")]
        if simd::has_vnni() {
            // SAFETY: the caller's, and just asked.
            return unsafe { self.panels_vnni(panels) };
        }
        let plain = simd::is_plain();
        for panel in panels {
            let mut row = 0;
            while row < self.m {
                // SAFETY: the caller's.
                row += unsafe {
                    match self.m - row {
                        _ if plain => self.portable(panel, row),
                        1 => self.rows::<1>(panel, row),
                        2 => self.rows::<2>(panel, row),
                        3 => self.rows::<3>(panel, row),
                        _ => self.rows::<TILE_ROWS>(panel, row),
                    }
                };
            }
        }
    }

    /// The same for a CPU with VNNI: as few tiles as hold all rows, of about the same size.
    ///
    /// # Safety
    /// As for [`Product::panels`]; the CPU has AVX2, F16C and AVX-512 with BW and VNNI.
    #[cfg(target_arch = "x86_64")]
    unsafe fn panels_vnni(&self, panels: Range<usize>) {
        let most = self.m.div_ceil(self.m.div_ceil(vnni_rows::<F>()).max(1));
        for panel in panels {
            let mut row = 0;
            while row < self.m {
                // SAFETY: the caller's.
                row += unsafe {
                    match most.min(self.m - row) {
                        1 => self.rows_vnni::<1>(panel, row),
                        2 => self.rows_vnni::<2>(panel, row),
                        3 => self.rows_vnni::<3>(panel, row),
                        4 => self.rows_vnni::<4>(panel, row),
                        5 => self.rows_vnni::<5>(panel, row),
                        6 => self.rows_vnni::<6>(panel, row),
                        7 => self.rows_vnni::<7>(panel, row),
                        _ => self.rows_vnni::<8>(panel, row),
                    }
                };
            }
        }
    }

    /// # Safety
    /// As for [`Product::panels_vnni`]; there are so many rows.
    #[cfg(target_arch = "x86_64")]
    unsafe fn rows_vnni<const R: usize>(&self, panel: usize, row: usize) -> usize {
        // SAFETY: the caller's.
        unsafe {
            let y = tile_vnni::<F, R>(self.weight.panel(panel), self.x, row);
            for (i, y) in y.iter().enumerate() {
                self.store(panel, row + i, y);
            }
        }
        R
    }

    /// # Safety
    /// As for [`Product::panels`].
    unsafe fn portable(&self, panel: usize, row: usize) -> usize {
        let y = tile_portable(self.weight.panel(panel), self.x, row);
        // SAFETY: the caller's.
        unsafe { self.store(panel, row, &y) };
        1
    }

    /// `R` rows times a panel, for a CPU with AVX2.
    ///
    /// # Safety
    /// As for [`Product::panels`]; there are so many rows, and the CPU has AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    unsafe fn rows<const R: usize>(&self, panel: usize, row: usize) -> usize {
        // SAFETY: the caller's.
        unsafe {
            let y = tile_avx2::<F, R>(self.weight.panel(panel), self.x, row);
            for (i, y) in y.iter().enumerate() {
                self.store(panel, row + i, y);
            }
        }
        R
    }

    #[cfg(not(target_arch = "x86_64"))]
    unsafe fn rows<const R: usize>(&self, panel: usize, row: usize) -> usize {
        // SAFETY: the caller's.
        unsafe { self.portable(panel, row) }
    }

    /// Adds the bias and writes the columns that the weight has.
    ///
    /// # Safety
    /// As for [`Product::panels`].
    unsafe fn store(&self, panel: usize, row: usize, y: &[f32; COLUMNS]) {
        let columns = COLUMNS.min(self.weight.n - panel * COLUMNS);
        // SAFETY: the caller's, and the bias has as many columns.
        unsafe {
            let Output { to, base, .. } = self.y.part(row, panel * COLUMNS);
            for (j, y) in y[..columns].iter().enumerate() {
                *to.add(j) = base.map_or(*y, |(base, _)| *y + *base.add(j));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::micro::scales::{ColumnScales, Scales};
    use super::*;
    use crate::testing::{elements, random};
    use candle_core::quantized::{GgmlDType, QTensor};
    use proptest::prelude::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    /// Runs a check for every format.
    macro_rules! every_format {
        ($check:ident($($arguments:expr),*)) => {
            $check::<Q4_0>(GgmlDType::Q4_0, $($arguments),*);
            $check::<Q4_1>(GgmlDType::Q4_1, $($arguments),*);
            $check::<Q5_0>(GgmlDType::Q5_0, $($arguments),*);
            $check::<Q5_1>(GgmlDType::Q5_1, $($arguments),*);
            $check::<Q2K>(GgmlDType::Q2K, $($arguments),*);
            $check::<Q3K>(GgmlDType::Q3K, $($arguments),*);
            $check::<Q4K>(GgmlDType::Q4K, $($arguments),*);
            $check::<Q5K>(GgmlDType::Q5K, $($arguments),*);
            $check::<Q6K>(GgmlDType::Q6K, $($arguments),*);
            $check::<Q8_0>(GgmlDType::Q8_0, $($arguments),*);
        };
    }

    fn bits(x: &[f32]) -> Vec<u32> {
        x.iter().map(|x| x.to_bits()).collect()
    }

    fn quantized(dtype: GgmlDType, n: usize, k: usize, seed: u64) -> Vec<u8> {
        QTensor::quantize(&random(&[n, k], seed), dtype).unwrap().data().unwrap().into_owned()
    }

    /// A block of any bits whose factors are finite.
    fn any_block<F: BlockFormat>(rng: &mut SmallRng) -> Vec<u8> {
        let mut block = vec![0u8; size_of::<F::Block>()];
        rng.fill(&mut block[..]);
        let mut scales = F::scales(&block);
        scales.factors = scales.factors.map(|_| half::f16::from_f32(rng.random_range(-2.0f32..2.0)));
        let integers = Unit::<F>::new(&[&block]);
        Unit::<F> { scales: F::Scales::new(&[scales; COLUMNS]), ..integers }.write(0, &mut block);
        block
    }

    /// The definition of an element: blocks in their order, each an integer sum that is scaled once.
    fn element<F: BlockFormat>(row: &[u8], x: &EightBitRows, i: usize) -> f32 {
        let mut y = 0f32;
        for (number, block) in row.chunks_exact(size_of::<F::Block>()).enumerate() {
            let unit = Unit::<F>::new(&[block]);
            let first = i * x.width + number * Unit::<F>::STEPS;
            let (mut sum, mut correction) = (0i64, 0i64);
            for (group, integers) in unit.groups.as_ref().iter().enumerate() {
                let [scales, mins] = unit.scales.group(0, group);
                for (step, integer) in
                    crate::quant::block_panels::SmallIntegers::column(integers, 0).into_iter().enumerate()
                {
                    let x = i64::from(x.integers[first + group * crate::quant::block_panels::STEPS + step]);
                    sum += i64::from(scales[step / 16]) * i64::from(integer) * x;
                    correction += i64::from(mins[step / 16]) * x;
                }
            }
            let scale = x.scales[first / Unit::<F>::STEPS];
            let [factor, min] = unit.scales.factors(0).map(|factor| factor.to_f32() * scale);
            y += if F::Scales::MINS {
                factor * sum as f32 - min * correction as f32
            } else {
                factor * (sum - correction) as f32
            };
        }
        y
    }

    /// Units hold the file's blocks, whatever these are, and every kernel makes the same of them as the definition.
    fn assert_bits<F: BlockFormat>(_dtype: GgmlDType, n: usize, blocks: usize, m: usize, seed: u64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let bytes: Vec<u8> = (0..n * blocks).flat_map(|_| any_block::<F>(&mut rng)).collect();
        let (size, k) = (blocks * size_of::<F::Block>(), blocks * Unit::<F>::STEPS);
        let weight = EightBitPanels::<F>::new(&bytes, n);
        for (row, want) in bytes.chunks(size).enumerate() {
            let mut got = vec![7; weight.row_bytes()];
            weight.write_row(row, &mut got);
            assert_eq!(got, want);
        }
        let x = elements(m * k, seed ^ 1);
        let x = EightBitRows::new(Matrix::new(&x, m, k, k), Unit::<F>::STEPS);
        for panel in 0..n.div_ceil(COLUMNS) {
            let columns = panel * COLUMNS..((panel + 1) * COLUMNS).min(n);
            for i in 0..m {
                let want: Vec<f32> =
                    columns.clone().map(|j| element::<F>(&bytes[j * size..][..size], &x, i)).collect();
                let portable = tile_portable(weight.panel(panel), &x, i);
                assert_eq!(bits(&portable[..columns.len()]), bits(&want), "the portable kernel");
                #[cfg(target_arch = "x86_64")]
                if crate::testing::cpu_has_avx2("every_kernel_makes_what_the_definition_says") {
                    let check = |got: &[[f32; COLUMNS]]| {
                        let last = i + 1 - got.len();
                        assert_eq!(bits(&got[i - last][..columns.len()]), bits(&want), "{} rows", got.len());
                    };
                    // SAFETY: the CPU has AVX2, and there are so many rows, the last of which is row i.
                    unsafe {
                        check(&tile_avx2::<F, 1>(weight.panel(panel), &x, i));
                        if i >= 1 {
                            check(&tile_avx2::<F, 2>(weight.panel(panel), &x, i - 1));
                        }
                        if i >= 2 {
                            check(&tile_avx2::<F, 3>(weight.panel(panel), &x, i - 2));
                        }
                        if i >= 3 {
                            check(&tile_avx2::<F, 4>(weight.panel(panel), &x, i - 3));
                        }
                        if simd::cpu_has_vnni() {
                            check(&tile_vnni::<F, 1>(weight.panel(panel), &x, i));
                            if i >= 2 {
                                check(&tile_vnni::<F, 3>(weight.panel(panel), &x, i - 2));
                            }
                            if i >= 7 {
                                check(&tile_vnni::<F, 8>(weight.panel(panel), &x, i - 7));
                            }
                        }
                    }
                }
            }
        }
    }

    /// Near the product of the expanded weight: what rounding activations to 8 bits may cost.
    fn assert_near<F: BlockFormat>(dtype: GgmlDType, m: usize, n: usize, blocks: usize, seed: u64) {
        let k = blocks * Unit::<F>::STEPS;
        let bytes = quantized(dtype, n, k, seed);
        let weight = EightBitPanels::<F>::new(&bytes, n);
        let exact = QTensor::quantize(&random(&[n, k], seed), dtype).unwrap();
        let exact = exact.dequantize(&candle_core::Device::Cpu).unwrap().to_vec2::<f32>().unwrap();
        let (x, bias) = (elements(m * k, seed ^ 1), elements(n, seed ^ 2));
        let bias = seed.is_multiple_of(2).then_some(&bias[..]);
        let y = weight.product(Matrix::new(&x, m, k, k), bias);
        assert_eq!(y.len(), m * n);
        for (i, x) in x.chunks(k).enumerate() {
            let largest = x.iter().fold(0f64, |most, x| most.max(f64::from(x.abs())));
            for (j, exact) in exact.iter().enumerate() {
                let products = || x.iter().zip(exact).map(|(x, w)| f64::from(*x) * f64::from(*w));
                let want = products().sum::<f64>() + bias.map_or(0.0, |bias| f64::from(bias[j]));
                // Half a step of 1/127 each at most, whose signs differ: five times what is expected of so many.
                let length = exact.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>().sqrt();
                let near = 5.0 * largest / 127.0 / 12f64.sqrt() * length + 1e-4;
                let got = f64::from(y[i * n + j]);
                assert!((got - want).abs() <= near, "{dtype:?}: {got} is not {want} within {near}");
            }
        }
    }

    /// A row is the same to the bit alone, beside others, and with any number of threads.
    fn assert_rows<F: BlockFormat>(dtype: GgmlDType, n: usize, blocks: usize, seed: u64) {
        let k = blocks * Unit::<F>::STEPS;
        let weight = EightBitPanels::<F>::new(&quantized(dtype, n, k, seed), n);
        let (x, bias) = (elements(33 * k, seed ^ 1), elements(n, seed ^ 2));
        let product = |first: usize, m: usize| {
            bits(&weight.product(Matrix::new(&x[first * k..], m, k, k), Some(&bias)))
        };
        let alone: Vec<u32> = (0..33).flat_map(|row| product(row, 1)).collect();
        for m in (1..=9).chain([33]) {
            assert_eq!(product(0, m), alone[..m * n], "{dtype:?}: {m} rows");
            assert_eq!(product(33 - m, m), alone[(33 - m) * n..], "{dtype:?}: the last {m} rows");
        }
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| product(0, 33)), alone, "{dtype:?}: {threads} threads");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn every_kernel_makes_what_the_definition_says(
            n in 1usize..40, blocks in 1usize..3, m in 1usize..10, seed: u64
        ) {
            every_format!(assert_bits(n, blocks, m, seed));
        }

        #[test]
        fn products_are_near_those_of_the_expanded_weight(
            m in 1usize..7, n in 1usize..70, blocks in 1usize..4, seed: u64
        ) {
            every_format!(assert_near(m, n, blocks, seed));
        }

        #[test]
        fn a_row_is_the_same_in_any_company(n in 1usize..90, blocks in 1usize..4, seed: u64) {
            every_format!(assert_rows(n, blocks, seed));
        }
    }

    #[test]
    fn products_of_many_tasks_keep_the_promise() {
        every_format!(assert_rows(1030, 3, 4));
        assert_near::<Q4K>(GgmlDType::Q4K, 3, 700, 12, 5);
        assert_near::<Q6K>(GgmlDType::Q6K, 9, 300, 3, 6);
    }

    /// All integers, scales and activations as large as they can be: no sum may overflow.
    fn assert_extremes<F: BlockFormat>(_dtype: GgmlDType) {
        for (byte, x) in [(0xff, 1.0), (0xff, -1.0), (0x7f, 1.0), (0x80, -1.0), (0x00, 1.0)] {
            let mut block = vec![byte; size_of::<F::Block>()];
            let scales = ColumnScales { factors: [half::f16::ONE; 2], ..F::scales(&block) };
            let unit = Unit::<F>::new(&[&block]);
            Unit::<F> { scales: F::Scales::new(&[scales; COLUMNS]), ..unit }.write(0, &mut block);
            let k = Unit::<F>::STEPS;
            let x = EightBitRows::new(Matrix::new(&vec![x; k], 1, k, k), k);
            let want = element::<F>(&block, &x, 0);
            let weight = EightBitPanels::<F>::new(&block, 1);
            assert_eq!(tile_portable(weight.panel(0), &x, 0)[0].to_bits(), want.to_bits());
            #[cfg(target_arch = "x86_64")]
            if crate::testing::cpu_has_avx2("the_largest_integers_do_not_overflow") {
                // SAFETY: the CPU has AVX2, and there is one row.
                let y = unsafe { tile_avx2::<F, 1>(weight.panel(0), &x, 0) };
                assert_eq!(y[0][0].to_bits(), want.to_bits());
                if simd::cpu_has_vnni() {
                    // SAFETY: the CPU has VNNI as well.
                    let y = unsafe { tile_vnni::<F, 1>(weight.panel(0), &x, 0) };
                    assert_eq!(y[0][0].to_bits(), want.to_bits());
                }
            }
        }
    }

    #[test]
    fn the_largest_integers_do_not_overflow() {
        every_format!(assert_extremes());
    }

    #[test]
    fn what_is_not_finite_stays_in_its_row() {
        let weight = EightBitPanels::<Q4K>::new(&quantized(GgmlDType::Q4K, 20, 256, 1), 20);
        let mut x = elements(3 * 256, 2);
        x[256 + 9] = f32::NAN;
        let y = weight.product(Matrix::new(&x, 3, 256, 256), None);
        assert!(y[20..40].iter().all(|y| y.is_nan()));
        assert!(y[..20].iter().chain(&y[40..]).all(|y| y.is_finite()));
    }

    #[test]
    fn no_rows_are_no_mistake() {
        let weight = EightBitPanels::<Q4_0>::new(&quantized(GgmlDType::Q4_0, 3, 64, 1), 3);
        assert!(weight.product(Matrix::new(&[], 0, 64, 64), None).is_empty());
    }
}
