//! What `torch.save` and `pickle.dump` wrote, read without running any of it.
//!
//! A pickle is a little program that may call anything. The reader knows the few instructions that data needs, keeps what
//! they would call as names and arguments, and refuses everything else. `pickle_reader` runs the instructions,
//! `archive` finds the files inside a `.pt`, `checkpoint` makes sense of what PyTorch puts there, and `pickle_writer` is
//! the other direction.

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
