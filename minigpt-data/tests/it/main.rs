//! Data as the world has it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod download;
