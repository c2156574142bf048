//! The files of a model on the hub, and which of them to download.

use crate::error::Result;
use crate::hub_error::HubError;
use minigpt_data::FileHash;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Files to download in addition to the weights, if they exist.
const SMALL: [&str; 7] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
];
/// Possible files of the weights, in order of preference.
pub(crate) const WEIGHTS: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];
/// Maximum length in bytes of files other than weights.
const LONGEST_TEXT: u64 = 64 << 20;

/// The hub's description of a revision of a model.
#[derive(Deserialize)]
pub(crate) struct Listing {
    pub(crate) sha: String,
    siblings: Vec<Sibling>,
}

/// A file of the model. Files in git LFS have a SHA-256, the others git's own hash.
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
    /// Hash of the file, if the hub gives one.
    pub(crate) fn hash(&self) -> Result<Option<FileHash>> {
        let (text, hash) = match (&self.lfs, &self.blob_id) {
            (Some(lfs), _) => (&lfs.sha256, FileHash::sha256(&lfs.sha256)),
            (None, Some(id)) => (id, FileHash::git_blob(id)),
            (None, None) => return Ok(None),
        };
        let wrong = || HubError::NotAHash { file: self.rfilename.clone(), hash: text.clone() };
        Ok(Some(hash.ok_or_else(wrong)?))
    }

    /// Length of the file in bytes.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let name = &self.rfilename;
        let weights = name.ends_with(".safetensors") || name.ends_with(".bin");
        match self.lfs.as_ref().map(|lfs| lfs.size).or(self.size) {
            Some(bytes) if bytes > LONGEST_TEXT && !weights => {
                Err(HubError::TooLarge { file: name.clone(), bytes, most: LONGEST_TEXT }.into())
            }
            Some(bytes) => Ok(bytes),
            None => Err(HubError::NoLength(name.clone()).into()),
        }
    }
}

impl Listing {
    fn find(&self, name: &str) -> Option<Sibling> {
        self.siblings.iter().find(|file| file.rfilename == name).cloned()
    }

    /// The small files, and the best of the weights.
    pub(crate) fn wanted(&self) -> Result<Vec<Sibling>> {
        let weights = WEIGHTS.iter().find_map(|name| self.find(name)).ok_or(HubError::NoWeights)?;
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
            let index_name = || (*name).to_owned();
            let index: Index = serde_json::from_str(&text)
                .map_err(|problem| HubError::NotAnIndex { file: index_name(), problem })?;
            let files: BTreeSet<String> = index.weight_map.into_values().collect();
            for file in files {
                if !is_plain(&file) {
                    return Err(HubError::OutsideFolder { index: index_name(), file }.into());
                }
                match self.find(&file) {
                    Some(listed) => shards.push(listed),
                    None => return Err(HubError::MissingShard { index: index_name(), file }.into()),
                }
            }
        }
        Ok(shards)
    }
}

/// Whether this is the plain name of a file in a folder.
pub(crate) fn is_plain(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(letters)
}
