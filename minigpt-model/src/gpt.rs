//! The whole decoder: embed the tokens, run the blocks, read off what comes next.
//!
//! B is the batch, T the tokens of a row, C the width (`n_embd`), H the heads, D the width of a head, V the vocabulary.

use crate::block::Block;
use crate::cache::Cache;
use crate::config::Config;
use crate::embedding::{Embedding, Rotations};
use crate::error::{Error, Result};
use crate::hooks::Site;
use crate::init::{Initialization, init};
use crate::linear::Norm;
use crate::pass::Pass;
use crate::weights::{Tensors, Weight, Weights};
use candle_core::{DType, Device, Tensor};
use minigpt_kernels::{self as ops, IGNORE, TokenRun, WeightLayout};
use std::borrow::Cow;

/// A GPT-2-style decoder. Cloning is cheap: the weights are shared.
#[derive(Debug, Clone)]
pub struct Gpt {
    pub(crate) config: Config,
    pub(crate) weights: Weights,
    embedding: Embedding,
    blocks: Vec<Block>,
    ln_f: Option<Norm>,
    head: Head,
    /// What keys and values are kept in, if it is not the type of the activations.
    pub(crate) cache_dtype: Option<DType>,
}

/// The output head: a product with the transposed token table, or with a matrix of its own.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    weight: Weight,
    bias: Option<Tensor>,
}

/// Where a pass finds its layers: a model in memory lends them, files make each when its turn comes.
pub(crate) trait Layers {
    fn config(&self) -> &Config;
    fn embedding(&self) -> Result<Cow<'_, Embedding>>;
    fn block(&self, layer: usize) -> Result<Cow<'_, Block>>;
    fn ln_f(&self) -> Result<Option<Cow<'_, Norm>>>;
    fn head(&self) -> Result<Cow<'_, Head>>;
}

/// The decoder from ids to what the last block (and the final norm) leaves in the residual stream.
///
/// # Shapes
/// - `ids`: (B, T), u32; output: (B, T, C), or (kept, 1, C) where a pass keeps some of its tokens
pub(crate) fn hidden(layers: &impl Layers, ids: &Tensor, pass: &Pass) -> Result<Tensor> {
    let config = layers.config();
    check_ids(ids, config)?;
    pass.check(ids.dims2()?, config.block_size)?;
    let mut x = layers.embedding()?.forward(ids, pass)?; // (B, T, C)
    for layer in 0..config.n_layer {
        let block = layers.block(layer)?;
        x = match layer + 1 == config.n_layer && pass.keeps_some() {
            true => block.forward_kept(&x, pass)?,
            false => block.forward(&x, pass)?,
        };
    }
    match layers.ln_f()? {
        Some(ln_f) => Ok(ln_f.forward(&x, pass)?),
        None => Ok(x),
    }
}

/// Tokens that go through the model behind those that a row of a cache holds.
#[derive(Debug, Clone)]
pub struct TokenChunk<'a> {
    /// The row.
    pub row: usize,
    /// The tokens.
    pub ids: &'a [u32],
    /// How many of them, from the last one back, are to have logits of what comes next.
    pub logits: usize,
}

impl Head {
    /// The head that the token table makes, or one of its own.
    pub fn load(weights: &dyn Tensors, tied: Option<Weight>) -> candle_core::Result<Self> {
        let weight = match tied {
            Some(table) => table,
            None => weights.need("lm_head.weight")?,
        };
        Ok(Self { weight, bias: weights.plain("lm_head.bias")? })
    }

    /// # Shapes
    /// - `hidden`: (…, C); output: (…, V)
    pub fn forward(&self, hidden: &Tensor, pass: &Pass) -> candle_core::Result<Tensor> {
        pass.at(Site::Logits, self.weight.linear(hidden, WeightLayout::OutIn, self.bias.as_ref())?)
    }

    /// The sum of −log p(target). Where nobody looks at the logits, they never stand in memory whole.
    ///
    /// # Shapes
    /// - `hidden`: (N, C); `targets`: (N), u32
    pub fn loss(&self, hidden: &Tensor, targets: &Tensor, pass: &Pass) -> candle_core::Result<Tensor> {
        match &self.weight {
            Weight::Plain(weight) if !pass.wants(Site::Logits) => {
                ops::linear_cross_entropy(hidden, weight, WeightLayout::OutIn, self.bias.as_ref(), targets)
            }
            _ => ops::cross_entropy(&self.forward(hidden, pass)?, targets),
        }
    }
}

impl Layers for Gpt {
    fn config(&self) -> &Config {
        &self.config
    }

    fn embedding(&self) -> Result<Cow<'_, Embedding>> {
        Ok(Cow::Borrowed(&self.embedding))
    }

    fn block(&self, layer: usize) -> Result<Cow<'_, Block>> {
        Ok(Cow::Borrowed(&self.blocks[layer]))
    }

    fn ln_f(&self) -> Result<Option<Cow<'_, Norm>>> {
        Ok(self.ln_f.as_ref().map(Cow::Borrowed))
    }

    fn head(&self) -> Result<Cow<'_, Head>> {
        Ok(Cow::Borrowed(&self.head))
    }
}

