//! The MLP of a block. It sees each token alone: only attention moves information between tokens.

use crate::config::{Activation, Config};
use crate::hooks::{BlockSite, Site};
use crate::linear::Linear;
use crate::pass::Pass;
use crate::weights::Tensors;
use candle_core::{Result, Tensor};
use minigpt_kernels as ops;

/// The MLP of a block: `c_proj(activation(c_fc(x)))`, usually four times as wide inside as outside.
///
/// # Example
/// ```
/// use minigpt_model::{Activation, Device, Linear, Mlp, Pass, Tensor};
///
/// let c_fc = Linear::new(Tensor::new(&[[1f32, -1.0]], &Device::Cpu)?, None); // C = 1, I = 2
/// let c_proj = Linear::new(Tensor::new(&[[1f32], [3.0]], &Device::Cpu)?, None);
/// let mlp = Mlp::new(c_fc, Activation::Relu, c_proj);
/// let x = Tensor::new(&[[[2f32], [-2.0]]], &Device::Cpu)?; // (B, T, C)
/// let y = mlp.forward(&x, &Pass::new())?;
/// assert_eq!(y.to_vec3::<f32>()?, [[[2.0], [6.0]]]);
/// # Ok::<(), minigpt_model::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Mlp {
    c_fc: Linear,
    activation: Activation,
    c_proj: Linear,
    layer: usize,
}

impl Mlp {
    /// Creates an MLP from its two layers, C → I and I → C.
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

    /// Widens, activates and narrows each token's vector.
    ///
    /// # Shapes
    /// - `x`: (B, T, C); output: (B, T, C)
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let x = pass.at(Site::Block(self.layer, BlockSite::MlpPre), self.c_fc.forward(x)?)?; // (B, T, I)
        let x = ops::activation(&x, self.activation)?;
        let x = pass.at(Site::Block(self.layer, BlockSite::MlpPost), x)?;
        self.c_proj.forward(&x)
    }
}
