//! The gradients of one step: summed over micro-batches, measured, and cut to a largest norm.

use crate::error::{Error, Result};
use crate::flat;
use candle_core::{DType, Tensor};
use minigpt_kernels as ops;
use minigpt_model::parameters::layer_of;
use minigpt_model::{Loss, Parameter};
use std::collections::BTreeMap;

/// One gradient a parameter, in the order of the parameters.
#[derive(Debug, Clone)]
pub struct Gradients(Vec<Tensor>);

impl Gradients {
    /// The gradients of a scalar, from candle's own graph.
    ///
    /// # Errors
    /// The scalar does not depend on one of the parameters.
    pub fn of(scalar: &Tensor, parameters: &[Parameter]) -> Result<Self> {
        let mut store = scalar.backward()?;
        Self::collect(parameters, |tensor| Ok(store.remove(tensor)))
    }

    /// Runs a pass of the model that these are the parameters of, and backpropagates its loss: the same as [`Self::of`]
    /// of the loss's sum, but on the CPU without what candle's own graph costs.
    ///
    /// # Errors
    /// The pass fails, or its loss does not depend on one of the parameters.
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
        let gradients = Self::collect(parameters, |tensor| {
            let gradient = collected.remove(tensor);
            gradient.map(|gradient| Tensor::from_vec(gradient, tensor.shape(), tensor.device())).transpose()
        })?;
        Ok((loss, gradients))
    }

    /// One gradient for every parameter. One without is a mistake somewhere in the pass, not a zero.
    fn collect(
        parameters: &[Parameter],
        mut gradient: impl FnMut(&Tensor) -> candle_core::Result<Option<Tensor>>,
    ) -> Result<Self> {
        let mut gradients = Vec::with_capacity(parameters.len());
        for parameter in parameters {
            match gradient(&parameter.tensor)? {
                Some(gradient) => gradients.push(gradient),
                None if parameter.unused => gradients.push(parameter.tensor.zeros_like()?),
                None => return Err(Error::NoGradient(parameter.name.clone())),
            }
        }
        Ok(Self(gradients))
    }

    /// One gradient a parameter, in their order.
    pub(crate) fn from_tensors(tensors: Vec<Tensor>) -> Self {
        Self(tensors)
    }

    /// Gradients of nothing learned.
    pub(crate) fn zeros(parameters: &[Parameter]) -> Result<Self> {
        let zeros = parameters.iter().map(|parameter| Ok(parameter.tensor.zeros_like()?.detach()));
        Ok(Self(zeros.collect::<candle_core::Result<_>>()?))
    }

    /// The gradients, in the order of the parameters.
    pub fn tensors(&self) -> &[Tensor] {
        &self.0
    }

    /// The gradients of two micro-batches together.
    pub fn sum(self, more: &Self) -> Result<Self> {
        let sum = |(a, b): (Tensor, &Tensor)| {
            if flat::is_flat(&a) && flat::is_flat(b) { flat::add(&a, b).map(|()| a) } else { &a + b }
        };
        Ok(Self(self.0.into_iter().zip(&more.0).map(sum).collect::<candle_core::Result<_>>()?))
    }

    /// The length of all gradients taken as one vector.
    pub fn norm(&self) -> Result<f64> {
        Ok(self.squares()?.iter().sum::<f64>().sqrt())
    }

    /// The square of each gradient's length, of which a norm of several together is the root of the sum.
    pub fn squares(&self) -> Result<Vec<f64>> {
        let square = |gradient: &Tensor| {
            if flat::is_flat(gradient) {
                Ok(flat::sum_of_squares(gradient)?)
            } else {
                let square = gradient.to_dtype(DType::F32)?.sqr()?.sum_all()?;
                Ok(f64::from(square.to_scalar::<f32>()?))
            }
        };
        self.0.iter().map(square).collect()
    }

    /// What to multiply gradients of this norm with so that it does not exceed `max_norm`, as PyTorch's
    /// `clip_grad_norm_` computes it.
    pub fn clip_factor(norm: f64, max_norm: f64) -> f64 {
        (max_norm / (norm + 1e-6)).min(1.0)
    }
}

/// The gradient norm of each layer, from the squares of its parameters' gradients, which are sums over `count` tokens.
pub(crate) fn norms_by_layer(parameters: &[Parameter], squares: &[f64], count: f64) -> BTreeMap<String, f64> {
    let mut layers: BTreeMap<String, f64> = BTreeMap::new();
    for (parameter, square) in parameters.iter().zip(squares) {
        match layers.get_mut(layer_of(&parameter.name)) {
            Some(sum) => *sum += square,
            None => drop(layers.insert(layer_of(&parameter.name).to_owned(), *square)),
        }
    }
    layers.values_mut().for_each(|sum| *sum = sum.sqrt() / count);
    layers
}
