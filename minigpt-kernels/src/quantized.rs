//! Quantised matrices: blocks of small integers with common scales, in the formats of llama.cpp. They are multiplied a few
//! rows at a time and never dequantised as a whole; the other factor stays f32, so that the product is that of the
//! dequantised matrix.
#![expect(unsafe_code, reason = "blocks are read from bytes")]

use super::dot::{WeightFormat, dot, dot_rows};
use super::matrix::Matrix;
use super::product;
use super::with_floats;
use candle_core::quantized::{GgmlDType, GgmlType, k_quants};
use candle_core::{Device, Result, Tensor};
use half::{bf16, f16};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// A matrix whose rows are quantised blocks. Cloning is cheap.
#[derive(Clone)]
pub struct QuantizedMatrix {
    blocks: Arc<dyn Blocks>,
    dtype: GgmlDType,
    rows: usize,
    columns: usize,
    transposed: bool,
}

/// Rows of the matrix that are dequantised at a time for a matrix product: they stay in the L2 cache.
const PANEL: usize = 64;
/// A batch of fewer rows is multiplied by dot products: packing for a matrix product would cost more than it saves.
const LARGE_BATCH: usize = 24;
/// Elements of the matrix that are worth a task of their own.
const TASK: usize = 1 << 17;

/// The blocks of a matrix, whatever their format.
trait Blocks: Send + Sync {
    /// The elements from `start` on, as many as fit; both are whole blocks.
    fn dequantize(&self, start: usize, out: &mut [f32]);

    /// The dot product of the elements from `start` on with `x`; `buffer` has room for as many.
    fn dot(&self, start: usize, x: &[f32], buffer: &mut [f32]) -> f32 {
        self.dequantize(start, buffer);
        dot(buffer, x)
    }
}

impl<T: GgmlType> Blocks for Vec<T> {
    fn dequantize(&self, start: usize, out: &mut [f32]) {
        T::to_float(&self[start / T::BLCK_SIZE..][..out.len() / T::BLCK_SIZE], out);
    }
}

/// Blocks of a format that is multiplied as it is stored.
struct Direct<W>(Vec<W>);

impl<W: WeightFormat> Blocks for Direct<W> {
    fn dequantize(&self, start: usize, out: &mut [f32]) {
        W::dequantize(&self.0[start / W::BLOCK_SIZE..][..out.len() / W::BLOCK_SIZE], out);
    }

    fn dot(&self, start: usize, x: &[f32], _buffer: &mut [f32]) -> f32 {
        dot(&self.0[start / W::BLOCK_SIZE..][..x.len() / W::BLOCK_SIZE], x)
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

/// Copies bytes of any alignment into blocks.
fn copied<T: GgmlType>(bytes: &[u8]) -> Vec<T> {
    let count = bytes.len() / size_of::<T>();
    let mut blocks: Vec<T> = vec![T::zeros(); count];
    // SAFETY: any bits are a valid block, and `blocks` has room for so many bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), blocks.as_mut_ptr().cast(), count * size_of::<T>());
    };
    blocks
}

impl QuantizedMatrix {
    /// A matrix from the bytes of its blocks. `transposed` says that [`QuantizedMatrix::plain`] is the transpose of what is
    /// stored: blocks lie along the input, while some layers name their weight (in, out).
    ///
    /// # Errors
    /// The bytes are not those of so many rows and columns.
    pub fn new(
        dtype: GgmlDType,
        (rows, columns): (usize, usize),
        transposed: bool,
        bytes: &[u8],
    ) -> Result<Self> {
        let row = columns / dtype.block_size() * dtype.type_size();
        let whole = columns.is_multiple_of(dtype.block_size()) && !bytes.is_empty();
        if !whole || rows.checked_mul(row) != Some(bytes.len()) {
            candle_core::bail!(
                "{rows} rows of {columns} elements do not make {} bytes of {dtype:?}",
                bytes.len()
            );
        }
        Ok(Self { blocks: blocks(dtype, bytes), dtype, rows, columns, transposed })
    }

    /// The type of its blocks.
    pub fn dtype(&self) -> GgmlDType {
        self.dtype
    }

    /// The matrix in f32, transposed if it was declared so.
    pub fn plain(&self) -> Result<Tensor> {
        let mut all = vec![0f32; self.rows * self.columns];
        all.par_chunks_mut(self.columns).enumerate().for_each(|(row, out)| self.dequantize(row, out));
        let tensor = Tensor::from_vec(all, (self.rows, self.columns), &Device::Cpu)?;
        if self.transposed { tensor.t()?.contiguous() } else { Ok(tensor) }
    }

    /// Some of its stored rows in f32.
    ///
    /// # Shapes
    /// - output: (`rows.len()`, columns)
    pub fn rows(&self, rows: &[u32]) -> Result<Tensor> {
        let mut all = vec![0f32; rows.len() * self.columns];
        for (&row, out) in rows.iter().zip(all.chunks_mut(self.columns)) {
            if row as usize >= self.rows {
                candle_core::bail!("row {row} of a matrix that has {}", self.rows);
            }
            self.dequantize(row as usize, out);
        }
        Tensor::from_vec(all, (rows.len(), self.columns), &Device::Cpu)
    }

    /// Whole stored rows from `row` on.
    fn dequantize(&self, row: usize, out: &mut [f32]) {
        self.blocks.dequantize(row * self.columns, out);
    }