impl Gpt {
    /// A new model with weights drawn from a seed, as GPT-2's were.
    pub fn new(config: Config, seed: u64, device: &Device) -> Result<Self> {
        Self::initialized(config, Initialization::Gpt2, seed, device)
    }

    /// A new model with weights drawn from a seed in one of several ways.
    pub fn initialized(config: Config, how: Initialization, seed: u64, device: &Device) -> Result<Self> {
        config.validate()?;
        let weights = init(&config, how, seed, device)?.into_iter();
        let weights = weights.map(|(name, tensor)| (name, Weight::Plain(tensor)));
        Self::from_weights(config, Weights::new(weights.collect()))
    }

    /// The model that these weights make, which must be those of `config`.
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

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where it lives.
    pub fn device(&self) -> &Device {
        self.head.weight.device()
    }

    /// The type of its activations.
    pub fn dtype(&self) -> DType {
        self.head.weight.dtype()
    }

    /// The type that a cache keeps keys and values in.
    pub fn cache_dtype(&self) -> DType {
        self.cache_dtype.unwrap_or(self.dtype())
    }

    /// Copies what would otherwise be read from its files in the first passes. A model that waits for work does this, so
    /// that nobody can change or cut it meanwhile.
    pub fn read_into_memory(&self) {
        self.weights.read_into_memory();
    }

    /// An empty cache for `batch` rows of the whole context.
    pub fn cache(&self, batch: usize) -> Result<Cache> {
        Cache::new(&self.config, batch, self.config.block_size, self.cache_dtype(), self.device())
    }

