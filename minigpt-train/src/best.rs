//! The best evaluation of a run: by validation loss, or by the number of questions answered.

use crate::checkpoint::State;
use crate::config::BestBy;
use crate::epoch::ExactNumber;
use serde::{Deserialize, Serialize};

/// The best evaluation of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The step after which it was made.
    pub step: u64,
    /// The validation loss, if a part of the data is held out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val_loss: Option<f64>,
    /// The questions answered, if the best model is chosen by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
}

/// How many questions a model answers word for word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Questions answered as expected.
    pub right: u64,
    /// Questions asked.
    pub asked: u64,
}

impl Best {
    /// The number by which models are compared; lower is better.
    fn score(&self, by: BestBy) -> Option<f64> {
        match by {
            BestBy::Loss => self.val_loss,
            BestBy::Answers => self.answers.map(|answers| -(answers.right as f64)),
        }
    }
}

impl State {
    /// Counts an evaluation for patience, if it was scheduled, and returns whether it is the best so far. Among models that answer equally
    /// many questions, the latest is the best: it has trained longest.
    pub(crate) fn evaluated(&mut self, found: &Best, by: BestBy, scheduled: bool) -> bool {
        let Some(score) = found.score(by) else { return false };
        if scheduled {
            if self.scheduled_best.is_some_and(|best| best.0 <= score) {
                self.without_progress += 1;
            } else {
                (self.scheduled_best, self.without_progress) = (Some(ExactNumber(score)), 0);
            }
        }
        match self.best.and_then(|best| best.score(by)) {
            None => true,
            Some(best) if by == BestBy::Answers => score <= best,
            Some(best) => score < best,
        }
    }
}
