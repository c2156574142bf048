//! Pickles as data: what `torch.save` and `pickle.dump` wrote, read without running any of it.
//!
//! A pickle is a little program that may call anything. This reader knows the few instructions that data needs, keeps
//! what they would call as names and arguments, and refuses everything else. [`machine`] runs the instructions,
//! [`archive`] finds files in a `.pt`, [`tensors`] makes sense of what PyTorch puts there.

mod archive;
#[path = "pickle_reader.rs"]
mod machine;
#[path = "checkpoint.rs"]
mod tensors;

pub use machine::{Value, read};
pub use tensors::Checkpoint;

/// What can be wrong with a pickle, in words.
pub type Result<T> = std::result::Result<T, String>;
