//! Models in files: what is written is read again, what others wrote too, and what is malformed or hostile is refused.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod convert;
mod gguf;
mod hugging_face;
mod state_dict;
#[path = "../../../minigpt-model/tests/it/support.rs"]
mod support;
mod torch;
