//! Models in files: Hugging Face folders, torch archives, nanoGPT checkpoints and GGUF files, read, written and checked.
//!
//! A model *is* a Hugging Face GPT-2 folder; everything else is converted from and to it. Files come from anywhere and
//! are not trusted: what they claim is checked against the bytes that there are before memory is asked for, and nothing
//! that a file says is ever executed. There is no network here.
//!
//! Begin with [`OnDisk`] (a model of any kind, found and not yet in memory) and [`folder`] (load and save); [`gguf`] and
//! [`pickle`] know their formats, [`tensor_view`] what a tensor in a file is.

mod chat_template;
mod error;
#[path = "hugging_face/mod.rs"]
pub mod folder;
pub mod gguf;
#[path = "gguf/tokens.rs"]
mod gguf_tokens;
#[path = "nanogpt/meta.rs"]
mod nanogpt_meta;
mod on_disk;
#[path = "torch/mod.rs"]
pub mod pickle;
pub mod tensor_view;

pub use chat_template::ChatTemplate;
pub use error::{Error, Result};
pub use gguf_tokens::{gguf_tokenizer, gguf_tokens};
pub use nanogpt_meta::nanogpt_meta;
pub use on_disk::{OnDisk, compare_logits};
