//! How a model is spoken to: what was said becomes the ids that make it answer.
//!
//! A crate of its own, because the command line's chat and the server both talk with models, and the server must not know
//! training, which the crate above knows. Begin with [`Format`]. A chat template is a program from outside: `template` renders it
//! within bounds, and `guarded` sees to it that only the template writes special tokens.

mod error;
mod format;
mod guarded;
mod template;

pub use error::{Error, Result};
pub use format::{Format, role_name};
