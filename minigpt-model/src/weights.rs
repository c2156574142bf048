//! Tensors by name, on their way from a file or an initialisation into the layers.

use candle_core::{Result, Tensor, Var};
use std::collections::HashMap;

/// Tensors by GPT-2's names. Layers take what they need; taking does not copy.
#[derive(Debug, Clone)]
pub(crate) struct Weights(HashMap<String, Tensor>);

impl Weights {
    pub fn new(tensors: HashMap<String, Tensor>) -> Self {
        Self(tensors)
    }

    /// The same weights as variables, so that gradients reach them.
    pub fn into_variables(self) -> Result<Self> {
        let variable = |(name, tensor): (String, Tensor)| Ok((name, Var::from_tensor(&tensor)?.into_inner()));
        // One by one, dropping each plain tensor as its variable is there.
        Ok(Self(self.0.into_iter().map(variable).collect::<Result<_>>()?))
    }

    /// The tensor of this name, if this model has it.
    pub fn get(&self, name: &str) -> Option<Tensor> {
        self.0.get(name).cloned()
    }

    /// The tensor of this name, which every model of this shape has.
    pub fn need(&self, name: &str) -> Result<Tensor> {
        self.get(name).ok_or_else(|| candle_core::Error::msg(format!("the tensor {name} is missing")))
    }
}
