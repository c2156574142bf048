//! Which rank owns which tensor: adds up its gradient, keeps its moments, and makes its step.
//!
//! Tensors are owned whole, because Muon's step needs a whole matrix. What an owner has is looked at as one long row of
//! numbers, of which sections travel: no message is too long for MPI's counts, and no buffer as large as the model.

use crate::error::Result;
use crate::optimizer::OptimizerKind;
use candle_core::Tensor;
use minigpt_model::parameters::{ParameterRole, specs};
use minigpt_model::{Config, Parameter};
use std::ops::Range;

/// Numbers that travel in one round, of all owners together.
const ROUND: usize = 1 << 23;
/// The shortest section that is worth a message.
const SHORTEST: usize = 1 << 12;

/// The tensors of every rank.
#[derive(Debug)]
pub struct Owners {
    /// For each rank, from its first tensor to its last.
    tensors: Vec<Vec<usize>>,
}

impl Owners {
    /// The dearest tensor first, always to the rank that has the least to do.
    pub fn new(parameters: &[Parameter], kind: OptimizerKind, ranks: usize) -> Self {
        let cost = |parameter: &Parameter| cost(parameter.tensor.dims(), parameter.role, kind);
        Self::by_cost(&parameters.iter().map(cost).collect::<Vec<_>>(), ranks)
    }

    fn by_cost(costs: &[u64], ranks: usize) -> Self {
        let mut order: Vec<usize> = (0..costs.len()).collect();
        order.sort_by_key(|&tensor| std::cmp::Reverse(costs[tensor]));
        let (mut tensors, mut loads) = (vec![Vec::new(); ranks], vec![0u64; ranks]);
        for tensor in order {
            let least = (0..ranks).min_by_key(|&rank| loads[rank]).unwrap_or(0);
            loads[least] += costs[tensor];
            tensors[least].push(tensor);
        }
        tensors.iter_mut().for_each(|tensors| tensors.sort_unstable());
        Self { tensors }
    }

    /// The tensors of a rank, in the order of the parameters.
    pub fn of(&self, rank: usize) -> &[usize] {
        &self.tensors[rank]
    }

    /// The rows of all ranks, of tensors with these lengths.
    pub fn rows(&self, lengths: &[usize]) -> Rows {
        let row = |tensors: &Vec<usize>| tensors.iter().map(|&tensor| (tensor, lengths[tensor])).collect();
        Rows(self.tensors.iter().map(row).collect())
    }
}

/// What a step of a tensor costs, in about the nanoseconds of one thread: AdamW passes over it once, Muon multiplies
/// matrices five times over.
fn cost(shape: &[usize], role: ParameterRole, kind: OptimizerKind) -> u64 {
    const FLOPS: u64 = 50; // a nanosecond
    let elements: u64 = shape.iter().map(|&n| n as u64).product();
    let (OptimizerKind::Muon, Some(matrices), &[rows, columns]) = (kind, role.muon_matrices(), shape) else {
        return elements;
    };
    let (rows, width) = (rows as u64, columns as u64 / matrices as u64);
    let (short, long) = (rows.min(width), rows.max(width));
    elements + matrices as u64 * 5 * 2 * short * short * (2 * long + short) / FLOPS
}

/// What the ranks tell each other in a step, before anyone trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Numbers that the rank with the most of them owns.
    pub largest_share: u64,
    /// Bytes that come to it in a step: gradients, and the new weights of the others.
    pub bytes: u64,
    /// Messages that it waits for, one after another.
    pub messages: u64,
}

impl Traffic {
    /// For a model, whose batches have as many parts as there are ranks or more.
    pub fn new(config: &Config, kind: OptimizerKind, ranks: usize) -> Self {
        let specs = specs(config);
        let costs: Vec<u64> = specs.iter().map(|spec| cost(&spec.shape, spec.role, kind)).collect();
        let owners = Owners::by_cost(&costs, ranks);
        let lengths: Vec<usize> = specs.iter().map(|spec| spec.count() as usize).collect();
        let rows = owners.rows(&lengths);
        let largest = (0..ranks).map(|rank| rows.length(rank)).max().unwrap_or(0) as u64;
        let others = ranks as u64 - 1;
        // Alltoallv and Allgatherv in rounds, and the record of a step with its length before it.
        let rounds = (rows.rounds(1).count() + rows.rounds(2).count() + 2) as u64;
        Self { largest_share: largest, bytes: 2 * 4 * others * largest, messages: others * rounds }
    }
}

/// Each owner's tensors as one row of numbers.
#[derive(Debug)]
pub struct Rows(Vec<Vec<(usize, usize)>>);

