//! The linear layer and the norm: what all other layers are made of.

use crate::ops::{self, Stored};
use crate::weights::Weights;
use candle_core::{Result, Tensor};

/// `x · W + b`, with the weight stored `[in, out]` as GPT-2 stores it, so that no product needs a transposition.
#[derive(Debug, Clone)]
pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// A layer from its weight (in, out) and bias (out).
    pub fn new(weight: Tensor, bias: Option<Tensor>) -> Self {
        Self { weight, bias }
    }

    pub(crate) fn take(weights: &Weights, name: &str) -> Result<Self> {
        Ok(Self::new(weights.need(&format!("{name}.weight"))?, weights.get(&format!("{name}.bias"))))
    }

    /// # Shapes
    /// - `x`: (…, in); output: (…, out)
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (width, out) = self.weight.dims2()?;
        let mut shape = x.dims().to_vec();
        let rows = x.elem_count() / width;
        let x = x.reshape((rows, width))?;
        let y = ops::linear(&x, &self.weight, Stored::InOut, self.bias.as_ref())?; // (rows, out)
        if let Some(last) = shape.last_mut() {
            *last = out;
        }
        y.reshape(shape)
    }
}

/// Layer norm with a learned scale and, if the configuration has it, a shift.
#[derive(Debug, Clone)]
pub struct Norm {
    weight: Tensor,
    bias: Option<Tensor>,
    eps: f64,
}

impl Norm {
    pub(crate) fn take(weights: &Weights, name: &str, eps: f64) -> Result<Self> {
        let (weight, bias) = (weights.need(&format!("{name}.weight"))?, weights.get(&format!("{name}.bias")));
        Ok(Self { weight, bias, eps })
    }

    /// # Shapes
    /// - `x`: (…, C); output: the same
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::layer_norm(x, &self.weight, self.bias.as_ref(), self.eps)
    }
}
