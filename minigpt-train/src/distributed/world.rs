//! The ranks of a run, as its trainer sees them: sums of gradients, updated weights, each other's losses.
//!
//! [`Exchange`] moves numbers. `World` knows which parameters and which parts of a batch they belong to, and how long to wait for them. With a
//! single rank, every method returns at once.

use super::agreement::{self, Requests};
use super::{AbortReason, Exchange, Owners, RankError, Terms, TreeNode, Watchdog, nodes_of};
use crate::error::{Error, Result};
use crate::evaluate::Evaluation;
use crate::flat;
use crate::gradients::Gradients;
use crate::optimizer::OptimizerKind;
use candle_core::{DType, Device, Tensor};
use minigpt_model::Parameter;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// All ranks of a run, seen from one of them.
pub struct World {
    exchange: Arc<dyn Exchange>,
    timeouts: Timeouts,
    /// What the ranks agreed on last.
    agreed: Requests,
    parts: usize,
    owners: Owners,
    /// The nodes of the sum that each rank contributes.
    nodes: Vec<Vec<TreeNode>>,
    parameters: Vec<Tensor>,
    lengths: Vec<usize>,
    buffer: Vec<f32>,
}

impl World {
    /// Splits the `parts` of each batch, and the parameters, among the ranks.
    pub fn new(
        (exchange, timeouts): (Arc<dyn Exchange>, Timeouts),
        parts: usize,
        parameters: &[Parameter],
        kind: OptimizerKind,
    ) -> Self {
        let ranks = exchange.ranks();
        Self {
            parts,
            owners: Owners::new(parameters, kind, ranks),
            nodes: (0..ranks).map(|rank| nodes_of(parts, part_range(parts, rank, ranks))).collect(),
            parameters: parameters.iter().map(|parameter| parameter.tensor.clone()).collect(),
            lengths: parameters.iter().map(|parameter| parameter.tensor.elem_count()).collect(),
            buffer: Vec::new(),
            exchange,
            timeouts,
            agreed: Requests::default(),
        }
    }

    /// Whether this is rank 0, which has the run folder.
    pub fn is_first(&self) -> bool {
        self.exchange.rank() == 0
    }

    /// Number of ranks.
    pub fn count(&self) -> usize {
        self.exchange.ranks()
    }

