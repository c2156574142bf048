//! How long a run will still take, from the steps and evaluations that it has made.

use crate::checkpoint::State;
use crate::config::TrainConfig;
use crate::trainer::due;
use std::time::{Duration, Instant};

/// Steps before an estimate is worth anything: the first ones warm up caches and memory.
const FIRST: u64 = 3;
/// The weight of the latest step in the mean of all.
const LATEST: f64 = 0.05;
/// An evaluation has no backward pass, which takes two thirds of a step.
const FORWARD: f64 = 1.0 / 3.0;

/// What steps and evaluations took so far, in seconds.
#[derive(Debug, Default, Clone, Copy)]
pub struct Estimate {
    steps: u64,
    step: f64,
    evaluation: Option<f64>,
}

impl Estimate {
    /// A step was made.
    pub fn step(&mut self, took: Duration) {
        self.steps += 1;
        let (took, latest) = (took.as_secs_f64(), LATEST.max(1.0 / self.steps as f64));
        // The first step is much slower than the others.
        self.step = if self.steps == 2 { took } else { self.step + latest * (took - self.step) };
    }

    /// The mean time of a step, or zero before the first.
    pub fn step_time(&self) -> Duration {
        Duration::try_from_secs_f64(self.step).unwrap_or_default()
    }

    /// An evaluation was made.
    pub fn evaluation(&mut self, took: Duration) {
        self.evaluation = Some(took.as_secs_f64());
    }

    /// Time until the end of a run, or until its time limit: the steps and evaluations that are left. `None` until it can be estimated.
    pub fn run_left(
        &self,
        config: &TrainConfig,
        state: &State,
        steps: u64,
        evaluation_batches: u64,
        began: Instant,
    ) -> Option<Duration> {
        let State { step, position, .. } = *state;
        let times = |interval: u64| {
            steps.checked_div(interval).unwrap_or(0) - step.checked_div(interval).unwrap_or(0)
        };
        let epochs = config.epochs.map_or(0, |epochs| epochs.saturating_sub(position.epoch));
        let has_last = step < steps && config.epochs.is_none() && !due(steps, config.eval_interval);
        let evaluations = times(config.eval_interval) + epochs + u64::from(has_last);
        let accumulated = config.gradient_accumulation_steps as u64;
        let left = self.left(steps.saturating_sub(step), evaluations, evaluation_batches, accumulated)?;
        let limit = Duration::try_from_secs_f64(60.0 * config.max_minutes).ok();
        let limit = limit.filter(|limit| !limit.is_zero());
        Some(limit.map_or(left, |limit| left.min(limit.saturating_sub(began.elapsed()))))
    }

    /// The time for so many steps and evaluations, each of so many micro-batches where a step has `accumulated` of
    /// them; nothing before it is known.
    pub fn left(&self, steps: u64, evaluations: u64, batches: u64, accumulated: u64) -> Option<Duration> {
        if self.steps < FIRST {
            return None;
        }
        let guess = FORWARD * self.step * batches as f64 / accumulated.max(1) as f64;
        let seconds = steps as f64 * self.step + evaluations as f64 * self.evaluation.unwrap_or(guess);
        Duration::try_from_secs_f64(seconds).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn nothing_is_said_before_it_is_known() {
        let mut estimate = Estimate::default();
        for _ in 0..2 {
            estimate.step(SECOND);
            assert_eq!(estimate.left(100, 0, 0, 1), None);
        }
        estimate.step(SECOND);
        assert_eq!(estimate.left(100, 0, 0, 1), Some(100 * SECOND));
        assert_eq!(estimate.left(0, 0, 0, 1), Some(Duration::ZERO));
    }

    #[test]
    fn a_slow_first_step_does_not_count() {
        let mut estimate = Estimate::default();
        estimate.step(60 * SECOND);
        estimate.step(SECOND);
        estimate.step(SECOND);
        assert_eq!(estimate.left(10, 0, 0, 1), Some(10 * SECOND));
    }

    #[test]
    fn evaluations_count_guessed_before_the_first_and_measured_after_it() {
        let mut estimate = Estimate::default();
        (0..3).for_each(|_| estimate.step(SECOND));
        let seconds = |estimate: &Estimate| estimate.left(10, 2, 60, 2).map(|left| left.as_secs());
        assert_eq!(seconds(&estimate), Some(10 + 2 * 60 / 2 / 3));
        estimate.evaluation(7 * SECOND);
        assert_eq!(seconds(&estimate), Some(10 + 14));
    }
}
