//! Decoding: the same texts however they are computed, alone or in company, and the same as transformers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod engine;
mod engine_thread;
mod generate;
mod structured;
mod transformers;
