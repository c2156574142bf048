//! A matrix of f32 inside a mapped file. The first passes read it there, so that nothing has to be loaded before the first
//! answer; a matrix that is used more often is copied into memory of its own, as panels, which are read faster.
#![expect(unsafe_code, reason = "bytes that are read as f32")]

use crate::gemm::driver::FEW_ROWS;
use crate::gemm::formats::PanelLine;
use crate::gemm::matrix::Matrix;
use crate::gemm::new_product;
use crate::gemm::pack::Panels;
use crate::ops::linear::{WeightLayout, forward};
use crate::with_floats;
use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Passes that read a matrix in its file before it is copied. One that is stored (out, in) is laid out as panels for every
/// product, so it is copied at once for one of many rows.
const PASSES_IN_FILE: usize = 3;

/// Rows that are worth a task of their own.
const ROWS_A_TASK: usize = 64;

/// Bytes that matrices share, such as those of a mapped file. A [`MappedMatrix`] checks range and alignment at each use, so an
/// implementation whose bytes move or shrink gets errors, not undefined behavior.
pub trait SharedBytes: Send + Sync {
    /// All of them.
    fn bytes(&self) -> &[u8];

    /// Hints that the bytes in this range are no longer needed.
    fn release(&self, _range: Range<usize>) {}
}

/// A matrix (rows, columns) inside shared bytes. Cloning is cheap.
#[derive(Clone)]
pub struct MappedMatrix {
    file: Arc<dyn SharedBytes>,
    bytes: Range<usize>,
    shape: (usize, usize),
    copy: Arc<Copied>,
}

/// The copy of a matrix that is used often.
#[derive(Default)]
struct Copied {
    uses: AtomicUsize,
    panels: OnceLock<(WeightLayout, Panels<PanelLine>)>,
}

impl MappedMatrix {
    /// The matrix in a range of bytes; `None` if the range is not of the size that the shape asks for, or if this CPU can't
    /// read f32 there.
    pub fn new(file: Arc<dyn SharedBytes>, bytes: Range<usize>, shape: (usize, usize)) -> Option<Self> {
        let size = shape.0.checked_mul(shape.1)?.checked_mul(size_of::<f32>())?;
        let matrix = Self { file, bytes, shape, copy: Arc::default() };
        let fits = matrix.bytes.len() == size && cfg!(target_endian = "little") && matrix.in_file().is_ok();
        fits.then_some(matrix)
    }

    /// Copies the matrix now, for products in a layout; the file is not read again. Does nothing if the bytes have moved: the
    /// next product says so.
    pub fn read_into_memory(&self, layout: WeightLayout) {
        let panels = &self.copy.panels;
        if panels.get().is_none()
            && let Ok(matrix) = self.matrix_in_file()
        {
            panels.get_or_init(|| (layout, Panels::of(layout.in_out(matrix))));
            self.file.release(self.bytes.clone());
        }
    }

    /// The copy for one more product, which is counted; `None` if it is better to read the file.
    fn panels_for_a_pass(&self, layout: WeightLayout, rows: usize) -> Option<&Panels<PanelLine>> {
        let in_file = layout == WeightLayout::InOut || rows <= FEW_ROWS;
        let passes = if in_file { PASSES_IN_FILE } else { 0 };
        if self.copy.uses.fetch_add(1, Ordering::Relaxed) >= passes {
            self.read_into_memory(layout);
        }
        self.copy.panels.get().filter(|(copied, _)| *copied == layout).map(|(_, panels)| panels)
    }

    /// One of its rows.
    fn row(&self, row: usize, out: &mut [f32]) -> Result<()> {
        match self.copy.panels.get() {
            None => out.copy_from_slice(&self.in_file()?[row * out.len()..][..out.len()]),
            Some((WeightLayout::OutIn, panels)) => panels.column(row, out),
            Some((WeightLayout::InOut, panels)) => {
                out.iter_mut().enumerate().for_each(|(column, out)| *out = panels.element(row, column));
            }
        }
        Ok(())
    }

