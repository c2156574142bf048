//! nanoGPT: its checkpoint `ckpt.pt`, and `meta.pkl`, a vocabulary of characters.

mod meta;
mod read;
mod write;

pub use meta::{meta_pkl, read_meta};
pub(crate) use read::{dataset, read};
pub use write::{NanoGptTraining, OptimizerState, refusal, save};
