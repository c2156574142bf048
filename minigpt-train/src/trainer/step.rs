//! One step of a run: gradients, their norm, and the optimiser.
//!
//! A step's batch is always split into the same number of parts. A rank learns from its own, and each part's gradients
//! are summed over its micro-batches; then all parts are added in the order of a fixed tree, each tensor by its owner,
//! who also moves it. So the weights depend neither on the number of ranks nor on that of threads, to the bit.

use super::Trainer;
use crate::error::{Error, Result};
use crate::evaluate::{Evaluation, loss};
use crate::exchange::{TreeNode, TreeSum};
use crate::gradients::Gradients;
use crate::record::StepRecord;
use minigpt_data::Batch;
use minigpt_kernels as ops;
use minigpt_model::parameters::layer_of;
use minigpt_model::{Gpt, Parameter};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

impl Trainer {
    /// One step: the gradients of all micro-batches, and a move along their mean over tokens. Nothing is logged, judged
    /// or saved; [`Trainer::run`] does that.
    pub fn step(&mut self, rate: f64) -> Result<StepRecord> {
        self.step_with(rate, &AtomicBool::new(false))
    }

    /// The same, and the ranks agree on whether to stop.
    pub(super) fn step_with(&mut self, rate: f64, stop: &AtomicBool) -> Result<StepRecord> {
        match self.ranks.count() {
            // On a thread of the pool, which then has to wake only the others, and not once for every parameter.
            1 => rayon::scope(|_| self.make_step(rate, stop)),
            // Only this thread speaks to other ranks.
            _ => self.make_step(rate, stop),
        }
    }

    fn make_step(&mut self, rate: f64, stop: &AtomicBool) -> Result<StepRecord> {
        let begun = Instant::now();
        let Learned { losses, nodes, epochs } = rayon::scope(|_| self.learn())?;
        let gradients = self.ranks.sum(nodes)?;
        let squares = rayon::scope(|_| gradients.squares())?;
        let Heard { losses, squares } = self.hear(&losses, squares, stop)?;
        let (Evaluation { sum, tokens }, epoch) = self.count_losses(&losses, &epochs);
        let step = self.state.step + 1;
        let count = tokens.max(1) as f64;
        let loss = sum / count;
        let norm = squares.iter().sum::<f64>().sqrt() / count;
        self.finite(step, "loss", loss)?;
        self.finite(step, "gradient norm", norm)?;
        let clip = match self.config.grad_clip {
            0.0 => 1.0,
            max => Gradients::clip_factor(norm, max),
        };
        rayon::scope(|_| self.optimizer.step(&gradients, clip / count, rate))?;
        self.ranks.share_weights()?;
        self.state.step = step;
        self.state.tokens += tokens;
        self.state.position = self.data.train.position();
        // Passes over the data are told where they are counted.
        let epoch = epoch.filter(|_| self.config.epochs.is_some());
        Ok(StepRecord {
            step,
            loss,
            lr: rate,
            grad_norm: norm,
            grad_norms: norms_by_layer(&self.parameters, &squares, count),
            tokens_per_second: tokens as f64 / begun.elapsed().as_secs_f64(),
            tokens: self.state.tokens,
            seconds: self.seconds(),
            epoch: epoch.map(|(epoch, _)| epoch),
            epoch_loss: epoch.and_then(|(_, loss)| loss),
            val_loss: None,
            answers: None,
        })
    }

    /// Learns from this rank's parts of all micro-batches.
    fn learn(&mut self) -> Result<Learned> {
        let (own, parts) = (self.ranks.own_parts(), self.ranks.parts());
        let (mut work, mut epochs) = (vec![Vec::new(); own.len()], Vec::new());
        for micro in 0..self.config.gradient_accumulation_steps {
            let mut split = self.data.train.next_batch()?.split(parts);
            split.resize(parts, Vec::new());
            let key = ops::place(ops::place(self.config.seed, self.state.step), micro as u64);
            work.iter_mut().zip(split.drain(own.clone())).for_each(|(work, part)| work.push((key, part)));
            let next = self.data.train.position();
            epochs.push((next.batch == 0).then_some(next.epoch));
        }
        let (gpt, parameters) = (&self.gpt, &self.parameters);
        let learn = |work: Vec<(u64, Vec<Batch>)>| learn_part(gpt, parameters, &work);
        let (mut losses, mut sum) = (Vec::new(), TreeSum::new(parts));
        let mut work = own.zip(work);
        while work.len() > 0 {
            // No more at once than there are workers: each has gradients of its own.
            let (numbers, at_once): (Vec<_>, Vec<_>) = work.by_ref().take(self.workers.count()).unzip();
            for (part, learned) in numbers.into_iter().zip(self.workers.map(at_once, learn)) {
                let (of_part, gradients) = learned?;
                losses.extend(of_part);
                sum.push(part, gradients, |sum, more| sum.sum(&more))?;
            }
        }
        Ok(Learned { losses, nodes: sum.into_nodes(), epochs })
    }

