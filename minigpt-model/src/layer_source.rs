//! Where a forward pass gets its layers: a loaded model, or files from which layers are loaded one at a time.

use crate::block::Block;
use crate::config::Config;
use crate::embedding::Embedding;
use crate::error::Result;
use crate::gpt::Gpt;
use crate::head::Head;
use crate::linear::LayerNorm;
use std::borrow::Cow;

/// The layers of a model, borrowed from memory or loaded one at a time.
pub(crate) trait LayerSource {
    fn config(&self) -> &Config;
    fn embedding(&self) -> Result<Cow<'_, Embedding>>;
    fn block(&self, layer: usize) -> Result<Cow<'_, Block>>;
    fn ln_f(&self) -> Result<Option<Cow<'_, LayerNorm>>>;
    fn head(&self) -> Result<Cow<'_, Head>>;
}

impl LayerSource for Gpt {
    fn config(&self) -> &Config {
        &self.config
    }

    fn embedding(&self) -> Result<Cow<'_, Embedding>> {
        Ok(Cow::Borrowed(&self.embedding))
    }

    fn block(&self, layer: usize) -> Result<Cow<'_, Block>> {
        Ok(Cow::Borrowed(&self.blocks[layer]))
    }

    fn ln_f(&self) -> Result<Option<Cow<'_, LayerNorm>>> {
        Ok(self.ln_f.as_ref().map(Cow::Borrowed))
    }

    fn head(&self) -> Result<Cow<'_, Head>> {
        Ok(Cow::Borrowed(&self.head))
    }
}
