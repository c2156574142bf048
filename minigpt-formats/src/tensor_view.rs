//! Tensors in files: described, checked against the bytes of the file, and not yet in memory.

use candle_core::{DType, Device, Result, Tensor};
use minigpt_kernels::{ElementType, QuantizedMatrix};
use minigpt_model::Weight;
use std::borrow::Cow;

/// The element type of a tensor in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Elements {
    /// A type that weights can have.
    Weights(ElementType),
    /// A type that weights cannot have, such as integers.
    Other {
        /// The type's name in the file.
        name: String,
        /// The bytes per element; 0 if a byte holds several.
        bytes: usize,
    },
}

impl Elements {
    /// The usual name of the type.
    pub fn name(&self) -> &str {
        match self {
            Self::Weights(element_type) => element_type.name(),
            Self::Other { name, .. } => name,
        }
    }

    /// The bytes of `count` elements, if they fill whole blocks.
    pub(crate) fn bytes(&self, count: usize) -> Option<usize> {
        match self {
            Self::Weights(element_type) => element_type.bytes(count),
            Self::Other { bytes, .. } => count.checked_mul(*bytes),
        }
    }

    fn block_size(&self) -> usize {
        match self {
            Self::Weights(element_type) => element_type.block_size(),
            Self::Other { .. } => 1,
        }
    }

    /// Whether elements share scales.
    pub fn is_quantized(&self) -> bool {
        matches!(self, Self::Weights(element_type) if element_type.is_quantized())
    }
}

impl From<ElementType> for Elements {
    fn from(element_type: ElementType) -> Self {
        Self::Weights(element_type)
    }
}

/// A tensor in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorView<'a> {
    /// The element type.
    pub elements: Elements,
    /// The shape.
    pub shape: Vec<usize>,
    /// The distance from one element to the next along each dimension.
    strides: Vec<usize>,
    /// The elements from the first to the last: in the file, or joined from several tensors.
    data: Cow<'a, [u8]>,
}