/// Some numbers of a tensor, and where they are in a section.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    pub tensor: usize,
    pub range: Range<usize>,
    pub at: usize,
}

impl Rows {
    /// The rounds in which all rows travel, for ranks that bring at most so many terms each: in each round one section
    /// of every row.
    pub fn rounds(&self, terms: usize) -> impl Iterator<Item = Round<'_>> {
        let section = (ROUND / (self.0.len() * terms.max(1))).max(SHORTEST);
        let longest = (0..self.0.len()).map(|rank| self.length(rank)).max().unwrap_or(0);
        (0..longest.div_ceil(section)).map(move |round| Round { rows: self, from: round * section, section })
    }

    fn length(&self, rank: usize) -> usize {
        self.0[rank].iter().map(|(_, length)| length).sum()
    }
}

/// A section of every row.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    rows: &'a Rows,
    from: usize,
    section: usize,
}

impl Round<'_> {
    /// How long the section of each rank is.
    pub fn lengths(&self) -> Vec<usize> {
        let length = |rank| self.rows.length(rank).saturating_sub(self.from).min(self.section);
        (0..self.rows.0.len()).map(length).collect()
    }

    /// What a rank's section is made of.
    pub fn pieces(&self, rank: usize) -> Vec<Piece> {
        let (from, to) = (self.from, self.from + self.section);
        let (mut pieces, mut start) = (Vec::new(), 0);
        for &(tensor, length) in &self.rows.0[rank] {
            let (first, last) = (from.max(start), to.min(start + length));
            if first < last {
                pieces.push(Piece { tensor, range: first - start..last - start, at: first - from });
            }
            start += length;
        }
        pieces
    }

    /// Copies a rank's section out of tensors.
    pub fn copy_from(&self, rank: usize, tensors: &[Tensor], section: &mut [f32]) -> Result<()> {
        for Piece { tensor, range, at } in self.pieces(rank) {
            let target = &mut section[at..][..range.len()];
            crate::flat::read(&tensors[tensor], |numbers| {
                target.copy_from_slice(&numbers[range.clone()]);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Copies a rank's section into tensors.
    pub fn copy_into(&self, rank: usize, tensors: &[Tensor], section: &[f32]) -> Result<()> {
        for Piece { tensor, range, at } in self.pieces(rank) {
            let source = &section[at..][..range.len()];
            crate::flat::change(&tensors[tensor], |numbers| {
                numbers[range.clone()].copy_from_slice(source);
                Ok(())
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_goes_to_whoever_has_least() {
        let owners = Owners::by_cost(&[5, 90, 40, 60, 1], 2);
        assert_eq!(owners.tensors, [vec![0, 1, 4], vec![2, 3]]);
        assert_eq!(Owners::by_cost(&[1, 2], 3).tensors, [vec![1], vec![0], vec![]]);
        assert_eq!(Owners::by_cost(&[7, 7, 7], 1).tensors, [[0, 1, 2]]);
    }

    #[test]
    fn equal_shares_cost_what_a_ring_costs() {
        let config = Config { n_layer: 8, n_head: 2, n_embd: 64, vocab_size: 65, ..Config::default() };
        let total = minigpt_model::parameters::Count::of(&config).total;
        let two = Traffic::new(&config, OptimizerKind::AdamW, 2);
        // A ring passes 2·(R−1)/R of the model to every rank.
        let ring = 2 * 4 * total / 2;
        assert!(two.bytes >= ring && two.bytes < ring + ring / 50, "{two:?} {ring}");
        assert_eq!(Traffic::new(&config, OptimizerKind::AdamW, 1).bytes, 0);
    }

    #[test]
    fn sections_cover_every_number_once() {
        let (big, small) = (2 * SHORTEST + 5, 7);
        let rows = Rows(vec![vec![(0, big), (2, small)], vec![(1, small)], vec![]]);
        // So many terms that sections have the shortest length.
        let rounds: Vec<Round> = rows.rounds(ROUND).collect();
        assert_eq!(rounds.len(), 3);
        assert_eq!(rounds[0].lengths(), [SHORTEST, 7, 0]);
        assert_eq!(rounds[2].lengths(), [12, 0, 0]);
        let last =
            [Piece { tensor: 0, range: 2 * SHORTEST..big, at: 0 }, Piece { tensor: 2, range: 0..7, at: 5 }];
        assert_eq!(rounds[2].pieces(0), last);
        let covered: usize =
            rounds.iter().flat_map(|round| round.pieces(0)).map(|piece| piece.range.len()).sum();
        assert_eq!(covered, big + small);
    }
}
