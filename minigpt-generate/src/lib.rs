//! From logits to tokens.

mod probabilities;

pub use probabilities::{Candidate, candidates, log_softmax};
