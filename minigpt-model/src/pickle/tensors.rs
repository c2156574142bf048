//! What PyTorch saves: a pickle that names tensors, and beside it the numbers of each.

use super::Result;
use super::archive::Archive;
use super::machine::{Value, read};
use candle_core::DType;
use std::borrow::Cow;

/// A checkpoint that `torch.save` wrote.
pub struct Checkpoint<'a> {
    archive: Archive<'a>,
    /// What was saved. Tensors in it are calls; see [`Checkpoint::tensor`].
    pub root: Value,
}

/// A tensor as a file has it: numbers row by row, not yet in memory unless they had to be put in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored<'a> {
    /// The type of its numbers, or the name of one that weights can't have.
    pub dtype: std::result::Result<DType, String>,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub data: Cow<'a, [u8]>,
}

impl<'a> Stored<'a> {
    /// The same matrix with rows and columns exchanged.
    pub fn transposed(self) -> Result<Stored<'a>> {
        let [rows, columns] = self.shape[..] else {
            return Err(format!("{:?} is not the shape of a matrix", self.shape));
        };
        let width = self.data.len().checked_div(rows * columns).unwrap_or(0);
        let shape = vec![columns, rows];
        let layout = Layout { shape: &shape, strides: &[1, columns], offset: 0, width };
        let data = layout.data(&self.data).ok_or("a matrix without all of its numbers")?.into_owned();
        Ok(Stored { dtype: self.dtype, shape, data: Cow::Owned(data) })
    }
}

impl<'a> Checkpoint<'a> {
    /// Reads the structure of a checkpoint, and none of its numbers.
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        let archive = Archive::open(bytes)?;
        if archive.file("byteorder").is_some_and(|order| order != b"little") {
            return Err("the numbers are in big-endian order".into());
        }
        let pickle = archive.file("data.pkl").ok_or("holds no data.pkl: not made by torch.save")?;
        let root = read(pickle)?;
        Ok(Self { archive, root })
    }

    /// All tensors of a dictionary, by their names; what is none is passed over.
    pub fn tensors(&self, dictionary: &Value) -> Result<Vec<(String, Stored<'a>)>> {
        let Value::Dict(items) = dictionary else { return Err("holds no dictionary of tensors".into()) };
        let mut tensors = Vec::new();
        for (name, value) in items.iter() {
            let Some(name) = name.as_str() else {
                return Err("holds a tensor whose name is not text".into());
            };
            let tensor = self.tensor(value).map_err(|e| format!("{name}: {e}"))?;
            tensors.extend(tensor.map(|tensor| (name.to_owned(), tensor)));
        }
        Ok(tensors)
    }

    /// The tensor that a value stands for, if it does. Any other call is refused by name: it would have run somebody's
    /// program.
    pub fn tensor(&self, value: &Value) -> Result<Option<Stored<'a>>> {
        let Value::Call(call) = value else { return Ok(None) };
        let (Value::Name(name), Some(arguments)) = (&call.0, call.1.as_list()) else {
            return Err("calls what has no name".into());
        };
        match (&**name, arguments) {
            ("torch._utils._rebuild_tensor_v2", [storage, offset, shape, strides, ..]) => {
                self.rebuild(storage, offset, shape, strides).map(Some)
            }
            ("torch._utils._rebuild_parameter", [tensor, ..]) => self.tensor(tensor),
            (other, _) => Err(format!("calls {other}, which data has no need of; it was not run")),
        }
    }

    fn rebuild(&self, storage: &Value, offset: &Value, shape: &Value, strides: &Value) -> Result<Stored<'a>> {
        let damaged = || "a tensor's description is damaged".to_owned();
        let sizes =
            |value: &Value| -> Option<Vec<usize>> { value.as_list()?.iter().map(Value::as_size).collect() };
        let Value::Outside(storage) = storage else { return Err(damaged()) };
        let Some([Value::Str(kind), Value::Name(class), Value::Str(key), ..]) = storage.as_list() else {
            return Err(damaged());
        };
        if &**kind != "storage" {
            return Err(damaged());
        }
        let (shape, strides) = sizes(shape).zip(sizes(strides)).ok_or_else(damaged)?;
        let offset = offset.as_size().ok_or_else(damaged)?;
        let numbers =
            self.archive.file(&format!("data/{key}")).ok_or_else(|| format!("data/{key} is missing"))?;
        let (dtype, width) = number_type(class)?;
        let layout = Layout { shape: &shape, strides: &strides, offset, width };
        let data = layout.data(numbers).ok_or("a tensor reaches beyond its numbers")?;
        Ok(Stored { dtype, shape, data })
    }
}