impl<'a> TensorView<'a> {
    /// Creates a tensor whose elements lie row by row and fill `data`. Returns `None` if they do not.
    pub fn new(elements: impl Into<Elements>, shape: Vec<usize>, data: &'a [u8]) -> Option<Self> {
        let elements = elements.into();
        let count = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size))?;
        let whole = shape.last().is_none_or(|last| last.is_multiple_of(elements.block_size()));
        let filled =
            elements.bytes(count)? == data.len() || matches!(elements, Elements::Other { bytes: 0, .. });
        if !whole || !filled {
            return None;
        }
        let strides = (0..shape.len()).map(|dim| shape[dim + 1..].iter().product()).collect();
        Some(Self { elements, shape, strides, data: Cow::Borrowed(data) })
    }

    /// Creates a tensor of plain elements that lie in any order in `data`, from element `offset` on. Returns `None` if they do
    /// not lie inside.
    pub fn strided(
        elements: impl Into<Elements>,
        shape: Vec<usize>,
        strides: Vec<usize>,
        offset: usize,
        data: &'a [u8],
    ) -> Option<Self> {
        let elements = elements.into();
        if shape.len() != strides.len() || elements.is_quantized() {
            return None;
        }
        let count = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size))?;
        if count == 0 {
            return Some(Self { elements, shape, strides, data: Cow::Borrowed(&[]) });
        }
        // The last element says whether all lie inside; a stride of 0 could claim more than there is memory.
        let last = shape
            .iter()
            .zip(&strides)
            .try_fold(offset, |at, (&size, &stride)| at.checked_add((size - 1).checked_mul(stride)?))?;
        let (start, end) = (elements.bytes(offset)?, elements.bytes(last.checked_add(1)?)?);
        if elements.bytes(count)? > data.len() {
            return None;
        }
        Some(Self { data: Cow::Borrowed(data.get(start..end)?), elements, shape, strides })
    }

    /// The transposed matrix, without copying.
    pub fn transposed(mut self) -> Self {
        self.shape.reverse();
        self.strides.reverse();
        self
    }

    /// Concatenates tensors of plain elements along the first dimension. The elements are copied.
    pub(crate) fn stacked(parts: &[Self]) -> Option<Self> {
        let first = parts.first()?;
        let Elements::Weights(element_type) = first.elements else { return None };
        let (dtype, mut shape) = (element_type.plain()?, first.shape.clone());
        let same =
            |part: &Self| part.elements == first.elements && part.shape.get(1..) == first.shape.get(1..);
        if shape.is_empty() || !parts.iter().all(same) {
            return None;
        }
        shape[0] = parts.iter().map(|part| part.shape[0]).sum();
        let data: Vec<u8> = parts.iter().flat_map(|part| part.in_rows(dtype).into_owned()).collect();
        let strides = (0..shape.len()).map(|dim| shape[dim + 1..].iter().product()).collect();
        Some(Self { elements: first.elements.clone(), shape, strides, data: Cow::Owned(data) })
    }

    /// Drops a first dimension of size 1: (1, …) → (…).
    pub(crate) fn without_leading_one(mut self) -> Self {
        if self.shape.len() > 1 && self.shape[0] == 1 {
            self.shape.remove(0);
            self.strides.remove(0);
        }
        self
    }

    /// The elements row by row, if they are f32.
    pub(crate) fn floats(&self) -> Option<Vec<f32>> {
        let is_float = self.elements == Elements::Weights(ElementType::F32);
        let float = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes);
        is_float.then(|| self.in_rows(DType::F32).as_chunks::<4>().0.iter().map(float).collect())
    }

    /// The bytes of the elements.
    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }

    /// The size of the elements in bytes, each counted once.
    pub fn bytes(&self) -> u64 {
        self.elements.bytes(self.shape.iter().product()).unwrap_or(0) as u64
    }

    /// Whether all elements are 0.
    pub fn is_zero(&self) -> bool {
        self.data.iter().all(|&byte| byte == 0)
    }

    /// Loads the tensor for a model. On the CPU, a quantized matrix stays quantized; everything else becomes f32.
    pub fn weight(&self, device: &Device) -> Result<Weight> {
        let element_type = match &self.elements {
            Elements::Weights(element_type) => *element_type,
            Elements::Other { name, .. } => candle_core::bail!("a weight of the type {name}"),
        };
        match (element_type.plain(), element_type.ggml()) {
            (Some(dtype), _) => Ok(Weight::Plain(self.plain(dtype, device)?)),
            (None, Some(dtype)) => match self.shape[..] {
                [first, second] => {
                    let transposed = self.strides[0] == 1;
                    let shape = if transposed { (second, first) } else { (first, second) };
                    let matrix = QuantizedMatrix::new(dtype, shape, transposed, &self.data)?;
                    if device.is_cpu() {
                        Ok(Weight::Quantized(matrix))
                    } else {
                        Ok(Weight::Plain(matrix.plain()?.to_device(device)?))
                    }
                }
                ref shape => {
                    let count = shape.iter().product();
                    let matrix = QuantizedMatrix::new(dtype, (1, count), false, &self.data)?;
                    Ok(Weight::Plain(matrix.plain()?.reshape(shape)?.to_device(device)?))
                }
            },
            (None, None) => candle_core::bail!("a weight of the type {element_type}"),
        }
    }

    fn plain(&self, dtype: DType, device: &Device) -> Result<Tensor> {
        let tensor = match self.shape[..] {
            [first, second] if self.strides == [1, first] => {
                Tensor::from_raw_buffer(&self.data, dtype, &[second, first], device)?
                    .to_dtype(DType::F32)?
                    .t()?
            }
            ref shape => {
                Tensor::from_raw_buffer(&self.in_rows(dtype), dtype, shape, device)?.to_dtype(DType::F32)?
            }
        };
        tensor.contiguous()
    }

    /// The bytes of a matrix of f32 that lie row by row. `None` for other tensors.
    pub(crate) fn floats_in_rows(&self) -> Option<&[u8]> {
        let floats = self.elements == Elements::Weights(ElementType::F32) && self.shape.len() == 2;
        (floats && self.is_in_rows()).then_some(&*self.data)
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

    /// The elements row by row, copied only if they lie in another order.
    fn in_rows(&self, dtype: DType) -> Cow<'_, [u8]> {
        if self.is_in_rows() {
            return Cow::Borrowed(&self.data);
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

    const BF16: ElementType = ElementType::Bf16;
    const Q8_0: ElementType = ElementType::Q8_0;

    #[test]
    fn elements_in_another_order_are_put_in_rows() {
        let numbers: Vec<u8> = (0..12).collect();
        let rows = |shape: &[usize], strides: &[usize], offset| {
            let view = TensorView::strided(BF16, shape.to_vec(), strides.to_vec(), offset, &numbers)?;
            Some(view.in_rows(DType::BF16).into_owned())
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
    fn tensors_are_stacked_in_their_order_whatever_order_their_elements_lie_in() {
        let numbers: Vec<u8> = (0..12).collect();
        let view = |strides: [usize; 2]| {
            TensorView::strided(BF16, vec![2, 2], strides.to_vec(), 0, &numbers).unwrap()
        };
        let stacked = TensorView::stacked(&[view([2, 1]), view([1, 2])]).unwrap();
        assert_eq!(stacked.shape, [4, 2]);
        assert_eq!(*stacked.in_rows(DType::BF16), [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 4, 5, 2, 3, 6, 7]);
        let wider = TensorView::strided(BF16, vec![2, 3], vec![3, 1], 0, &numbers).unwrap();
        assert_eq!(TensorView::stacked(&[view([2, 1]), wider]), None);
    }

    #[test]
    fn rows_must_fill_their_bytes_and_blocks_their_rows() {
        let bytes = [0u8; 68];
        assert!(TensorView::new(Q8_0, vec![2, 32], &bytes).is_some());
        assert!(TensorView::new(Q8_0, vec![4, 16], &bytes).is_none(), "a block over two rows");
        assert!(TensorView::new(Q8_0, vec![2, 32], &bytes[1..]).is_none());
        assert!(TensorView::new(BF16, vec![usize::MAX, 2], &bytes).is_none());
        let transposed = TensorView::new(Q8_0, vec![2, 32], &bytes).unwrap().transposed();
        let weight = transposed.weight(&Device::Cpu).unwrap();
        assert!(matches!(weight, Weight::Quantized(_)));
        assert_eq!(weight.plain().unwrap().dims(), [32, 2]);
        let line = TensorView::new(Q8_0, vec![64], &bytes).unwrap().weight(&Device::Cpu).unwrap();
        assert!(matches!(line, Weight::Plain(_)));
    }
}
