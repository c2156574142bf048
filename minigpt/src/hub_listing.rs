//! What the hub says of a model, and which of its files are wanted.

use crate::error::{Error, Result};
use crate::hub::refuse;
use minigpt_data::FileHash;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What a model needs beside its weights; what is not there is done without.
const SMALL: [&str; 7] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
];
/// Where weights may be, the best first.
const WEIGHTS: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];
/// The longest of the files beside the weights.
const LONGEST_TEXT: u64 = 64 << 20;

/// What the hub says about a revision of a model.
#[derive(Deserialize)]
pub(crate) struct Listing {
    pub(crate) sha: String,
    siblings: Vec<Sibling>,
}

/// A file of the model. What git keeps elsewhere has a SHA-256, the others have git's own hash.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sibling {
    pub(crate) rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Clone, Deserialize)]
struct Lfs {
    sha256: String,
    size: u64,
}

impl Sibling {
    /// Its hash, where the hub gives one.
    pub(crate) fn hash(&self) -> Result<Option<FileHash>> {
        let (text, hash) = match (&self.lfs, &self.blob_id) {
            (Some(lfs), _) => (&lfs.sha256, FileHash::sha256(&lfs.sha256)),
            (None, Some(id)) => (id, FileHash::git_blob(id)),
            (None, None) => return Ok(None),
        };
        match hash {
            Some(hash) => Ok(Some(hash)),
            None => refuse(format!("the hub's answer has {text:?} as the hash of {}", self.rfilename)),
        }
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let name = &self.rfilename;
        let weights = name.ends_with(".safetensors") || name.ends_with(".bin");
        match self.lfs.as_ref().map(|lfs| lfs.size).or(self.size) {
            Some(bytes) if bytes > LONGEST_TEXT && !weights => {
                refuse(format!("{name} has {bytes} bytes, more than {LONGEST_TEXT} are not read"))
            }
            Some(bytes) => Ok(bytes),
            None => refuse(format!("the hub's answer does not say how long {name} is")),
        }
    }
}

impl Listing {
    fn find(&self, name: &str) -> Option<Sibling> {
        self.siblings.iter().find(|file| file.rfilename == name).cloned()
    }

    /// The small files, and the best of the weights.
    pub(crate) fn wanted(&self) -> Result<Vec<Sibling>> {
        let weights = WEIGHTS.iter().find_map(|name| self.find(name));
        let Some(weights) = weights else {
            let names = WEIGHTS.join(", ");
            return refuse(format!("the model has no weights that can be read: none of {names}"));
        };
        let small = SMALL.iter().filter_map(|name| self.find(name));
        Ok(small.chain([weights]).collect())
    }

    /// The files that an index in the folder names.
    pub(crate) fn shards(&self, folder: &Path) -> Result<Vec<Sibling>> {
        #[derive(Deserialize)]
        struct Index {
            weight_map: BTreeMap<String, String>,
        }
        let mut shards = Vec::new();
        for name in WEIGHTS.iter().filter(|name| name.ends_with(".index.json")) {
            let Ok(text) = fs::read_to_string(folder.join(name)) else { continue };
            let index: Index = serde_json::from_str(&text)
                .map_err(|e| Error::Hub(format!("{name} is no index of weights: {e}")))?;
            let files: BTreeSet<String> = index.weight_map.into_values().collect();
            for file in files {
                if !is_plain(&file) {
                    return refuse(format!("{name} names the file {file:?}, which is not beside it"));
                }
                match self.find(&file) {
                    Some(listed) => shards.push(listed),
                    None => return refuse(format!("{name} names {file}, which the model lacks")),
                }
            }
        }
        Ok(shards)
    }
}

/// Whether this names something in a folder, and nothing else anywhere.
pub(crate) fn is_plain(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(letters)
}
