//! Tensors by name, on their way from a file or an initialisation into the layers.

use crate::config::Config;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Result, Tensor, Var};
use minigpt_kernels::{self as ops, MappedMatrix, QuantizedMatrix, WeightLayout};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// In how many bits the matrices of a model are kept to run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// 16 bits.
    F16,
    /// 16 bits with the range of 32.
    Bf16,
    /// 8.5 bits: blocks of 32 with a common scale. Rows that they do not fill are kept in 16 bits.
    Q8_0,
}

impl Packing {
    fn dtype(self, columns: usize) -> GgmlDType {
        match self {
            Self::Q8_0 if columns.is_multiple_of(32) => GgmlDType::Q8_0,
            Self::F16 | Self::Q8_0 => GgmlDType::F16,
            Self::Bf16 => GgmlDType::BF16,
        }
    }
}

/// A tensor of a model: plain numbers in memory or in their file, or a matrix in fewer bits.
#[derive(Debug, Clone)]
pub enum Weight {
    /// Plain numbers, in GPT-2's layout.
    Plain(Tensor),
    /// Plain numbers in their file.
    Mapped(MappedMatrix),
    /// Blocks of small numbers.
    Quantized(QuantizedMatrix),
}

impl Weight {
    /// The same as plain numbers.
    pub fn plain(self) -> Result<Tensor> {
        match self {
            Self::Plain(tensor) => Ok(tensor),
            Self::Mapped(lent) => lent.plain(),
            Self::Quantized(packed) => packed.plain(),
        }
    }

    /// The tensor of this name in fewer bits, if it is a plain matrix that things are multiplied with. A layer's is turned,
    /// so that its blocks lie along the input.
    pub fn packed_as(self, name: &str, packing: Packing) -> Result<Self> {
        let turned = name.starts_with("h.");
        let weight = match self {
            Self::Mapped(lent) => Self::Plain(lent.plain()?),
            weight => weight,
        };
        let rows = match &weight {
            Self::Plain(tensor) if tensor.rank() == 2 && name != "wpe.weight" => match turned {
                true => tensor.t()?.contiguous()?,
                false => tensor.contiguous()?,
            },
            _ => return Ok(weight),
        };
        let shape = rows.dims2()?;
        let dtype = packing.dtype(shape.1);
        let blocks = QTensor::quantize(&rows.detach(), dtype)?;
        Ok(Self::Quantized(QuantizedMatrix::new(dtype, shape, turned, &blocks.data()?)?))
    }

    /// `x · W + b` over the last dimension of `x`.
    ///
    /// # Shapes
    /// - `x`: (…, in); output: (…, out)
    pub(crate) fn linear(&self, x: &Tensor, layout: WeightLayout, bias: Option<&Tensor>) -> Result<Tensor> {
        let mut shape = x.dims().to_vec();
        let width = shape.pop().unwrap_or(1);
        let x = ops::reshape(x, (x.elem_count() / width.max(1), width))?;
        let y = match self {
            Self::Plain(weight) => ops::linear(&x, weight, layout, bias)?,
            Self::Mapped(weight) => ops::mapped_linear(&x, weight, layout, bias)?,
            Self::Quantized(weight) => ops::quantized_linear(&x, weight, bias)?,
        }; // (rows, out)
        shape.push(y.dim(1)?);
        ops::reshape(&y, shape)
    }

    /// Some rows of a table.
    ///
    /// # Shapes
    /// - `ids`: (N), u32; output: (N, C)
    pub(crate) fn rows(&self, ids: &Tensor) -> Result<Tensor> {
        match self {
            Self::Plain(table) => ops::embedding(table, ids),
            Self::Mapped(table) => table.rows(&ids.to_vec1()?),
            Self::Quantized(table) => table.rows(&ids.to_vec1()?),
        }
    }

    /// The type of the activations that it is multiplied with.
    pub fn dtype(&self) -> DType {
        match self {
            Self::Plain(tensor) => tensor.dtype(),
            Self::Mapped(_) | Self::Quantized(_) => DType::F32,
        }
    }

    /// Where it is.
    pub fn device(&self) -> &Device {
        match self {
            Self::Plain(tensor) => tensor.device(),
            Self::Mapped(_) | Self::Quantized(_) => &Device::Cpu,
        }
    }
}

/// What has a model's tensors by GPT-2's names: a model in memory, or the files of one.
pub trait Tensors {
    /// The tensor of this name, if this model has it.
    fn weight(&self, name: &str) -> Result<Option<Weight>>;

    /// The tensor of this name, which every model of this shape has.
    fn need(&self, name: &str) -> Result<Weight> {
        self.weight(name)?.ok_or_else(|| candle_core::Error::msg(format!("the tensor {name} is missing")))
    }

    /// The tensor of this name as plain numbers, if this model has it.
    fn plain(&self, name: &str) -> Result<Option<Tensor>> {
        self.weight(name)?.map(Weight::plain).transpose()
    }

    /// The tensor of this name as plain numbers, which every model of this shape has.
    fn need_plain(&self, name: &str) -> Result<Tensor> {
        self.need(name)?.plain()
    }
}

/// A model as those see it who write it into a file: tensors are asked for one at a time.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// What the model is.
    pub config: &'a Config,
    /// What else its `config.json` said.
    pub extra: &'a Map<String, Value>,
    /// Its tensors.
    pub tensors: &'a dyn Tensors,
}

/// Tensors in memory. Layers take what they need; taking does not copy.
#[derive(Debug, Clone)]
pub(crate) struct Weights(HashMap<String, Weight>);

impl Weights {
    pub fn new(tensors: HashMap<String, Weight>) -> Self {
        Self(tensors)
    }

    /// The same weights with plain matrices in fewer bits.
    pub fn packed(self, packing: Packing) -> Result<Self> {
        let pack = |(name, weight): (String, Weight)| Ok((name.clone(), weight.packed_as(&name, packing)?));
        Ok(Self(self.0.into_iter().map(pack).collect::<Result<_>>()?))
    }

    /// The same weights as variables, so that gradients reach them.
    pub fn into_variables(self) -> Result<Self> {
        let variable = |(name, weight): (String, Weight)| {
            Ok((name, Weight::Plain(Var::from_tensor(&weight.plain()?)?.into_inner())))
        };
        // One by one, dropping each plain tensor as its variable is there.
        Ok(Self(self.0.into_iter().map(variable).collect::<Result<_>>()?))
    }
}

impl Tensors for Weights {
    fn weight(&self, name: &str) -> Result<Option<Weight>> {
        Ok(self.0.get(name).cloned())
    }
}
