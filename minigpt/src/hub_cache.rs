//! What is known of the files of a cached model, so that a damaged one is noticed without reading gigabytes at each start.
//!
//! `checked.json` beside the files keeps for each its hash, and its length and time of change when that hash was last
//! found. As long as these two are the same, so is the file; otherwise it is hashed again.

use crate::error::{Error, Result};
use minigpt_data::{FileDamage, FileHash};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

const RECORD: &str = "checked.json";

/// The record of one folder.
pub(crate) struct CheckedFiles {
    folder: PathBuf,
    files: BTreeMap<String, Stamp>,
}

/// A file when its hash was last found.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    bytes: u64,
    /// Nanoseconds since 1970, as text: more than JSON's numbers hold.
    modified: String,
    hash: FileHash,
}

/// How a file is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    Missing,
    Whole,
    /// With what is wrong with it.
    Damaged(FileDamage),
}

impl CheckedFiles {
    /// The record of a folder, empty where there is none that can be read.
    pub(crate) fn open(folder: &Path) -> Self {
        let files = fs::read(folder.join(RECORD)).ok().and_then(|json| serde_json::from_slice(&json).ok());
        Self { folder: folder.to_owned(), files: files.unwrap_or_default() }
    }

    /// What is wrong with the files that were found right once, where something is.
    pub(crate) fn first_problem(&mut self) -> Result<Option<String>> {
        let names: Vec<String> = self.files.keys().cloned().collect();
        if names.is_empty() {
            return Ok(Some("nothing is known of its files".to_owned()));
        }
        for name in names {
            match self.state(&name, None)? {
                State::Whole => {}
                State::Missing => return Ok(Some(format!("{name} is missing"))),
                State::Damaged(problem) => return Ok(Some(format!("{name}: {problem}"))),
            }
        }
        Ok(None)
    }

    /// How a file is, by the hash that is listed for it, or else by the recorded one.
    pub(crate) fn state(&mut self, name: &str, listed: Option<&FileHash>) -> Result<State> {
        let path = self.folder.join(name);
        let Ok(about) = fs::metadata(&path) else { return Ok(State::Missing) };
        let stamp = self.files.get(name);
        let Some(expected) = listed.or(stamp.map(|stamp| &stamp.hash)).cloned() else {
            return Ok(State::Damaged(FileDamage::Unrecorded));
        };
        let now = Stamp { bytes: about.len(), modified: modified(&about), hash: expected.clone() };
        if stamp == Some(&now) {
            return Ok(State::Whole);
        }
        let found = expected.of_file(&path)?;
        if found != expected {
            return Ok(State::Damaged(FileDamage::OtherHash { found, expected }));
        }
        self.files.insert(name.to_owned(), now);
        self.save()?;
        Ok(State::Whole)
    }

    /// Records that a file has this hash.
    pub(crate) fn record(&mut self, name: &str, hash: FileHash) -> Result<()> {
        let path = self.folder.join(name);
        let about = fs::metadata(&path).map_err(|source| Error::Io { action: "read", path, source })?;
        let stamp = Stamp { bytes: about.len(), modified: modified(&about), hash };
        self.files.insert(name.to_owned(), stamp);
        self.save()
    }

    /// Deletes a file and what is known of it.
    pub(crate) fn remove(&mut self, name: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::remove_file(&path).map_err(|source| Error::Io { action: "remove", path, source })?;
        self.files.remove(name);
        self.save()
    }

    fn save(&self) -> Result<()> {
        let path = self.folder.join(RECORD);
        let json = serde_json::to_vec_pretty(&self.files).map_err(|e| Error::Io {
            action: "write",
            path: path.clone(),
            source: e.into(),
        })?;
        Ok(minigpt_files::write_file(&path, &json)?)
    }
}

fn modified(about: &Metadata) -> String {
    let since = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or_else(String::new, |since| since.as_nanos().to_string())
}
