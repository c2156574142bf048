//! Ranks that are threads of one process: the same training as on several machines, without any.

use super::{AbortReason, Exchange, RankError, Terms};
use crate::error::Result;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// One of several ranks in this process.
#[derive(Debug)]
pub struct ThreadRank {
    rank: usize,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    round: Mutex<Round>,
    changed: Condvar,
}

/// One collective call: every rank puts in its message and takes those of all ranks.
#[derive(Debug)]
struct Round {
    messages: Vec<Option<Arc<Message>>>,
    /// How many ranks have taken the messages.
    taken: usize,
    /// Why no round will be complete again.
    failed: Option<RankError>,
}

#[derive(Debug, Default)]
struct Message {
    numbers: Vec<f32>,
    bytes: Vec<u8>,
}

impl ThreadRank {
    /// Creates `ranks` ranks, each for a thread of its own.
    pub fn group(ranks: usize) -> Vec<Self> {
        let round = Round { messages: vec![None; ranks], taken: 0, failed: None };
        let shared = Arc::new(Shared { round: Mutex::new(round), changed: Condvar::new() });
        (0..ranks).map(|rank| Self { rank, shared: Arc::clone(&shared) }).collect()
    }

    /// Puts in this rank's message and waits for those of all ranks.
    fn exchange(&self, message: Message) -> Result<Vec<Arc<Message>>> {
        let mut round = self.lock();
        // The other ranks may not have taken the last round's messages yet.
        round = self.wait(round, |round| round.messages[self.rank].is_none())?;
        round.messages[self.rank] = Some(Arc::new(message));
        self.shared.changed.notify_all();
        round = self.wait(round, |round| round.messages.iter().all(Option::is_some))?;
        let all = round.messages.iter().flatten().cloned().collect();
        round.taken += 1;
        if round.taken == round.messages.len() {
            round.messages.fill(None);
            round.taken = 0;
            self.shared.changed.notify_all();
        }
        Ok(all)
    }

    fn wait<'a>(
        &self,
        mut round: MutexGuard<'a, Round>,
        ready: impl Fn(&Round) -> bool,
    ) -> Result<MutexGuard<'a, Round>> {
        loop {
            // A complete round is valid even if a rank has failed since.
            if ready(&round) {
                return Ok(round);
            }
            if let Some(why) = &round.failed {
                return Err(why.clone().into());
            }
            round = self.shared.changed.wait(round).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Round> {
        self.shared.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, why: RankError) {
        self.lock().failed.get_or_insert(why);
        self.shared.changed.notify_all();
    }
}

/// Ranks that still wait for this one get an error.
impl Drop for ThreadRank {
    fn drop(&mut self) {
        self.fail(RankError::Ended(self.rank));
    }
}

impl Exchange for ThreadRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.lock().messages.len()
    }

    fn reduce_scatter(&self, terms: &Terms, sum: &mut [f32]) -> Result<()> {
        let all = self.exchange(Message { numbers: terms.numbers.to_vec(), ..Message::default() })?;
        let mut received = Vec::new();
        for (rank, message) in all.iter().enumerate() {
            let sent = terms.sent_by(rank);
            let before: usize = sent[..self.rank].iter().sum();
            received.extend_from_slice(&message.numbers[before..][..sent[self.rank]]);
        }
        terms.add(self.rank, &mut received, sum);
        Ok(())
    }

    fn all_gather(&self, own: &[f32], _lengths: &[usize], all: &mut [f32]) -> Result<()> {
        let messages = self.exchange(Message { numbers: own.to_vec(), ..Message::default() })?;
        let numbers = messages.iter().flat_map(|message| &message.numbers);
        all.iter_mut().zip(numbers).for_each(|(all, number)| *all = *number);
        Ok(())
    }

    fn gather(&self, record: &[u8]) -> Result<Vec<Vec<u8>>> {
        let messages = self.exchange(Message { bytes: record.to_vec(), ..Message::default() })?;
        Ok(messages.iter().map(|message| message.bytes.clone()).collect())
    }

    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let own = if self.rank == 0 { std::mem::take(bytes) } else { Vec::new() };
        let messages = self.exchange(Message { bytes: own, ..Message::default() })?;
        bytes.clone_from(&messages[0].bytes);
        Ok(())
    }

    fn abort(&self, reason: AbortReason) {
        self.fail(RankError::Aborted { rank: self.rank, reason });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Runs `work` on each of `ranks` ranks.
    fn on_ranks<R: Send>(ranks: usize, work: impl Fn(ThreadRank) -> R + Sync) -> Vec<R> {
        thread::scope(|scope| {
            let start = |rank| scope.spawn(|| work(rank));
            let threads: Vec<_> = ThreadRank::group(ranks).into_iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn every_rank_gets_the_data_of_all_ranks_in_order() {
        let seen = on_ranks(3, |rank| {
            let mut shared = [0.0; 6];
            let own = vec![rank.rank() as f32; rank.rank() + 1];
            rank.all_gather(&own, &[1, 2, 3], &mut shared).unwrap();
            let mut bytes = vec![rank.rank() as u8 + 7];
            rank.broadcast(&mut bytes).unwrap();
            (shared, bytes, rank.gather(&[rank.rank() as u8]).unwrap())
        });
        let want = ([0.0, 1.0, 1.0, 2.0, 2.0, 2.0], vec![7], vec![vec![0], vec![1], vec![2]]);
        assert_eq!(seen, [want.clone(), want.clone(), want]);
    }

    #[test]
    fn no_rank_waits_for_one_that_is_gone_and_the_first_message_counts() {
        let seen = on_ranks(3, |rank| match rank.rank() {
            2 => {
                rank.abort(AbortReason::Failed("no space left".to_owned()));
                String::new()
            }
            _ => rank.gather(&[]).unwrap_err().to_string(),
        });
        assert_eq!(seen, ["rank 2: no space left", "rank 2: no space left", ""]);
    }
}