    fn matrix_in_file(&self) -> Result<Matrix<'_>> {
        Ok(Matrix::new(self.in_file()?, self.shape.0, self.shape.1, self.shape.1))
    }

    /// Its elements in the shared bytes.
    fn in_file(&self) -> Result<&[f32]> {
        let Some(bytes) = self.file.bytes().get(self.bytes.clone()) else {
            candle_core::bail!("the bytes of a {self:?} end early");
        };
        // SAFETY: any 4 bytes are an f32.
        let (before, floats, after) = unsafe { bytes.align_to() };
        if !before.is_empty() || !after.is_empty() {
            candle_core::bail!("the bytes of a {self:?} are not aligned");
        }
        Ok(floats)
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        self.shape
    }

    /// Passes copies of up to `rows` rows at a time to `take`, and releases the file's pages after each: the whole matrix is never in memory.
    ///
    /// # Shapes
    /// - pieces: (up to `rows`, columns)
    pub fn in_pieces(&self, rows: usize, mut take: impl FnMut(Tensor) -> Result<()>) -> Result<()> {
        let (count, width) = self.shape;
        let row_bytes = width * size_of::<f32>();
        for first in (0..count).step_by(rows.max(1)) {
            let piece: Vec<u32> = (first..(first + rows).min(count)).map(|row| row as u32).collect();
            take(self.rows(&piece)?)?;
            let start = self.bytes.start + first * row_bytes;
            self.file.release(start..start + piece.len() * row_bytes);
        }
        Ok(())
    }

    /// A copy as a tensor.
    pub fn plain(&self) -> Result<Tensor> {
        let all: Vec<u32> = (0..self.shape.0 as u32).collect();
        self.rows(&all)
    }

    /// Some of its rows.
    ///
    /// # Shapes
    /// - output: (`rows.len()`, columns)
    pub fn rows(&self, rows: &[u32]) -> Result<Tensor> {
        let (count, width) = self.shape;
        if let Some(row) = rows.iter().find(|&&row| row as usize >= count) {
            candle_core::bail!("row {row} of a matrix that has {count}");
        }
        let mut all = vec![0f32; rows.len() * width];
        let chunks = all.par_chunks_mut(width.max(1)).zip(rows).with_min_len(ROWS_A_TASK);
        chunks.try_for_each(|(out, &row)| self.row(row as usize, out))?;
        Tensor::from_vec(all, (rows.len(), width), &Device::Cpu)
    }
}

impl std::fmt::Debug for MappedMatrix {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "MappedMatrix({} × {})", self.shape.0, self.shape.1)
    }
}

