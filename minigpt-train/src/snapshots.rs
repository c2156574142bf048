//! Snapshots: copies of a small model after some of its steps, to look back at how it learned.
//!
//! They are close together at the beginning, where most happens, and farther and farther apart later on. Training never reads them: a run
//! that is killed and resumed writes them again.

use crate::config::TrainConfig;
use minigpt_model::Config;
use minigpt_model::parameters::Count;

/// Snapshots of a run whose settings do not give a number.
const DEFAULT: u64 = 16;
/// The largest model, in parameters, that gets snapshots by default: 10 MB each.
const LARGEST: u64 = 5_000_000;

/// Number of snapshots of a run.
pub fn count(model: &Config, train: &TrainConfig) -> u64 {
    let default = if Count::of(model).total <= LARGEST { DEFAULT } else { 0 };
    train.snapshots.unwrap_or(default)
}

/// Whether one of `count` snapshots of a run of `steps` steps is due after `step` steps: the first before the first step, the last after
/// the last, the others after steps^(k/(count − 2)).
pub fn is_due(step: u64, steps: u64, count: u64) -> bool {
    if count == 0 {
        return false;
    }
    let between = count.saturating_sub(2).max(1);
    let at = |k: u64| (steps as f64).powf(k as f64 / between as f64).round() as u64;
    step == steps || (count > 1 && step == 0) || (count > 2 && (0..between).any(|k| at(k) == step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(steps: u64, count: u64) -> Vec<u64> {
        (0..=steps).filter(|&step| is_due(step, steps, count)).collect()
    }

    #[test]
    fn snapshots_are_close_together_at_first_and_far_apart_at_the_end() {
        assert_eq!(due(1000, 5), [0, 1, 10, 100, 1000]);
        assert_eq!(due(2000, 16).len(), 16);
        assert_eq!(due(5, 16), [0, 1, 2, 3, 4, 5]);
        assert_eq!((due(9, 0), due(9, 1), due(9, 2)), (vec![], vec![9], vec![0, 9]));
        assert_eq!(due(1, 16), [0, 1]);
    }
}
