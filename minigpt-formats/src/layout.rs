//! Weight layouts: GPT-2's files have the weights of linear layers (in, out); nanoGPT (torch's `nn.Linear`) and llama.cpp
//! have them (out, in).

use crate::tensor_view::TensorView;
use minigpt_model::Config;
use minigpt_model::parameters::specs;
use std::collections::HashSet;

/// The names of a model's linear weights.
pub(crate) struct LinearWeights(HashSet<String>);

impl LinearWeights {
    /// Those of a valid configuration.
    pub fn of(config: &Config) -> Self {
        let linear = specs(config).into_iter().filter(|spec| spec.is_linear_weight());
        Self(linear.map(|spec| spec.name).collect())
    }

    /// A tensor out of a file that has linear weights (out, in), in GPT-2's layout.
    pub fn in_gpt2_layout<'a>(&self, name: &str, tensor: TensorView<'a>) -> TensorView<'a> {
        if tensor.shape.len() == 2 && self.0.contains(name) { tensor.transposed() } else { tensor }
    }
}
