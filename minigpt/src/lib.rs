//! MiniGPT as a library: the crates below this one under a single name, a model with its tokenizer, talking
//! with it, and scoring its answers.

mod conversation;
mod foreign;
mod gguf_tokens;
mod hub;
mod model_folder;
mod questions;

pub use minigpt_data as data;
pub use minigpt_generate as generate;
pub use minigpt_model as model;
pub use minigpt_tokenizer as tokenizer;
pub use minigpt_train as train;

pub use conversation::{Conversation, Format};
pub use foreign::{Foreign, compare_logits, nanogpt_meta};
pub use gguf_tokens::gguf_tokens;
pub use hub::Hub;
pub use model_folder::ModelFolder;
pub use questions::{Answered, answer_all};

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
