//! The same model in another form: with weights that can be trained, quantised, with other dropout, as a list of
//! parameters, or as a view for whoever writes it into a file.

use crate::config::Config;
use crate::error::Result;
use crate::gpt::Gpt;
use crate::parameters::{ParameterRole, specs};
use crate::weights::{ModelView, Tensors, Weight, Weights};
use candle_core::Tensor;
use minigpt_kernels::ElementType;
use std::collections::HashMap;

/// A parameter of a model.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// GPT-2's name.
    pub name: String,
    /// What it is for.
    pub role: ParameterRole,
    /// Its values, a variable if the model is trainable.
    pub tensor: Tensor,
    /// Whether a loss may do without it. No parameter of this model is unused; one of somebody else's may be.
    pub unused: bool,
}

impl Gpt {
    /// A model from tensors by GPT-2's names, which must be those of `config`.
    pub fn from_tensors(config: Config, tensors: HashMap<String, Weight>) -> Result<Self> {
        Self::from_weights(config, Weights::new(tensors))
    }

    /// The same model with its weights as variables: gradients reach them, and an optimiser can change them.
    pub fn into_trainable(self) -> Result<Self> {
        Self::from_weights(self.config, self.weights.into_variables()?)
    }

    /// The same model with its matrices in fewer bits, to run it.
    pub fn quantized(self, element_type: ElementType) -> Result<Self> {
        let weights = self.weights.quantized(&specs(&self.config), element_type)?;
        Self::from_weights(self.config, weights)
    }

    /// The same model with the dropout of another configuration: how one trains, not what a model is.
    pub fn with_dropout(self, like: &Config) -> Result<Self> {
        let Config { embd_pdrop, attn_pdrop, resid_pdrop, .. } = *like;
        let config = Config { embd_pdrop, attn_pdrop, resid_pdrop, ..self.config };
        Self::from_weights(config, self.weights)
    }

    /// All parameters that are not quantised, in the order of the forward pass: every one, unless the model came from a
    /// quantised file. Those that are still in their file are copied.
    pub fn parameters(&self) -> Vec<Parameter> {
        let weight = |name: &str| match self.weights.weight(name) {
            Ok(Some(Weight::Quantized(_)) | None) | Err(_) => None,
            Ok(Some(weight)) => weight.plain().ok(),
        };
        let specs = specs(&self.config).into_iter();
        let parameter = specs.filter_map(|spec| {
            let tensor = weight(&spec.name)?;
            Some(Parameter { name: spec.name, role: spec.role, tensor, unused: false })
        });
        parameter.collect()
    }

    /// A view of the model for writers.
    pub fn view(&self) -> ModelView<'_> {
        ModelView { config: &self.config, tensors: &self.weights }
    }
}
