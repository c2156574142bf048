//! Products with 8-bit activations: `x · Wᵀ + b` for a weight in panels, on the threads of the current pool.
//!
//! An activation is rounded to 8 bits, in blocks as long as the weight's, and the products of a block are summed as integers.
//! That is what llama.cpp does; it is several times faster than dequantising the weights, and not exact, so
//! [`QuantizedProduct`](super::quantized_matrix::QuantizedProduct) leaves the choice.
//!
//! Threads share the panels of the weight; each panel is multiplied with all rows of activations, a tile at a time.
#![expect(unsafe_code, reason = "threads write disjoint columns of one buffer through a pointer")]

use super::activations::EightBitRows;
use super::block_panels::{BlockPanels, ROWS};
use super::micro::Kernels;
use crate::cpu;
use crate::gemm::driver::{parts, split};
use crate::gemm::matrix::Matrix;
use std::ops::Range;

/// Multiply-adds that are worth a task of their own, where the threads are awake.
const TASK: usize = 1 << 17;
/// Below this many multiply-adds, waking another thread costs more than it saves.
const ALONE: usize = 1 << 19;
/// The most rows of a tile in any instruction set.
const MOST_TILE_ROWS: usize = 8;

impl BlockPanels {
    /// `x · Wᵀ + b`. The rows of `x` are contiguous.
    ///
    /// # Shapes
    /// - `x`: (rows, in); `bias`: (out); output: (rows, out)
    pub fn product(&self, x: Matrix, bias: Option<&[f32]>) -> Vec<f32> {
        self.product_by(&cpu::kernels().quant, x, bias)
    }

    fn product_by(&self, kernels: &Kernels, x: Matrix, bias: Option<&[f32]>) -> Vec<f32> {
        let ((n, k), m) = (self.shape(), x.rows);
        x.check();
        assert!(x.columns == k && (x.column_stride == 1 || k <= 1), "rows of this weight");
        assert!(bias.is_none_or(|bias| bias.len() == n), "the size of a bias");
        let format = self.format();
        let tile = kernels.tiles[self.format];
        let most = kernels.tile_rows[usize::from(format.groups > 1)].min(MOST_TILE_ROWS);
        // As few tiles as hold all rows, of about the same size.
        let tile_rows = m.div_ceil(m.div_ceil(most).max(1)).max(1);

        let x = EightBitRows::new(x, format.weights());
        let mut y: Vec<f32> = Vec::with_capacity(m * n);
        let output = OutputPointer(y.as_mut_ptr());
        let panel_length = self.panel_length();
        // Padded, so that adding it to a panel has a length that the compiler knows.
        let bias: Option<Vec<[f32; ROWS]>> = bias.map(|bias| bias.chunks(ROWS).map(padded).collect());
        split(0..n.div_ceil(ROWS), parts(m * n * k, ALONE, TASK), &|panels: Range<usize>| {
            let mut sums = [[0f32; ROWS]; MOST_TILE_ROWS];
            for panel in panels {
                let weight = &self.chunks()[panel * panel_length..][..panel_length];
                let (left, width) = (panel * ROWS, ROWS.min(n - panel * ROWS));
                for first in (0..m).step_by(tile_rows) {
                    let rows = first..m.min(first + tile_rows);
                    let sums = &mut sums[..rows.len()];
                    tile(weight, &x, rows.clone(), sums);
                    for (row, sums) in rows.zip(sums) {
                        if let Some(bias) = &bias {
                            sums.iter_mut().zip(&bias[panel]).for_each(|(sum, bias)| *sum += bias);
                        }
                        // SAFETY: the output has room for all rows and columns; no other thread has these panels.
                        unsafe { output.write(row * n + left, sums, width) };
                    }
                }
            }
        });
        // SAFETY: each panel has written its columns of every row.
        unsafe { y.set_len(m * n) };
        y
    }
}

/// Up to sixteen elements, with zeros behind them.
fn padded(elements: &[f32]) -> [f32; ROWS] {
    let mut padded = [0.0; ROWS];
    padded[..elements.len()].copy_from_slice(elements);
    padded
}

/// The output (rows, out), which threads share.
struct OutputPointer(*mut f32);

// SAFETY: threads write different columns.
unsafe impl Sync for OutputPointer {}

