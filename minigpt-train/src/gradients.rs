//! The gradients of one step: summed over micro-batches, measured, and cut to a largest norm.

use crate::error::Result;
use crate::flat;
use candle_core::{DType, Tensor};
use minigpt_kernels as ops;
use minigpt_model::{Loss, Parameter};

/// One gradient a parameter, in the order of the parameters.
#[derive(Debug, Clone)]
pub struct Gradients(Vec<Tensor>);

impl Gradients {
    /// The gradients of a scalar. A parameter that it does not depend on gets zeros.
    pub fn of(scalar: &Tensor, parameters: &[Parameter]) -> Result<Self> {
        let mut store = scalar.backward()?;
        let gradient = |p: &Parameter| match store.remove(&p.tensor) {
            Some(gradient) => Ok(gradient),
            None => p.tensor.zeros_like(),
        };
        Ok(Self(parameters.iter().map(gradient).collect::<candle_core::Result<_>>()?))
    }

    /// Runs a pass of the model that these are the parameters of, and the gradients of its loss: the same as [`Self::of`]
    /// of the loss's sum, but on the CPU without what candle's own way of keeping them costs.
    pub fn of_pass(parameters: &[Parameter], pass: impl FnOnce() -> Result<Loss>) -> Result<(Loss, Self)> {
        let on_cpu = |p: &Parameter| p.tensor.device().is_cpu() && p.tensor.dtype() == DType::F32;
        if !parameters.iter().all(on_cpu) {
            let loss = pass()?;
            let gradients = Self::of(&loss.sum, parameters)?;
            return Ok((loss, gradients));
        }
        let (loss, tape) = ops::record(pass);
        let loss = loss?;
        let mut collected = tape.backward(&loss.sum)?;
        let gradient = |p: &Parameter| match collected.remove(&p.tensor) {
            Some(gradient) => Tensor::from_vec(gradient, p.tensor.shape(), p.tensor.device()),
            None => p.tensor.zeros_like(),
        };
        let gradients = parameters.iter().map(gradient).collect::<candle_core::Result<_>>()?;
        Ok((loss, Self(gradients)))
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
