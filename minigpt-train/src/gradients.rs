//! The gradients of one step: summed over micro-batches, measured, and cut to a largest norm.

use crate::error::Result;
use candle_core::{DType, Tensor};
use minigpt_model::Parameter;

/// One gradient a parameter, in the order of the parameters.
#[derive(Debug, Clone)]
pub struct Gradients(Vec<Tensor>);

impl Gradients {
    /// The gradients of a scalar. A parameter that it does not depend on gets zeros.
    pub fn of(loss: &Tensor, parameters: &[Parameter]) -> Result<Self> {
        let mut store = loss.backward()?;
        let gradient = |p: &Parameter| match store.remove(&p.tensor) {
            Some(gradient) => Ok(gradient),
            None => p.tensor.zeros_like(),
        };
        Ok(Self(parameters.iter().map(gradient).collect::<candle_core::Result<_>>()?))
    }

    /// The gradients, in the order of the parameters.
    pub fn tensors(&self) -> &[Tensor] {
        &self.0
    }

    /// The gradients of two micro-batches together.
    pub fn sum(self, more: &Self) -> Result<Self> {
        let sums = self.0.iter().zip(&more.0).map(|(a, b)| a + b);
        Ok(Self(sums.collect::<candle_core::Result<_>>()?))
    }

    /// The length of all gradients taken as one vector.
    pub fn norm(&self) -> Result<f64> {
        let mut squares = 0.0;
        for gradient in &self.0 {
            let square = gradient.to_dtype(DType::F32)?.sqr()?.sum_all()?.to_scalar::<f32>()?;
            squares += f64::from(square);
        }
        Ok(squares.sqrt())
    }

    /// What to multiply gradients of this norm with so that it does not exceed `max_norm`, as PyTorch's
    /// `clip_grad_norm_` computes it.
    pub fn clip_factor(norm: f64, max_norm: f64) -> f64 {
        (max_norm / (norm + 1e-6)).min(1.0)
    }
}
