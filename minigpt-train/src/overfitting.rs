//! Noticing that a model learns its data by heart: the validation loss rises while the training loss falls.

use crate::best::Best;
use crate::event::Overfitting;

/// The validation loss wavers by itself. It has risen where it is so far above the best, after so many evaluations without a
/// better one; the farther above, the fewer it takes.
const RISEN: [(f64, u64); 2] = [(1.02, 3), (1.10, 2)];

/// Watches the losses of a run.
#[derive(Debug, Default)]
pub struct OverfittingWatch {
    /// Sum and number of the training losses since the last evaluation.
    since: (f64, u64),
    best: Option<Best>,
    /// The mean training loss before the best evaluation; of a run that goes on, before the first one since.
    train_at_best: Option<f64>,
    /// Evaluations since the best one.
    later: u64,
    told: bool,
}

impl OverfittingWatch {
    /// Watches a run that goes on, with its best validation so far.
    pub fn new(best: Option<Best>) -> Self {
        Self { best, ..Self::default() }
    }

    /// Counts the training loss of a step.
    pub fn step(&mut self, loss: f64) {
        self.since.0 += loss;
        self.since.1 += 1;
    }

    /// Counts an evaluation after a step. Returns what there is to tell, once.
    pub fn evaluation(&mut self, step: u64, val_loss: f64) -> Option<Overfitting> {
        let (sum, count) = std::mem::take(&mut self.since);
        let train_now = sum / count.max(1) as f64;
        let Some(best) = self.best.filter(|best| best.val_loss.is_some_and(|best| best < val_loss)) else {
            (self.best, self.train_at_best, self.later) =
                (Some(Best { step, val_loss: Some(val_loss), answers: None }), Some(train_now), 0);
            return None;
        };
        self.later += 1;
        let train_then = *self.train_at_best.get_or_insert(train_now);
        let risen = RISEN.iter().any(|&(factor, later)| {
            best.val_loss.is_some_and(|best| val_loss >= factor * best) && self.later >= later
        });
        if self.told || !risen || train_now >= train_then {
            return None;
        }
        self.told = true;
        Some(Overfitting { best, val_loss, train_then, train_now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of these evaluations, each with the training loss before it, is told of.
    fn told(losses: &[(f64, f64)]) -> Vec<usize> {
        let mut watch = OverfittingWatch::default();
        let mut told = Vec::new();
        for (i, &(train, val)) in losses.iter().enumerate() {
            [train + 0.01, train - 0.01].iter().for_each(|&loss| watch.step(loss));
            told.extend(watch.evaluation(10 * i as u64, val).map(|_| i));
        }
        told
    }

    #[test]
    fn a_validation_loss_that_rises_while_the_training_loss_falls_is_told_once() {
        let rising = [(6.0, 6.1), (5.0, 5.8), (4.0, 5.9), (3.0, 6.4), (2.0, 7.0), (1.0, 7.4), (0.9, 8.0)];
        assert_eq!(told(&rising), [3]);
        let mut watch = OverfittingWatch::default();
        let told: Vec<Overfitting> = rising
            .iter()
            .enumerate()
            .filter_map(|(i, &(train, val))| {
                watch.step(train);
                watch.evaluation(10 * i as u64, val)
            })
            .collect();
        let best = Best { step: 10, val_loss: Some(5.8), answers: None };
        assert_eq!(told, [Overfitting { best, val_loss: 6.4, train_then: 5.0, train_now: 3.0 }]);
        // A run that goes on knows its best validation.
        let mut resumed = OverfittingWatch::new(Some(best));
        let told = [(4.0, 6.5), (3.0, 6.5), (2.0, 6.5)].map(|(train, val)| {
            resumed.step(train);
            resumed.evaluation(50, val).map(|told| told.best.step)
        });
        assert_eq!(told, [None, Some(10), None]);
        assert_eq!(self::told(&[(5.0, 5.0), (4.9, 5.11), (4.8, 5.11), (4.7, 5.11)]), [3]);
    }

    #[test]
    fn a_loss_that_wavers_or_a_run_that_diverges_is_not() {
        assert!(told(&[(5.0, 5.0), (4.9, 5.05), (4.8, 5.05), (4.7, 5.05), (4.6, 5.05)]).is_empty());
        assert!(told(&[(5.0, 5.0), (5.5, 6.0), (6.0, 7.0), (7.0, 8.0), (8.0, 9.0)]).is_empty());
        assert!(told(&[(5.0, 5.0), (4.0, 6.0), (3.0, 4.9), (2.0, 6.0), (1.0, 4.8)]).is_empty());
    }
}
