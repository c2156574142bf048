//! MiniGPT as a library: the crates below this one under a single name, a model with its tokenizer, talking
//! with it, and scoring its answers.

mod chat_template;
mod conversation;
mod gguf_tokens;
mod hub;
mod model_folder;
mod nanogpt_meta;
mod on_disk;
mod questions;

pub use minigpt_data as data;
pub use minigpt_generate as generate;
pub use minigpt_model as model;
pub use minigpt_tokenizer as tokenizer;
pub use minigpt_train as train;

pub use chat_template::ChatTemplate;
pub use conversation::{Conversation, Format};
pub use gguf_tokens::{gguf_tokenizer, gguf_tokens};
pub use hub::Hub;
pub use model_folder::ModelFolder;
pub use nanogpt_meta::nanogpt_meta;
pub use on_disk::{OnDisk, compare_logits};
pub use questions::{Answered, answer_all};

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
