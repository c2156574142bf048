//! Decoding: the same texts however they are computed, and the same as transformers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod generate;
mod transformers;
