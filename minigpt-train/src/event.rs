//! Events of a training run and their observer.

use crate::best::Best;
use crate::record::{StepRecord, Warning};
use minigpt_model::Gpt;
use std::path::PathBuf;
use std::time::Duration;

/// An event of a training run.
#[derive(Debug)]
pub enum Event<'a> {
    /// Training starts or resumes.
    Started {
        /// Steps already made.
        step: u64,
        /// Total number of steps.
        steps: u64,
        /// Micro-batches in one pass over the data.
        batches_per_epoch: u64,
    },
    /// A step was made.
    Step {
        /// Its record.
        record: &'a StepRecord,
        /// Whether it goes into the log.
        logged: bool,
        /// Estimated time left, including evaluations.
        left: Option<Duration>,
    },
    /// An evaluation is running.
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
    /// Something other than training failed; the run continues.
    Warning(&'a Warning),
    /// The validation loss has risen for some time while the training loss falls. Reported once.
    Overfitting(&'a Overfitting),
    /// A model folder was written.
    Saved {
        /// After which step.
        step: u64,
        /// Where it is.
        path: PathBuf,
    },
}

/// How far a model overfits.
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

/// Receives the events of a run.
pub trait Observer {
    /// Called for each event.
    fn event(&mut self, event: Event);

    /// Generates a sample of the model's text. Default: none.
    fn sample(&mut self, _gpt: &Gpt, _step: u64) -> Option<String> {
        None
    }
}

/// Ignores all events.
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
    /// The time limit was reached.
    TimeLimit,
    /// It was asked to stop.
    Stopped,
}

/// Summary of a finished run.
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
    /// Tokens trained on.
    pub tokens: u64,
    /// Seconds of training.
    pub seconds: f64,
    /// The model folder to use: `best` if there was a validation, otherwise `last`.
    pub model: PathBuf,
}
