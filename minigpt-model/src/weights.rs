//! Tensors by name, on the way from a file or the initialization into the layers.

use crate::config::Config;
use crate::parameters::Spec;
use candle_core::quantized::QTensor;
use candle_core::{DType, Device, Result, Tensor, Var};
use minigpt_kernels::{
    self as ops, ElementType, MappedMatrix, QuantizedMatrix, QuantizedProduct, WeightLayout,
};
use std::collections::HashMap;

/// Rows of a mapped matrix that are quantized at a time.
const ROWS_AT_ONCE: usize = 2048;

/// A tensor of a model: plain numbers in memory or in a mapped file, or a quantized matrix.
#[derive(Debug, Clone)]
pub enum Weight {
    /// Plain numbers, in GPT-2's layout.
    Plain(Tensor),
    /// Plain numbers in a mapped file.
    Mapped(MappedMatrix),
    /// A quantized matrix.
    Quantized(QuantizedMatrix),
}

impl Weight {
    /// The tensor as plain numbers: mapped ones are read, quantized ones expanded.
    pub fn plain(self) -> Result<Tensor> {
        match self {
            Self::Plain(tensor) => Ok(tensor),
            Self::Mapped(matrix) => matrix.plain(),
            Self::Quantized(matrix) => matrix.plain(),
        }
    }

    /// Quantizes a matrix; other tensors are returned unchanged. The weight of a linear layer is transposed,
    /// so that blocks lie along its input. If blocks do not fill its rows, it is kept in 16 bits.
    pub fn quantized(self, spec: &Spec, element_type: ElementType) -> Result<Self> {
        let transposed = spec.is_linear_weight();
        let dtype_of = |columns: usize| match element_type.for_rows_of(columns).ggml() {
            Some(dtype) => Ok(dtype),
            None => candle_core::bail!("a model can't be run in {element_type}"),
        };
        let tensor = match self {
            weight if !spec.is_quantizable() => return Ok(weight),
            Self::Quantized(matrix) if Some(matrix.dtype()) == element_type.ggml() => {
                return Ok(Self::Quantized(matrix));
            }
            // The embedding of a large vocabulary is by far the largest matrix: quantize it piece by piece.
            Self::Mapped(matrix) if !transposed && element_type != ElementType::F32 => {
                let shape = matrix.shape();
                let dtype = dtype_of(shape.1)?;
                let bytes = element_type.for_rows_of(shape.1).bytes(shape.0 * shape.1);
                let mut blocks = Vec::with_capacity(bytes.unwrap_or(0));
                matrix.in_pieces(ROWS_AT_ONCE, |rows| {
                    blocks.extend_from_slice(&QTensor::quantize(&rows, dtype)?.data()?);
                    Ok(())
                })?;
                return Ok(Self::Quantized(QuantizedMatrix::new(dtype, shape, transposed, &blocks)?));
            }
            weight => weight.plain()?,
        };
        let rows = if transposed { tensor.t()?.contiguous()? } else { tensor.contiguous()? };
        let shape = rows.dims2()?;
        let dtype = dtype_of(shape.1)?;
        let blocks = QTensor::quantize(&rows.detach(), dtype)?;
        Ok(Self::Quantized(QuantizedMatrix::new(dtype, shape, transposed, &blocks.data()?)?))
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

    /// Looks up rows of a table.
    ///
    /// # Shapes
    /// - `ids`: (N), u32; output: (N, C)
    pub fn rows(&self, ids: &Tensor) -> Result<Tensor> {
        match self {
            Self::Plain(table) => ops::embedding(table, ids),
            Self::Mapped(table) => table.rows(&ids.to_vec1()?),
            Self::Quantized(table) => table.rows(&ids.to_vec1()?),
        }
    }

    /// The element type of the activations that the weight is multiplied with.
    pub fn dtype(&self) -> DType {
        match self {
            Self::Plain(tensor) => tensor.dtype(),
            Self::Mapped(_) | Self::Quantized(_) => DType::F32,
        }
    }

    /// The element type of the weight itself.
    pub fn element_type(&self) -> ElementType {
        let known =
            |found: &dyn Fn(ElementType) -> bool| ElementType::ALL.into_iter().find(|one| found(*one));
        let known = match self {
            Self::Plain(tensor) => known(&|one| one.plain() == Some(tensor.dtype())),
            Self::Mapped(_) => None,
            Self::Quantized(matrix) => known(&|one| one.ggml() == Some(matrix.dtype())),
        };
        known.unwrap_or(ElementType::F32)
    }

    /// The device of the weight.
    pub fn device(&self) -> &Device {
        match self {
            Self::Plain(tensor) => tensor.device(),
            Self::Mapped(_) | Self::Quantized(_) => &Device::Cpu,
        }
    }
}

/// A model's tensors by GPT-2's names: those of a model in memory, or in files.
pub trait Tensors {
    /// The tensor of this name, if there is one.
    fn weight(&self, name: &str) -> Result<Option<Weight>>;

