//! What ranks tell each other: gradients to those who add them up, new weights to everybody, and small records.
//!
//! A rank is one of several copies of the program (or of its trainer) that learn together, each from its own parts of
//! every batch. There are three kinds of company: none ([`Alone`]), threads of this process ([`ThreadRank`]) and
//! processes that MPI has launched ([`MpiRank`]).

mod mpi;
mod mpi_library;
mod owners;
mod threads;
mod tree_sum;
mod watchdog;

use crate::error::Result;
use rayon::prelude::*;
use std::sync::Arc;

pub use mpi::{Launcher, MpiRank};
pub(crate) use owners::Owners;
pub use owners::Traffic;
pub use threads::ThreadRank;
pub use tree_sum::{TreeNode, TreeSum, nodes_of};
pub use watchdog::Watchdog;

/// How ranks exchange what they have. Every rank calls the same in the same order; each call waits for the others.
pub trait Exchange: Send + Sync {
    /// Which rank this is, from 0.
    fn rank(&self) -> usize;

    /// How many there are.
    fn ranks(&self) -> usize;

    /// Every rank gives its terms to their owners, and gets the sum of those that it owns.
    ///
    /// # Errors
    /// Another rank has gone.
    fn sum_to_owners(&self, terms: &Terms, sum: &mut [f32]) -> Result<()>;

    /// Every rank gets what each has: `lengths` numbers of each, one rank after another.
    ///
    /// # Errors
    /// Another rank has gone.
    fn share(&self, own: &[f32], lengths: &[usize], all: &mut [f32]) -> Result<()>;

    /// Every rank gets the record of each, in the order of ranks.
    ///
    /// # Errors
    /// Another rank has gone.
    fn gather(&self, record: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Every rank gets what rank 0 has.
    ///
    /// # Errors
    /// Another rank has gone.
    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<()>;

    /// Ends all ranks, because of what the message says. The first such message is the one that people see. May be
    /// called while another thread waits for the others.
    fn abort(&self, message: &str);
}

/// Terms of sums on their way to the owners: of every owner's tensors a section of the same round.
#[derive(Debug)]
pub struct Terms<'a> {
    /// For each owner, one after another: the section of each node that this rank brings.
    pub numbers: &'a [f32],
    /// How long each owner's section is.
    pub lengths: &'a [usize],
    /// Which nodes of the sum each rank brings.
    pub nodes: &'a [Vec<TreeNode>],
    /// Parts of the whole sum.
    pub parts: usize,
}

impl Terms<'_> {
    /// How many numbers a rank gives to each.
    pub fn given_by(&self, rank: usize) -> Vec<usize> {
        self.lengths.iter().map(|length| length * self.nodes[rank].len()).collect()
    }

    /// How many numbers a rank gets from each.
    pub fn taken_by(&self, rank: usize) -> Vec<usize> {
        self.nodes.iter().map(|nodes| nodes.len() * self.lengths[rank]).collect()
    }

    /// Adds what an owner has got, from the first rank to the last, in the order of the tree.
    pub fn add(&self, owner: usize, taken: &mut [f32], sum: &mut [f32]) {
        let length = self.lengths[owner];
        if length == 0 {
            return;
        }
        let mut whole = TreeSum::new(self.parts);
        for (node, term) in self.nodes.iter().flatten().zip(taken.chunks_exact_mut(length)) {
            let Ok(()) =
                whole.push_node(*node, term, |sum, more| Ok::<_, std::convert::Infallible>(added(sum, more)));
        }
        if let Some(root) = whole.into_root() {
            sum.copy_from_slice(root);
        }
    }
}

/// Adds numbers to others, in place.
fn added<'a>(sum: &'a mut [f32], more: &mut [f32]) -> &'a mut [f32] {
    use crate::flat::TASK;
    sum.par_chunks_mut(TASK).zip(more.par_chunks(TASK)).for_each(|(sum, more)| {
        sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += *more);
    });
    sum
}

/// One rank and no other: nothing is sent anywhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Alone {
    /// As what a trainer takes.
    pub fn exchange() -> Arc<dyn Exchange> {
        Arc::new(Self)
    }
}

impl Exchange for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn sum_to_owners(&self, terms: &Terms, sum: &mut [f32]) -> Result<()> {
        terms.add(0, &mut terms.numbers.to_vec(), sum);
        Ok(())
    }

    fn share(&self, own: &[f32], _lengths: &[usize], all: &mut [f32]) -> Result<()> {
        all.copy_from_slice(own);
        Ok(())
    }

    fn gather(&self, record: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![record.to_vec()])
    }

    fn broadcast(&self, _bytes: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn abort(&self, _message: &str) {}
}