    /// The losses and the squares of gradients of all ranks.
    fn hear(&mut self, losses: &[Evaluation], squares: Vec<f64>, stop: &AtomicBool) -> Result<Heard> {
        if self.ranks.count() == 1 {
            self.tell(&[], stop)?;
            return Ok(Heard { losses: losses.to_vec(), squares });
        }
        let numbers: Vec<f64> =
            losses.iter().flat_map(|loss| [loss.sum, loss.tokens as f64]).chain(squares).collect();
        let (mut losses, mut squares) = (Vec::new(), Vec::new());
        let micros = self.config.gradient_accumulation_steps;
        for (rank, numbers) in self.tell(&numbers, stop)?.into_iter().enumerate() {
            let halves = numbers.split_at_checked(2 * micros * self.ranks.parts_of(rank).len());
            let (of_parts, of_tensors) =
                halves.ok_or_else(|| Error::OtherRank(format!("rank {rank} lost count")))?;
            let pairs = of_parts.as_chunks::<2>().0.iter();
            losses.extend(pairs.map(|&[sum, tokens]| Evaluation { sum, tokens: tokens as u64 }));
            squares.push(of_tensors.to_vec());
        }
        Ok(Heard { losses, squares: self.ranks.in_order(squares) })
    }

    /// The loss of all parts together, micro-batch by micro-batch; and of the epoch that is over, if one is.
    fn count_losses(&mut self, losses: &[Evaluation], epochs: &[Option<u64>]) -> (Evaluation, EpochEnd) {
        let (mut all, mut over) = (Evaluation::default(), None);
        for (micro, epoch) in epochs.iter().enumerate() {
            for &loss in losses.iter().skip(micro).step_by(epochs.len()) {
                all.add(loss);
                self.state.epoch.add(loss.sum, loss.tokens);
            }
            if let Some(epoch) = epoch {
                over = Some((*epoch, self.state.epoch.finish()));
            }
        }
        (all, over)
    }
}

/// The number of an epoch that is over, and its mean loss.
type EpochEnd = Option<(u64, Option<f64>)>;

/// What a rank has learned from its parts.
struct Learned {
    /// Of each part, micro-batch by micro-batch.
    losses: Vec<Evaluation>,
    /// Its gradients, as far as it can add them alone.
    nodes: Vec<(TreeNode, Gradients)>,
    /// After each micro-batch, the epoch that is over with it.
    epochs: Vec<Option<u64>>,
}

/// What a rank knows when it has heard the others.
struct Heard {
    /// Of each part of all ranks, micro-batch by micro-batch.
    losses: Vec<Evaluation>,
    /// The square of each parameter's gradient.
    squares: Vec<f64>,
}

/// The losses of a part's micro-batches, each with the key of its dropout, and the sum of their gradients.
fn learn_part(
    gpt: &Gpt,
    parameters: &[Parameter],
    micros: &[(u64, Vec<Batch>)],
) -> Result<(Vec<Evaluation>, Gradients)> {
    let (mut losses, mut sum) = (Vec::new(), None);
    for (key, batches) in micros {
        let mut of_micro = Evaluation::default();
        for batch in batches {
            let (loss, gradients) = Gradients::of_pass(parameters, || loss(gpt, batch, Some(*key)))?;
            of_micro.add(Evaluation { sum: loss.value()?, tokens: loss.tokens as u64 });
            sum = Some(match sum.take() {
                None => gradients,
                Some(sum) => Gradients::sum(sum, &gradients)?,
            });
        }
        losses.push(of_micro);
    }
    // A part without rows counts for nothing, on any rank.
    let sum = sum.map_or_else(|| Gradients::zeros(parameters), Ok)?;
    Ok((losses, sum))
}

/// The norm of the gradients of each layer, from the squares of those of its parameters.
fn norms_by_layer(parameters: &[Parameter], squares: &[f64], count: f64) -> BTreeMap<String, f64> {
    let mut layers: BTreeMap<String, f64> = BTreeMap::new();
    for (parameter, square) in parameters.iter().zip(squares) {
        match layers.get_mut(layer_of(&parameter.name)) {
            Some(sum) => *sum += square,
            None => drop(layers.insert(layer_of(&parameter.name).to_owned(), *square)),
        }
    }
    layers.values_mut().for_each(|sum| *sum = sum.sqrt() / count);
    layers
}