    /// Number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.exchange.rank()
    }

    /// Number of parts that every batch is split into, over all ranks.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// The parts that this rank computes.
    pub fn own_parts(&self) -> Range<usize> {
        self.parts_of(self.rank())
    }

    /// The parts that a rank computes.
    pub fn parts_of(&self, rank: usize) -> Range<usize> {
        part_range(self.parts, rank, self.count())
    }

    /// The elements of `of_all`, one per parameter, that belong to parameters owned by this rank.
    pub fn own<T: Clone>(&self, of_all: &[T]) -> Vec<T> {
        self.owners.of(self.rank()).iter().map(|&i| of_all[i].clone()).collect()
    }

    /// Merges the values of each owner, one per owned parameter, into the order of the parameters.
    pub fn in_order<T>(&self, of_owners: Vec<Vec<T>>) -> Vec<T> {
        let owned = of_owners.into_iter().enumerate();
        let mut all: Vec<(usize, T)> =
            owned.flat_map(|(rank, own)| self.owners.of(rank).iter().copied().zip(own)).collect();
        all.sort_by_key(|(parameter, _)| *parameter);
        all.into_iter().map(|(_, value)| value).collect()
    }

    /// Tells how long a step takes, from which the timeouts follow.
    pub fn set_step_time(&mut self, step: Duration) {
        self.timeouts.step = step;
    }

    /// What the ranks agreed on last.
    pub fn agreed(&self) -> Requests {
        self.agreed
    }

    /// Sends this rank's requests and numbers to all ranks; returns the numbers of each rank. The requests of all ranks together become
    /// [`agreed`](Self::agreed).
    ///
    /// # Errors
    /// Another rank is gone, or does not answer within the time of a few steps.
    pub fn gather(&mut self, requests: Requests, numbers: &[f64]) -> Result<Vec<Vec<f64>>> {
        let record = agreement::encode(requests, numbers);
        let records = self.timeouts.step(|| self.exchange.gather(&record))?;
        self.decode(&records)
    }

    /// Like [`gather`](Self::gather), after work that takes one rank much longer than the others: saving, sampling, evaluating.
    ///
    /// # Errors
    /// As for [`gather`](Self::gather).
    pub fn gather_after_long_work(&mut self, requests: Requests, numbers: &[f64]) -> Result<Vec<Vec<f64>>> {
        let record = agreement::encode(requests, numbers);
        let records = self.timeouts.long(|| self.exchange.gather(&record))?;
        self.decode(&records)
    }

    /// Gathers the losses of each part and the squared gradient norms of each parameter from all ranks, with `micro_batches` losses per part.
    ///
    /// # Errors
    /// As for [`gather`](Self::gather).
    pub fn gather_losses(
        &mut self,
        requests: Requests,
        losses: Vec<Evaluation>,
        squares: Vec<f64>,
        micro_batches: usize,
    ) -> Result<(Vec<Evaluation>, Vec<f64>)> {
        if self.count() == 1 {
            self.gather(requests, &[])?;
            return Ok((losses, squares));
        }
        let pairs = losses.iter().flat_map(|loss| [loss.sum, loss.tokens as f64]);
        let numbers: Vec<f64> = pairs.chain(squares).collect();
        let (mut losses, mut squares) = (Vec::new(), Vec::new());
        for (rank, numbers) in self.gather(requests, &numbers)?.into_iter().enumerate() {
            let halves = numbers.split_at_checked(2 * micro_batches * self.parts_of(rank).len());
            let (of_parts, of_tensors) = halves.ok_or(RankError::Malformed { rank })?;
            let pairs = of_parts.as_chunks::<2>().0.iter();
            losses.extend(pairs.map(|&[sum, tokens]| Evaluation { sum, tokens: tokens as u64 }));
            squares.push(of_tensors.to_vec());
        }
        Ok((losses, self.in_order(squares)))
    }

    fn decode(&mut self, records: &[Vec<u8>]) -> Result<Vec<Vec<f64>>> {
        let numbers;
        (self.agreed, numbers) = agreement::decode(records)?;
        Ok(numbers)
    }

    /// Sums the gradients of all ranks (reduce-scatter); returns the sums for the parameters that this rank owns.
    pub fn reduce(&mut self, mut nodes: Vec<(TreeNode, Gradients)>) -> Result<Gradients> {
        if self.count() == 1 {
            let whole = nodes.pop().map(|(_, gradients)| gradients);
            return Ok(whole.ok_or(RankError::NoParts)?);
        }
        let terms: Vec<Vec<Tensor>> =
            nodes.iter().map(|(_, gradients)| flat::all_flat(gradients.tensors())).collect::<Result<_>>()?;
        drop(nodes);
        let Self { exchange, timeouts, owners, buffer, .. } = self;
        let (rank, parts, nodes) = (exchange.rank(), self.parts, &self.nodes);
        let mut own = Vec::new();
        let rows = owners.rows(&self.lengths);
        for round in rows.rounds(nodes.iter().map(Vec::len).max().unwrap_or(1)) {
            let lengths = round.lengths();
            buffer.resize(lengths.iter().sum::<usize>() * terms.len(), 0.0);
            let mut rest = &mut buffer[..];
            for (owner, &length) in lengths.iter().enumerate() {
                for term in &terms {
                    let (section, after) = rest.split_at_mut(length);
                    round.copy_from(owner, term, section)?;
                    rest = after;
                }
            }
            let terms = Terms { numbers: buffer, lengths: &lengths, nodes, parts };
            let start = own.len();
            own.resize(start + lengths[rank], 0.0);
            timeouts.step(|| exchange.reduce_scatter(&terms, &mut own[start..]))?;
        }
        // Cut the flat sums back into tensors.
        let (mut sums, mut rest) = (Vec::new(), &own[..]);
        for &tensor in owners.of(rank) {
            let (numbers, after) = rest.split_at(self.lengths[tensor]);
            let like = &self.parameters[tensor];
            let sum = Tensor::from_slice(numbers, like.shape(), &Device::Cpu)?;
            sums.push(sum.to_dtype(like.dtype())?.to_device(like.device())?);
            rest = after;
        }
        Ok(Gradients::from_tensors(sums))
    }

    /// Sends each owner's updated weights to all ranks.
    pub fn share_weights(&mut self) -> Result<()> {
        if self.count() == 1 {
            return Ok(());
        }
        let flat = flat::all_flat(&self.parameters)?;
        let lengths = self.lengths.clone();
        self.all_gather(&lengths, &flat, true)?;
        flat::put_back(&flat, &self.parameters)
    }

    /// Gathers the optimizer state of each owner on rank 0: one tensor per parameter that has one, in the order of the parameters.
    pub fn gather_tensors(
        &mut self,
        own: &[Option<Tensor>],
        present: &[bool],
    ) -> Result<Option<Vec<Tensor>>> {
        let lengths =
            self.lengths.iter().zip(present).map(|(&length, &present)| if present { length } else { 0 });
        let lengths: Vec<usize> = lengths.collect();
        let keep = self.is_first();
        let filled = |((own, parameter), present): ((&Option<Tensor>, &Tensor), &bool)| match own {
            Some(own) => Ok(own.clone()),
            // Only rank 0 keeps the others' tensors and needs memory for them.
            None if keep && *present => parameter.zeros_like().map(|zeros| zeros.detach()),
            None => Tensor::zeros(0, DType::F32, &Device::Cpu),
        };
        let tensors = own.iter().zip(&self.parameters).zip(present).map(filled);
        let flat = flat::all_flat(&tensors.collect::<candle_core::Result<Vec<_>>>()?)?;
        self.all_gather(&lengths, &flat, keep)?;
        let all = flat.into_iter().zip(present).filter(|(_, present)| **present).map(|(tensor, _)| tensor);
        Ok(keep.then(|| all.collect()))
    }

    /// Sends the flat tensors of each owner to all ranks, which copy them into `tensors` if `keep` is set.
    fn all_gather(&mut self, lengths: &[usize], tensors: &[Tensor], keep: bool) -> Result<()> {
        let Self { exchange, timeouts, owners, buffer, .. } = self;
        let rank = exchange.rank();
        let rows = owners.rows(lengths);
        for round in rows.rounds(2) {
            let lengths = round.lengths();
            let all: usize = lengths.iter().sum();
            buffer.resize(all + lengths[rank], 0.0);
            let (all, own) = buffer.split_at_mut(all);
            round.copy_from(rank, tensors, own)?;
            timeouts.step(|| exchange.all_gather(own, &lengths, all))?;
            let mut rest = &all[..];
            for (owner, &length) in lengths.iter().enumerate() {
                let (section, after) = rest.split_at(length);
                if keep && owner != rank {
                    round.copy_into(owner, tensors, section)?;
                }
                rest = after;
            }
        }
        Ok(())
    }

    /// Copies a tensor from rank 0 into the tensor of the same shape on every other rank.
    pub fn broadcast(&self, tensor: &Tensor) -> Result<()> {
        if self.count() == 1 {
            return Ok(());
        }
        let flat = flat::all_flat(std::slice::from_ref(tensor))?;
        let mut bytes = Vec::new();
        if self.is_first() {
            flat::read(&flat[0], |numbers| {
                bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                Ok(())
            })?;
        }
        self.timeouts.long(|| self.exchange.broadcast(&mut bytes))?;
        let (numbers, rest) = bytes.as_chunks::<4>();
        if numbers.len() != tensor.elem_count() || !rest.is_empty() {
            return Err(RankError::OtherSize.into());
        }
        if !self.is_first() {
            flat::change(&flat[0], |own| {
                own.iter_mut().zip(numbers).for_each(|(own, bytes)| *own = f32::from_le_bytes(*bytes));
                Ok(())
            })?;
        }
        flat::put_back(&flat, std::slice::from_ref(tensor))
    }
}