    /// Rows of ids, all of one length, as a tensor (B, T) for this model.
    pub fn ids(&self, rows: &[impl AsRef<[u32]>]) -> Result<Tensor> {
        let t = rows.first().map_or(0, |row| row.as_ref().len());
        if let Some(row) = rows.iter().position(|row| row.as_ref().len() != t) {
            let message = format!("row {row} has {} ids, row 0 has {t}", rows[row].as_ref().len());
            return Err(Error::Ids(message));
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

    /// Logits of every position, in a pass that may drop, hide, see or change something on the way.
    ///
    /// # Shapes
    /// - `ids`: (B, T), u32; output: (B, T, V)
    pub fn forward(&self, ids: &Tensor, pass: &Pass) -> Result<Tensor> {
        Ok(self.head.forward(&hidden(self, ids, pass)?, pass)?)
    }

    /// What the residual stream says about the next token, wherever it was taken: the final norm, where the model has one,
    /// and the head.
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
        // Where much is padding or question, only the rest goes through the head.
        if 0 < tokens && 4 * tokens < 3 * all.len() {
            let counted = Tensor::from_vec(counted, tokens, self.device())?;
            hidden = ops::embedding(&hidden, &counted)?;
            targets = targets.index_select(&counted, 0)?;
        }
        Ok(Loss { sum: self.head.loss(&hidden, &targets, pass)?, tokens })
    }

    /// Runs tokens of several rows behind those in a cache, all in one pass: the weights are read once. Returns the logits
    /// that the chunks ask for, one behind the other. A row's logits do not depend on the others beside it, nor on how its
    /// tokens are cut into chunks: on a CPU they are the same to the bit.
    ///
    /// # Shapes
    /// - output: (logits asked for, V)
    pub fn step(&self, chunks: &[TokenChunk], cache: &mut Cache) -> Result<Tensor> {
        let wanted: usize = chunks.iter().map(|chunk| chunk.logits).sum();
        let hidden = self.hidden_of_chunks(chunks, cache)?;
        match wanted {
            0 => Ok(Tensor::zeros((0, self.config.vocab_size), self.dtype(), self.device())?),
            _ => {
                let hidden = hidden.squeeze(1)?;
                Ok(rayon::scope(|_| ops::in_one_order(|| self.head.forward(&hidden, &Pass::new())))?)
            }
        }
    }

    /// What the last block leaves of the tokens whose logits are asked for, or of the very last token if none are.
    ///
    /// # Shapes
    /// - output: (kept, 1, C)
    fn hidden_of_chunks(&self, chunks: &[TokenChunk], cache: &mut Cache) -> Result<Tensor> {
        let runs = cache.runs(chunks.iter().map(|chunk| (chunk.row, chunk.ids.len())))?;
        let last = |run: &TokenRun, count: usize| {
            assert!(count <= run.tokens.len(), "logits of tokens that are there");
            let skipped = run.tokens.len() - count;
            let tokens = run.tokens.start + skipped..run.tokens.end;
            TokenRun { start: run.start + skipped, tokens, ..run.clone() }
        };
        let mut kept: Vec<TokenRun> = runs
            .iter()
            .zip(chunks)
            .filter(|(_, chunk)| chunk.logits > 0)
            .map(|(run, chunk)| last(run, chunk.logits))
            .collect();
        if kept.is_empty() {
            kept.extend(runs.iter().rfind(|run| !run.tokens.is_empty()).map(|run| last(run, 1)));
        }
        let ids: Vec<[u32; 1]> = chunks.iter().flat_map(|chunk| chunk.ids.iter().map(|&id| [id])).collect();
        let ids = self.ids(&ids)?; // (N, 1)
        // On a thread of the pool, which then has to wake only the others, and not once for every product.
        let pass = || hidden(self, &ids, &Pass::new().with_cache(cache, runs.clone(), kept));
        let hidden = rayon::scope(|_| ops::in_one_order(pass))?;
        cache.advance(&runs);
        Ok(hidden)
    }

    /// Runs further tokens behind those in a cache, and returns what the last block leaves of them. Of row `b` only the
    /// first `lengths[b]` tokens are real; what the output holds beyond them means nothing.
    ///
    /// # Shapes
    /// - `ids`: (B, T), u32; output: (B, T, C)
    pub fn hidden_cached(&self, ids: &Tensor, lengths: &[usize], cache: &mut Cache) -> Result<Tensor> {
        let (b, t) = ids.dims2()?;
        assert!(lengths.len() == b && lengths.iter().all(|&n| n <= t), "lengths beyond the ids");
        let ids = ids.to_vec2::<u32>()?;
        let rows = ids.iter().zip(lengths).enumerate().filter(|(_, (_, length))| **length > 0);
        let chunks: Vec<TokenChunk> = rows
            .map(|(row, (ids, &length))| TokenChunk { row, ids: &ids[..length], logits: length })
            .collect();
        let hidden = self.hidden_of_chunks(&chunks, cache)?.squeeze(1)?; // (real tokens, C)
        let mut next = 0;
        let mut padded = |(&length, _): (&usize, _)| {
            let real = hidden.narrow(0, next, length)?;
            next += length;
            real.pad_with_zeros(0, 0, t - length)
        };
        let rows = lengths.iter().zip(0..b).map(&mut padded).collect::<candle_core::Result<Vec<_>>>()?;
        Ok(Tensor::stack(&rows, 0)?)
    }

    /// Runs one or more tokens behind those in a cache, rows of any length, and returns the logits of what comes next
    /// in each.
    ///
    /// # Shapes
    /// - output: (B, V)
    pub fn next_logits(&self, rows: &[impl AsRef<[u32]>], cache: &mut Cache) -> Result<Tensor> {
        let (count, have) = (rows.len(), cache.lengths().len());
        if count != have {
            return Err(Error::Ids(format!("a batch of {count} rows does not fit a cache of {have} rows")));
        }
        if let Some(row) = rows.iter().position(|row| row.as_ref().is_empty()) {
            return Err(Error::Ids(format!("row {row} has no token to go on from")));
        }
        let rows = rows.iter().map(AsRef::as_ref).enumerate();
        let chunks: Vec<TokenChunk> = rows.map(|(row, ids)| TokenChunk { row, ids, logits: 1 }).collect();
        self.step(&chunks, cache)
    }
}

/// A loss as a sum, so that batches and micro-batches add up to the same mean over tokens.
#[derive(Debug, Clone)]
pub struct Loss {
    /// Σ −log p(target), a scalar.
    pub sum: Tensor,
    /// How many targets counted.
    pub tokens: usize,
}

impl Loss {
    /// The sum as a number.
    pub fn value(&self) -> Result<f64> {
        Ok(f64::from(self.sum.to_scalar::<f32>()?))
    }

    /// The mean over the targets that counted.
    pub fn mean(&self) -> Result<Tensor> {
        Ok((&self.sum / self.tokens.max(1) as f64)?)
    }
}

/// The final norm, where the configuration has one.
pub(crate) fn load_ln_f(weights: &dyn Tensors, config: &Config) -> candle_core::Result<Option<Norm>> {
    let load = || Norm::load(weights, "ln_f", config.layer_norm_epsilon, Site::LnF);
    config.final_norm().then(load).transpose()
}

fn check_ids(ids: &Tensor, config: &Config) -> Result<()> {
    let rows = ids.to_vec2::<u32>()?;
    if rows.first().is_none_or(Vec::is_empty) {
        return Err(Error::Ids("there is no token".to_owned()));
    }
    let vocab_size = config.vocab_size;
    for (row, ids) in rows.iter().enumerate() {
        if let Some(at) = ids.iter().position(|&id| id as usize >= vocab_size) {
            let id = ids[at];
            let place = if rows.len() == 1 { String::new() } else { format!(" of row {row}") };
            return Err(Error::Ids(format!(
                "id {id} at position {at}{place} is outside of the vocabulary of {vocab_size} tokens"
            )));
        }
    }
    Ok(())
}
