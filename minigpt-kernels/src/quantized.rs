//! Matrices in fewer bits: blocks of small numbers with common scales, in the layouts of llama.cpp. They are
//! multiplied a few rows at a time and never expanded as a whole; the other factor stays f32, so that the product is that
//! of the expanded matrix.
#![expect(unsafe_code, reason = "blocks are read from bytes")]

use super::dot::{Weights, dot, dot_rows};
use super::matrix::Matrix;
use super::product;
use super::with_floats;
use candle_core::quantized::{GgmlDType, GgmlType, k_quants};
use candle_core::{Device, Result, Tensor};
use half::{bf16, f16};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// A matrix whose rows are blocks of small numbers. Cloning is cheap.
#[derive(Clone)]
pub struct QuantizedMatrix {
    blocks: Arc<dyn Blocks>,
    dtype: GgmlDType,
    rows: usize,
    columns: usize,
    turned: bool,
}

/// Rows that are expanded at a time for a matrix product: few enough to stay in a core's cache.
const TILE: usize = 64;
/// So many rows of the other factor are worth a matrix product instead of one row after another.
const MANY: usize = 24;
/// Numbers of the matrix that are worth a task of their own.
const TASK: usize = 1 << 17;

/// Blocks of one type.
trait Blocks: Send + Sync {
    /// The numbers from `start` on, as many as fit; both are whole blocks.
    fn expand(&self, start: usize, out: &mut [f32]);

    /// The product of the numbers from `start` on with as many others; `room` has room for them.
    fn dot(&self, start: usize, x: &[f32], room: &mut [f32]) -> f32 {
        self.expand(start, room);
        dot(room, x)
    }
}

impl<T: GgmlType> Blocks for Vec<T> {
    fn expand(&self, start: usize, out: &mut [f32]) {
        T::to_float(&self[start / T::BLCK_SIZE..][..out.len() / T::BLCK_SIZE], out);
    }
}

/// Numbers that are multiplied as they are stored.
struct Direct<W>(Vec<W>);

impl<W: Weights> Blocks for Direct<W> {
    fn expand(&self, start: usize, out: &mut [f32]) {
        W::expand(&self.0[start / W::NUMBERS..][..out.len() / W::NUMBERS], out);
    }

    fn dot(&self, start: usize, x: &[f32], _room: &mut [f32]) -> f32 {
        dot(&self.0[start / W::NUMBERS..][..x.len() / W::NUMBERS], x)
    }
}

/// The blocks in a file's bytes.
fn blocks(dtype: GgmlDType, bytes: &[u8]) -> Arc<dyn Blocks> {
    use GgmlDType::*;
    match dtype {
        F32 => Arc::new(Direct(copied::<f32>(bytes))),
        F16 => Arc::new(Direct(copied::<f16>(bytes))),
        BF16 => Arc::new(Direct(copied::<bf16>(bytes))),
        Q8_0 => Arc::new(Direct(bytes.as_chunks::<34>().0.to_vec())),
        Q4_0 => Arc::new(copied::<k_quants::BlockQ4_0>(bytes)),
        Q4_1 => Arc::new(copied::<k_quants::BlockQ4_1>(bytes)),
        Q5_0 => Arc::new(copied::<k_quants::BlockQ5_0>(bytes)),
        Q5_1 => Arc::new(copied::<k_quants::BlockQ5_1>(bytes)),
        Q8_1 => Arc::new(copied::<k_quants::BlockQ8_1>(bytes)),
        Q2K => Arc::new(copied::<k_quants::BlockQ2K>(bytes)),
        Q3K => Arc::new(copied::<k_quants::BlockQ3K>(bytes)),
        Q4K => Arc::new(copied::<k_quants::BlockQ4K>(bytes)),
        Q5K => Arc::new(copied::<k_quants::BlockQ5K>(bytes)),
        Q6K => Arc::new(copied::<k_quants::BlockQ6K>(bytes)),
        Q8K => Arc::new(copied::<k_quants::BlockQ8K>(bytes)),
    }
}

/// Blocks of one type out of bytes, wherever these lie.
fn copied<T: GgmlType>(bytes: &[u8]) -> Vec<T> {
    let count = bytes.len() / size_of::<T>();
    let mut blocks: Vec<T> = vec![T::zeros(); count];
    // SAFETY: blocks are plain numbers for which any bits will do, and there is room for so many bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), blocks.as_mut_ptr().cast(), count * size_of::<T>());
    };
    blocks
}

