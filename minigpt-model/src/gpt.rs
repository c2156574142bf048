//! The whole decoder: embed the tokens, run the blocks, read off what comes next.
//!
//! B is the batch, T the tokens of a row, C the width (`n_embd`), H the heads, D the width of a head, V the vocabulary.

use crate::block::{Block, Context, drop};
use crate::cache::Cache;
use crate::config::Config;
use crate::embedding::Embedding;
use crate::error::{Error, Result};
use crate::init::init;
use crate::linear::{Norm, multiply};
use crate::parameters::specs;
use crate::trace::Trace;
use crate::weights::{Packing, Source, Tensors, Weight, Weights};
use candle_core::{DType, Device, Tensor};
use minigpt_kernels::{self as ops, AttentionMask, IGNORE, WeightLayout};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// A GPT-2-style decoder. Cloning is cheap: the weights are shared.
#[derive(Debug, Clone)]
pub struct Gpt {
    config: Config,
    weights: Weights,
    embedding: Embedding,
    blocks: Vec<Block>,
    ln_f: Option<Norm>,
    head: Head,
    extra: Map<String, Value>,
}

/// The output head: a product with the transposed token table, or with a matrix of its own.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    weight: Weight,
    bias: Option<Tensor>,
}

impl Head {
    /// The head that `tied` tokens make, or one of its own.
    pub fn take(weights: &dyn Tensors, tied: Option<&Embedding>) -> candle_core::Result<Self> {
        let weight = match tied {
            Some(embedding) => embedding.table().clone(),
            None => weights.need("lm_head.weight")?,
        };
        Ok(Self { weight, bias: weights.plain("lm_head.bias")? })
    }

    /// # Shapes
    /// - `hidden`: (…, C); output: (…, V)
    pub fn forward(&self, hidden: &Tensor) -> candle_core::Result<Tensor> {
        multiply(hidden, &self.weight, WeightLayout::OutIn, self.bias.as_ref())
    }
}

/// What a training or evaluation pass may want beside the tokens.
#[derive(Debug, Default)]
pub struct Pass<'a> {
    /// The key of this pass's dropout: another one each step. Without it nothing is dropped.
    pub dropout: Option<u64>,
    /// u8, (B, T): not 0 where a token is real, 0 where it is padding that nobody may look at.
    pub key_padding: Option<&'a Tensor>,
    /// What to keep of the pass.
    pub trace: Option<&'a mut Trace>,
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

/// A parameter under its name.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// GPT-2's name.
    pub name: String,
    /// Its values, a variable if the model is trainable.
    pub tensor: Tensor,
}

impl Gpt {
    /// A new model with weights drawn from a seed.
    pub fn new(config: Config, seed: u64, device: &Device) -> Result<Self> {
        config.validate()?;
        let weights = init(&config, seed, device)?.into_iter();
        Self::from_tensors(config, weights.map(|(name, tensor)| (name, Weight::Plain(tensor))).collect())
    }

    /// A model from tensors by GPT-2's names, which must be those of `config`.
    pub fn from_tensors(config: Config, tensors: HashMap<String, Weight>) -> Result<Self> {
        Self::from_weights(config, Weights::new(tensors))
    }

    fn from_weights(config: Config, weights: Weights) -> Result<Self> {
        let embedding = Embedding::take(&weights, &config)?;
        let blocks = (0..config.n_layer)
            .map(|i| Block::take(&weights, &format!("h.{i}"), &config))
            .collect::<candle_core::Result<_>>()?;
        let ln_f = match config.final_norm() {
            true => Some(Norm::take(&weights, "ln_f", config.layer_norm_epsilon)?),
            false => None,
        };
        let head = Head::take(&weights, config.tie_word_embeddings.then_some(&embedding))?;
        Ok(Self { config, weights, embedding, blocks, ln_f, head, extra: Map::new() })
    }

    /// The same model with its weights as variables: gradients reach them, and an optimiser can change them.
    pub fn into_trainable(self) -> Result<Self> {
        let Self { config, weights, extra, .. } = self;
        Ok(Self::from_weights(config, weights.into_variables()?)?.with_extra(extra))
    }

    /// The same model with its matrices in fewer bits, to run it.
    pub fn packed(self, packing: Packing) -> Result<Self> {
        let Self { config, weights, extra, .. } = self;
        Ok(Self::from_weights(config, weights.packed(packing)?)?.with_extra(extra))
    }

    /// The same model with the dropout of another configuration: how one trains, not what a model is.
    pub fn with_dropout(self, like: &Config) -> Result<Self> {
        let Config { embd_pdrop, attn_pdrop, resid_pdrop, .. } = *like;
        let config = Config { embd_pdrop, attn_pdrop, resid_pdrop, ..self.config };
        Ok(Self::from_weights(config, self.weights)?.with_extra(self.extra))
    }

    /// The same model with what else its `config.json` said.
    pub fn with_extra(self, extra: Map<String, Value>) -> Self {
        Self { extra, ..self }
    }

    /// What else the `config.json` said that this model came with.
    pub fn extra(&self) -> &Map<String, Value> {
        &self.extra
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where it lives.
    pub fn device(&self) -> &Device {
        self.head.weight.device()
    }

    /// The type of its numbers.
    pub fn dtype(&self) -> DType {
        self.head.weight.dtype()
    }

    /// All parameters of plain numbers, in the order of the forward pass: every one, unless the model came from a file
    /// with blocks of fewer bits. Those that stay in their file are copied.
    pub fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name: String| match self.weights.weight(&name) {
            Ok(Some(Weight::Quantized(_)) | None) | Err(_) => None,
            Ok(Some(weight)) => Some(Parameter { name, tensor: weight.plain().ok()? }),
        };
        specs(&self.config).into_iter().filter_map(|spec| parameter(spec.name)).collect()
    }

