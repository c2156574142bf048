//! Token ids as tensors, and the check that a model can read them.

use crate::config::Config;
use crate::error::{IdsError, Result};
use crate::gpt::Gpt;
use candle_core::{CpuStorage, Storage, Tensor};

impl Gpt {
    /// Rows of ids, all of one length, as a tensor on the model's device.
    ///
    /// # Shapes
    /// - output: (B, T), u32
    pub fn ids(&self, rows: &[impl AsRef<[u32]>]) -> Result<Tensor> {
        let t = rows.first().map_or(0, |row| row.as_ref().len());
        if let Some(row) = rows.iter().position(|row| row.as_ref().len() != t) {
            return Err(IdsError::Ragged { row, ids: rows[row].as_ref().len(), first: t }.into());
        }
        let data: Vec<u32> = rows.iter().flat_map(|row| row.as_ref().iter().copied()).collect();
        Ok(Tensor::from_vec(data, (rows.len(), t), self.device())?)
    }
}

/// Returns an error if there is no token, or an id is outside the vocabulary. Ids on the CPU are not copied.
pub(crate) fn check_ids(ids: &Tensor, config: &Config) -> Result<()> {
    let (rows, t) = ids.dims2()?;
    if rows * t == 0 {
        return Err(IdsError::Empty.into());
    }
    let vocab_size = config.vocab_size;
    let outside = |ids: &[u32]| {
        let at = ids.iter().position(|&id| id as usize >= vocab_size)?;
        Some((at, ids[at]))
    };
    let (storage, layout) = ids.storage_and_layout();
    let found = match (&*storage, layout.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::U32(ids)), Some((start, end))) => outside(&ids[start..end]),
        _ => outside(&ids.flatten_all()?.to_vec1()?),
    };
    let Some((at, id)) = found else { return Ok(()) };
    let row = (rows > 1).then_some(at / t);
    Err(IdsError::OutsideVocabulary { id, position: at % t, row, vocab_size }.into())
}
