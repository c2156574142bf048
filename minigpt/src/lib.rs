//! MiniGPT as a library: a model with its tokenizer, talking with it, scoring its answers, training runs from a file, and
//! models of the hub; and the crates below under a single name.
//!
//! It never prints, parses a command line or names an option in an error: a program that uses it decides what people see.
//!
//! Begin with [`ModelFolder`] to use a model, [`Conversation`] and [`ChatSettings`] to talk with one, and [`RunConfig`]
//! and [`Run`] to train one.
//!
//! ```no_run
//! use minigpt::generate::{GenerationConfig, generate};
//! use minigpt::{ModelFolder, model::Device};
//! use std::path::Path;
//!
//! let model = ModelFolder::open(Path::new("runs/demo/best"), &Device::Cpu)?;
//! let prompt = model.encode("To be, or not to be")?;
//! let config = GenerationConfig { max_new_tokens: 40, ..GenerationConfig::default() };
//! let texts = generate(&model.gpt, &[prompt], &config, model.tokenizer.as_ref())?;
//! assert!(texts[0].text.is_some());
//! # Ok::<(), minigpt::Error>(())
//! ```

mod chat_settings;
mod conversation;
mod error;
mod guarded;
mod hub;
mod hub_cache;
mod hub_listing;
pub mod limit;
pub mod machine;
mod model_folder;
mod questions;
mod run;
mod run_config;
pub mod settings;
mod template;

pub use minigpt_charts as charts;
pub use minigpt_data as data;
pub use minigpt_formats as formats;
pub use minigpt_generate as generate;
pub use minigpt_model as model;
pub use minigpt_tokenizer as tokenizer;
pub use minigpt_train as train;

pub use chat_settings::ChatSettings;
pub use conversation::{Conversation, Format};
pub use error::{Error, Result};
pub use hub::Hub;
pub use model_folder::ModelFolder;
pub use questions::{Answered, answer_all};
pub use run::{Place, Run, tokenizer_beside};
pub use run_config::{DataConfig, RunConfig, SampleConfig};

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