/// The type of a storage's numbers, and how many bytes one has.
fn number_type(class: &str) -> Result<(std::result::Result<DType, String>, usize)> {
    let name = class.strip_prefix("torch.").unwrap_or(class);
    Ok(match name {
        "FloatStorage" => (Ok(DType::F32), 4),
        "HalfStorage" => (Ok(DType::F16), 2),
        "BFloat16Storage" => (Ok(DType::BF16), 2),
        "DoubleStorage" => (Ok(DType::F64), 8),
        "LongStorage" => (Err(name.to_owned()), 8),
        "IntStorage" => (Err(name.to_owned()), 4),
        "ShortStorage" => (Err(name.to_owned()), 2),
        "ByteStorage" | "CharStorage" | "BoolStorage" => (Err(name.to_owned()), 1),
        other => return Err(format!("numbers of the type {other} are not known")),
    })
}

struct Layout<'l> {
    shape: &'l [usize],
    strides: &'l [usize],
    offset: usize,
    width: usize,
}

impl Layout<'_> {
    /// The tensor's numbers row by row: a slice of the storage where they lie so, otherwise a copy.
    fn data<'a>(&self, numbers: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let Self { shape, strides, offset, width } = *self;
        if shape.len() != strides.len() {
            return None;
        }
        let count = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size))?;
        if count == 0 {
            return Some(Cow::Borrowed(&[]));
        }
        // The last number says whether all lie inside; a stride of 0 could claim more than there is memory.
        let last = shape
            .iter()
            .zip(strides)
            .try_fold(offset, |at, (&size, &stride)| at.checked_add((size - 1).checked_mul(stride)?))?;
        let end = last.checked_add(1)?.checked_mul(width)?;
        if end > numbers.len() || count.checked_mul(width)? > numbers.len() {
            return None;
        }
        let mut expected = 1;
        let in_order = shape.iter().zip(strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == expected;
            expected *= size;
            fits
        });
        if in_order {
            return Some(Cow::Borrowed(&numbers[offset * width..(offset + count) * width]));
        }
        let mut data = Vec::with_capacity(count * width);
        let mut index = vec![0; shape.len()];
        for _ in 0..count {
            let at = offset + index.iter().zip(strides).map(|(i, stride)| i * stride).sum::<usize>();
            data.extend_from_slice(&numbers[at * width..][..width]);
            for (i, &size) in index.iter_mut().zip(shape).rev() {
                *i += 1;
                if *i < size {
                    break;
                }
                *i = 0;
            }
        }
        Some(Cow::Owned(data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_another_order_are_put_in_rows() {
        let numbers: Vec<u8> = (0..12).collect();
        let layout = |shape: &'static [usize], strides: &'static [usize], offset| {
            Layout { shape, strides, offset, width: 2 }.data(&numbers).map(Cow::into_owned)
        };
        assert_eq!(layout(&[2, 2], &[2, 1], 1).unwrap(), [2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(layout(&[2, 2], &[1, 2], 0).unwrap(), [0, 1, 4, 5, 2, 3, 6, 7]);
        assert_eq!(layout(&[], &[], 5).unwrap(), [10, 11]);
        assert_eq!(layout(&[0, 7], &[7, 1], 99).unwrap(), [0u8; 0]);
        assert_eq!(layout(&[2, 3], &[3, 1], 1), None, "beyond the end");
        assert_eq!(layout(&[1 << 40, 1], &[0, 1], 0), None, "more than there is");
        assert_eq!(layout(&[usize::MAX, 3], &[3, 1], 0), None, "more than can be counted");
    }
}
