//! What happens in a run, told to whoever watches.

use crate::best::Best;
use crate::record::{StepRecord, Warning};
use minigpt_model::Gpt;
use std::path::PathBuf;
use std::time::Duration;

/// What happens in a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// Training begins, or goes on.
    Started {
        /// Steps made before.
        step: u64,
        /// Steps to make in all.
        steps: u64,
        /// Micro-batches in one pass over the data.
        batches_per_epoch: u64,
    },
    /// A step was made.
    Step {
        /// What it was like.
        record: &'a StepRecord,
        /// Whether it goes into the log.
        logged: bool,
        /// What is left of the run, evaluations counted; nothing before it is known.
        left: Option<Duration>,
    },
    /// An evaluation is under way.
    Evaluating {
        /// After which step.
        step: u64,
        /// Batches that are done.
        done: u64,
        /// Batches in all.
        batches: u64,
    },
    /// A model folder is being written.
    Saving {
        /// After which step.
        step: u64,
    },
    /// A text that the model wrote.
    Sample {
        /// After which step.
        step: u64,
        /// The text.
        text: &'a str,
    },
    /// Something beside the training itself went wrong; the run goes on.
    Warning(&'a Warning),
    /// The validation loss has risen for some time while the training loss falls. Told once.
    Overfitting(&'a Overfitting),
    /// A model folder was written.
    Saved {
        /// After which step.
        step: u64,
        /// Where it is.
        path: PathBuf,
    },
}

/// How much a model has begun to learn its data by heart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overfitting {
    /// The best validation so far.
    pub best: Best,
    /// The validation loss now.
    pub val_loss: f64,
    /// The mean training loss of the steps before the best validation; where the run was resumed since, before the first
    /// evaluation after that.
    pub train_then: f64,
    /// The same of the steps before this one.
    pub train_now: f64,
}

/// Whoever watches a run.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: Event);

    /// A text by the model, to see how far it is; none by default.
    fn sample(&mut self, _gpt: &Gpt, _step: u64) -> Option<String> {
        None
    }
}

/// Nobody watches.
impl Observer for () {
    fn event(&mut self, _event: Event) {}
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All steps were made.
    Finished,
    /// The validation loss got no better for too long.
    Patience,
    /// The time was up.
    TimeLimit,
    /// Somebody asked it to stop.
    Stopped,
}

/// How a run went.
#[derive(Debug, Clone)]
pub struct Report {
    /// Why it ended.
    pub ended: Ended,
    /// Steps made in all.
    pub step: u64,
    /// The last step's record.
    pub last: Option<StepRecord>,
    /// The best validation.
    pub best: Option<Best>,
    /// Targets learned from.
    pub tokens: u64,
    /// Seconds of training.
    pub seconds: f64,
    /// The model folder to use: `best` where there was a validation, otherwise `last`.
    pub model: PathBuf,
}