/// The parts of a rank. Ranks differ by at most one part.
fn part_range(parts: usize, rank: usize, ranks: usize) -> Range<usize> {
    rank * parts / ranks..(rank + 1) * parts / ranks
}

/// How long a rank waits for the others before it ends the run.
pub struct Timeouts {
    watchdog: Option<Watchdog>,
    least: Duration,
    step: Duration,
}

/// The other ranks have failed if they take this many times as long as a step.
const STEPS: u32 = 10;
/// Factor for saving, sampling and evaluating.
const LONG: u32 = 10;
/// Factor for the first call: before it every rank reads its data, some from slow disks.
const START: u32 = 60;

impl Timeouts {
    /// Starts the watchdog that ends all ranks when this one has waited too long. A single rank has none.
    ///
    /// # Errors
    /// The watchdog's thread can't be started.
    pub fn new(exchange: &Arc<dyn Exchange>) -> Result<Self> {
        let (seen, least) = (Arc::clone(exchange), Watchdog::least());
        let abort = move |limit: Duration| {
            seen.abort(AbortReason::Timeout { seconds: limit.as_secs_f64() });
        };
        let single = exchange.ranks() == 1;
        let watchdog = if single { None } else { Some(Watchdog::new(abort).map_err(Error::Watchdog)?) };
        Ok(Self { watchdog, least, step: Duration::ZERO })
    }

    /// Runs a collective call that all ranks reach within a step.
    pub fn step<R>(&self, call: impl FnOnce() -> R) -> R {
        self.within(self.least.max(STEPS * self.step), call)
    }

    /// Runs a collective call that one rank may reach much later, because it reads or writes files.
    pub fn long<R>(&self, call: impl FnOnce() -> R) -> R {
        self.within(LONG * self.least.max(STEPS * self.step), call)
    }

    /// Runs the first collective call of a run.
    pub fn start<R>(&self, call: impl FnOnce() -> R) -> R {
        self.within(START * self.least, call)
    }

    fn within<R>(&self, limit: Duration, call: impl FnOnce() -> R) -> R {
        match &self.watchdog {
            Some(watchdog) => watchdog.during(limit, call),
            None => call(),
        }
    }
}
