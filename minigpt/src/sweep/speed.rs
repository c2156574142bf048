//! How fast models of a sweep are here: one at a time on all threads, or several side by side on a thread each.

use super::SweepError;
use crate::error::Result;
use crate::step_time::step_time;
use minigpt_model::Config;
use minigpt_train::TrainConfig;
use std::thread;
use std::time::Duration;

/// How long each way is measured.
const SPAN: Duration = Duration::from_millis(300);

/// The faster way to make many runs of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Speed {
    /// Whether that is side by side.
    pub side_by_side: bool,
    /// Seconds of a step of one run.
    pub step: f64,
}

impl Speed {
    /// Measures both ways. `memory` is that of one run; one per thread must fit.
    pub fn measure(model: &Config, train: &TrainConfig, threads: usize, memory: u64) -> Result<Self> {
        let row = model.block_size;
        let alone = step_time(model, train, row, SPAN)?.as_secs_f64();
        let room = crate::machine::available_memory().unwrap_or(u64::MAX) / 2;
        if threads < 2 || memory.saturating_mul(threads as u64) > room {
            return Ok(Self { side_by_side: false, step: alone });
        }
        let beside = beside(model, train, threads)?;
        Ok(if beside < alone * threads as f64 {
            Self { side_by_side: true, step: beside }
        } else {
            Self { side_by_side: false, step: alone }
        })
    }
}

/// Seconds of a step when as many runs as there are threads are made at once.
fn beside(model: &Config, train: &TrainConfig, threads: usize) -> Result<f64> {
    let one = || -> Result<f64> {
        let pool = pool()?;
        pool.install(|| Ok(step_time(model, train, model.block_size, SPAN)?.as_secs_f64()))
    };
    let times = thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        all.into_iter()
            .map(|one| one.join().unwrap_or_else(|_| Err(SweepError::MeasurementStopped.into())))
            .collect::<Result<Vec<f64>>>()
    })?;
    Ok(times.iter().sum::<f64>() / times.len().max(1) as f64)
}

/// A pool of one thread: what runs there is not split.
pub(super) fn pool() -> Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    Ok(pool.map_err(minigpt_train::Error::from)?)
}