impl QuantizedMatrix {
    /// A matrix from the bytes of its blocks. `turned` says that under its name it has rows and columns exchanged, as
    /// GPT-2's layers have, whose blocks lie along the input.
    ///
    /// # Errors
    /// The bytes are not those of so many rows and columns.
    pub fn new(
        dtype: GgmlDType,
        (rows, columns): (usize, usize),
        turned: bool,
        bytes: &[u8],
    ) -> Result<Self> {
        let row = columns / dtype.block_size() * dtype.type_size();
        let whole = columns.is_multiple_of(dtype.block_size()) && !bytes.is_empty();
        if !whole || rows.checked_mul(row) != Some(bytes.len()) {
            candle_core::bail!(
                "{rows} rows of {columns} numbers do not make {} bytes of {dtype:?}",
                bytes.len()
            );
        }
        Ok(Self { blocks: blocks(dtype, bytes), dtype, rows, columns, turned })
    }

    /// The type of its blocks.
    pub fn dtype(&self) -> GgmlDType {
        self.dtype
    }

    /// The matrix as plain numbers, under the shape that belongs to its name.
    pub fn plain(&self) -> Result<Tensor> {
        let mut all = vec![0f32; self.rows * self.columns];
        all.par_chunks_mut(self.columns).enumerate().for_each(|(row, out)| self.expand(row, out));
        let tensor = Tensor::from_vec(all, (self.rows, self.columns), &Device::Cpu)?;
        if self.turned { tensor.t()?.contiguous() } else { Ok(tensor) }
    }

    /// Some of its rows as plain numbers.
    ///
    /// # Shapes
    /// - output: (`rows.len()`, columns)
    pub fn rows(&self, rows: &[u32]) -> Result<Tensor> {
        let mut all = vec![0f32; rows.len() * self.columns];
        for (&row, out) in rows.iter().zip(all.chunks_mut(self.columns)) {
            if row as usize >= self.rows {
                candle_core::bail!("row {row} of a matrix that has {}", self.rows);
            }
            self.expand(row as usize, out);
        }
        Tensor::from_vec(all, (rows.len(), self.columns), &Device::Cpu)
    }

    /// Whole rows from `row` on.
    fn expand(&self, row: usize, out: &mut [f32]) {
        self.blocks.expand(row * self.columns, out);
    }

    /// The products of some rows, from `first` on, with each of the `m` rows of `x`: (rows, `m`).
    fn rows_times(&self, first: usize, x: &[f32], m: usize, y: &mut [f32]) {
        let mut room = vec![0f32; self.columns];
        for (row, y) in (first..).zip(y.chunks_mut(m)) {
            if let [y] = y {
                *y = self.blocks.dot(row * self.columns, x, &mut room);
            } else {
                self.expand(row, &mut room);
                dot_rows(&room, x, self.columns, y);
            }
        }
    }

    /// The same for many rows of `x`, by a matrix product: (`m`, rows).
    fn tile_times(&self, rows: Range<usize>, x: &[f32], m: usize) -> Vec<f32> {
        let mut tile = vec![0f32; rows.len() * self.columns];
        self.expand(rows.start, &mut tile);
        let mut y = vec![0f32; m * rows.len()];
        let tile = Matrix::new(&tile, rows.len(), self.columns, self.columns);
        product(&mut y, false, 1.0, Matrix::new(x, m, self.columns, self.columns), tile.t());
        y
    }

    /// `x · Wᵀ` for a few rows of `x`.
    fn times_few(&self, x: &[f32], m: usize) -> Vec<f32> {
        let mut turned = vec![0f32; m * self.rows]; // (out, rows of x)
        let rows = (TASK / self.columns).max(1);
        turned.par_chunks_mut(rows * m).enumerate().for_each(|(task, y)| {
            self.rows_times(task * rows, x, m, y);
        });
        if m == 1 {
            return turned;
        }
        let mut y = vec![0f32; m * self.rows];
        y.par_chunks_mut(self.rows).enumerate().for_each(|(row, y)| {
            y.iter_mut().zip(turned[row..].iter().step_by(m)).for_each(|(y, turned)| *y = *turned);
        });
        y
    }

    /// `x · Wᵀ` for many rows of `x`.
    fn times_many(&self, x: &[f32], m: usize) -> Vec<f32> {
        let tiles = (0..self.rows.div_ceil(TILE)).into_par_iter();
        let tiles = tiles.map(|i| self.tile_times(i * TILE..((i + 1) * TILE).min(self.rows), x, m));
        let tiles: Vec<Vec<f32>> = tiles.collect();
        let mut y = vec![0f32; m * self.rows];
        y.par_chunks_mut(self.rows).enumerate().for_each(|(row, y)| {
            for (y, tile) in y.chunks_mut(TILE).zip(&tiles) {
                y.copy_from_slice(&tile[row * y.len()..][..y.len()]);
            }
        });
        y
    }
}

impl std::fmt::Debug for QuantizedMatrix {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "QuantizedMatrix({:?}, {} × {})", self.dtype, self.rows, self.columns)
    }
}