    /// The tensor of this name.
    ///
    /// # Errors
    /// There is no tensor of this name.
    fn need(&self, name: &str) -> Result<Weight> {
        self.weight(name)?.ok_or_else(|| candle_core::Error::msg(format!("the tensor {name} is missing")))
    }

    /// The tensor of this name as plain numbers, if there is one.
    fn plain(&self, name: &str) -> Result<Option<Tensor>> {
        self.weight(name)?.map(Weight::plain).transpose()
    }

    /// The tensor of this name as plain numbers.
    ///
    /// # Errors
    /// There is no tensor of this name.
    fn need_plain(&self, name: &str) -> Result<Tensor> {
        self.need(name)?.plain()
    }
}

/// A view of a model for writers, which take its tensors one at a time.
#[derive(Clone, Copy)]
pub struct ModelView<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The tensors.
    pub tensors: &'a dyn Tensors,
}

/// Tensors in memory. Layers share them without copying.
#[derive(Debug, Clone)]
pub(crate) struct Weights(HashMap<String, Weight>);

impl Weights {
    pub fn new(tensors: HashMap<String, Weight>) -> Self {
        Self(tensors)
    }

    /// Quantizes the matrices of `specs`.
    pub fn quantized(mut self, specs: &[Spec], element_type: ElementType) -> Result<Self> {
        for spec in specs {
            if let Some(weight) = self.0.remove(&spec.name) {
                self.0.insert(spec.name.clone(), weight.quantized(spec, element_type)?);
            }
        }
        Ok(self)
    }

    /// Sets how quantized matrices are multiplied.
    pub fn with_quantized_product(self, product: QuantizedProduct) -> Self {
        let weight = |weight: Weight| match weight {
            Weight::Quantized(matrix) => Weight::Quantized(matrix.with_product(product)),
            weight => weight,
        };
        // One by one, so that only one matrix is in memory twice.
        Self(self.0.into_iter().map(|(name, it)| (name, weight(it))).collect())
    }

    /// Replaces a tensor.
    pub fn replace(&mut self, name: &str, weight: Weight) {
        self.0.insert(name.to_owned(), weight);
    }

    /// Reads mapped matrices into memory.
    pub fn read_into_memory(&self) {
        for (name, weight) in &self.0 {
            if let Weight::Mapped(matrix) = weight {
                matrix.read_into_memory(layout(name));
            }
        }
    }

    /// Turns the weights into variables, so that they get gradients.
    pub fn into_variables(self) -> Result<Self> {
        let variable = |(name, weight): (String, Weight)| {
            Ok((name, Weight::Plain(Var::from_tensor(&weight.plain()?)?.into_inner())))
        };
        // One by one: each plain tensor is dropped once its variable exists.
        Ok(Self(self.0.into_iter().map(variable).collect::<Result<_>>()?))
    }
}

/// How a matrix is multiplied: tables and the head are (out, in), layers (in, out).
fn layout(name: &str) -> WeightLayout {
    match name {
        "wte.weight" | "wpe.weight" | "lm_head.weight" => WeightLayout::OutIn,
        _ => WeightLayout::InOut,
    }
}

impl Tensors for Weights {
    fn weight(&self, name: &str) -> Result<Option<Weight>> {
        Ok(self.0.get(name).cloned())
    }
}
