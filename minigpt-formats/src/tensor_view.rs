//! Tensors as files have them: described, checked against the bytes that there are, and not yet in memory.

use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device, Result, Tensor};
use minigpt_kernels::QuantizedMatrix;
use minigpt_model::Weight;
use std::borrow::Cow;

/// How a tensor's numbers are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElementType {
    /// One after another.
    Plain(DType),
    /// In blocks with common scales, along the last dimension.
    Blocks(GgmlDType),
    /// In a way that weights can't have, of so many bytes each (0 where a byte has several).
    Other(String, usize),
}

impl ElementType {
    /// The name that people know it by.
    pub fn name(&self) -> String {
        match self {
            Self::Plain(dtype) => dtype.as_str().to_owned(),
            Self::Blocks(dtype) => format!("{dtype:?}").to_lowercase().replace('k', "_k"),
            Self::Other(name, _) => name.clone(),
        }
    }

    /// How many bytes `count` numbers take, if they fill whole blocks.
    pub(crate) fn bytes(&self, count: usize) -> Option<usize> {
        let (block, size) = match self {
            Self::Plain(dtype) => (1, dtype.size_in_bytes()),
            Self::Blocks(dtype) => (dtype.block_size(), dtype.type_size()),
            Self::Other(_, size) => (1, *size),
        };
        (count.is_multiple_of(block)).then(|| (count / block).checked_mul(size))?
    }
}

