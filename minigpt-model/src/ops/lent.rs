//! A matrix of plain numbers in the file that they came in. The first passes read it there, so that a model answers at once.
//! Who is used again and again moves into memory of its own, where large pages make reading faster.
#![expect(unsafe_code, reason = "bytes that are numbers")]

use super::linear::{Stored, forward};
use super::{pieces, with_floats};
use candle_core::{Device, Result, Tensor};
use memmap2::Mmap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Passes that read a matrix in its file, before it moves.
const AT_FIRST: usize = 3;

/// A matrix (rows, columns) in a file's memory.
#[derive(Clone)]
pub struct Lent {
    file: Arc<Mmap>,
    bytes: Range<usize>,
    shape: (usize, usize),
    moved: Arc<Moved>,
}

/// Where a matrix goes that is used often.
#[derive(Default)]
struct Moved {
    uses: AtomicUsize,
    numbers: OnceLock<Vec<f32>>,
}

impl Lent {
    /// The matrix that these bytes of a file are; none if they are not as many as they should be, or lie in a way that this
    /// CPU can't read numbers from.
    pub fn new(file: Arc<Mmap>, bytes: Range<usize>, shape: (usize, usize)) -> Option<Self> {
        let part = file.get(bytes.clone())?;
        let count = shape.0.checked_mul(shape.1)?.checked_mul(size_of::<f32>())?;
        let readable = part.as_ptr().cast::<f32>().is_aligned() && cfg!(target_endian = "little");
        (part.len() == count && readable).then(|| Self { file, bytes, shape, moved: Arc::default() })
    }

    /// Its numbers, row by row, wherever they are.
    fn numbers(&self) -> &[f32] {
        self.moved.numbers.get().map_or_else(|| self.in_file(), Vec::as_slice)
    }

    /// Its numbers for one more pass.
    fn used(&self) -> &[f32] {
        if self.moved.numbers.get().is_none() && self.moved.uses.fetch_add(1, Ordering::Relaxed) >= AT_FIRST {
            self.moved.numbers.get_or_init(|| {
                let there = self.in_file();
                pieces::collect(there.len(), |range| there[range].iter().copied())
            });
            self.release();
        }
        self.numbers()
    }

    /// Lets go of the file's memory, which would otherwise count as ours.
    fn release(&self) {
        #[cfg(unix)]
        if !self.bytes.is_empty() {
            let (start, length) = (self.bytes.start, self.bytes.len());
            // SAFETY: the pages of a read-only map of a file hold nothing that the file does not: who still reads them
            // reads them again. That it can't be done is no harm either.
            let _ = unsafe {
                self.file.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, length)
            };
        }
    }

    fn in_file(&self) -> &[f32] {
        let bytes = &self.file[self.bytes.clone()];
        // SAFETY: `new` made sure that they are aligned and whole; any bits are a number.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<f32>()) }
    }

    /// A copy.
    pub fn plain(&self) -> Result<Tensor> {
        Tensor::from_slice(self.numbers(), self.shape, &Device::Cpu)
    }

    /// Some of its rows.
    ///
    /// # Shapes
    /// - output: (`rows.len()`, columns)
    pub fn rows(&self, rows: &[u32]) -> Result<Tensor> {
        let (count, width) = self.shape;
        let mut all = Vec::with_capacity(rows.len() * width);
        for &row in rows {
            if row as usize >= count {
                candle_core::bail!("row {row} of a matrix that has {count}");
            }
            all.extend_from_slice(&self.numbers()[row as usize * width..][..width]);
        }
        Tensor::from_vec(all, (rows.len(), width), &Device::Cpu)
    }
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Lent({} × {})", self.shape.0, self.shape.1)
    }
}

/// `x · W + b`: the same as [`linear`](super::linear()) of a copy.
///
/// # Shapes
/// - `x`: (rows, in); `weight`: (in, out) or (out, in); `bias`: (out)
/// - output: (rows, out)
pub fn lent_linear(x: &Tensor, weight: &Lent, stored: Stored, bias: Option<&Tensor>) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    let weight = (weight.used(), weight.shape);
    let (y, out) = match bias {
        Some(bias) => {
            with_floats([x, bias], |[x, bias]| forward(stored, x, (rows, width), weight, Some(bias)))?
        }
        None => with_floats([x], |[x]| forward(stored, x, (rows, width), weight, None))?,
    };
    Tensor::from_vec(y, (rows, out), x.device())
}

#[cfg(test)]
mod tests {
    use super::super::linear;
    use super::super::testing::random;
    use super::*;
    use std::io::Write;

    /// A file with some bytes in front of the numbers.
    fn map(numbers: &[f32], front: usize) -> Arc<Mmap> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; front]).unwrap();
        numbers.iter().for_each(|x| file.write_all(&x.to_le_bytes()).unwrap());
        // SAFETY: nobody else knows of the file.
        Arc::new(unsafe { Mmap::map(&file) }.unwrap())
    }

    #[test]
    fn a_lent_matrix_is_the_same_as_its_copy() {
        let (x, bias) = (random(&[20, 12], 1), random(&[10], 2));
        for (shape, stored) in [((12, 10), Stored::InOut), ((10, 12), Stored::OutIn)] {
            let weight = random(&[shape.0, shape.1], 3);
            let file = map(&weight.flatten_all().unwrap().to_vec1().unwrap(), 8);
            let lent = Lent::new(file, 8..8 + 480, shape).unwrap();
            let rows = |x: &Tensor| x.to_vec2::<f32>().unwrap();
            assert_eq!(rows(&lent.plain().unwrap()), rows(&weight));
            let ids = Tensor::new(&[3u32, 0], x.device()).unwrap();
            assert_eq!(rows(&lent.rows(&[3, 0]).unwrap()), rows(&weight.index_select(&ids, 0).unwrap()));
            assert!(lent.rows(&[shape.0 as u32]).is_err());
            // In the file, and moved.
            for pass in 0..2 * AT_FIRST {
                let bias = (pass % 2 == 0).then_some(&bias);
                let x = x.narrow(0, 0, 1 + 19 * (pass % 2)).unwrap();
                let want = linear(&x, &weight, stored, bias).unwrap();
                assert_eq!(rows(&lent_linear(&x, &lent, stored, bias).unwrap()), rows(&want));
                assert_eq!(lent.moved.numbers.get().is_some(), pass >= AT_FIRST);
            }
            assert_eq!(rows(&lent.plain().unwrap()), rows(&weight));
            assert!(lent_linear(&random(&[2, 11], 1), &lent, stored, None).is_err());
        }
    }

    #[test]
    fn bytes_that_are_not_the_matrix_are_refused() {
        let file = map(&[0.0; 6], 2);
        assert!(Lent::new(Arc::clone(&file), 2..26, (2, 3)).is_none(), "not aligned");
        assert!(Lent::new(Arc::clone(&file), 4..24, (2, 3)).is_none(), "too few");
        assert!(Lent::new(Arc::clone(&file), 4..28, (2, 3)).is_none(), "beyond the end");
        assert!(Lent::new(Arc::clone(&file), 0..24, (usize::MAX, 3)).is_none());
        assert!(Lent::new(file, 0..24, (2, 3)).is_some());
    }
}
