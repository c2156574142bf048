//! The loss of a model on data that it is not trained on.

use crate::batch_loss::batch_loss;
use crate::error::Result;
use crate::workers::Workers;
use minigpt_data::{Batch, Dataset, Loader, Position};
use minigpt_model::Gpt;

/// How well data was predicted, as a sum over tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Evaluation {
    /// Σ −log p(target).
    pub sum: f64,
    /// Number of targets that counted.
    pub tokens: u64,
}

impl Evaluation {
    /// Adds the evaluation of more data.
    pub fn add(&mut self, more: Self) {
        self.sum += more.sum;
        self.tokens += more.tokens;
    }

    /// The mean over tokens, or `None` if no target counted.
    pub fn loss(&self) -> Option<f64> {
        (self.tokens > 0).then(|| self.sum / self.tokens as f64)
    }
}

/// Evaluates the first `batches` of the data in order, on several threads, and calls `each` after each batch.
///
/// # Errors
/// The data can't be read, or the forward pass fails.
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

/// Evaluates one batch, split into `parts`.
pub(crate) fn evaluate_batch(
    gpt: &Gpt,
    batch: &Batch,
    parts: usize,
    workers: &Workers,
) -> Result<Evaluation> {
    let mut evaluation = Evaluation::default();
    let losses =
        |part: Vec<Batch>| part.iter().map(|batch| batch_loss(gpt, batch, None)).collect::<Result<Vec<_>>>();
    for part in workers.map(batch.split(parts), losses) {
        for loss in part? {
            evaluation.add(Evaluation { sum: loss.value()?, tokens: loss.tokens as u64 });
        }
    }
    Ok(evaluation)
}
