//! Training a model: the loop and its parts.
//!
//! A [`Trainer`] takes a model, its data and a [`RunFolder`], and tells an [`Observer`] what happens. It never prints.
//! Gradients, optimiser, schedule and checkpoints can be used by themselves.

mod adamw;
mod change;
pub mod checkpoint;
mod config;
mod epoch;
mod error;
mod evaluate;
mod flat;
mod gradients;
mod muon;
mod optimizer;
pub mod record;
mod recorder;
mod run_folder;
mod schedule;
mod trainer;
mod training_data;
mod workers;

pub use change::Change;
pub use config::TrainConfig;
pub use epoch::{EpochLoss, ExactNumber};
pub use error::{Error, Result};
pub use evaluate::{Evaluation, evaluate};
pub use gradients::Gradients;
pub use optimizer::{Optimizer, OptimizerConfig, OptimizerKind};
pub use run_folder::RunFolder;
pub use schedule::{Decay, Schedule};
pub use trainer::{Ended, Event, Observer, Report, Trainer};
pub use training_data::TrainingData;
pub use workers::Workers;

/// What the data leaves out of the loss is what the kernel skips: neither crate knows the other, this one knows both.
const _: () = assert!(minigpt_data::IGNORE == minigpt_kernels::IGNORE);
