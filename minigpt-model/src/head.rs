//! The output head: a product with the token table (tied) or with a matrix of its own.

use crate::hooks::Site;
use crate::pass::Pass;
use crate::weights::{Tensors, Weight};
use candle_core::{DType, Device, Result, Tensor};
use minigpt_kernels::{self as ops, WeightLayout};

#[derive(Debug, Clone)]
pub(crate) struct Head {
    weight: Weight,
    bias: Option<Tensor>,
}

impl Head {
    /// A head tied to the token table, or with a matrix of its own.
    pub fn load(weights: &dyn Tensors, tied: Option<Weight>) -> Result<Self> {
        let weight = match tied {
            Some(table) => table,
            None => weights.need("lm_head.weight")?,
        };
        Ok(Self { weight, bias: weights.plain("lm_head.bias")? })
    }

    pub fn device(&self) -> &Device {
        self.weight.device()
    }

    pub fn dtype(&self) -> DType {
        self.weight.dtype()
    }

    /// Computes logits.
    ///
    /// # Shapes
    /// - `hidden`: (…, C); output: (…, V)
    pub fn forward(&self, hidden: &Tensor, pass: &Pass) -> Result<Tensor> {
        pass.at(Site::Logits, self.weight.linear(hidden, WeightLayout::OutIn, self.bias.as_ref())?)
    }

    /// Computes the sum of −log p(target). The logits are never in memory as a whole, unless a hook wants
    /// them.
    ///
    /// # Shapes
    /// - `hidden`: (N, C); `targets`: (N), u32
    pub fn loss(&self, hidden: &Tensor, targets: &Tensor, pass: &Pass) -> Result<Tensor> {
        match &self.weight {
            Weight::Plain(weight) if !pass.wants(Site::Logits) => {
                ops::linear_cross_entropy(hidden, weight, WeightLayout::OutIn, self.bias.as_ref(), targets)
            }
            _ => ops::cross_entropy(&self.forward(hidden, pass)?, targets),
        }
    }
}
