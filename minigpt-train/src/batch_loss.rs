//! The loss of one batch, in training and in evaluation.

use crate::error::Result;
use candle_core::Tensor;
use minigpt_data::Batch;
use minigpt_model::{Gpt, Loss, Pass};

/// The loss of a batch. With a dropout key the pass is one of training; without, nothing is dropped.
pub(crate) fn batch_loss(gpt: &Gpt, batch: &Batch, dropout_key: Option<u64>) -> Result<Loss> {
    let shape = (batch.rows, batch.cols);
    let ids = Tensor::from_slice(&batch.inputs, shape, gpt.device())?; // (B, T)
    let targets = Tensor::from_slice(&batch.targets, shape, gpt.device())?; // (B, T)
    // Padding is at the end of a row, where no token that counts can see it: no mask is needed.
    let pass = match dropout_key {
        Some(key) => Pass::new().with_dropout(key).with_rows(&batch.row_numbers),
        None => Pass::new(),
    };
    Ok(gpt.loss(&ids, &targets, &pass)?)
}
