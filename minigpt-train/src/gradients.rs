//! The gradients of one step: summed over micro-batches, measured, and cut to a largest norm.

use crate::error::Result;
use crate::flat;
use candle_core::{DType, Tensor};
use minigpt_model::{Parameter, ops};

/// One gradient a parameter, in the order of the parameters.
#[derive(Debug, Clone)]
pub struct Gradients(Vec<Tensor>);

impl Gradients {
    /// The gradients of a scalar. A parameter that it does not depend on gets zeros.
    pub fn of(loss: &Tensor, parameters: &[Parameter]) -> Result<Self> {
        let (store, mut sink) = ops::collect(|| loss.backward());
        let mut store = store?;
        let gradient = |p: &Parameter| match (sink.remove(&p.tensor), store.remove(&p.tensor)) {
            (Some(collected), None) => Tensor::from_vec(collected, p.tensor.shape(), p.tensor.device()),
            (None, Some(gradient)) => Ok(gradient),
            (Some(collected), Some(more)) => {
                Tensor::from_vec(collected, p.tensor.shape(), p.tensor.device())? + more
            }
            (None, None) => p.tensor.zeros_like(),
        };
        Ok(Self(parameters.iter().map(gradient).collect::<candle_core::Result<_>>()?))
    }

    /// The gradients, in the order of the parameters.
    pub fn tensors(&self) -> &[Tensor] {
        &self.0
    }

    /// The gradients of two micro-batches together.
    pub fn sum(self, more: &Self) -> Result<Self> {
        let sum = |(a, b): (Tensor, &Tensor)| match flat::is_flat(&a) && flat::is_flat(b) {
            true => flat::add(&a, b).map(|()| a),
            false => &a + b,
        };
        Ok(Self(self.0.into_iter().zip(&more.0).map(sum).collect::<candle_core::Result<_>>()?))
    }

    /// The length of all gradients taken as one vector.
    pub fn norm(&self) -> Result<f64> {
        let mut squares = 0.0;
        for gradient in &self.0 {
            squares += match flat::is_flat(gradient) {
                true => flat::sum_of_squares(gradient)?,
                false => {
                    let square = gradient.to_dtype(DType::F32)?.sqr()?.sum_all()?;
                    f64::from(square.to_scalar::<f32>()?)
                }
            };
        }
        Ok(squares.sqrt())
    }

    /// What to multiply gradients of this norm with so that it does not exceed `max_norm`, as PyTorch's
    /// `clip_grad_norm_` computes it.
    pub fn clip_factor(norm: f64, max_norm: f64) -> f64 {
        (max_norm / (norm + 1e-6)).min(1.0)
    }
}
