//! A forward pass over a model that stays in its files: each layer is loaded, run and dropped. Conversions
//! are checked this way, without memory for the whole model.

use crate::block::Block;
use crate::config::Config;
use crate::embedding::{Embedding, Rotations};
use crate::error::Result;
use crate::gpt::hidden;
use crate::head::Head;
use crate::layer_source::LayerSource;
use crate::linear::LayerNorm;
use crate::loading::load_ln_f;
use crate::pass::Pass;
use crate::weights::{ModelView, Weight};
use candle_core::{Device, Tensor};
use std::borrow::Cow;
use std::cell::RefCell;

struct LayerByLayer<'a> {
    view: ModelView<'a>,
    /// The token table, kept from the embedding for a tied head.
    table: RefCell<Option<Weight>>,
}

impl LayerSource for LayerByLayer<'_> {
    fn config(&self) -> &Config {
        self.view.config
    }

    fn embedding(&self) -> Result<Cow<'_, Embedding>> {
        let embedding = Embedding::load(self.view.tensors, self.view.config)?;
        if self.view.config.tie_word_embeddings {
            self.table.replace(Some(embedding.table().clone()));
        }
        Ok(Cow::Owned(embedding))
    }

    fn block(&self, layer: usize) -> Result<Cow<'_, Block>> {
        let (tensors, config) = (self.view.tensors, self.view.config);
        let ln_1 = tensors.need_plain(&format!("h.{layer}.ln_1.weight"))?;
        let rotations = Rotations::of(config, ln_1.dtype(), ln_1.device())?;
        Ok(Cow::Owned(Block::load(tensors, layer, config, rotations)?))
    }

    fn ln_f(&self) -> Result<Option<Cow<'_, LayerNorm>>> {
        Ok(load_ln_f(self.view.tensors, self.view.config)?.map(Cow::Owned))
    }

    fn head(&self) -> Result<Cow<'_, Head>> {
        Ok(Cow::Owned(Head::load(self.view.tensors, self.table.take())?))
    }
}

impl ModelView<'_> {
    /// Computes the logits of every position of one text, with one layer in memory at a time.
    ///
    /// # Shapes
    /// - output: (T, V)
    pub fn logits(&self, ids: &[u32]) -> Result<Tensor> {
        let layers = LayerByLayer { view: *self, table: RefCell::default() };
        let (ids, pass) = (Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?, Pass::new());
        let hidden = hidden(&layers, &ids, &pass)?; // (1, T, C)
        Ok(layers.head()?.forward(&hidden.squeeze(0)?, &pass)?)
    }
}
