//! What a trainer asks of the other ranks: the sum of all gradients, the new weights, each other's numbers.
//!
//! [`Exchange`] moves numbers; this knows whose they are, and how long to wait for them.

use crate::error::{Error, Result};
use crate::exchange::{Exchange, Owners, Terms, TreeNode, Watchdog, nodes_of};
use crate::flat;
use crate::gradients::Gradients;
use crate::optimizer::OptimizerKind;
use candle_core::{DType, Device, Tensor};
use minigpt_model::Parameter;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A rank among others, and what each of them has of a step's work.
pub struct Ranks {
    exchange: Arc<dyn Exchange>,
    waiting: Waiting,
    parts: usize,
    owners: Owners,
    /// Which nodes of a sum each rank brings.
    nodes: Vec<Vec<TreeNode>>,
    parameters: Vec<Tensor>,
    lengths: Vec<usize>,
    buffer: Vec<f32>,
}

impl Ranks {
    /// Splits so many parts of a batch, and the parameters, among the ranks.
    pub fn new(
        (exchange, waiting): (Arc<dyn Exchange>, Waiting),
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
            waiting,
        }
    }

    /// Whether this is the rank that has the run folder.
    pub fn is_first(&self) -> bool {
        self.exchange.rank() == 0
    }

    /// How many ranks there are.
    pub fn count(&self) -> usize {
        self.exchange.ranks()
    }

    /// Which one this is.
    pub fn rank(&self) -> usize {
        self.exchange.rank()
    }

    /// Parts that every batch is split into, on all ranks together.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// The parts of this rank.
    pub fn own_parts(&self) -> Range<usize> {
        self.parts_of(self.rank())
    }

    /// The parts of any rank.
    pub fn parts_of(&self, rank: usize) -> Range<usize> {
        part_range(self.parts, rank, self.count())
    }

    /// The parameters that this rank owns.
    pub fn own<T: Clone>(&self, of_all: &[T]) -> Vec<T> {
        self.owners.of(self.rank()).iter().map(|&i| of_all[i].clone()).collect()
    }

    /// One value for every parameter, from those of each owner.
    pub fn in_order<T>(&self, of_owners: Vec<Vec<T>>) -> Vec<T> {
        let owned = of_owners.into_iter().enumerate();
        let mut all: Vec<(usize, T)> =
            owned.flat_map(|(rank, own)| self.owners.of(rank).iter().copied().zip(own)).collect();
        all.sort_by_key(|(parameter, _)| *parameter);
        all.into_iter().map(|(_, value)| value).collect()
    }

    /// A step usually takes so long.
    pub fn usual_step(&mut self, step: Duration) {
        self.waiting.step = step;
    }

    /// The sums of the gradients that this rank owns, of what all ranks have added up of theirs.
    pub fn sum(&mut self, mut nodes: Vec<(TreeNode, Gradients)>) -> Result<Gradients> {
        if self.count() == 1 {
            let whole = nodes.pop().map(|(_, gradients)| gradients);
            return whole.ok_or_else(|| Error::OtherRank("there was nothing to learn from".to_owned()));
        }
        let terms: Vec<Vec<Tensor>> =
            nodes.iter().map(|(_, gradients)| flat::all_flat(gradients.tensors())).collect::<Result<_>>()?;
        drop(nodes);
        let Self { exchange, waiting, owners, buffer, .. } = self;
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
            waiting.usual(|| exchange.sum_to_owners(&terms, &mut own[start..]))?;
        }
        // The row of what this rank owns becomes tensors again.
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

    /// Every rank gets the weights of each owner.
    pub fn share_weights(&mut self) -> Result<()> {
        if self.count() == 1 {
            return Ok(());
        }
        let flat = flat::all_flat(&self.parameters)?;
        let lengths = self.lengths.clone();
        self.share(&lengths, &flat, true)?;
        flat::put_back(&flat, &self.parameters)
    }

    /// The first rank gets the tensors of each owner, one for each parameter that has one, in the order of parameters.
    pub fn collect(&mut self, own: &[Option<Tensor>], present: &[bool]) -> Result<Option<Vec<Tensor>>> {
        let lengths =
            self.lengths.iter().zip(present).map(|(&length, &present)| if present { length } else { 0 });
        let lengths: Vec<usize> = lengths.collect();
        let keep = self.is_first();
        let place = |((own, parameter), present): ((&Option<Tensor>, &Tensor), &bool)| match own {
            Some(own) => Ok(own.clone()),
            // Only who keeps it needs room for it.
            None if keep && *present => parameter.zeros_like().map(|zeros| zeros.detach()),
            None => Tensor::zeros(0, DType::F32, &Device::Cpu),
        };
        let tensors = own.iter().zip(&self.parameters).zip(present).map(place);
        let flat = flat::all_flat(&tensors.collect::<candle_core::Result<Vec<_>>>()?)?;
        self.share(&lengths, &flat, keep)?;
        let all = flat.into_iter().zip(present).filter(|(_, present)| **present).map(|(tensor, _)| tensor);
        Ok(keep.then(|| all.collect()))
    }

    /// Every rank gets the flat tensors of each owner, and keeps those of the others or does not.
    fn share(&mut self, lengths: &[usize], tensors: &[Tensor], keep: bool) -> Result<()> {
        let Self { exchange, waiting, owners, buffer, .. } = self;
        let rank = exchange.rank();
        let rows = owners.rows(lengths);
        for round in rows.rounds(2) {
            let lengths = round.lengths();
            let all: usize = lengths.iter().sum();
            buffer.resize(all + lengths[rank], 0.0);
            let (all, own) = buffer.split_at_mut(all);
            round.copy_from(rank, tensors, own)?;
            waiting.usual(|| exchange.share(own, &lengths, all))?;
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

    /// What every rank has to say about a step, in the order of ranks.
    pub fn gather(&self, record: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.waiting.usual(|| self.exchange.gather(record))
    }

    /// The same where some may take much longer than others: one of them saved, or read a text aloud.
    pub fn gather_patiently(&self, record: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.waiting.patiently(|| self.exchange.gather(record))
    }

    /// Every rank gets the numbers that the first one has in a tensor of the same shape.
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
        self.waiting.patiently(|| self.exchange.broadcast(&mut bytes))?;
        let (numbers, rest) = bytes.as_chunks::<4>();
        if numbers.len() != tensor.elem_count() || !rest.is_empty() {
            return Err(Error::OtherRank("rank 0 sent a tensor of another size".to_owned()));
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

/// The parts of a rank: as many as any other has, or one fewer.
fn part_range(parts: usize, rank: usize, ranks: usize) -> Range<usize> {
    rank * parts / ranks..(rank + 1) * parts / ranks
}

/// How long a rank waits for the others before it gives up.
pub struct Waiting {
    watchdog: Option<Watchdog>,
    least: Duration,
    step: Duration,
}

/// A step that takes so many times the usual one will never end.
const STEPS: u32 = 10;
/// Saving, sampling and evaluating may take so many times as long.
const LONG: u32 = 10;

/// Before the first step every rank reads its data; some have slow disks.
const START: u32 = 60;

impl Waiting {
    /// Ends all ranks when one waits too long.
    pub fn new(exchange: &Arc<dyn Exchange>) -> Result<Self> {
        let (seen, least) = (Arc::clone(exchange), Watchdog::least());
        let bark = move |limit: Duration| {
            let seconds = limit.as_secs_f64();
            seen.abort(&format!(
                "nothing was heard from the other ranks for {seconds:.0} seconds: a machine, or the network between them, \
                 stands still. The run can go on from its last checkpoint"
            ));
        };
        let alone = exchange.ranks() == 1;
        let watchdog = if alone { None } else { Some(Watchdog::new(bark).map_err(Error::Watchdog)?) };
        Ok(Self { watchdog, least, step: Duration::ZERO })
    }

    /// A call that takes no longer than a step.
    pub fn usual<R>(&self, call: impl FnOnce() -> R) -> R {
        self.within(self.least.max(STEPS * self.step), call)
    }

    /// A call for which somebody may have to read or write much.
    pub fn patiently<R>(&self, call: impl FnOnce() -> R) -> R {
        self.within(LONG * self.least.max(STEPS * self.step), call)
    }

    /// The first call of all: before it, every rank reads its data.
    pub fn at_the_start<R>(&self, call: impl FnOnce() -> R) -> R {
        self.within(START * self.least, call)
    }

    fn within<R>(&self, limit: Duration, call: impl FnOnce() -> R) -> R {
        match &self.watchdog {
            Some(watchdog) => watchdog.during(limit, call),
            None => call(),
        }
    }
}
