//! The linear layer and the norm: what all other layers are made of.

use crate::weights::{Tensors, Weight};
use candle_core::{Result, Tensor};
use minigpt_kernels::{self as ops, WeightLayout};

/// `x · W + b`, with the weight stored `[in, out]` as GPT-2 stores it, so that no product needs a transposition, or in
/// blocks of fewer bits.
#[derive(Debug, Clone)]
pub struct Linear {
    weight: Weight,
    bias: Option<Tensor>,
}

impl Linear {
    /// A layer from its weight (in, out) and bias (out).
    pub fn new(weight: Tensor, bias: Option<Tensor>) -> Self {
        Self { weight: Weight::Plain(weight), bias }
    }

    pub(crate) fn take(weights: &dyn Tensors, name: &str) -> Result<Self> {
        let weight = weights.need(&format!("{name}.weight"))?;
        Ok(Self { weight, bias: weights.plain(&format!("{name}.bias"))? })
    }

    pub(crate) fn weight(&self) -> &Weight {
        &self.weight
    }

    /// # Shapes
    /// - `x`: (…, in); output: (…, out)
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        multiply(x, &self.weight, WeightLayout::InOut, self.bias.as_ref())
    }
}

/// `x · W + b` over the last dimension of `x`; a plain weight is stored as told.
///
/// # Shapes
/// - `x`: (…, in); output: (…, out)
pub(crate) fn multiply(
    x: &Tensor,
    weight: &Weight,
    layout: WeightLayout,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let mut shape = x.dims().to_vec();
    let width = shape.pop().unwrap_or(1);
    let x = ops::reshape(x, (x.elem_count() / width.max(1), width))?;
    let y = match weight {
        Weight::Plain(weight) => ops::linear(&x, weight, layout, bias)?,
        Weight::Mapped(weight) => ops::mapped_linear(&x, weight, layout, bias)?,
        Weight::Quantized(weight) => ops::quantized_linear(&x, weight, bias)?,
    }; // (rows, out)
    shape.push(y.dim(1)?);
    ops::reshape(&y, shape)
}

/// Layer norm with a learned scale and, if the configuration has it, a shift.
#[derive(Debug, Clone)]
pub struct Norm {
    weight: Tensor,
    bias: Option<Tensor>,
    eps: f64,
}

impl Norm {
    pub(crate) fn take(weights: &dyn Tensors, name: &str, eps: f64) -> Result<Self> {
        let weight = weights.need_plain(&format!("{name}.weight"))?;
        let bias = weights.plain(&format!("{name}.bias"))?;
        Ok(Self { weight, bias, eps })
    }

    /// # Shapes
    /// - `x`: (…, C); output: the same
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::layer_norm(x, &self.weight, self.bias.as_ref(), self.eps)
    }
}
