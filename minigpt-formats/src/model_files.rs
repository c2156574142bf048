//! The files of a model, of whatever kind: found, mapped, and not yet read.

use super::files::WeightFiles;
use super::stored_model::StoredModel;
use super::{config_json, io, nanogpt, problem};
use crate::error::Result;
use crate::gguf;
use minigpt_files::Mapped;
use minigpt_model::config::Config;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Who writes such files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A folder of Hugging Face's, or ours.
    Folder,
    /// nanoGPT's `ckpt.pt`.
    NanoGpt,
    /// A GGUF file of llama.cpp's.
    Gguf,
}

impl Kind {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Folder => "Hugging Face folder",
            Self::NanoGpt => "nanoGPT checkpoint",
            Self::Gguf => "GGUF file",
        }
    }
}

/// What to say of a file that is nothing of the kind.
const NO_MODEL: &str = "is no model: it is not a folder, not a GGUF file, and not a zip archive as torch.save writes it since version 1.6";

/// The files of a model.
pub struct ModelFiles {
    path: PathBuf,
    files: Files,
}

enum Files {
    Folder(Box<(Config, Map<String, Value>)>, WeightFiles),
    NanoGpt(Mapped),
    Gguf(Mapped),
}

impl ModelFiles {
    /// Opens a model folder, a checkpoint of nanoGPT's or a GGUF file.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Err(problem(path, "there is no such file or folder"));
        }
        let files = if path.is_dir() {
            let config = read_config(&path.join("config.json"))?;
            Files::Folder(Box::new(config), WeightFiles::open(path)?)
        } else {
            let file = Mapped::open(path)?;
            match file.bytes() {
                bytes if gguf::is_one(bytes) => Files::Gguf(file),
                [b'P', b'K', ..] => Files::NanoGpt(file),
                _ => return Err(problem(path, NO_MODEL)),
            }
        };
        Ok(Self { path: path.to_owned(), files })
    }

    /// Who wrote them.
    pub fn kind(&self) -> Kind {
        match self.files {
            Files::Folder(..) => Kind::Folder,
            Files::NanoGpt(_) => Kind::NanoGpt,
            Files::Gguf(_) => Kind::Gguf,
        }
    }

    /// The bytes of a GGUF file, if it is one.
    pub fn gguf(&self) -> Option<&[u8]> {
        match &self.files {
            Files::Gguf(file) => Some(file.bytes()),
            _ => None,
        }
    }

    /// The model that they describe, checked as a whole.
    pub fn model(&self) -> Result<StoredModel<'_>> {
        let path = &self.path;
        let failed = |message| problem(path, message);
        match &self.files {
            Files::Folder(config, files) => {
                let (config, extra) = *config.clone();
                StoredModel::new(&files.path, config, extra, files.tensors()?, files.maps())
            }
            Files::NanoGpt(file) => {
                let (config, tensors) = nanogpt::read(file.bytes()).map_err(failed)?;
                config.validate()?;
                StoredModel::new(path, config, Map::new(), tensors, vec![file])
            }
            Files::Gguf(file) => {
                let contents = gguf::Contents::read(file.bytes()).map_err(failed)?;
                let (config, extra) = contents.config().map_err(failed)?;
                config.validate()?;
                StoredModel::new(path, config, extra, contents.stored(), vec![file])
            }
        }
    }
}

/// Reads a `config.json`: the configuration, and the keys that it does not know.
pub fn read_config(path: &Path) -> Result<(Config, Map<String, Value>)> {
    const LIMIT: u64 = 16 << 20;
    let size = std::fs::metadata(path).map_err(|e| io(path, e))?.len();
    if size > LIMIT {
        return Err(problem(path, format!("{size} bytes are too many for a configuration")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| io(path, e))?;
    config_json::read(&text).map_err(|message| problem(path, message))
}
