//! The MLP of a block: widen, activate, narrow. It sees one token at a time.

use crate::config::{Activation, Config};
use crate::hooks::{BlockSite, Site};
use crate::linear::Linear;
use crate::pass::Pass;
use crate::weights::Tensors;
use candle_core::{Result, Tensor};
use minigpt_kernels as ops;

/// The MLP of a block: `c_proj(activation(c_fc(x)))`.
#[derive(Debug, Clone)]
pub struct Mlp {
    c_fc: Linear,
    activation: Activation,
    c_proj: Linear,
    layer: usize,
}

impl Mlp {
    /// An MLP from its two layers, C → I and I → C.
    pub fn new(c_fc: Linear, activation: Activation, c_proj: Linear) -> Self {
        Self { c_fc, activation, c_proj, layer: 0 }
    }

    pub(crate) fn load(weights: &dyn Tensors, layer: usize, config: &Config) -> Result<Self> {
        Ok(Self {
            c_fc: Linear::load(weights, &format!("h.{layer}.mlp.c_fc"))?,
            activation: config.activation_function,
            c_proj: Linear::load(weights, &format!("h.{layer}.mlp.c_proj"))?,
            layer,
        })
    }

    /// # Shapes
    /// - `x`: (B, T, C); output: the same
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let x = pass.at(Site::Block(self.layer, BlockSite::MlpPre), self.c_fc.forward(x)?)?; // (B, T, I)
        let x = ops::activation(&x, self.activation)?;
        let x = pass.at(Site::Block(self.layer, BlockSite::MlpPost), x)?;
        self.c_proj.forward(&x)
    }
}
