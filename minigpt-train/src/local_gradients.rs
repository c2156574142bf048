//! Forward and backward pass of this rank's rows.
//!
//! A step's batch is always split into the same number of parts. Each part's gradients are summed over its micro-batches; then the parts
//! are added in the order of a fixed tree. So the weights depend neither on the number of ranks nor on the number of threads, to the bit.

use crate::batch_loss::batch_loss;
use crate::distributed::{TreeNode, TreeSum};
use crate::error::Result;
use crate::evaluate::Evaluation;
use crate::gradients::Gradients;
use crate::workers::Workers;
use minigpt_data::Batch;
use minigpt_model::{Gpt, Parameter};
use std::ops::Range;

/// A micro-batch, split into parts.
pub(crate) struct MicroBatch {
    /// Key of its dropout.
    pub dropout_key: u64,
    /// The rows of each part.
    pub parts: Vec<Vec<Batch>>,
    /// Number of epochs that are complete after this micro-batch, if it ends one.
    pub epoch_done: Option<u64>,
}

/// What one rank computes of a step.
pub(crate) struct LocalGradients {
    /// The loss of each part and each of its micro-batches.
    pub losses: Vec<Evaluation>,
    /// Gradients, added as far as this rank can add them without the others.
    pub sums: Vec<(TreeNode, Gradients)>,
}

/// Computes the losses and gradients of the parts `own` of every micro-batch, one part per worker at a time.
///
/// # Errors
/// The forward or backward pass fails.
pub(crate) fn local_gradients(
    gpt: &Gpt,
    parameters: &[Parameter],
    mut micro_batches: Vec<MicroBatch>,
    own: Range<usize>,
    workers: &Workers,
) -> Result<LocalGradients> {
    let parts = micro_batches.first().map_or(0, |micro| micro.parts.len());
    let mut work = own.map(|part| {
        let of_part = |micro: &mut MicroBatch| (micro.dropout_key, std::mem::take(&mut micro.parts[part]));
        (part, micro_batches.iter_mut().map(of_part).collect::<Vec<_>>())
    });
    let (mut losses, mut sums) = (Vec::new(), TreeSum::new(parts));
    while work.len() > 0 {
        // No more parts at once than workers: each has gradients of its own.
        let (numbers, at_once): (Vec<_>, Vec<_>) = work.by_ref().take(workers.count()).unzip();
        let computed = workers.map(at_once, |work| part_gradients(gpt, parameters, &work));
        for (part, computed) in numbers.into_iter().zip(computed) {
            let (part_losses, gradients) = computed?;
            losses.extend(part_losses);
            sums.push(part, gradients, |sum, more| sum.sum(&more))?;
        }
    }
    Ok(LocalGradients { losses, sums: sums.into_nodes() })
}

/// The losses of one part's micro-batches, each with its dropout key, and the sum of their gradients.
fn part_gradients(
    gpt: &Gpt,
    parameters: &[Parameter],
    micro_batches: &[(u64, Vec<Batch>)],
) -> Result<(Vec<Evaluation>, Gradients)> {
    let (mut losses, mut sum) = (Vec::new(), None);
    for (dropout_key, batches) in micro_batches {
        let mut total = Evaluation::default();
        for batch in batches {
            let forward = || batch_loss(gpt, batch, Some(*dropout_key));
            let (loss, gradients) = Gradients::of_pass(parameters, forward)?;
            total.add(Evaluation { sum: loss.value()?, tokens: loss.tokens as u64 });
            sum = Some(match sum.take() {
                None => gradients,
                Some(sum) => Gradients::sum(sum, &gradients)?,
            });
        }
        losses.push(total);
    }
    // A part without rows contributes zeros, on any rank.
    let sum = sum.map_or_else(|| Gradients::zeros(parameters), Ok)?;
    Ok((losses, sum))
}
