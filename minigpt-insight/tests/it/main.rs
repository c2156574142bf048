//! Looking inside, tested on models of every configuration: sums that must come out, passes that must be the same, and
//! PyTorch's numbers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod parity;
mod properties;
#[path = "../../../minigpt-model/tests/it/support.rs"]
mod support;