/// `x · W + b`: the same as [`linear`](crate::linear()) of a copy.
///
/// # Shapes
/// - `x`: (rows, in); `weight`: (in, out) or (out, in); `bias`: (out)
/// - output: (rows, out)
pub fn mapped_linear(
    x: &Tensor,
    weight: &MappedMatrix,
    layout: WeightLayout,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    let (inner, out) =
        if layout == WeightLayout::InOut { weight.shape } else { (weight.shape.1, weight.shape.0) };
    if width != inner {
        candle_core::bail!("a layer for rows of {inner} got rows of {width}");
    }
    let panels = weight.panels_for_a_pass(layout, rows);
    let product = |x: &[f32], bias: Option<&[f32]>| {
        let x = Matrix::new(x, rows, width, width);
        match panels {
            Some(panels) => Ok(new_product(x, panels, bias)),
            None => forward(x, layout.in_out(weight.matrix_in_file()?), bias),
        }
    };
    let y = match bias {
        Some(bias) => with_floats([x, bias], |[x, bias]| product(x, Some(bias)))?,
        None => with_floats([x], |[x]| product(x, None))?,
    };
    Tensor::from_vec(y, (rows, out), x.device())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear;
    use crate::testing::random;

    /// Elements behind a few others, which stand for a file's header.
    struct Bytes(Vec<f32>);

    impl SharedBytes for Bytes {
        fn bytes(&self) -> &[u8] {
            // SAFETY: any f32 is four bytes.
            unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), 4 * self.0.len()) }
        }
    }

    fn file(front: usize, elements: &[f32]) -> Arc<dyn SharedBytes> {
        Arc::new(Bytes([&vec![1.0; front], elements].concat()))
    }

    #[test]
    fn a_mapped_matrix_is_the_same_as_its_copy() {
        let (x, bias) = (random(&[30, 12], 1), random(&[10], 2));
        for (shape, layout) in [((12, 10), WeightLayout::InOut), ((10, 12), WeightLayout::OutIn)] {
            let weight = random(&[shape.0, shape.1], 3);
            let file = file(2, &weight.flatten_all().unwrap().to_vec1::<f32>().unwrap());
            let mapped = MappedMatrix::new(file, 8..8 + 480, shape).unwrap();
            let rows = |x: &Tensor| x.to_vec2::<f32>().unwrap();
            assert_eq!(rows(&mapped.plain().unwrap()), rows(&weight));
            let ids = Tensor::new(&[3u32, 0], x.device()).unwrap();
            assert_eq!(rows(&mapped.rows(&[3, 0]).unwrap()), rows(&weight.index_select(&ids, 0).unwrap()));
            assert!(mapped.rows(&[shape.0 as u32]).is_err());
            // In the file, and copied.
            let mapped = MappedMatrix { copy: Arc::default(), ..mapped };
            for (pass, count) in [1, 20, 30, 2, 30, 1].into_iter().enumerate() {
                let bias = (pass % 2 == 0).then_some(&bias);
                let x = x.narrow(0, 0, count).unwrap();
                let want = linear(&x, &weight, layout, bias).unwrap();
                assert_eq!(rows(&mapped_linear(&x, &mapped, layout, bias).unwrap()), rows(&want));
                let passes = if layout == WeightLayout::InOut { PASSES_IN_FILE } else { 2 };
                assert_eq!(mapped.copy.panels.get().is_some(), pass >= passes);
            }
            assert_eq!(rows(&mapped.plain().unwrap()), rows(&weight));
            assert!(mapped_linear(&random(&[2, 11], 1), &mapped, layout, None).is_err());
        }
    }

    /// Elements of which all but the first few disappear after a while.
    struct Shrinking(Bytes, AtomicUsize);

    impl SharedBytes for Shrinking {
        fn bytes(&self) -> &[u8] {
            let uses = self.1.fetch_add(1, Ordering::Relaxed);
            if uses < 2 { self.0.bytes() } else { &self.0.bytes()[..8] }
        }
    }

    #[test]
    fn bytes_that_shrink_later_are_an_error() {
        let file = Shrinking(Bytes(vec![1.0; 6]), AtomicUsize::new(0));
        let mapped = MappedMatrix::new(Arc::new(file), 0..24, (2, 3)).unwrap();
        assert!(mapped.rows(&[1]).is_ok());
        assert!(mapped.rows(&[1]).is_err());
        mapped.read_into_memory(WeightLayout::InOut);
        assert!(mapped_linear(&random(&[1, 2], 1), &mapped, WeightLayout::InOut, None).is_err());
    }

    #[test]
    fn bytes_that_are_not_the_matrix_are_refused() {
        let file = file(1, &[0.0; 6]);
        assert!(MappedMatrix::new(Arc::clone(&file), 2..26, (2, 3)).is_none(), "not aligned");
        assert!(MappedMatrix::new(Arc::clone(&file), 4..24, (2, 3)).is_none(), "too few");
        assert!(MappedMatrix::new(Arc::clone(&file), 8..32, (2, 3)).is_none(), "beyond the end");
        assert!(MappedMatrix::new(Arc::clone(&file), 0..24, (usize::MAX, 3)).is_none());
        assert!(MappedMatrix::new(file, 0..24, (2, 3)).is_some());
    }
}
