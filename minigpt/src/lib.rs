//! MiniGPT as a library: a model with its tokenizer, talking with it, scoring its answers, training runs from a file, and
//! models of the hub; and the crates below under a single name.

mod conversation;
mod error;
mod hub;
pub mod machine;
mod model_folder;
mod questions;
mod run;
mod run_config;
pub mod settings;

pub use minigpt_charts as charts;
pub use minigpt_data as data;
pub use minigpt_formats as formats;
pub use minigpt_generate as generate;
pub use minigpt_model as model;
pub use minigpt_tokenizer as tokenizer;
pub use minigpt_train as train;

pub use conversation::{Conversation, Format};
pub use error::{Error, Result};
pub use hub::Hub;
pub use model_folder::ModelFolder;
pub use questions::{Answered, answer_all};
pub use run::{Place, Run};
pub use run_config::{DataConfig, RunConfig, SampleConfig};

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