/// A tensor in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorView<'a> {
    /// How its numbers are written.
    pub numbers: ElementType,
    /// Its shape.
    pub shape: Vec<usize>,
    /// From one number to the next along each dimension.
    strides: Vec<usize>,
    /// Its numbers, from the first to the last.
    data: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// A tensor whose numbers lie row by row and fill `data`.
    pub fn new(numbers: ElementType, shape: Vec<usize>, data: &'a [u8]) -> Option<Self> {
        let count = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size))?;
        let block = if let ElementType::Blocks(dtype) = &numbers { dtype.block_size() } else { 1 };
        let whole = shape.last().is_none_or(|last| last.is_multiple_of(block));
        let filled = numbers.bytes(count)? == data.len() || matches!(numbers, ElementType::Other(_, 0));
        if !whole || !filled {
            return None;
        }
        let strides = (0..shape.len()).map(|dim| shape[dim + 1..].iter().product()).collect();
        Some(Self { numbers, shape, strides, data })
    }

    /// A tensor of plain numbers that lie in any order in `data`, from number `offset` on.
    pub fn strided(
        numbers: ElementType,
        shape: Vec<usize>,
        strides: Vec<usize>,
        offset: usize,
        data: &'a [u8],
    ) -> Option<Self> {
        if shape.len() != strides.len() || matches!(numbers, ElementType::Blocks(_)) {
            return None;
        }
        let count = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size))?;
        if count == 0 {
            return Some(Self { numbers, shape, strides, data: &[] });
        }
        // The last number says whether all lie inside; a stride of 0 could claim more than there is memory.
        let last = shape
            .iter()
            .zip(&strides)
            .try_fold(offset, |at, (&size, &stride)| at.checked_add((size - 1).checked_mul(stride)?))?;
        let (start, end) = (numbers.bytes(offset)?, numbers.bytes(last.checked_add(1)?)?);
        if numbers.bytes(count)? > data.len() {
            return None;
        }
        Some(Self { data: data.get(start..end)?, numbers, shape, strides })
    }

    /// The same matrix with rows and columns exchanged.
    pub fn transposed(mut self) -> Self {
        self.shape.reverse();
        self.strides.reverse();
        self
    }

    /// The bytes that hold its numbers.
    pub(crate) fn data(&self) -> &'a [u8] {
        self.data
    }

    /// How many bytes its numbers take, each counted once.
    pub fn bytes(&self) -> u64 {
        self.numbers.bytes(self.shape.iter().product()).unwrap_or(0) as u64
    }

    /// Whether all of its numbers are nothing but zeros.
    pub fn is_zero(&self) -> bool {
        self.data.iter().all(|&byte| byte == 0)
    }

    /// The tensor for a model: a matrix of blocks stays one on the CPU, everything else becomes f32.
    pub fn weight(&self, device: &Device) -> Result<Weight> {
        match (&self.numbers, &self.shape[..]) {
            (ElementType::Blocks(dtype), &[first, second]) => {
                let turned = self.strides[0] == 1;
                let shape = if turned { (second, first) } else { (first, second) };
                let packed = QuantizedMatrix::new(*dtype, shape, turned, self.data)?;
                match device.is_cpu() {
                    true => Ok(Weight::Quantized(packed)),
                    false => Ok(Weight::Plain(packed.plain()?.to_device(device)?)),
                }
            }
            (ElementType::Blocks(dtype), shape) => {
                let count = shape.iter().product();
                let packed = QuantizedMatrix::new(*dtype, (1, count), false, self.data)?;
                Ok(Weight::Plain(packed.plain()?.reshape(shape)?.to_device(device)?))
            }
            (ElementType::Plain(dtype), &[first, second]) if self.strides == [1, first] => {
                let turned = Tensor::from_raw_buffer(self.data, *dtype, &[second, first], device)?;
                Ok(Weight::Plain(turned.to_dtype(DType::F32)?.t()?.contiguous()?))
            }
            (ElementType::Plain(dtype), shape) => {
                let tensor = Tensor::from_raw_buffer(&self.in_rows(*dtype), *dtype, shape, device)?;
                Ok(Weight::Plain(tensor.to_dtype(DType::F32)?))
            }
            (ElementType::Other(name, _), _) => candle_core::bail!("a weight of the type {name}"),
        }
    }

    /// The bytes of a matrix of plain f32 that lie row by row, if it is one.
    pub(crate) fn floats_in_rows(&self) -> Option<&'a [u8]> {
        let floats = self.numbers == ElementType::Plain(DType::F32) && self.shape.len() == 2;
        (floats && self.is_in_rows()).then_some(self.data)
    }

    fn is_in_rows(&self) -> bool {
        let mut expected = 1;
        let in_order = self.shape.iter().zip(&self.strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == expected;
            expected *= size;
            fits
        });
        in_order || self.shape.contains(&0)
    }

    /// The numbers row by row: where they lie if they lie so, otherwise a copy.
    fn in_rows(&self, dtype: DType) -> Cow<'a, [u8]> {
        if self.is_in_rows() {
            return Cow::Borrowed(self.data);
        }
        let (width, count) = (dtype.size_in_bytes(), self.shape.iter().product::<usize>());
        let mut data = Vec::with_capacity(count * width);
        let mut index = vec![0; self.shape.len()];
        for _ in 0..count {
            let at = index.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum::<usize>();
            data.extend_from_slice(&self.data[at * width..][..width]);
            for (i, &size) in index.iter_mut().zip(&self.shape).rev() {
                *i += 1;
                if *i < size {
                    break;
                }
                *i = 0;
            }
        }
        Cow::Owned(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BF16: ElementType = ElementType::Plain(DType::BF16);

    #[test]
    fn numbers_in_another_order_are_put_in_rows() {
        let numbers: Vec<u8> = (0..12).collect();
        let rows = |shape: &[usize], strides: &[usize], offset| {
            let stored = TensorView::strided(BF16, shape.to_vec(), strides.to_vec(), offset, &numbers)?;
            Some(stored.in_rows(DType::BF16).into_owned())
        };
        assert_eq!(rows(&[2, 2], &[2, 1], 1).unwrap(), [2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(rows(&[2, 2], &[1, 2], 0).unwrap(), [0, 1, 4, 5, 2, 3, 6, 7]);
        assert_eq!(rows(&[], &[], 5).unwrap(), [10, 11]);
        assert_eq!(rows(&[0, 7], &[7, 1], 99).unwrap(), [0u8; 0]);
        assert_eq!(rows(&[2, 3], &[3, 1], 1), None, "beyond the end");
        assert_eq!(rows(&[1 << 40, 1], &[0, 1], 0), None, "more than there is");
        assert_eq!(rows(&[usize::MAX, 3], &[3, 1], 0), None, "more than can be counted");
        assert_eq!(rows(&[2], &[1, 1], 0), None, "no such shape");
    }

    #[test]
    fn rows_must_fill_their_bytes_and_blocks_their_rows() {
        let bytes = [0u8; 68];
        let q8 = || ElementType::Blocks(GgmlDType::Q8_0);
        assert!(TensorView::new(q8(), vec![2, 32], &bytes).is_some());
        assert!(TensorView::new(q8(), vec![4, 16], &bytes).is_none(), "a block over two rows");
        assert!(TensorView::new(q8(), vec![2, 32], &bytes[1..]).is_none());
        assert!(TensorView::new(BF16, vec![usize::MAX, 2], &bytes).is_none());
        let turned = TensorView::new(q8(), vec![2, 32], &bytes).unwrap().transposed();
        let weight = turned.weight(&Device::Cpu).unwrap();
        assert!(matches!(weight, Weight::Quantized(_)));
        assert_eq!(weight.plain().unwrap().dims(), [32, 2]);
        let line = TensorView::new(q8(), vec![64], &bytes).unwrap().weight(&Device::Cpu).unwrap();
        assert!(matches!(line, Weight::Plain(_)));
        assert_eq!((q8().name(), ElementType::Blocks(GgmlDType::Q4K).name()), ("q8_0".into(), "q4_k".into()));
    }
}