/// `x · Wᵀ + b`, W being in blocks.
///
/// # Shapes
/// - `x`: (rows, in); `weight`: (out, in); `bias`: (out); output: (rows, out)
pub fn quantized_linear(x: &Tensor, weight: &QuantizedMatrix, bias: Option<&Tensor>) -> Result<Tensor> {
    let (m, width) = x.dims2()?;
    if width != weight.columns || m == 0 {
        candle_core::bail!("a layer for rows of {} got {m} rows of {width}", weight.columns);
    }
    let y =
        with_floats([x], |[x]| Ok(if m < MANY { weight.times_few(x, m) } else { weight.times_many(x, m) }))?;
    let y = Tensor::from_vec(y, (m, weight.rows), x.device())?;
    match bias {
        Some(bias) => y.broadcast_add(bias),
        None => Ok(y),
    }
}

/// The definition of [`quantized_linear`].
pub fn quantized_linear_composed(
    x: &Tensor,
    weight: &QuantizedMatrix,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let plain = QuantizedMatrix { turned: true, ..weight.clone() }.plain()?;
    super::linear_composed(x, &plain, super::WeightLayout::InOut, bias)
}

#[cfg(test)]
mod tests {
    use super::super::testing::random;
    use super::*;
    use candle_core::quantized::QTensor;
    use proptest::prelude::*;

    const TYPES: [GgmlDType; 12] = [
        GgmlDType::F16,
        GgmlDType::BF16,
        GgmlDType::Q4_0,
        GgmlDType::Q4_1,
        GgmlDType::Q5_0,
        GgmlDType::Q5_1,
        GgmlDType::Q8_0,
        GgmlDType::Q2K,
        GgmlDType::Q3K,
        GgmlDType::Q4K,
        GgmlDType::Q5K,
        GgmlDType::Q6K,
    ];

    fn packed(dtype: GgmlDType, rows: usize, columns: usize, seed: u64) -> (QuantizedMatrix, Vec<u8>) {
        let matrix = random(&[rows, columns], seed);
        let bytes = QTensor::quantize(&matrix, dtype).unwrap().data().unwrap().into_owned();
        (QuantizedMatrix::new(dtype, (rows, columns), false, &bytes).unwrap(), bytes)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn fused_equals_composed(
            m in 1usize..40, rows in 1usize..150, blocks in 1usize..3, dtype in 0..TYPES.len(), bias: bool, seed: u64
        ) {
            let dtype = TYPES[dtype];
            let columns = blocks * dtype.block_size().max(24);
            let (weight, _) = packed(dtype, rows, columns, seed);
            let (x, b) = (random(&[m, columns], seed ^ 1), random(&[rows], seed ^ 2));
            let bias = bias.then_some(&b);
            let flat = |y: Tensor| y.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let got = flat(quantized_linear(&x, &weight, bias).unwrap());
            let want = flat(quantized_linear_composed(&x, &weight, bias).unwrap());
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got - want).abs() <= 1e-4 * (1.0 + want.abs()), "{dtype:?}: {got} {want}");
            }
        }
    }

    #[test]
    fn rows_and_the_whole_are_what_was_packed() {
        for dtype in TYPES {
            let (weight, bytes) = packed(dtype, 5, 256, 3);
            let turned = QuantizedMatrix::new(dtype, (5, 256), true, &bytes).unwrap().plain().unwrap();
            let whole = weight.plain().unwrap();
            assert_eq!((whole.dims(), turned.dims()), (&[5, 256][..], &[256, 5][..]));
            let whole = whole.to_vec2::<f32>().unwrap();
            assert_eq!(turned.t().unwrap().to_vec2::<f32>().unwrap(), whole);
            let rows = weight.rows(&[4, 0, 4]).unwrap().to_vec2::<f32>().unwrap();
            assert_eq!(rows, [whole[4].clone(), whole[0].clone(), whole[4].clone()]);
        }
    }

    #[test]
    fn bytes_that_do_not_fit_are_refused_wherever_they_lie() {
        let (_, bytes) = packed(GgmlDType::Q8_0, 2, 64, 1);
        let new = |shape, bytes| QuantizedMatrix::new(GgmlDType::Q8_0, shape, false, bytes);
        assert!(new((2, 64), &bytes[1..]).is_err());
        assert!(new((2, 65), &bytes).is_err());
        assert!(new((usize::MAX, 64), &bytes).is_err());
        assert!(packed(GgmlDType::Q8_0, 2, 64, 1).0.rows(&[2]).is_err());
        let shifted = [&[0][..], &bytes].concat();
        assert!(new((2, 64), &shifted[1..]).is_ok(), "an odd address");
        assert!(new((0, 64), &[]).is_err());
    }
}
