//! Batches of a data set in a chosen order, from any position.
//!
//! Batch `n` of epoch `e` is a pure function of the data, the [`Sampling`] and (`e`, `n`): to resume, it is
//! enough to save the [`Position`].

use crate::batch::Batch;
use crate::error::{Error, OptionError, Result};
use crate::random::{Purpose, below, generator, permutation};
use serde::{Deserialize, Serialize};

/// No batch has more positions than this: a mistyped size should be an error, not the end of the memory.
const MAX_POSITIONS: u64 = 1 << 30;

/// Numbered examples from which batches are made.
pub trait Dataset: Send + Sync {
    /// Number of examples.
    fn examples(&self) -> u64;

    /// How many examples make an epoch: fewer than there are where they overlap.
    fn epoch_examples(&self) -> u64 {
        self.examples()
    }

    /// Positions of a row, at most.
    fn cols(&self) -> usize;

    /// The batch of some examples, each below [`Dataset::examples`].
    ///
    /// # Errors
    /// Data that turns out not to fit the vocabulary.
    fn collate(&self, examples: &[u64]) -> Result<Batch>;

    /// Differs between data sets: a run that is resumed must find the one it left.
    ///
    /// # Errors
    /// Data that can't be read any more.
    fn fingerprint(&self) -> Result<String>;
}

impl<D: Dataset + ?Sized> Dataset for Box<D> {
    fn examples(&self) -> u64 {
        (**self).examples()
    }

    fn epoch_examples(&self) -> u64 {
        (**self).epoch_examples()
    }

    fn cols(&self) -> usize {
        (**self).cols()
    }

    fn collate(&self, examples: &[u64]) -> Result<Batch> {
        (**self).collate(examples)
    }

    fn fingerprint(&self) -> Result<String> {
        (**self).fingerprint()
    }
}

/// In which order examples come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// As they are: for evaluation.
    Sequential,
    /// Every example once an epoch, in another order each time.
    Shuffled,
    /// Any example at any time (with replacement): nanoGPT's random windows.
    Random,
}

/// How batches are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// Examples a batch.
    pub batch_size: usize,
    /// In which order.
    pub order: Order,
    /// Decides every random choice.
    pub seed: u64,
    /// Whether to leave out an epoch's last batch where it is smaller than the others.
    pub drop_last: bool,
}

/// The batch that comes next. Save it to resume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// From 0.
    pub epoch: u64,
    /// Within the epoch, from 0.
    pub batch: u64,
}

/// Draws batches.
#[derive(Debug)]
pub struct Loader<D> {
    dataset: D,
    sampling: Sampling,
    batches: u64,
    position: Position,
    /// The order of one epoch, kept while its batches are drawn.
    shuffled: Option<(u64, Vec<u32>)>,
}

impl<D: Dataset> Loader<D> {
    /// Starts at the first batch of the first epoch.
    ///
    /// # Errors
    /// A batch size of zero, or more than there is data for.
    pub fn new(dataset: D, sampling: Sampling) -> Result<Self> {
        let (epoch, size) = (dataset.epoch_examples(), sampling.batch_size as u64);
        if size == 0 {
            return Err(OptionError::BatchSize.into());
        }
        if sampling.order == Order::Shuffled && dataset.examples() > u64::from(u32::MAX) {
            let examples = dataset.examples();
            return Err(OptionError::TooManyToShuffle { examples }.into());
        }
        let positions = size.min(epoch).saturating_mul(dataset.cols() as u64);
        if positions > MAX_POSITIONS {
            return Err(OptionError::BatchTooLarge { positions }.into());
        }
        let batches = if sampling.drop_last { epoch / size } else { epoch.div_ceil(size) };
        if batches == 0 {
            return Err(OptionError::TooFewExamples { examples: epoch, size }.into());
        }
        Ok(Loader { dataset, sampling, batches, position: Position::default(), shuffled: None })
    }

    /// The data.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }

    /// How batches are drawn.
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// Batches per epoch.
    pub fn batches_per_epoch(&self) -> u64 {
        self.batches
    }

    /// Where the next batch is.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Goes to a position.
    ///
    /// # Errors
    /// One that this data set does not have.
    pub fn seek(&mut self, position: Position) -> Result<()> {
        self.check(position)?;
        self.position = position;
        Ok(())
    }

    fn check(&self, position: Position) -> Result<()> {
        let (Position { epoch, batch }, batches) = (position, self.batches);
        if batch < batches { Ok(()) } else { Err(Error::BadPosition { epoch, batch, batches }) }
    }

    /// The next batch; after an epoch's last comes the next epoch's first.
    pub fn next_batch(&mut self) -> Result<Batch> {
        let batch = self.batch(self.position)?;
        self.position.batch += 1;
        if self.position.batch == self.batches {
            self.position = Position { epoch: self.position.epoch + 1, batch: 0 };
        }
        Ok(batch)
    }

    /// The batch at a position, without going there.
    ///
    /// # Errors
    /// A position that this data set does not have.
    pub fn batch(&mut self, position: Position) -> Result<Batch> {
        self.check(position)?;
        let examples = self.choose(position);
        self.dataset.collate(&examples)
    }

