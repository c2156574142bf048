//! Quantised matrices: blocks of small integers with common scales, in the formats of llama.cpp, and floats of 16 and 32 bits.
//!
//! Either the product is that of the dequantised matrix: floats and Q8_0 are laid out as panels and multiplied as they are, of
//! the others sixteen rows are dequantised at a time. Or the integers of the blocks are multiplied, with the other factor in 8
//! bits ([`QuantizedProduct`]). Either way an element is summed in the same order whatever the number of rows.
#![expect(unsafe_code, reason = "blocks are read from bytes")]

use crate::gemm::formats::{PanelFormat, Q8Block, Q8Unit};
use crate::gemm::matrix::Matrix;
use crate::gemm::pack::Panels;
use crate::gemm::{new_product, product_by_columns};
use crate::quant::block_panels::BlockPanels;
use crate::with_floats;
use candle_core::quantized::{GgmlDType, GgmlType, k_quants};
use candle_core::{Device, Result, Tensor};
use half::{bf16, f16};
use rayon::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;

/// A matrix whose rows are quantised blocks. Cloning is cheap.
#[derive(Clone)]
pub struct QuantizedMatrix {
    blocks: Arc<dyn Blocks>,
    dtype: GgmlDType,
    rows: usize,
    columns: usize,
    transposed: bool,
    product: QuantizedProduct,
}

/// How a matrix of 2 to 8 bits is multiplied. One of 16 bits is always multiplied exactly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QuantizedProduct {
    /// As the dequantised matrix, with activations in f32: exact.
    #[default]
    Exact,
    /// As integers, with activations rounded to 8 bits: what llama.cpp does, and several times faster.
    EightBit,
}

/// The blocks of a matrix (out, in), whatever their format.
trait Blocks: Send + Sync {
    /// A row in f32.
    fn row(&self, row: usize, out: &mut [f32]);

    /// `x · Wᵀ + b` for a matrix of `rows` rows.
    fn product(&self, x: Matrix, rows: usize, bias: Option<&[f32]>) -> Vec<f32>;

    /// The bytes of all blocks, where there is a choice of how they are multiplied.
    fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        None
    }
}

impl<T: GgmlType> Blocks for Vec<T> {
    fn row(&self, row: usize, out: &mut [f32]) {
        let blocks = out.len() / T::BLCK_SIZE;
        T::to_float(&self[row * blocks..][..blocks], out);
    }

    fn product(&self, x: Matrix, rows: usize, bias: Option<&[f32]>) -> Vec<f32> {
        product_by_columns(x, rows, bias, |rows, out| {
            rows.zip(out.chunks_mut(x.columns.max(1))).for_each(|(row, out)| self.row(row, out));
        })
    }

    fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        // SAFETY: blocks are plain bytes and numbers of 16 bits without gaps.
        let bytes = unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), size_of_val(&self[..])) };
        Some(Cow::Borrowed(bytes))
    }
}

impl<W: PanelFormat> Blocks for Panels<W> {
    fn row(&self, row: usize, out: &mut [f32]) {
        self.column(row, out);
    }

    fn product(&self, x: Matrix, _rows: usize, bias: Option<&[f32]>) -> Vec<f32> {
        new_product(x, self, bias)
    }

    fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        self.blocks().map(|blocks| Cow::Owned(blocks.into_flattened()))
    }
}

impl Blocks for BlockPanels {
    fn row(&self, row: usize, out: &mut [f32]) {
        self.dequantize_row(row, out);
    }

    fn product(&self, x: Matrix, _rows: usize, bias: Option<&[f32]>) -> Vec<f32> {
        BlockPanels::product(self, x, bias)
    }

    fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Owned(BlockPanels::bytes(self)))
    }
}

/// The blocks in the bytes of `rows` rows.
fn blocks(dtype: GgmlDType, product: QuantizedProduct, bytes: &[u8], rows: usize) -> Arc<dyn Blocks> {
    match product {
        QuantizedProduct::Exact => exact(dtype, bytes, rows),
        QuantizedProduct::EightBit => match BlockPanels::new(dtype, bytes, rows) {
            Some(panels) => Arc::new(panels),
            None => exact(dtype, bytes, rows),
        },
    }
}

