//! Reads what `torch.save` and `pickle.dump` write, without executing any of it.
//!
//! A pickle is a program that may call anything. The reader knows the few instructions that data needs, keeps calls as names
//! and arguments instead of making them, and refuses everything else. `pickle_reader` runs the instructions, `archive` finds
//! the files inside a `.pt`, `checkpoint` reads PyTorch's tensors, `pickle_writer` writes, and `problem` says what can be wrong.

mod after_failure;
mod archive;
mod checkpoint;
mod pickle_reader;
mod pickle_writer;
mod problem;

pub(crate) use archive::ArchiveWriter;
pub use checkpoint::TorchArchive;
pub use pickle_reader::{Value, read};
pub(crate) use pickle_writer::PickleWriter;
pub use problem::{PickleError, PickleProblem, TorchProblem, TorchTensorProblem};
