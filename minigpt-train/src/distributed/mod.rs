//! Data-parallel training on several ranks. On one machine without a launcher, none of this does anything.
//!
//! A rank is one of several copies of the program, or of its trainer, that train one model together, each on its own parts of every batch.
//! `World` is what the trainer uses. It speaks through an [`Exchange`], of which there are three: [`SingleRank`], [`ThreadRank`] (threads of
//! this process) and [`MpiRank`] (processes launched by MPI).

mod agreement;
mod error;
mod mpi;
mod mpi_library;
mod owners;
mod threads;
mod tree_sum;
mod watchdog;
mod world;

use crate::error::Result;
use rayon::prelude::*;
use std::sync::Arc;

pub(crate) use agreement::Requests;
pub use error::{AbortReason, LauncherKind, MpiError, RankError};
pub use mpi::{Launcher, MpiRank};
pub(crate) use owners::Owners;
pub use owners::Traffic;
pub use threads::ThreadRank;
pub use tree_sum::{TreeNode, TreeSum, nodes_of};
pub use watchdog::Watchdog;
pub(crate) use world::{Timeouts, World};

/// Collective calls between ranks. Every rank makes the same calls in the same order; each call waits for the other ranks.
pub trait Exchange: Send + Sync {
    /// Number of this rank, from 0.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn ranks(&self) -> usize;

    /// Sends each term to its owner; returns in `sum` the sums of the terms that this rank owns.
    ///
    /// # Errors
    /// Another rank is gone.
    fn reduce_scatter(&self, terms: &Terms, sum: &mut [f32]) -> Result<()>;

    /// Fills `all` with the numbers of each rank, `lengths[rank]` of them, one rank after another.
    ///
    /// # Errors
    /// Another rank is gone.
    fn all_gather(&self, own: &[f32], lengths: &[usize], all: &mut [f32]) -> Result<()>;

    /// Returns the record of each rank, in the order of ranks, on every rank.
    ///
    /// # Errors
    /// Another rank is gone.
    fn gather(&self, record: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Replaces `bytes` by those of rank 0.
    ///
    /// # Errors
    /// Another rank is gone.
    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<()>;

    /// Ends all ranks; if several call this, the first reason is shown. May be called while another thread waits in a collective call.
    fn abort(&self, reason: AbortReason);
}

/// The terms that one rank contributes to a reduce-scatter.
#[derive(Debug)]
pub struct Terms<'a> {
    /// For each owner, one after another: the numbers of each node of the sum that this rank contributes.
    pub numbers: &'a [f32],
    /// Numbers per node for each owner.
    pub lengths: &'a [usize],
    /// The nodes of the sum that each rank contributes.
    pub nodes: &'a [Vec<TreeNode>],
    /// Number of parts in the whole sum.
    pub parts: usize,
}

impl Terms<'_> {
    /// How many numbers a rank sends to each.
    pub fn sent_by(&self, rank: usize) -> Vec<usize> {
        self.lengths.iter().map(|length| length * self.nodes[rank].len()).collect()
    }

    /// How many numbers a rank receives from each.
    pub fn received_by(&self, rank: usize) -> Vec<usize> {
        self.nodes.iter().map(|nodes| nodes.len() * self.lengths[rank]).collect()
    }

    /// Adds what an owner received, from the first rank to the last, in the order of the tree.
    pub fn add(&self, owner: usize, received: &mut [f32], sum: &mut [f32]) {
        let length = self.lengths[owner];
        if length == 0 {
            return;
        }
        let mut whole = TreeSum::new(self.parts);
        for (node, term) in self.nodes.iter().flatten().zip(received.chunks_exact_mut(length)) {
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

/// The exchange of a single rank: nothing is sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct SingleRank;

impl SingleRank {
    /// The exchange that a trainer without other ranks takes.
    pub fn exchange() -> Arc<dyn Exchange> {
        Arc::new(Self)
    }
}

impl Exchange for SingleRank {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn reduce_scatter(&self, terms: &Terms, sum: &mut [f32]) -> Result<()> {
        terms.add(0, &mut terms.numbers.to_vec(), sum);
        Ok(())
    }

    fn all_gather(&self, own: &[f32], _lengths: &[usize], all: &mut [f32]) -> Result<()> {
        all.copy_from_slice(own);
        Ok(())
    }

    fn gather(&self, record: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![record.to_vec()])
    }

    fn broadcast(&self, _bytes: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn abort(&self, _reason: AbortReason) {}
}
