//! The key/value cache: with the keys and values of earlier tokens, the next token costs one step instead of
//! a whole pass.

use crate::config::Config;
use crate::error::{IdsError, ModelConfigError, Result};
use crate::gpt::TokenChunk;
use candle_core::{DType, Device, Tensor};
use minigpt_kernels::{KeyValues, TokenRun};

/// A key/value cache with room for `capacity` tokens in each row of a batch. Rows can have different lengths.
///
/// All memory is allocated at once. [`Gpt::step`](crate::Gpt::step) fills the cache.
#[derive(Debug, Clone)]
pub struct Cache {
    layers: Vec<KeyValues>,
    lengths: Vec<usize>,
    capacity: usize,
    bytes: usize,
}

impl Cache {
    /// Creates an empty cache for `batch` rows of up to `capacity` tokens, but no more than the model's
    /// `block_size`.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(
        config: &Config,
        batch: usize,
        capacity: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let capacity = capacity.min(config.block_size);
        let (n_head, width) = (config.n_head, config.head_width());
        let bytes = check_memory(config, batch, capacity, dtype)?;
        let layer = |_| KeyValues::new(batch, n_head, capacity, width, dtype, device);
        let layers = (0..config.n_layer).map(layer).collect::<candle_core::Result<_>>()?;
        Ok(Self { layers, lengths: vec![0; batch], capacity, bytes })
    }

    /// Number of layers.
    pub(crate) fn layers(&self) -> usize {
        self.layers.len()
    }

    /// The number of tokens in each row.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// The number of tokens that fit in a row.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The size of all keys and values in bytes, which never changes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops all but the first `length` tokens of a row.
    pub fn truncate(&mut self, row: usize, length: usize) {
        self.lengths[row] = self.lengths[row].min(length);
    }

    /// Replaces row `to` by the first `length` tokens of row `from`.
    pub fn copy(&mut self, from: usize, to: usize, length: usize) -> Result<()> {
        assert!(length <= self.lengths[from], "the row has fewer tokens");
        if from != to {
            self.layers.iter_mut().try_for_each(|layer| layer.copy(from, to, length))?;
        }
        self.lengths[to] = length;
        Ok(())
    }

    /// Where the tokens of some chunks stand in their rows and in a batch of all of them; and of these, the
    /// tokens whose output is needed: those whose logits are asked for, or the last token if there are none.
    pub(crate) fn runs(&self, chunks: &[TokenChunk]) -> Result<(Vec<TokenRun>, Vec<TokenRun>)> {
        let mut runs: Vec<TokenRun> = Vec::new();
        for &TokenChunk { row: slot, ids, .. } in chunks {
            let count = ids.len();
            let Some(&start) = self.lengths.get(slot) else {
                let rows = self.lengths.len();
                return Err(IdsError::NoSuchRow { row: slot, rows }.into());
            };
            if start + count > self.capacity {
                let block_size = self.capacity;
                return Err(IdsError::RowFull { row: slot, held: start, more: count, block_size }.into());
            }
            if runs.iter().any(|run| run.slot == slot) {
                return Err(IdsError::RowTwice { row: slot }.into());
            }
            let first = runs.last().map_or(0, |run| run.tokens.end);
            runs.push(TokenRun { slot, start, tokens: first..first + count });
        }
        let with_logits = runs.iter().zip(chunks).filter(|(_, chunk)| chunk.logits > 0);
        let mut selected: Vec<TokenRun> =
            with_logits.map(|(run, chunk)| last_tokens(run, chunk.logits)).collect();
        if selected.is_empty() {
            selected.extend(runs.iter().rfind(|run| !run.tokens.is_empty()).map(|run| last_tokens(run, 1)));
        }
        Ok((runs, selected))
    }

    /// Stores the keys and values of a layer, and returns the attention of the tokens in `queries` over their
    /// rows. The lengths grow only by [`Cache::advance`], after the last layer.
    ///
    /// # Shapes
    /// - `qkv`: (N, 3·C); output: (tokens of all queries, C)
    pub(crate) fn attend(
        &mut self,
        layer: usize,
        qkv: &Tensor,
        runs: &[TokenRun],
        queries: &[TokenRun],
    ) -> candle_core::Result<Tensor> {
        self.layers[layer].write(qkv, runs)?;
        self.layers[layer].attend(qkv, queries)
    }

    pub(crate) fn advance(&mut self, runs: &[TokenRun]) {
        runs.iter().for_each(|run| self.lengths[run.slot] += run.tokens.len());
    }
}

/// The last `count` tokens of a run.
fn last_tokens(run: &TokenRun, count: usize) -> TokenRun {
    assert!(count <= run.tokens.len(), "a chunk asks for more logits than it has tokens");
    let skipped = run.tokens.len() - count;
    TokenRun {
        slot: run.slot,
        start: run.start + skipped,
        tokens: run.tokens.start + skipped..run.tokens.end,
    }
}

/// Returns how many bytes the keys and values take. Reserves as much and frees it again, because running out
/// of memory later would end the process.
fn check_memory(config: &Config, batch: usize, capacity: usize, dtype: DType) -> Result<usize> {
    let slot = KeyValues::slot_bytes(config.n_head, capacity, config.head_width(), dtype);
    let bytes = slot.and_then(|slot| slot.checked_mul(batch)?.checked_mul(config.n_layer));
    match bytes.map(|bytes| (bytes, Vec::<u8>::new().try_reserve_exact(bytes))) {
        Some((bytes, Ok(()))) => Ok(bytes),
        _ => Err(ModelConfigError::CacheMemory { rows: batch, tokens: capacity }.into()),
    }
}
