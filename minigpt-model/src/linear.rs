//! The linear layer and the layer norm, of which all other layers are made.

use crate::hooks::Site;
use crate::pass::Pass;
use crate::weights::{Tensors, Weight};
use candle_core::{Result, Tensor};
use minigpt_kernels::{self as ops, WeightLayout};

/// `x · W + b`, with the weight stored `[in, out]` as GPT-2 stores it, so that no product needs a transposition, or
/// quantised.
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

    /// Its weight (in, out), if it is a plain tensor.
    pub fn weight(&self) -> Option<&Tensor> {
        match &self.weight {
            Weight::Plain(weight) => Some(weight),
            Weight::Mapped(_) | Weight::Quantized(_) => None,
        }
    }

    /// Its bias (out), if it has one.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }

    pub(crate) fn load(weights: &dyn Tensors, name: &str) -> Result<Self> {
        let weight = weights.need(&format!("{name}.weight"))?;
        Ok(Self { weight, bias: weights.plain(&format!("{name}.bias"))? })
    }

    /// # Shapes
    /// - `x`: (…, in); output: (…, out)
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.weight.linear(x, WeightLayout::InOut, self.bias.as_ref())
    }
}

/// Layer norm with a learned scale and, if the configuration has one, a shift.
#[derive(Debug, Clone)]
pub struct LayerNorm {
    weight: Tensor,
    bias: Option<Tensor>,
    eps: f64,
    /// Where hooks see the output. A norm outside of a model has no site.
    site: Option<Site>,
}

impl LayerNorm {
    /// A norm from its scale (C) and shift (C). GPT-2 uses 1e-5 for `eps`.
    pub fn new(weight: Tensor, bias: Option<Tensor>, eps: f64) -> Self {
        Self { weight, bias, eps, site: None }
    }

    pub(crate) fn load(weights: &dyn Tensors, name: &str, eps: f64, site: Site) -> Result<Self> {
        let weight = weights.need_plain(&format!("{name}.weight"))?;
        let bias = weights.plain(&format!("{name}.bias"))?;
        Ok(Self { weight, bias, eps, site: Some(site) })
    }

    /// # Shapes
    /// - `x`: (…, C); output: (…, C)
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let y = ops::layer_norm(x, &self.weight, self.bias.as_ref(), self.eps)?;
        match self.site {
            Some(site) => pass.at(site, y),
            None => Ok(y),
        }
    }
}
