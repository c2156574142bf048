//! Keys and values of the tokens so far, so that the next token costs one step and not a whole pass.

use crate::config::Config;
use crate::error::{IdsError, ModelConfigError, Result};
use candle_core::{DType, Device, Tensor};
use minigpt_kernels::{KeyValues, TokenRun};

/// Room for the keys and values of `capacity` tokens in each row of a batch, allocated once. Rows may have unequal
/// lengths.
#[derive(Debug, Clone)]
pub struct Cache {
    layers: Vec<KeyValues>,
    lengths: Vec<usize>,
    capacity: usize,
    bytes: usize,
}

impl Cache {
    /// An empty cache for `batch` rows of up to `capacity` tokens, but no more than the model's `block_size`.
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

    /// How many tokens each row holds.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// How many tokens a row can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The memory of all keys and values, which never changes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all but the first `length` tokens of a row.
    pub fn truncate(&mut self, row: usize, length: usize) {
        self.lengths[row] = self.lengths[row].min(length);
    }

    /// Makes row `to` hold the first `length` tokens of row `from`.
    pub fn copy(&mut self, from: usize, to: usize, length: usize) -> Result<()> {
        assert!(length <= self.lengths[from], "tokens that the row holds");
        if from != to {
            self.layers.iter_mut().try_for_each(|layer| layer.copy(from, to, length))?;
        }
        self.lengths[to] = length;
        Ok(())
    }

    /// Runs of tokens behind those that the rows hold, if there is room: `more` names a row and how many it gets. They
    /// stand behind one another in a batch of tokens.
    pub(crate) fn runs(&self, more: impl Iterator<Item = (usize, usize)>) -> Result<Vec<TokenRun>> {
        let mut runs: Vec<TokenRun> = Vec::new();
        for (slot, count) in more {
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
        Ok(runs)
    }

    /// Keeps the keys and values of a layer, and returns the attention of the tokens in `queries` to those of their rows. The
    /// lengths grow only by [`Cache::advance`], once all layers are done.
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

/// Asks the system for as much memory as the keys and values will take, and gives it back: refused later, it would end the
/// process. Returns how much it is.
fn check_memory(config: &Config, batch: usize, capacity: usize, dtype: DType) -> Result<usize> {
    let slot = KeyValues::slot_bytes(config.n_head, capacity, config.head_width(), dtype);
    let bytes = slot.and_then(|slot| slot.checked_mul(batch)?.checked_mul(config.n_layer));
    match bytes.map(|bytes| (bytes, Vec::<u8>::new().try_reserve_exact(bytes))) {
        Some((bytes, Ok(()))) => Ok(bytes),
        _ => Err(ModelConfigError::CacheMemory { rows: batch, tokens: capacity }.into()),
    }
}
