//! Training against PyTorch, and what a run must not depend on.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod parity;
mod ranks;
mod runs;
#[path = "../../../minigpt-model/tests/it/support.rs"]
mod support;
