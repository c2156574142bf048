//! A run in a few numbers.

use super::StepRecord;
use serde::Serialize;

/// Where a run has come to, and the best it has been.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Steps taken.
    pub steps: u64,
    /// Tokens seen.
    pub tokens: u64,
    /// Seconds of training.
    pub seconds: f64,
    /// Training loss of the last record.
    pub last_loss: Option<f64>,
    /// The lowest validation loss, where any was measured.
    pub best_val_loss: Option<f64>,
    /// The first step that had it.
    pub best_val_step: Option<u64>,
}

impl Summary {
    /// Sums up the records of a run.
    pub fn of(records: &[StepRecord]) -> Self {
        let Some(last) = records.last() else { return Self::default() };
        let validated = records.iter().filter_map(|record| Some((record.val_loss?, record.step)));
        let best = validated.filter(|(loss, _)| !loss.is_nan()).min_by(|a, b| a.0.total_cmp(&b.0));
        Self {
            steps: last.step,
            tokens: last.tokens,
            seconds: last.seconds,
            last_loss: Some(last.loss),
            best_val_loss: best.map(|(loss, _)| loss),
            best_val_step: best.map(|(_, step)| step),
        }
    }

    /// The time of training as people say it: `118 s`, `12 min`, `3.4 h`.
    pub fn time(&self) -> String {
        minigpt_charts::duration(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_validation_is_the_first_of_the_lowest_and_never_nan() {
        let losses = [None, Some(f64::NAN), Some(2.0), None, Some(1.5), Some(1.5), Some(1.75)];
        let record = |(i, &val_loss): (usize, &Option<f64>)| StepRecord {
            step: 10 * i as u64,
            loss: 3.0 - i as f64 / 4.0,
            tokens: 100 * i as u64,
            seconds: i as f64,
            val_loss,
            ..StepRecord::default()
        };
        let records: Vec<StepRecord> = losses.iter().enumerate().map(record).collect();
        let expected = Summary {
            steps: 60,
            tokens: 600,
            seconds: 6.0,
            last_loss: Some(1.5),
            best_val_loss: Some(1.5),
            best_val_step: Some(40),
        };
        assert_eq!(Summary::of(&records), expected);
        assert_eq!(Summary::of(&records[..2]).best_val_loss, None);
        assert_eq!(Summary::of(&[]), Summary::default());
    }
}
