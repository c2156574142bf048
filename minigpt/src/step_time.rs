//! How long a step of training takes here, measured on random tokens.

use crate::error::{Error, Result};
use minigpt_data::{Corpus, CorpusParts, Tokens};
use minigpt_kernels as ops;
use minigpt_model::{Config, Device, Gpt};
use minigpt_train::{RunFolder, TrainConfig, Trainer, TrainingData};
use std::time::{Duration, Instant};

/// Seed of the random tokens.
const SEED: u64 = 0;
/// Steps that are not measured: they warm up caches and memory.
const WARM_UP: usize = 1;
/// Minimum number of measured steps.
const LEAST: usize = 3;
/// A first step that takes longer than this multiple of the time limit is not repeated.
const SLOW: u32 = 4;

/// Steps of training on random tokens, in a folder that goes away.
pub struct StepTimer {
    trainer: Trainer,
    rate: f64,
    _scratch: tempfile::TempDir,
}

impl StepTimer {
    /// Prepares to train a model on rows of `row` tokens.
    ///
    /// # Errors
    /// No temporary folder, or an invalid configuration.
    pub fn new(gpt: Gpt, train: &TrainConfig, row: usize) -> Result<Self> {
        let scratch = tempfile::tempdir().map_err(Error::Scratch)?;
        let (rows, vocab_size) = (train.batch_size, gpt.config().vocab_size);
        let model = Config { block_size: row, ..gpt.config().clone() };
        // Two batches of text to draw windows from.
        let text = random_ids(2 * rows * row + 1, vocab_size);
        let parts = CorpusParts::Text { train: Tokens::from(text), val: Tokens::from(Vec::new()) };
        let data = TrainingData::new(Corpus::of(None, parts), &model, train, None)?;
        let trainer = Trainer::new(gpt, data, train.clone(), RunFolder::open(scratch.path())?)?;
        Ok(Self { trainer, rate: train.min_lr, _scratch: scratch })
    }

    /// Runs one step and returns its duration.
    ///
    /// # Errors
    /// The loss is not finite.
    pub fn step(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.trainer.step(self.rate)?;
        Ok(start.elapsed())
    }
}

/// The median duration of a step of a new model, measured for about `span`.
///
/// # Errors
/// The configuration is invalid.
pub fn step_time(model: &Config, train: &TrainConfig, row: usize, span: Duration) -> Result<Duration> {
    let gpt = Gpt::new(model.clone(), train.seed, &Device::Cpu)?;
    let mut timer = StepTimer::new(gpt, train, row)?;
    for _ in 0..WARM_UP {
        let first = timer.step()?;
        if first > SLOW * span.max(Duration::from_secs(1)) {
            return Ok(first);
        }
    }
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.len() < LEAST || begun.elapsed() < span {
        times.push(timer.step()?);
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// Random ids, always the same.
pub fn random_ids(count: usize, vocab_size: usize) -> Vec<u32> {
    (0..count as u64).map(|i| (ops::place(SEED, i) % vocab_size.max(1) as u64) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_takes_some_time() {
        let model =
            Config { n_layer: 1, n_head: 2, n_embd: 8, block_size: 8, vocab_size: 11, ..Config::default() };
        let train = TrainConfig { batch_size: 2, ..TrainConfig::default() };
        assert!(step_time(&model, &train, 4, Duration::ZERO).unwrap() > Duration::ZERO);
    }

    #[test]
    fn random_ids_are_in_the_vocabulary_and_not_all_the_same() {
        let ids = random_ids(1000, 7);
        assert!(ids.iter().all(|&id| id < 7));
        assert_eq!((0..7).filter(|id| ids.contains(id)).count(), 7);
    }
}