    fn choose(&mut self, at: Position) -> Vec<u64> {
        let size = self.sampling.batch_size as u64;
        let start = at.batch * size;
        let end = self.dataset.epoch_examples().min(start.saturating_add(size));
        match self.sampling.order {
            Order::Sequential => (start..end).collect(),
            Order::Shuffled => {
                let order = self.shuffled(at.epoch);
                order[start as usize..end as usize].iter().map(|&example| u64::from(example)).collect()
            }
            Order::Random => {
                let mut rng = generator(self.sampling.seed, Purpose::Windows, at.epoch, at.batch);
                let examples = self.dataset.examples();
                (start..end).map(|_| below(&mut rng, examples)).collect()
            }
        }
    }

    fn shuffled(&mut self, epoch: u64) -> &[u32] {
        let (seed, count) = (self.sampling.seed, self.dataset.examples() as u32);
        let fresh = || (epoch, permutation(&mut generator(seed, Purpose::Shuffle, epoch, 0), count));
        let kept = self.shuffled.take().filter(|(of, _)| *of == epoch);
        &self.shuffled.insert(kept.unwrap_or_else(fresh)).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Example `i` is the ids `i`, `i + 1`.
    #[derive(Debug)]
    struct Counting(u64);

    impl Dataset for Counting {
        fn examples(&self) -> u64 {
            self.0
        }

        fn cols(&self) -> usize {
            1
        }

        fn collate(&self, examples: &[u64]) -> Result<Batch> {
            let mut batch = Batch::with_capacity(examples.len(), 1);
            examples.iter().for_each(|&i| batch.push(&[i as u32, i as u32 + 1], |_| true, 0));
            Ok(batch)
        }

        fn fingerprint(&self) -> Result<String> {
            Ok(self.0.to_string())
        }
    }

    fn sampling(batch_size: usize, order: Order, drop_last: bool) -> Sampling {
        Sampling { batch_size, order, seed: 1337, drop_last }
    }

    fn epoch(loader: &mut Loader<Counting>) -> Vec<u32> {
        (0..loader.batches_per_epoch()).flat_map(|_| loader.next_batch().unwrap().inputs).collect()
    }

    #[test]
    fn an_epoch_has_every_example_once_and_each_epoch_its_own_order() {
        let mut loader = Loader::new(Counting(10), sampling(3, Order::Shuffled, false)).unwrap();
        let (first, second) = (epoch(&mut loader), epoch(&mut loader));
        assert_ne!(first, second);
        for mut order in [first, second] {
            order.sort_unstable();
            assert!(order.into_iter().eq(0..10));
        }
        assert_eq!(loader.position(), Position { epoch: 2, batch: 0 });
    }

    #[test]
    fn the_order_of_a_seed_never_changes() {
        let mut loader = Loader::new(Counting(8), sampling(8, Order::Shuffled, false)).unwrap();
        loader.seek(Position { epoch: 2, batch: 0 }).unwrap();
        assert_eq!(loader.next_batch().unwrap().inputs, [7, 1, 5, 0, 2, 6, 4, 3]);
    }

    #[test]
    fn a_last_small_batch_is_kept_or_dropped() {
        let mut kept = Loader::new(Counting(10), sampling(4, Order::Sequential, false)).unwrap();
        assert_eq!(epoch(&mut kept), (0..10).collect::<Vec<u32>>());
        let mut dropped = Loader::new(Counting(10), sampling(4, Order::Sequential, true)).unwrap();
        assert_eq!(epoch(&mut dropped), (0..8).collect::<Vec<u32>>());
    }

    #[test]
    fn impossible_sizes_and_positions_are_refused() {
        assert!(Loader::new(Counting(3), sampling(0, Order::Random, false)).is_err());
        let error = Loader::new(Counting(3), sampling(4, Order::Random, true)).unwrap_err().to_string();
        assert!(error.contains("3 examples, too few for one batch of 4"), "{error}");
        assert!(Loader::new(Counting(1 << 33), sampling(4, Order::Shuffled, false)).is_err());
        let mut loader = Loader::new(Counting(3), sampling(3, Order::Random, false)).unwrap();
        assert!(loader.seek(Position { epoch: 9, batch: 1 }).is_err());
        assert!(loader.batch(Position { epoch: 0, batch: u64::MAX }).is_err());
        assert!(Loader::new(Counting(1 << 40), sampling(1 << 39, Order::Random, false)).is_err());
        let one = Loader::new(Counting(3), sampling(usize::MAX, Order::Random, false));
        assert_eq!(one.unwrap().next_batch().unwrap().rows, 3);
    }

    proptest! {
        #[test]
        fn resuming_anywhere_equals_never_having_stopped(
            examples in 1_u64..40, batch_size in 1_usize..9, seed: u64, stop in 0_usize..50,
            order in prop_oneof![Just(Order::Sequential), Just(Order::Shuffled), Just(Order::Random)],
        ) {
            let sampling = Sampling { batch_size, order, seed, drop_last: false };
            let mut whole = Loader::new(Counting(examples), sampling).unwrap();
            (0..stop).for_each(|_| drop(whole.next_batch().unwrap()));
            let saved = serde_json::to_string(&whole.position()).unwrap();
            let mut resumed = Loader::new(Counting(examples), sampling).unwrap();
            resumed.seek(serde_json::from_str(&saved).unwrap()).unwrap();
            for _ in 0..30 {
                prop_assert_eq!(resumed.next_batch().unwrap(), whole.next_batch().unwrap());
                prop_assert_eq!(resumed.position(), whole.position());
            }
        }
    }
}
