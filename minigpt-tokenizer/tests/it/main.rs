//! Tokenizers against two independent implementations, and on disk.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agreement;
mod files;
mod pipeline;
