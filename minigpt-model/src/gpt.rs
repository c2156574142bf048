//! The whole decoder: embed the tokens, run the blocks, predict the next token.
//!
//! In shapes, B is the batch size, T the tokens per row, C the width (`n_embd`), H the heads, D the width of
//! a head and V the vocabulary size.

use crate::block::Block;
use crate::cache::Cache;
use crate::config::Config;
use crate::embedding::Embedding;
use crate::error::Result;
use crate::head::Head;
use crate::ids::check_ids;
use crate::layer_source::LayerSource;
use crate::linear::LayerNorm;
use crate::loss::Loss;
use crate::pass::Pass;
use crate::weights::Weights;
use candle_core::{DType, Device, Tensor};
use minigpt_kernels::{self as ops, IGNORE};

/// A GPT-2-style decoder. Cloning is cheap: the weights are shared.
#[derive(Debug, Clone)]
pub struct Gpt {
    pub(crate) config: Config,
    pub(crate) weights: Weights,
    pub(crate) embedding: Embedding,
    pub(crate) blocks: Vec<Block>,
    pub(crate) ln_f: Option<LayerNorm>,
    pub(crate) head: Head,
    /// The element type of keys and values in a cache. Default: that of the activations.
    pub(crate) cache_dtype: Option<DType>,
}

/// Runs the decoder from ids to the output of the last block and the final norm.
///
/// # Shapes
/// - `ids`: (B, T), u32; output: (B, T, C), or (selected, 1, C) if the pass selects some of its tokens
pub(crate) fn hidden(layers: &impl LayerSource, ids: &Tensor, pass: &Pass) -> Result<Tensor> {
    let config = layers.config();
    check_ids(ids, config)?;
    pass.check(ids.dims2()?, config.block_size)?;
    let mut x = layers.embedding()?.forward(ids, pass)?; // (B, T, C)
    for layer in 0..config.n_layer {
        x = layers.block(layer)?.forward(&x, pass)?;
    }
    match layers.ln_f()? {
        Some(ln_f) => Ok(ln_f.forward(&x, pass)?),
        None => Ok(x),
    }
}

impl Gpt {
    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The device of the weights.
    pub fn device(&self) -> &Device {
        self.head.device()
    }

    /// The element type of the activations.
    pub fn dtype(&self) -> DType {
        self.head.dtype()
    }

    /// The element type of keys and values in a cache.
    pub fn cache_dtype(&self) -> DType {
        self.cache_dtype.unwrap_or(self.dtype())
    }

    /// The blocks, from the first to the last.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Reads the weights that are still mapped from a file into memory. Later changes to the file no longer
    /// matter.
    pub fn read_into_memory(&self) {
        self.weights.read_into_memory();
    }

    /// Creates an empty cache for `batch` rows of up to `block_size` tokens.
    pub fn cache(&self, batch: usize) -> Result<Cache> {
        Cache::new(&self.config, batch, self.config.block_size, self.cache_dtype(), self.device())
    }

    /// Computes the logits of every position.
    ///
    /// # Shapes
    /// - `ids`: (B, T), u32; output: (B, T, V)
    pub fn logits(&self, ids: &Tensor) -> Result<Tensor> {
        self.forward(ids, &Pass::new())
    }

    /// Computes the logits of every position in a pass that may have dropout, a padding mask or hooks.
    ///
    /// # Shapes
    /// - `ids`: (B, T), u32; output: (B, T, V)
    pub fn forward(&self, ids: &Tensor, pass: &Pass) -> Result<Tensor> {
        Ok(self.head.forward(&hidden(self, ids, pass)?, pass)?)
    }

    /// Applies the final norm, if the model has one, and the head to a residual stream taken at any layer.
    ///
    /// # Shapes
    /// - `residual`: (…, C); output: (…, V)
    pub fn unembed(&self, residual: &Tensor) -> Result<Tensor> {
        let pass = Pass::new();
        match &self.ln_f {
            Some(ln_f) => Ok(self.head.forward(&ln_f.forward(residual, &pass)?, &pass)?),
            None => Ok(self.head.forward(residual, &pass)?),
        }
    }

    /// Computes the loss of predicting `targets`, which are ids or [`IGNORE`].
    ///
    /// # Shapes
    /// - `ids`, `targets`: (B, T), u32
    pub fn loss(&self, ids: &Tensor, targets: &Tensor, pass: &Pass) -> Result<Loss> {
        let hidden = hidden(self, ids, pass)?;
        let mut hidden = ops::reshape(&hidden, (ids.elem_count(), self.config.n_embd))?; // (B·T, C)
        let mut targets = targets.flatten_all()?;
        let all = targets.to_vec1::<u32>()?;
        let counted: Vec<u32> = (0..).zip(&all).filter(|&(_, &id)| id != IGNORE).map(|(at, _)| at).collect();
        let tokens = counted.len();
        // The head is a large product: skip the tokens without a target (padding, questions) if they are
        // many.
        if 0 < tokens && 4 * tokens < 3 * all.len() {
            let counted = Tensor::from_vec(counted, tokens, self.device())?;
            hidden = ops::embedding(&hidden, &counted)?;
            targets = targets.index_select(&counted, 0)?;
        }
        Ok(Loss { sum: self.head.loss(&hidden, &targets, pass)?, tokens })
    }

    /// Continues rows of a cache, all in one pass, and returns the logits that the chunks ask for, in the
    /// order of the chunks.
    ///
    /// On a CPU, a row's logits are the same to the bit whatever other rows there are, and however its tokens
    /// are cut into chunks.
    ///
    /// # Shapes
    /// - output: (logits asked for, V)
    pub fn step(&self, chunks: &[TokenChunk], cache: &mut Cache) -> Result<Tensor> {
        let hidden = self.hidden_step(chunks, cache)?;
        if chunks.iter().all(|chunk| chunk.logits == 0) {
            return Ok(Tensor::zeros((0, self.config.vocab_size), self.dtype(), self.device())?);
        }
        Ok(rayon::scope(|_| self.head.forward(&hidden, &Pass::new()))?)
    }

    /// Like [`step`](Self::step), but without the head: returns the output of the final norm for the tokens
    /// whose logits are asked for, or for the last token if no chunk asks for any.
    ///
    /// # Shapes
    /// - output: (tokens, C)
    pub fn hidden_step(&self, chunks: &[TokenChunk], cache: &mut Cache) -> Result<Tensor> {
        let (runs, selected) = cache.runs(chunks)?;
        let ids: Vec<[u32; 1]> = chunks.iter().flat_map(|chunk| chunk.ids.iter().map(|&id| [id])).collect();
        let ids = self.ids(&ids)?; // (N, 1): each token is a batch row of its own, with its own position
        // Inside the thread pool, so that products don't have to enter it one by one.
        let pass = || hidden(self, &ids, &Pass::new().with_cache(cache, runs.clone(), selected));
        let hidden = rayon::scope(|_| pass())?; // (selected, 1, C)
        cache.advance(&runs);
        Ok(hidden.squeeze(1)?)
    }
}

/// Tokens that continue a row of a cache.
#[derive(Debug, Clone)]
pub struct TokenChunk<'a> {
    /// The row.
    pub row: usize,
    /// The tokens.
    pub ids: &'a [u32],
    /// The number of tokens, counted from the last, whose logits are computed.
    pub logits: usize,
}
