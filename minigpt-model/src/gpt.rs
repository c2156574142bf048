//! The whole decoder: embed the tokens, run the blocks, predict the next token.
//!
//! B is the batch, T the tokens of a row, C the width (`n_embd`), H the heads, D the width of a head, V the vocabulary.

use crate::block::Block;
use crate::cache::Cache;
use crate::config::Config;
use crate::embedding::Embedding;
use crate::error::{IdsError, Result};
use crate::head::Head;
use crate::layer_source::LayerSource;
use crate::linear::LayerNorm;
use crate::loss::Loss;
use crate::pass::Pass;
use crate::weights::Weights;
use candle_core::{CpuStorage, DType, Device, Storage, Tensor};
use minigpt_kernels::{self as ops, IGNORE, TokenRun};

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

    /// Loads weights that would otherwise be read from their file in the first passes. Nothing that happens to the file afterwards changes
    /// the model.
    pub fn read_into_memory(&self) {
        self.weights.read_into_memory();
    }

    /// An empty cache for `batch` rows of the whole context.
    pub fn cache(&self, batch: usize) -> Result<Cache> {
        Cache::new(&self.config, batch, self.config.block_size, self.cache_dtype(), self.device())
    }

    /// Rows of ids, all of one length, as a tensor (B, T) on the model's device.
    pub fn ids(&self, rows: &[impl AsRef<[u32]>]) -> Result<Tensor> {
        let t = rows.first().map_or(0, |row| row.as_ref().len());
        if let Some(row) = rows.iter().position(|row| row.as_ref().len() != t) {
            return Err(IdsError::Ragged { row, ids: rows[row].as_ref().len(), first: t }.into());
        }
        let data: Vec<u32> = rows.iter().flat_map(|row| row.as_ref().iter().copied()).collect();
        Ok(Tensor::from_vec(data, (rows.len(), t), self.device())?)
    }

    /// Logits of every position.
    ///
    /// # Shapes
    /// - `ids`: (B, T), u32; output: (B, T, V)
    pub fn logits(&self, ids: &Tensor) -> Result<Tensor> {
        self.forward(ids, &Pass::new())
    }

    /// Logits of every position, in a pass that may have dropout, a padding mask or hooks.
    ///
    /// # Shapes
    /// - `ids`: (B, T), u32; output: (B, T, V)
    pub fn forward(&self, ids: &Tensor, pass: &Pass) -> Result<Tensor> {
        Ok(self.head.forward(&hidden(self, ids, pass)?, pass)?)
    }

    /// Applies the final norm, if the model has one, and the head to a residual stream, wherever it was taken from.
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

    /// The loss of predicting `targets`, which are ids or [`IGNORE`].
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
        // If much is padding or question, only the rest goes through the head.
        if 0 < tokens && 4 * tokens < 3 * all.len() {
            let counted = Tensor::from_vec(counted, tokens, self.device())?;
            hidden = ops::embedding(&hidden, &counted)?;
            targets = targets.index_select(&counted, 0)?;
        }
        Ok(Loss { sum: self.head.loss(&hidden, &targets, pass)?, tokens })
    }

    /// Continues several rows of a cache in one pass, so that the weights are read once, and returns the logits that the chunks ask for, one
    /// after the other. A row's logits depend neither on the other rows nor on how its tokens are cut into chunks: on a CPU they are the
    /// same to the bit.
    ///
    /// # Shapes
    /// - output: (logits asked for, V)
    pub fn step(&self, chunks: &[TokenChunk], cache: &mut Cache) -> Result<Tensor> {
        let hidden = self.hidden_step(chunks, cache)?;
        if chunks.iter().all(|chunk| chunk.logits == 0) {
            return Ok(Tensor::zeros((0, self.config.vocab_size), self.dtype(), self.device())?);
        }
        Ok(rayon::scope(|_| ops::in_one_order(|| self.head.forward(&hidden, &Pass::new())))?)
    }

    /// Like [`step`](Self::step), but returns what the final norm gives for the tokens whose logits are asked for, or for the very last
    /// token if none are.
    ///
    /// # Shapes
    /// - output: (tokens, C)
    pub fn hidden_step(&self, chunks: &[TokenChunk], cache: &mut Cache) -> Result<Tensor> {
        let runs = cache.runs(chunks.iter().map(|chunk| (chunk.row, chunk.ids.len())))?;
        let last = |run: &TokenRun, count: usize| {
            assert!(count <= run.tokens.len(), "logits of tokens that are there");
            let skipped = run.tokens.len() - count;
            let tokens = run.tokens.start + skipped..run.tokens.end;
            TokenRun { start: run.start + skipped, tokens, ..run.clone() }
        };
        let with_logits = runs.iter().zip(chunks).filter(|(_, chunk)| chunk.logits > 0);
        let mut selected: Vec<TokenRun> = with_logits.map(|(run, chunk)| last(run, chunk.logits)).collect();
        if selected.is_empty() {
            selected.extend(runs.iter().rfind(|run| !run.tokens.is_empty()).map(|run| last(run, 1)));
        }
        let ids: Vec<[u32; 1]> = chunks.iter().flat_map(|chunk| chunk.ids.iter().map(|&id| [id])).collect();
        let ids = self.ids(&ids)?; // (N, 1): each token is a row of its own, with its position
        // Inside the thread pool, so that products don't have to enter it one by one.
        let pass = || hidden(self, &ids, &Pass::new().with_cache(cache, runs.clone(), selected));
        let hidden = rayon::scope(|_| ops::in_one_order(pass))?; // (selected, 1, C)
        cache.advance(&runs);
        Ok(hidden.squeeze(1)?)
    }
}

/// Tokens that continue one row of a cache.
#[derive(Debug, Clone)]
pub struct TokenChunk<'a> {
    /// The row.
    pub row: usize,
    /// The tokens.
    pub ids: &'a [u32],
    /// For how many of them, counted from the last, the logits of the next token are computed.
    pub logits: usize,
}

/// Returns an error that names an id outside of the vocabulary.
fn check_ids(ids: &Tensor, config: &Config) -> Result<()> {
    let (rows, t) = ids.dims2()?;
    if rows * t == 0 {
        return Err(IdsError::Empty.into());
    }
    let vocab_size = config.vocab_size;
    let is_outside = |&id: &u32| id as usize >= vocab_size;
    let (storage, layout) = ids.storage_and_layout();
    let outside = match (&*storage, layout.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::U32(all)), Some((start, end))) => {
            let all = &all[start..end];
            all.iter().position(is_outside).map(|at| (at, all[at]))
        }
        _ => {
            let all = ids.flatten_all()?.to_vec1::<u32>()?;
            all.iter().position(is_outside).map(|at| (at, all[at]))
        }
    };
    let Some((at, id)) = outside else { return Ok(()) };
    let (row, position) = (at / t, at % t);
    let row = (rows > 1).then_some(row);
    Err(IdsError::OutsideVocabulary { id, position, row, vocab_size }.into())
}
