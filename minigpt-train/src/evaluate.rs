//! The loss of a model on data that it does not learn from.

use crate::error::Result;
use crate::workers::Workers;
use candle_core::Tensor;
use minigpt_data::{Batch, Dataset, Loader, Position};
use minigpt_model::{Gpt, Loss, Pass};

/// How well data was predicted, as a sum over tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Evaluation {
    /// Σ −log p(target).
    pub sum: f64,
    /// How many targets counted.
    pub tokens: u64,
}

impl Evaluation {
    /// More data was predicted.
    pub fn add(&mut self, more: Self) {
        self.sum += more.sum;
        self.tokens += more.tokens;
    }

    /// The mean over tokens; none where nothing counted.
    pub fn loss(&self) -> Option<f64> {
        (self.tokens > 0).then(|| self.sum / self.tokens as f64)
    }
}

/// Goes through the first `batches` of the data in order, on several threads, and shows `each` batch when it is done.
pub fn evaluate<D: Dataset>(
    gpt: &Gpt,
    data: &mut Loader<D>,
    batches: u64,
    workers: &Workers,
    mut each: impl FnMut(&Batch),
) -> Result<Evaluation> {
    let mut evaluation = Evaluation::default();
    for batch in 0..batches.min(data.batches_per_epoch()) {
        let batch = data.batch(Position { epoch: 0, batch })?;
        evaluation.add(evaluate_batch(gpt, &batch, workers.count(), workers)?);
        each(&batch);
    }
    Ok(evaluation)
}

/// The same for one batch, split into so many parts.
pub(crate) fn evaluate_batch(
    gpt: &Gpt,
    batch: &Batch,
    parts: usize,
    workers: &Workers,
) -> Result<Evaluation> {
    let mut evaluation = Evaluation::default();
    let judge =
        |parts: Vec<Batch>| parts.iter().map(|part| loss(gpt, part, None)).collect::<Result<Vec<_>>>();
    for judged in workers.map(batch.split(parts), judge) {
        for loss in judged? {
            evaluation.add(Evaluation { sum: loss.value()?, tokens: loss.tokens as u64 });
        }
    }
    Ok(evaluation)
}

/// The loss of a batch; with a key, in training: elements are dropped.
pub(crate) fn loss(gpt: &Gpt, batch: &Batch, dropout: Option<u64>) -> Result<Loss> {
    let shape = (batch.rows, batch.cols);
    let ids = Tensor::from_slice(&batch.inputs, shape, gpt.device())?;
    let targets = Tensor::from_slice(&batch.targets, shape, gpt.device())?;
    // Padding stands at the end of a row, where no token that counts can see it: no mask is needed.
    let pass = match dropout {
        Some(key) => Pass::new().with_dropout(key).with_rows(&batch.row_numbers),
        None => Pass::new(),
    };
    Ok(gpt.loss(&ids, &targets, &pass)?)
}
