//! The decoder against PyTorch, and against itself.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attention;
mod cache;
mod dropout;
mod hooks;
mod parity;
mod support;
