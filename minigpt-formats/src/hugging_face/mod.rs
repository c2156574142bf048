//! Model folders and the files of other tools. A model *is* a Hugging Face GPT-2 folder. Files come from anywhere and are
//! not trusted: what they claim is checked before memory is asked for.
//!
//! [`ModelFiles`] finds and maps the files, [`StoredModel`] is the model that they describe, not yet in memory; [`save`]
//! and its relatives write one tensor at a time, from memory or from files.

mod config_json;
#[path = "weight_files.rs"]
mod files;
#[path = "../model_files.rs"]
mod model_files;
#[path = "../nanogpt/read.rs"]
mod nanogpt;
#[path = "../nanogpt/write.rs"]
mod nanogpt_save;
mod save;
#[path = "../mapped_model.rs"]
mod stored_model;

pub use model_files::{Kind, ModelFiles};
pub use nanogpt_save::save_nanogpt;
pub use save::{Progress, SaveOptions, save, save_as, save_config};
pub use stored_model::StoredModel;

use crate::error::{Error, Result};
use candle_core::Device;
use minigpt_model::Gpt;
use minigpt_model::config::Config;
use std::path::Path;

/// Loads a model folder (or a file of nanoGPT's or llama.cpp's), with plain weights as f32 on `device`. Each tensor is
/// copied once, out of a memory map.
pub fn load(path: &Path, device: &Device) -> Result<Gpt> {
    ModelFiles::open(path)?.model()?.load(device)
}

/// Reads only the configuration of a model folder, or of a file.
pub fn load_config(path: &Path) -> Result<Config> {
    match path.is_file() {
        true => Ok(ModelFiles::open(path)?.model()?.config().clone()),
        false => Ok(model_files::read_config(&path.join("config.json"))?.0),
    }
}

fn problem(path: &Path, message: impl Into<String>) -> Error {
    Error::bad(path, message)
}

fn io(path: &Path, problem: std::io::Error) -> Error {
    Error::io(path, problem)
}
