//! A pass over a model that is read as it goes: a layer is in memory only while it is needed. This is how a conversion
//! is tested without room for two models, or for one.

use crate::block::{Block, Context};
use crate::embedding::Embedding;
use crate::error::Result;
use crate::gpt::Head;
use crate::linear::Norm;
use crate::weights::Source;
use candle_core::{Device, Tensor};
use minigpt_kernels::AttentionMask;

impl Source<'_> {
    /// Logits of every position of one text.
    ///
    /// # Shapes
    /// - output: (T, V)
    pub fn logits(&self, ids: &[u32]) -> Result<Tensor> {
        let Self { config, tensors, .. } = *self;
        let t = ids.len();
        assert!(t <= config.block_size, "more tokens than the context has");
        let mut context = Context {
            first: vec![0],
            lengths: vec![t],
            visible: AttentionMask::causal(&[0]),
            cache: None,
            trace: None,
            key: None,
            last_only: None,
        };
        let embedding = Embedding::take(tensors, config)?;
        let ids = Tensor::new(ids, &Device::Cpu)?.reshape((1, t))?;
        let mut x = embedding.forward(&ids, &context.first)?; // (1, T, C)
        // The token table is needed again at the end only, and only if it is the head too.
        let embedding = config.tie_word_embeddings.then_some(embedding);
        for layer in 0..config.n_layer {
            x = Block::take(tensors, &format!("h.{layer}"), config)?.forward(&x, layer, &mut context)?;
        }
        if config.final_norm() {
            x = Norm::take(tensors, "ln_f", config.layer_norm_epsilon)?.forward(&x)?;
        }
        let head = Head::take(tensors, embedding.as_ref())?;
        Ok(head.forward(&x.squeeze(0)?)?)
    }
}