impl OutputPointer {
    /// Writes the first `count` sums of a panel.
    ///
    /// # Safety
    /// There is room for these elements, which no other thread writes.
    unsafe fn write(&self, at: usize, sums: &[f32; ROWS], count: usize) {
        // SAFETY: the caller's.
        unsafe {
            let to = self.0.add(at);
            if count == ROWS {
                // A length that the compiler knows: a call of memcpy per row takes a tenth of a tile's time.
                to.cast::<[f32; ROWS]>().write_unaligned(*sums);
            } else {
                to.copy_from_nonoverlapping(sums.as_ptr(), count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::block_format::{BlockFormat, BlockScales, FORMATS, Zero};
    use super::*;
    use crate::cpu::for_each_instruction_set;
    use crate::testing::{elements, random};
    use candle_core::quantized::{GgmlDType, QTensor};
    use half::f16;
    use proptest::prelude::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    fn bits(x: &[f32]) -> Vec<u32> {
        x.iter().map(|x| x.to_bits()).collect()
    }

    fn format(dtype: GgmlDType) -> &'static BlockFormat {
        FORMATS.iter().find(|format| format.dtype == dtype).unwrap()
    }

    fn quantized(format: &'static BlockFormat, n: usize, k: usize, seed: u64) -> BlockPanels {
        let bytes =
            QTensor::quantize(&random(&[n, k], seed), format.dtype).unwrap().data().unwrap().into_owned();
        BlockPanels::new(format.dtype, &bytes, n).unwrap()
    }

    /// Replaces the factors of a block.
    fn set_factors(format: &BlockFormat, block: &mut [u8], factors: [f16; 2]) {
        let scales = BlockScales { factors, ..format.read_scales(block) };
        let groups: Vec<_> = (0..format.groups).map(|group| format.read_group(block, group)).collect();
        block.fill(0);
        format.write_scales(&scales, block);
        groups.iter().enumerate().for_each(|(group, integers)| format.write_group(integers, block, group));
    }

    /// The loop that micro-kernels implement, one weight at a time, for a row of blocks and row `i` of `x`.
    fn element(format: &BlockFormat, row: &[u8], x: &EightBitRows, i: usize) -> f32 {
        let mut y = 0f32;
        for (number, block) in row.chunks(format.bytes).enumerate() {
            let BlockScales { factors, scales, mins } = format.read_scales(block);
            let first = i * x.width + number * format.weights();
            let (mut sum, mut correction) = (0i64, 0i64);
            let integers = (0..format.groups).flat_map(|group| format.read_group(block, group));
            let xs = x.integers[first..].iter().map(|&x| i64::from(x));
            for (at, (integer, x)) in integers.zip(xs).enumerate() {
                let scale = i64::from(scales[at / 16]);
                sum += scale * i64::from(integer) * x;
                correction += match format.zero {
                    Zero::Minimum => i64::from(mins[at / 16]) * x,
                    Zero::Offset(offset) => i64::from(offset) * scale * x,
                };
            }
            let x_scale = x.scales[first / format.weights()];
            let [factor, min_factor] = factors.map(|factor| factor.to_f32() * x_scale);
            y += match format.zero {
                Zero::Minimum => factor * sum as f32 - min_factor * correction as f32,
                Zero::Offset(_) => factor * (sum - correction) as f32,
            };
        }
        y
    }

    /// Every element of a product, to the bit.
    fn assert_is_the_loop(
        kernels: &Kernels,
        format: &'static BlockFormat,
        bytes: &[u8],
        n: usize,
        x: &[f32],
    ) {
        let weight = BlockPanels::new(format.dtype, bytes, n).unwrap();
        let ((_, k), length) = (weight.shape(), bytes.len() / n);
        let x = Matrix::new(x, x.len() / k, k, k);
        let y = weight.product_by(kernels, x, None);
        let rounded = EightBitRows::new(x, format.weights());
        for (at, y) in y.iter().enumerate() {
            let want = element(format, &bytes[at % n * length..][..length], &rounded, at / n);
            assert_eq!(y.to_bits(), want.to_bits(), "{:?}: {y} is not {want}", format.dtype);
        }
    }

    for_each_instruction_set! {
        fn tiles_are_the_loop_to_the_bit(kernels) {
            let config = ProptestConfig::with_cases(12);
            proptest!(config, |(n in 1usize..40, blocks in 1usize..3, m in 1usize..10, seed: u64)| {
                let mut rng = SmallRng::seed_from_u64(seed);
                for format in &FORMATS {
                    let mut bytes = vec![0; n * blocks * format.bytes];
                    rng.fill(&mut bytes[..]);
                    for block in bytes.chunks_mut(format.bytes) {
                        let factors = [0, 1].map(|_| f16::from_f32(rng.random_range(-2.0f32..2.0)));
                        set_factors(format, block, factors);
                    }
                    let x = elements(m * blocks * format.weights(), seed ^ 1);
                    assert_is_the_loop(&kernels.quant, format, &bytes, n, &x);
                }
            });
        }

        /// All integers, scales and activations as large as they can be.
        fn the_largest_integers_do_not_overflow(kernels) {
            for format in &FORMATS {
                for (byte, x) in [(0xff, 1.0), (0xff, -1.0), (0x7f, 1.0), (0x80, -1.0), (0x00, 1.0)] {
                    let mut block = vec![byte; format.bytes];
                    set_factors(format, &mut block, [f16::ONE; 2]);
                    assert_is_the_loop(&kernels.quant, format, &block, 1, &vec![x; format.weights()]);
                }
            }
        }
    }

    #[test]
    fn blocks_are_written_back_byte_for_byte() {
        let mut rng = SmallRng::seed_from_u64(1);
        for format in &FORMATS {
            let mut bytes = vec![0; 37 * 2 * format.bytes];
            rng.fill(&mut bytes[..]);
            let weight = BlockPanels::new(format.dtype, &bytes, 37).unwrap();
            assert_eq!(weight.bytes(), bytes, "{:?}", format.dtype);
        }
    }

    /// Near the product of the dequantised weight: what rounding activations to 8 bits may cost.
    fn assert_near(format: &'static BlockFormat, m: usize, n: usize, blocks: usize, seed: u64) {
        let k = blocks * format.weights();
        let exact = QTensor::quantize(&random(&[n, k], seed), format.dtype).unwrap();
        let exact = exact.dequantize(&candle_core::Device::Cpu).unwrap().to_vec2::<f32>().unwrap();
        let (x, bias) = (elements(m * k, seed ^ 1), elements(n, seed ^ 2));
        let bias = seed.is_multiple_of(2).then_some(&bias[..]);
        let y = quantized(format, n, k, seed).product(Matrix::new(&x, m, k, k), bias);
        assert_eq!(y.len(), m * n);
        for (i, x) in x.chunks(k).enumerate() {
            let largest = x.iter().fold(0f64, |most, x| most.max(f64::from(x.abs())));
            for (j, exact) in exact.iter().enumerate() {
                let products = x.iter().zip(exact).map(|(x, w)| f64::from(*x) * f64::from(*w));
                let want = products.sum::<f64>() + bias.map_or(0.0, |bias| f64::from(bias[j]));
                // Half a step of 1/127 each at most, with random signs: five times the expected size of the sum.
                let length = exact.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>().sqrt();
                let near = 5.0 * largest / 127.0 / 12f64.sqrt() * length + 1e-4;
                let got = f64::from(y[i * n + j]);
                assert!((got - want).abs() <= near, "{:?}: {got} is not {want} within {near}", format.dtype);
            }
        }
    }

    /// A row is the same to the bit alone, beside others, and with any number of threads.
    fn assert_rows(format: &'static BlockFormat, n: usize, blocks: usize, seed: u64) {
        let k = blocks * format.weights();
        let weight = quantized(format, n, k, seed);
        let (x, bias) = (elements(33 * k, seed ^ 1), elements(n, seed ^ 2));
        let product = |first: usize, m: usize| {
            bits(&weight.product(Matrix::new(&x[first * k..], m, k, k), Some(&bias)))
        };
        let alone: Vec<u32> = (0..33).flat_map(|row| product(row, 1)).collect();
        for m in (1..=9).chain([33]) {
            assert_eq!(product(0, m), alone[..m * n], "{:?}: {m} rows", format.dtype);
            assert_eq!(product(33 - m, m), alone[(33 - m) * n..], "{:?}: the last {m} rows", format.dtype);
        }
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| product(0, 33)), alone, "{:?}: {threads} threads", format.dtype);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn products_are_near_those_of_the_dequantised_weight(
            m in 1usize..7, n in 1usize..70, blocks in 1usize..4, seed: u64
        ) {
            FORMATS.iter().for_each(|format| assert_near(format, m, n, blocks, seed));
        }

        #[test]
        fn a_row_does_not_depend_on_its_batch(n in 1usize..90, blocks in 1usize..4, seed: u64) {
            FORMATS.iter().for_each(|format| assert_rows(format, n, blocks, seed));
        }
    }

    #[test]
    fn products_of_several_tasks_do_not_depend_on_the_batch() {
        FORMATS.iter().for_each(|format| assert_rows(format, 1030, 3, 4));
        assert_near(format(GgmlDType::Q4K), 3, 700, 12, 5);
        assert_near(format(GgmlDType::Q6K), 9, 300, 3, 6);
    }

    #[test]
    fn an_activation_that_is_not_finite_spoils_its_row_only() {
        let weight = quantized(format(GgmlDType::Q4K), 20, 256, 1);
        let mut x = elements(3 * 256, 2);
        x[256 + 9] = f32::NAN;
        let y = weight.product(Matrix::new(&x, 3, 256, 256), None);
        assert!(y[20..40].iter().all(|y| y.is_nan()));
        assert!(y[..20].iter().chain(&y[40..]).all(|y| y.is_finite()));
    }

    #[test]
    fn a_product_of_no_rows_is_empty() {
        let weight = quantized(format(GgmlDType::Q4_0), 3, 64, 1);
        assert!(weight.product(Matrix::new(&[], 0, 64, 64), None).is_empty());
    }
}