    /// The model as those see it who write it into a file.
    pub fn source(&self) -> Source<'_> {
        Source { config: &self.config, extra: &self.extra, tensors: &self.weights }
    }

    /// An empty cache for `batch` rows of the whole context.
    pub fn cache(&self, batch: usize) -> Result<Cache> {
        Cache::new(&self.config, batch, self.config.block_size, self.dtype(), self.device())
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
        self.head(&self.hidden(ids, Pass::default())?)
    }

    /// The loss of predicting `targets`, which are ids or [`IGNORE`].
    ///
    /// # Shapes
    /// - `ids`, `targets`: (B, T), u32
    pub fn loss(&self, ids: &Tensor, targets: &Tensor, pass: Pass) -> Result<Loss> {
        let hidden = self.hidden(ids, pass)?;
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
        Ok(Loss { sum: ops::cross_entropy(&self.head(&hidden)?, &targets)?, tokens })
    }

    /// What the last block (and the final norm) leaves in the residual stream.
    ///
    /// # Shapes
    /// - `ids`: (B, T), u32; output: (B, T, C)
    pub fn hidden(&self, ids: &Tensor, pass: Pass) -> Result<Tensor> {
        let (b, t) = ids.dims2()?;
        if t > self.config.block_size {
            let block_size = self.config.block_size;
            return Err(Error::Ids(format!("{t} tokens do not fit a context of {block_size}")));
        }
        let mut visible = AttentionMask::causal(&vec![0; b]);
        if let Some(padding) = pass.key_padding {
            visible = visible.and(&padding.reshape((b, 1, 1, t))?)?;
        }
        let (first, lengths) = (vec![0; b], vec![t; b]);
        let (trace, key) = (pass.trace, pass.dropout);
        self.run(ids, Context { first, lengths, visible, cache: None, trace, key, last_only: None })
    }

    /// Reads further tokens in each row of a cache, and returns what the last block leaves of them. Of row `b` only
    /// the first `lengths[b]` tokens are read; what the output holds beyond them means nothing.
    ///
    /// # Shapes
    /// - `ids`: (B, T), u32; output: (B, T, C)
    pub fn hidden_cached(&self, ids: &Tensor, lengths: &[usize], cache: &mut Cache) -> Result<Tensor> {
        self.read(ids, lengths, cache, None)
    }

    fn read(
        &self,
        ids: &Tensor,
        lengths: &[usize],
        cache: &mut Cache,
        last_only: Option<usize>,
    ) -> Result<Tensor> {
        assert!(
            lengths.iter().all(|&n| n <= ids.dims().get(1).copied().unwrap_or(0)),
            "lengths beyond the ids"
        );
        cache.check_room(lengths)?;
        let first = cache.lengths().to_vec();
        let visible = AttentionMask::causal(&first);
        let context = Context {
            first,
            lengths: lengths.to_vec(),
            visible,
            cache: Some(cache),
            trace: None,
            key: None,
            last_only,
        };
        let hidden = self.run(ids, context)?;
        cache.advance(lengths);
        Ok(hidden)
    }

    /// Reads one or more tokens in each row of a cache, rows of any length, and returns the logits of what comes next
    /// in each. Only the last position of a row leaves the last block, and goes through the head.
    ///
    /// # Shapes
    /// - output: (B, V)
    pub fn next_logits(&self, rows: &[impl AsRef<[u32]>], cache: &mut Cache) -> Result<Tensor> {
        let lengths: Vec<usize> = rows.iter().map(|row| row.as_ref().len()).collect();
        if let Some(row) = lengths.iter().position(|&n| n == 0) {
            return Err(Error::Ids(format!("row {row} has no token to read")));
        }
        let t = lengths.iter().copied().max().unwrap_or(0);
        let padded: Vec<u32> = rows
            .iter()
            .flat_map(|row| {
                row.as_ref().iter().copied().chain(std::iter::repeat_n(0, t - row.as_ref().len()))
            })
            .collect();
        let ids = Tensor::from_vec(padded, (rows.len(), t), self.device())?;
        // On a thread of the pool, which then has to wake only the others, and not once for every product.
        rayon::scope(|_| {
            let last_layer = self.blocks.len().checked_sub(1).filter(|_| t > 1);
            let hidden = self.read(&ids, &lengths, cache, last_layer)?; // (B, 1, C)
            self.head(&hidden.squeeze(1)?)
        })
    }

    /// The output head: logits of what comes next, from what the last block leaves.
    ///
    /// # Shapes
    /// - `hidden`: (…, C); output: (…, V)
    pub fn head(&self, hidden: &Tensor) -> Result<Tensor> {
        Ok(self.head.forward(hidden)?)
    }

    fn run(&self, ids: &Tensor, mut context: Context) -> Result<Tensor> {
        self.check_ids(ids)?;
        let x = self.embedding.forward(ids, &context.first)?;
        let mut x = drop(x, context.embedding_dropout(self.config.embd_pdrop))?;
        if let Some(trace) = &mut context.trace {
            trace.keep_hidden(&x);
        }
        for (layer, block) in self.blocks.iter().enumerate() {
            x = block.forward(&x, layer, &mut context)?;
            if let Some(trace) = &mut context.trace {
                trace.keep_hidden(&x);
            }
        }
        Ok(match &self.ln_f {
            Some(ln_f) => ln_f.forward(&x)?,
            None => x,
        })
    }

    fn check_ids(&self, ids: &Tensor) -> Result<()> {
        let vocab_size = self.config.vocab_size;
        let rows = ids.to_vec2::<u32>()?;
        if rows.first().is_none_or(Vec::is_empty) {
            return Err(Error::Ids("there is no token to read".to_owned()));
        }
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
}
