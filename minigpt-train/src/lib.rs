//! Training a model: gradients and the optimiser.

mod adamw;
mod error;
mod gradients;
pub mod record;

pub use adamw::{AdamW, AdamWConfig};
pub use error::{Error, Result};
pub use gradients::Gradients;
