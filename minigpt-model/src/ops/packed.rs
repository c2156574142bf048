//! Matrices in fewer bits: blocks of small numbers with common scales, in the layouts of llama.cpp. They are
//! multiplied a few rows at a time and never expanded as a whole.

use super::matrix::{Matrix, product};
use super::{simd, with_floats};
use candle_core::quantized::{GgmlDType, QuantizedType};
use candle_core::{CpuStorage, Device, Result, Tensor};
use rayon::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;

/// A matrix whose rows are blocks of small numbers.
#[derive(Clone)]
pub struct Packed {
    blocks: Arc<dyn QuantizedType>,
    rows: usize,
    columns: usize,
    turned: bool,
}

/// Rows that are expanded at a time: few enough to stay in a core's cache.
const TILE: usize = 32;
/// So many rows of the other factor are worth a matrix product instead of one row after another.
const MANY: usize = 4;

impl Packed {
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
        // Blocks are read in place only where they are aligned.
        let bytes = match bytes.as_ptr().align_offset(align_of::<u32>()) {
            0 => Cow::Borrowed(bytes),
            _ => Cow::Owned(bytes.to_vec()),
        };
        Ok(Self { blocks: Arc::from(dtype.from_data(bytes)), rows, columns, turned })
    }

    /// The type of its blocks.
    pub fn dtype(&self) -> GgmlDType {
        self.blocks.dtype()
    }

    /// The matrix as plain numbers, under the shape that belongs to its name.
    pub fn plain(&self) -> Result<Tensor> {
        let all = self.expanded(&(0..self.rows as u32).collect::<Vec<_>>())?;
        let tensor = Tensor::from_vec(all, (self.rows, self.columns), &Device::Cpu)?;
        if self.turned { tensor.t()?.contiguous() } else { Ok(tensor) }
    }

    /// Some of its rows as plain numbers.
    ///
    /// # Shapes
    /// - output: (`rows.len()`, columns)
    pub fn rows(&self, rows: &[u32]) -> Result<Tensor> {
        Tensor::from_vec(self.expanded(rows)?, (rows.len(), self.columns), &Device::Cpu)
    }

    fn expanded(&self, rows: &[u32]) -> Result<Vec<f32>> {
        match self.blocks.embedding(rows, self.rows, self.columns)? {
            CpuStorage::F32(numbers) => Ok(numbers),
            _ => candle_core::bail!("blocks that are not numbers"),
        }
    }
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Packed({:?}, {} × {})", self.dtype(), self.rows, self.columns)
    }
}

/// `x · Wᵀ + b`, W being in blocks.
///
/// # Shapes
/// - `x`: (rows, in); `weight`: (out, in); `bias`: (out); output: (rows, out)
pub fn packed_linear(x: &Tensor, weight: &Packed, bias: Option<&Tensor>) -> Result<Tensor> {
    let (m, width) = x.dims2()?;
    if width != weight.columns {
        candle_core::bail!("a layer for rows of {} got rows of {width}", weight.columns);
    }
    let mut y = vec![0f32; m * weight.rows];
    with_floats([x], |[x]| {
        // Each tile of W is a column of tiles of the output, which a thread makes by itself.
        let tiles: Vec<Vec<f32>> = (0..weight.rows)
            .into_par_iter()
            .step_by(TILE)
            .map(|first| {
                let rows: Vec<u32> = (first..weight.rows.min(first + TILE)).map(|row| row as u32).collect();
                Ok(times(x, m, &weight.expanded(&rows)?, width))
            })
            .collect::<Result<_>>()?;
        for (tile, first) in tiles.iter().zip((0..weight.rows).step_by(TILE)) {
            let columns = tile.len() / m.max(1);
            for (row, tile) in tile.chunks(columns.max(1)).enumerate() {
                y[row * weight.rows + first..][..columns].copy_from_slice(tile);
            }
        }
        Ok(())
    })?;
    let y = Tensor::from_vec(y, (m, weight.rows), x.device())?;
    bias.map_or(Ok(y.clone()), |bias| y.broadcast_add(bias))
}

/// The definition of [`packed_linear`].
pub fn packed_linear_composed(x: &Tensor, weight: &Packed, bias: Option<&Tensor>) -> Result<Tensor> {
    let plain = Packed { turned: true, ..weight.clone() }.plain()?;
    super::linear_composed(x, &plain, super::Stored::InOut, bias)
}

/// `x · tileᵀ`: the `m` rows of `x` with the rows of a tile.
fn times(x: &[f32], m: usize, tile: &[f32], width: usize) -> Vec<f32> {
    let columns = tile.len() / width;
    let mut y = vec![0f32; m * columns];
    if m >= MANY {
        let (x, tile) = (Matrix::new(x, m, width, width), Matrix::new(tile, columns, width, width));
        product(&mut y, false, 1.0, x, tile.t());
    } else {
        simd::vectorized(|| {
            for (x, y) in x.chunks(width).zip(y.chunks_mut(columns)) {
                for (row, y) in tile.chunks(width).zip(y) {
                    *y = simd::sum2(x, row, |x, w| x * w);
                }
            }
        });
    }
    y
}

#[cfg(test)]
mod tests {
    use super::super::testing::random;
    use super::*;
    use candle_core::quantized::QTensor;
    use proptest::prelude::*;

    const TYPES: [GgmlDType; 11] = [
        GgmlDType::F16,
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

    fn packed(dtype: GgmlDType, rows: usize, columns: usize, seed: u64) -> (Packed, Vec<u8>) {
        let matrix = random(&[rows, columns], seed);
        let bytes = QTensor::quantize(&matrix, dtype).unwrap().data().unwrap().into_owned();
        (Packed::new(dtype, (rows, columns), false, &bytes).unwrap(), bytes)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn fused_equals_composed(
            m in 1usize..9, rows in 1usize..80, blocks in 1usize..3, dtype in 0..TYPES.len(), bias: bool, seed: u64
        ) {
            let dtype = TYPES[dtype];
            let columns = blocks * dtype.block_size().max(24);
            let (weight, _) = packed(dtype, rows, columns, seed);
            let (x, b) = (random(&[m, columns], seed ^ 1), random(&[rows], seed ^ 2));
            let bias = bias.then_some(&b);
            let flat = |y: Tensor| y.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let got = flat(packed_linear(&x, &weight, bias).unwrap());
            let want = flat(packed_linear_composed(&x, &weight, bias).unwrap());
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got - want).abs() <= 1e-4 * (1.0 + want.abs()), "{dtype:?}: {got} {want}");
            }
        }
    }

    #[test]
    fn rows_and_the_whole_are_what_was_packed() {
        for dtype in TYPES {
            let (weight, bytes) = packed(dtype, 5, 256, 3);
            let turned = Packed::new(dtype, (5, 256), true, &bytes).unwrap().plain().unwrap();
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
        let new = |shape, bytes| Packed::new(GgmlDType::Q8_0, shape, false, bytes);
        assert!(new((2, 64), &bytes[1..]).is_err());
        assert!(new((2, 65), &bytes).is_err());
        assert!(new((usize::MAX, 64), &bytes).is_err());
        let shifted = [&[0][..], &bytes].concat();
        assert!(new((2, 64), &shifted[1..]).is_ok(), "an odd address");
        assert!(new((0, 64), &[]).is_err());
    }
}
