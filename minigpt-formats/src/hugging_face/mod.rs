//! Hugging Face folders: `config.json`, and weights in safetensors or torch files, whole or in shards.
//!
//! `config_json` maps the configuration, `weight_files` finds and maps the weights, [`save()`] and its relatives write
//! a folder one tensor at a time, from memory or from files.

pub(crate) mod config_json;
mod problem;
mod save;
pub(crate) mod weight_files;

pub use problem::HuggingFaceProblem;
pub use save::{FILES, SaveOptions, save, save_as, save_config};
