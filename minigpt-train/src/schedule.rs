//! The learning rate over time: a warm-up, then a fall along a cosine or a line, or no fall at all.

use serde::{Deserialize, Serialize};

/// The shape of the learning rate behind the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decay {
    /// Half a period of a cosine, from the full rate to `min_lr`.
    Cosine,
    /// A straight line, from the full rate to `min_lr`.
    Linear,
    /// The full rate to the end.
    Constant,
}

/// When the learning rate is how high, under nanoGPT's names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// The shape behind the warm-up.
    pub decay: Decay,
    /// The full rate.
    pub learning_rate: f64,
    /// The rate at the end of the fall, and after it.
    pub min_lr: f64,
    /// Steps of the warm-up.
    pub warmup_iters: u64,
    /// The step at which the fall ends.
    pub lr_decay_iters: u64,
}

impl Schedule {
    /// The rate of a step; the first is 0.
    pub fn rate(&self, step: u64) -> f64 {
        if step < self.warmup_iters {
            return self.learning_rate * (step + 1) as f64 / (self.warmup_iters + 1) as f64;
        }
        let span = self.lr_decay_iters.saturating_sub(self.warmup_iters).max(1);
        let fallen = ((step - self.warmup_iters) as f64 / span as f64).min(1.0);
        let left = match self.decay {
            Decay::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * fallen).cos()),
            Decay::Linear => 1.0 - fallen,
            Decay::Constant => return self.learning_rate,
        };
        self.min_lr + left * (self.learning_rate - self.min_lr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(decay: Decay) -> Schedule {
        Schedule { decay, learning_rate: 1.0, min_lr: 0.1, warmup_iters: 9, lr_decay_iters: 109 }
    }

    #[test]
    fn the_rate_climbs_in_the_warm_up_and_never_starts_at_zero() {
        let rates: Vec<f64> = (0..10).map(|step| schedule(Decay::Cosine).rate(step)).collect();
        let want: Vec<f64> = (1..=10).map(|i| f64::from(i) / 10.0).collect();
        rates.iter().zip(want).for_each(|(rate, want)| assert!((rate - want).abs() < 1e-12));
    }

    #[test]
    fn it_falls_to_its_least_and_stays_there() {
        for (decay, middle, end) in
            [(Decay::Cosine, 0.55, 0.1), (Decay::Linear, 0.55, 0.1), (Decay::Constant, 1.0, 1.0)]
        {
            let schedule = schedule(decay);
            assert!((schedule.rate(59) - middle).abs() < 1e-12);
            assert!((schedule.rate(109) - end).abs() < 1e-12);
            assert!((schedule.rate(10_000) - end).abs() < 1e-12);
        }
    }

    #[test]
    fn a_schedule_without_warm_up_or_fall_divides_by_nothing() {
        let schedule = Schedule { warmup_iters: 0, lr_decay_iters: 0, ..schedule(Decay::Cosine) };
        assert_eq!(schedule.rate(0), 1.0);
        assert!((schedule.rate(1) - 0.1).abs() < 1e-12);
    }
}
