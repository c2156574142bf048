//! nanoGPT: its checkpoint `ckpt.pt`, and `meta.pkl`, a vocabulary of characters.

mod meta;
mod problem;
mod read;
mod write;

/// The folder under nanoGPT's `data/` where its `sample.py` looks for the characters of a model that was written here.
pub const DATASET: &str = "minigpt";

pub use meta::{meta_pkl, read_meta};
pub use problem::{MetaProblem, MomentsProblem, NanoGptProblem};
pub(crate) use read::{dataset, read};
pub use write::{NanoGptTraining, OptimizerState, refusal, save};
