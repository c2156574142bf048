//! Training a model: gradients, the optimiser, schedules, checkpoints.

mod adamw;
pub mod checkpoint;
mod config;
mod error;
mod gradients;
mod muon;
mod optimizer;
mod run_folder;
mod schedule;

pub use config::TrainConfig;
pub use error::{Error, Result};
pub use gradients::Gradients;
pub use optimizer::{Optimizer, OptimizerConfig, OptimizerKind};
pub use run_folder::RunFolder;
pub use schedule::{Decay, Schedule};
