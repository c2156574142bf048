//! Builds models from random initial weights or from the weights of a file.

use crate::block::Block;
use crate::config::Config;
use crate::embedding::{Embedding, Rotations};
use crate::error::Result;
use crate::gpt::Gpt;
use crate::head::Head;
use crate::hooks::Site;
use crate::init::{Initialization, init};
use crate::linear::LayerNorm;
use crate::weights::{Tensors, Weight, Weights};
use candle_core::Device;

impl Gpt {
    /// Creates a model with GPT-2's random initial weights.
    pub fn new(config: Config, seed: u64, device: &Device) -> Result<Self> {
        Self::initialized(config, Initialization::Gpt2, seed, device)
    }

    /// Creates a model with random initial weights.
    pub fn initialized(config: Config, how: Initialization, seed: u64, device: &Device) -> Result<Self> {
        config.validate()?;
        let weights = init(&config, how, seed, device)?.into_iter();
        let weights = weights.map(|(name, tensor)| (name, Weight::Plain(tensor)));
        Self::from_weights(config, Weights::new(weights.collect()))
    }

    /// Builds the layers of a model of this configuration from its weights.
    pub(crate) fn from_weights(config: Config, weights: Weights) -> Result<Self> {
        let embedding = Embedding::load(&weights, &config)?;
        let rotations = Rotations::of(&config, embedding.table().dtype(), embedding.table().device())?;
        let blocks =
            (0..config.n_layer).map(|layer| Block::load(&weights, layer, &config, rotations.clone()));
        let blocks = blocks.collect::<candle_core::Result<_>>()?;
        let ln_f = load_ln_f(&weights, &config)?;
        let head = Head::load(&weights, config.tie_word_embeddings.then(|| embedding.table().clone()))?;
        Ok(Self { config, weights, embedding, blocks, ln_f, head, cache_dtype: None })
    }
}

/// The final norm, if the configuration has one.
pub(crate) fn load_ln_f(weights: &dyn Tensors, config: &Config) -> candle_core::Result<Option<LayerNorm>> {
    let load = || LayerNorm::load(weights, "ln_f", config.layer_norm_epsilon, Site::LnF);
    config.final_norm().then(load).transpose()
}
