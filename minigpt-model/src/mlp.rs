//! The MLP of a block: widen, bend, narrow. Each token by itself.

use crate::config::{Activation, Config};
use crate::linear::Linear;
use crate::weights::Tensors;
use candle_core::{Result, Tensor};
use minigpt_kernels as ops;

#[derive(Debug, Clone)]
pub(crate) struct Mlp {
    c_fc: Linear,
    activation: Activation,
    c_proj: Linear,
}

impl Mlp {
    pub fn take(weights: &dyn Tensors, name: &str, config: &Config) -> Result<Self> {
        Ok(Self {
            c_fc: Linear::take(weights, &format!("{name}.c_fc"))?,
            activation: config.activation_function,
            c_proj: Linear::take(weights, &format!("{name}.c_proj"))?,
        })
    }

    /// # Shapes
    /// - `x`: (B, T, C); output: the same
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.c_fc.forward(x)?; // (B, T, inner)
        let x = ops::activation(&x, self.activation)?;
        self.c_proj.forward(&x)
    }
}