fn exact(dtype: GgmlDType, bytes: &[u8], rows: usize) -> Arc<dyn Blocks> {
    use GgmlDType::*;
    match dtype {
        F32 => {
            let elements = copied::<f32>(bytes);
            let columns = elements.len() / rows;
            Arc::new(Panels::of(Matrix::new(&elements, rows, columns, columns).t()))
        }
        F16 => panels::<[[f16; 16]; 2]>(&copied::<f16>(bytes), rows),
        BF16 => panels::<[[bf16; 16]; 2]>(&copied::<bf16>(bytes), rows),
        Q8_0 => panels::<Q8Unit>(bytes.as_chunks::<{ size_of::<Q8Block>() }>().0, rows),
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

/// Blocks (out, in) as panels.
fn panels<W: PanelFormat>(blocks: &[W::Source], rows: usize) -> Arc<dyn Blocks> {
    let columns = blocks.len() / rows;
    Arc::new(Panels::<W>::new(columns * W::STEPS, rows, |row, unit| blocks[row * columns + unit]))
}

/// Copies bytes of any alignment into blocks.
fn copied<T: GgmlType>(bytes: &[u8]) -> Vec<T> {
    let count = bytes.len() / size_of::<T>();
    let mut blocks: Vec<T> = vec![T::zeros(); count];
    // SAFETY: any bits are a valid block, and `blocks` has room for these bytes.
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
    /// The bytes are not a matrix of this type and shape.
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
        let product = QuantizedProduct::Exact;
        Ok(Self { blocks: blocks(dtype, product, bytes, rows), dtype, rows, columns, transposed, product })
    }

    /// The same matrix, multiplied in this way if its type leaves the choice.
    #[must_use]
    pub fn with_product(self, product: QuantizedProduct) -> Self {
        if product == self.product {
            return self;
        }
        let Self { blocks: old, dtype, rows, .. } = self;
        let copy = match old.bytes() {
            Some(Cow::Owned(bytes)) => Some(bytes),
            Some(Cow::Borrowed(_)) | None => None,
        };
        let new = match copy {
            Some(bytes) => {
                // Before the new ones are allocated: a large matrix is in memory twice, not three times.
                drop(old);
                blocks(dtype, product, &bytes, rows)
            }
            None => old
                .bytes()
                .map(|bytes| blocks(dtype, product, &bytes, rows))
                .unwrap_or_else(|| Arc::clone(&old)),
        };
        Self { blocks: new, product, ..self }
    }

    /// The type of its blocks.
    pub fn dtype(&self) -> GgmlDType {
        self.dtype
    }

    /// The matrix in f32, transposed if it was declared so.
    pub fn plain(&self) -> Result<Tensor> {
        let mut all = vec![0f32; self.rows * self.columns];
        all.par_chunks_mut(self.columns).enumerate().for_each(|(row, out)| self.blocks.row(row, out));
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
            self.blocks.row(row as usize, out);
        }
        Tensor::from_vec(all, (rows.len(), self.columns), &Device::Cpu)
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
    let product = |x: &[f32], bias: Option<&[f32]>| {
        Ok(weight.blocks.product(Matrix::new(x, m, width, width), weight.rows, bias))
    };
    let y = match bias {
        Some(bias) => with_floats([x, bias], |[x, bias]| product(x, Some(bias)))?,
        None => with_floats([x], |[x]| product(x, None))?,
    };
    Tensor::from_vec(y, (m, weight.rows), x.device())
}

/// The definition of [`quantized_linear`].
pub fn quantized_linear_composed(
    x: &Tensor,
    weight: &QuantizedMatrix,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let plain = QuantizedMatrix { transposed: true, ..weight.clone() }.plain()?;
    crate::linear_composed(x, &plain, crate::WeightLayout::InOut, bias)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::random;
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
    fn the_way_of_multiplying_changes_and_the_matrix_does_not() {
        for dtype in TYPES {
            let (weight, _) = quantized(dtype, 37, 512, 4);
            let flat = |y: Tensor| y.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let x = random(&[3, 512], 5);
            let product = |weight: &QuantizedMatrix| flat(quantized_linear(&x, weight, None).unwrap());
            let eight_bit = weight.clone().with_product(QuantizedProduct::EightBit);
            assert_eq!(flat(eight_bit.plain().unwrap()), flat(weight.plain().unwrap()));
            let rows = |weight: &QuantizedMatrix| flat(weight.rows(&[36, 0]).unwrap());
            assert_eq!(rows(&eight_bit), rows(&weight));
            let (exact, rounded) = (product(&weight), product(&eight_bit));
            let has_a_choice = !matches!(dtype, GgmlDType::F16 | GgmlDType::BF16);
            assert_eq!(exact != rounded, has_a_choice, "{dtype:?}");
            assert_eq!(product(&eight_bit.with_product(QuantizedProduct::Exact)), exact);
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
