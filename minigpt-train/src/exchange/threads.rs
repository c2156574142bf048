//! Ranks that are threads of one process: the same training as on several machines, without any.

use super::{Exchange, Terms};
use crate::error::{Error, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// One of several ranks in this process.
#[derive(Debug)]
pub struct ThreadRank {
    rank: usize,
    board: Arc<Board>,
}

/// Where the ranks lay what they have for the others to see.
#[derive(Debug)]
struct Board {
    round: Mutex<Round>,
    changed: Condvar,
}

#[derive(Debug)]
struct Round {
    given: Vec<Option<Arc<Parcel>>>,
    /// How many have seen what was given.
    taken: usize,
    /// Why no round will ever be full again.
    failed: Option<String>,
}

#[derive(Debug, Default)]
struct Parcel {
    numbers: Vec<f32>,
    bytes: Vec<u8>,
}

impl ThreadRank {
    /// So many ranks, each for a thread of its own.
    pub fn group(ranks: usize) -> Vec<Self> {
        let round = Round { given: vec![None; ranks], taken: 0, failed: None };
        let board = Arc::new(Board { round: Mutex::new(round), changed: Condvar::new() });
        (0..ranks).map(|rank| Self { rank, board: Arc::clone(&board) }).collect()
    }

    /// Lays down what this rank has, and waits for what all have.
    fn exchange(&self, parcel: Parcel) -> Result<Vec<Arc<Parcel>>> {
        let mut round = self.lock();
        // The others may not have seen the last round yet.
        round = self.wait(round, |round| round.given[self.rank].is_none())?;
        round.given[self.rank] = Some(Arc::new(parcel));
        self.board.changed.notify_all();
        round = self.wait(round, |round| round.given.iter().all(Option::is_some))?;
        let all = round.given.iter().flatten().cloned().collect();
        round.taken += 1;
        if round.taken == round.given.len() {
            round.given.fill(None);
            round.taken = 0;
            self.board.changed.notify_all();
        }
        Ok(all)
    }

    fn wait<'a>(
        &self,
        mut round: MutexGuard<'a, Round>,
        ready: impl Fn(&Round) -> bool,
    ) -> Result<MutexGuard<'a, Round>> {
        loop {
            // What was given before somebody left is still good.
            if ready(&round) {
                return Ok(round);
            }
            if let Some(why) = &round.failed {
                return Err(Error::OtherRank(why.clone()));
            }
            round = self.board.changed.wait(round).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Round> {
        self.board.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, why: String) {
        self.lock().failed.get_or_insert(why);
        self.board.changed.notify_all();
    }
}

/// Whoever waits for a rank that is gone would wait for ever.
impl Drop for ThreadRank {
    fn drop(&mut self) {
        self.fail(format!("rank {} has ended", self.rank));
    }
}

impl Exchange for ThreadRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.lock().given.len()
    }

    fn sum_to_owners(&self, terms: &Terms, sum: &mut [f32]) -> Result<()> {
        let all = self.exchange(Parcel { numbers: terms.numbers.to_vec(), ..Parcel::default() })?;
        let mut taken = Vec::new();
        for (rank, parcel) in all.iter().enumerate() {
            let given = terms.given_by(rank);
            let before: usize = given[..self.rank].iter().sum();
            taken.extend_from_slice(&parcel.numbers[before..][..given[self.rank]]);
        }
        terms.add(self.rank, &mut taken, sum);
        Ok(())
    }

    fn share(&self, own: &[f32], _lengths: &[usize], all: &mut [f32]) -> Result<()> {
        let parcels = self.exchange(Parcel { numbers: own.to_vec(), ..Parcel::default() })?;
        let numbers = parcels.iter().flat_map(|parcel| &parcel.numbers);
        all.iter_mut().zip(numbers).for_each(|(all, number)| *all = *number);
        Ok(())
    }

    fn gather(&self, record: &[u8]) -> Result<Vec<Vec<u8>>> {
        let parcels = self.exchange(Parcel { bytes: record.to_vec(), ..Parcel::default() })?;
        Ok(parcels.iter().map(|parcel| parcel.bytes.clone()).collect())
    }

    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let own = if self.rank == 0 { std::mem::take(bytes) } else { Vec::new() };
        let parcels = self.exchange(Parcel { bytes: own, ..Parcel::default() })?;
        bytes.clone_from(&parcels[0].bytes);
        Ok(())
    }

    fn abort(&self, message: &str) {
        self.fail(format!("rank {}: {message}", self.rank));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// What each of so many ranks makes of its own part of the work.
    fn on_ranks<R: Send>(ranks: usize, work: impl Fn(ThreadRank) -> R + Sync) -> Vec<R> {
        thread::scope(|scope| {
            let start = |rank| scope.spawn(|| work(rank));
            let threads: Vec<_> = ThreadRank::group(ranks).into_iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn everybody_gets_what_everybody_has_in_the_order_of_ranks() {
        let seen = on_ranks(3, |rank| {
            let mut shared = [0.0; 6];
            let own = vec![rank.rank() as f32; rank.rank() + 1];
            rank.share(&own, &[1, 2, 3], &mut shared).unwrap();
            let mut bytes = vec![rank.rank() as u8 + 7];
            rank.broadcast(&mut bytes).unwrap();
            (shared, bytes, rank.gather(&[rank.rank() as u8]).unwrap())
        });
        let want = ([0.0, 1.0, 1.0, 2.0, 2.0, 2.0], vec![7], vec![vec![0], vec![1], vec![2]]);
        assert_eq!(seen, [want.clone(), want.clone(), want]);
    }

    #[test]
    fn nobody_waits_for_a_rank_that_is_gone_and_the_first_message_counts() {
        let seen = on_ranks(3, |rank| match rank.rank() {
            2 => {
                rank.abort("no space left");
                String::new()
            }
            _ => rank.gather(&[]).unwrap_err().to_string(),
        });
        assert_eq!(seen, ["rank 2: no space left", "rank 2: no space left", ""]);
    }
}