    /// The dot products of some stored rows, from `first` on, with each of the `m` rows of `x`: (rows, `m`).
    fn dot_rows(&self, first: usize, x: &[f32], m: usize, y: &mut [f32]) {
        let mut buffer = vec![0f32; self.columns];
        for (row, y) in (first..).zip(y.chunks_mut(m)) {
            if let [y] = y {
                *y = self.blocks.dot(row * self.columns, x, &mut buffer);
            } else {
                self.dequantize(row, &mut buffer);
                dot_rows(&buffer, x, self.columns, y);
            }
        }
    }

    /// The same by a matrix product, the other way round: (`m`, rows).
    fn panel_product(&self, rows: Range<usize>, x: &[f32], m: usize) -> Vec<f32> {
        let mut panel = vec![0f32; rows.len() * self.columns];
        self.dequantize(rows.start, &mut panel);
        let mut y = vec![0f32; m * rows.len()];
        let panel = Matrix::new(&panel, rows.len(), self.columns, self.columns);
        product(&mut y, false, 1.0, Matrix::new(x, m, self.columns, self.columns), panel.t());
        y
    }

    /// `x · Wᵀ` for a small batch, by dot products.
    fn small_batch(&self, x: &[f32], m: usize) -> Vec<f32> {
        let mut y_transposed = vec![0f32; m * self.rows]; // (out, m)
        let rows = (TASK / self.columns).max(1);
        y_transposed.par_chunks_mut(rows * m).enumerate().for_each(|(task, y)| {
            self.dot_rows(task * rows, x, m, y);
        });
        if m == 1 {
            return y_transposed;
        }
        let mut y = vec![0f32; m * self.rows];
        y.par_chunks_mut(self.rows).enumerate().for_each(|(row, y)| {
            y.iter_mut().zip(y_transposed[row..].iter().step_by(m)).for_each(|(y, value)| *y = *value);
        });
        y
    }

    /// `x · Wᵀ` for a large batch, by a matrix product for each panel of W's rows.
    fn large_batch(&self, x: &[f32], m: usize) -> Vec<f32> {
        let panels = (0..self.rows.div_ceil(PANEL)).into_par_iter();
        let panels = panels.map(|i| self.panel_product(i * PANEL..((i + 1) * PANEL).min(self.rows), x, m));
        let panels: Vec<Vec<f32>> = panels.collect();
        let mut y = vec![0f32; m * self.rows];
        y.par_chunks_mut(self.rows).enumerate().for_each(|(row, y)| {
            for (y, panel) in y.chunks_mut(PANEL).zip(&panels) {
                y.copy_from_slice(&panel[row * y.len()..][..y.len()]);
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

/// `x · Wᵀ + b` with a quantised W.
///
/// # Shapes
/// - `x`: (rows, in); `weight`: (out, in); `bias`: (out); output: (rows, out)
pub fn quantized_linear(x: &Tensor, weight: &QuantizedMatrix, bias: Option<&Tensor>) -> Result<Tensor> {
    let (m, width) = x.dims2()?;
    if width != weight.columns || m == 0 {
        candle_core::bail!("a layer for rows of {} got {m} rows of {width}", weight.columns);
    }
    let y = with_floats([x], |[x]| {
        Ok(if m < LARGE_BATCH { weight.small_batch(x, m) } else { weight.large_batch(x, m) })
    })?;
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
    let plain = QuantizedMatrix { transposed: true, ..weight.clone() }.plain()?;
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

    fn quantized(dtype: GgmlDType, rows: usize, columns: usize, seed: u64) -> (QuantizedMatrix, Vec<u8>) {
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
            let (weight, _) = quantized(dtype, rows, columns, seed);
            let (x, b) = (random(&[m, columns], seed ^ 1), random(&[rows], seed ^ 2));
            let bias = bias.then_some(&b);
            let flat = |y: Tensor| y.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let got = flat(quantized_linear(&x, &weight, bias).unwrap());
            let want = flat(quantized_linear_composed(&x, &weight, bias).unwrap());
            prop_assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got - want).abs() <= 1e-4 * (1.0 + want.abs()), "{dtype:?}: {got} {want}");
            }
        }
    }

    #[test]
    fn rows_and_the_whole_are_what_was_quantized() {
        for dtype in TYPES {
            let (weight, bytes) = quantized(dtype, 5, 256, 3);
            let transposed = QuantizedMatrix::new(dtype, (5, 256), true, &bytes).unwrap().plain().unwrap();
            let whole = weight.plain().unwrap();
            assert_eq!((whole.dims(), transposed.dims()), (&[5, 256][..], &[256, 5][..]));
            let whole = whole.to_vec2::<f32>().unwrap();
            assert_eq!(transposed.t().unwrap().to_vec2::<f32>().unwrap(), whole);
            let rows = weight.rows(&[4, 0, 4]).unwrap().to_vec2::<f32>().unwrap();
            assert_eq!(rows, [whole[4].clone(), whole[0].clone(), whole[4].clone()]);
        }
    }

    #[test]
    fn bytes_that_do_not_fit_are_refused_wherever_they_lie() {
        let (_, bytes) = quantized(GgmlDType::Q8_0, 2, 64, 1);
        let new = |shape, bytes| QuantizedMatrix::new(GgmlDType::Q8_0, shape, false, bytes);
        assert!(new((2, 64), &bytes[1..]).is_err());
        assert!(new((2, 65), &bytes).is_err());
        assert!(new((usize::MAX, 64), &bytes).is_err());
        assert!(quantized(GgmlDType::Q8_0, 2, 64, 1).0.rows(&[2]).is_err());
        let shifted = [&[0][..], &bytes].concat();
        assert!(new((2, 64), &shifted[1..]).is_ok(), "an odd address");
        assert!(new((0, 64), &[]).is_err());
    }
}
