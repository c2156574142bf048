//! Keys and values of the tokens so far, so that the next token costs one step and not a whole pass.

use crate::config::Config;
use crate::error::{Error, Result};
use candle_core::{DType, Device, Tensor};

/// Room for the keys and values of `capacity` tokens in each row of a batch, allocated once. Rows may have unequal
/// lengths.
#[derive(Debug, Clone)]
pub struct Cache {
    /// (B, H, capacity, D), one a layer.
    keys: Vec<Tensor>,
    values: Vec<Tensor>,
    lengths: Vec<usize>,
    capacity: usize,
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
        let shape = (batch, config.n_head, capacity, config.head_width());
        check_memory(2 * config.n_layer, shape, dtype)?;
        let layers = || (0..config.n_layer).map(|_| Tensor::zeros(shape, dtype, device)).collect();
        let (keys, values): (candle_core::Result<_>, candle_core::Result<_>) = (layers(), layers());
        Ok(Self { keys: keys?, values: values?, lengths: vec![0; batch], capacity })
    }

    /// How many tokens each row holds.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// How many tokens a row can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets all but the first `length` tokens of a row.
    pub fn truncate(&mut self, row: usize, length: usize) {
        self.lengths[row] = self.lengths[row].min(length);
    }

    /// Makes row `rows[i]` the new row `i`: rows can be copied, reordered and left out. Only what is in use is
    /// copied; a batch that keeps its size keeps its memory.
    pub fn select_rows(&mut self, rows: &[usize]) -> Result<()> {
        if rows.iter().copied().eq(0..self.lengths.len()) {
            return Ok(());
        }
        let lengths: Vec<usize> = rows.iter().map(|&row| self.lengths[row]).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        for cache in self.keys.iter_mut().chain(&mut self.values) {
            *cache = select(cache, rows, longest)?;
        }
        self.lengths = lengths;
        Ok(())
    }

    /// Checks that each row has room for this many more tokens.
    pub(crate) fn check_room(&self, more: &[usize]) -> Result<()> {
        if more.len() != self.lengths.len() {
            let (rows, have) = (more.len(), self.lengths.len());
            return Err(Error::Ids(format!("a batch of {rows} rows does not fit a cache of {have} rows")));
        }
        for (row, (&length, &more)) in self.lengths.iter().zip(more).enumerate() {
            if length + more > self.capacity {
                return Err(Error::Ids(format!(
                    "row {row} has {length} tokens; {more} more do not fit a context of {}",
                    self.capacity
                )));
            }
        }
        Ok(())
    }

    /// Puts the first `more[b]` keys and values of each row where token `starts[b]` stands, and returns the layer's up to
    /// there. The lengths grow only by [`Cache::advance`], once all layers are done.
    ///
    /// # Shapes
    /// - `k`, `v`: (B, H, T, D); outputs: (B, H, longest row, D), views into the cache
    pub(crate) fn write(
        &self,
        layer: usize,
        k: &Tensor,
        v: &Tensor,
        starts: &[usize],
        more: &[usize],
    ) -> candle_core::Result<(Tensor, Tensor)> {
        for (cache, new) in [(&self.keys[layer], k), (&self.values[layer], v)] {
            for (row, (&start, &more)) in starts.iter().zip(more).enumerate() {
                if more > 0 {
                    let new = new.narrow(0, row, 1)?.narrow(2, 0, more)?.contiguous()?;
                    cache.narrow(0, row, 1)?.slice_set(&new, 2, start)?;
                }
            }
        }
        let longest = starts.iter().zip(more).map(|(start, more)| start + more).max().unwrap_or(0);
        Ok((self.keys[layer].narrow(2, 0, longest)?, self.values[layer].narrow(2, 0, longest)?))
    }

    pub(crate) fn advance(&mut self, more: &[usize]) {
        self.lengths.iter_mut().zip(more).for_each(|(length, more)| *length += more);
    }
}

/// Rows of one layer's keys or values, the first `longest` tokens of each, in room for as many as before.
///
/// # Shapes
/// - `cache`: (B, H, capacity, D); output: (rows, H, capacity, D)
fn select(cache: &Tensor, rows: &[usize], longest: usize) -> candle_core::Result<Tensor> {
    let (b, h, capacity, d) = cache.dims4()?;
    let selected = match rows.len() == b {
        true => cache.clone(),
        false => Tensor::zeros((rows.len(), h, capacity, d), cache.dtype(), cache.device())?,
    };
    if longest > 0 {
        let read = |&row: &usize| cache.narrow(0, row, 1)?.narrow(2, 0, longest);
        let read: Vec<Tensor> = rows.iter().map(read).collect::<candle_core::Result<_>>()?;
        selected.slice_set(&Tensor::cat(&read, 0)?.contiguous()?, 2, 0)?;
    }
    Ok(selected)
}

/// Asks the system for as much memory as the tensors will take, and gives it back: refused later, it would end the
/// process.
fn check_memory(tensors: usize, shape: (usize, usize, usize, usize), dtype: DType) -> Result<()> {
    let (batch, heads, capacity, width) = shape;
    let factors = [tensors, batch, heads, capacity, width, dtype.size_in_bytes()];
    let bytes = factors.into_iter().try_fold(1usize, usize::checked_mul);
    match bytes.map(|bytes| Vec::<u8>::new().try_reserve_exact(bytes)) {
        Some(Ok(())) => Ok(()),
        _ => Err(Error::Config(format!(
            "there is no memory for the keys and values of {batch} texts of {capacity} tokens each"
        ))),
    }
}
