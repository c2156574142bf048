//! Hashes of the files of a cached model, to notice damaged files without reading gigabytes at each start.
//!
//! `checked.json` next to the files records for each its hash, and its length and modification time when the hash was last
//! verified. A file whose length or modification time differs is hashed again.

use crate::error::Result;
use crate::hub_error::CacheProblem;
use minigpt_data::{FileDamage, FileHash};
use minigpt_files::{Action, Error as FileError};
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

/// A file when its hash was last verified.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    bytes: u64,
    /// Nanoseconds since 1970, as text because JSON numbers cannot hold them.
    modified: String,
    hash: FileHash,
}

/// State of a cached file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    Missing,
    Whole,
    Damaged(FileDamage),
}

impl CheckedFiles {
    /// Reads the record of a folder; it is empty if there is no readable one.
    pub(crate) fn open(folder: &Path) -> Self {
        let files = fs::read(folder.join(RECORD)).ok().and_then(|json| serde_json::from_slice(&json).ok());
        Self { folder: folder.to_owned(), files: files.unwrap_or_default() }
    }

    /// Checks all recorded files and returns the first problem.
    pub(crate) fn first_problem(&mut self) -> Result<Option<CacheProblem>> {
        let names: Vec<String> = self.files.keys().cloned().collect();
        if names.is_empty() {
            return Ok(Some(CacheProblem::Unrecorded));
        }
        for file in names {
            match self.state(&file, None)? {
                State::Whole => {}
                State::Missing => return Ok(Some(CacheProblem::Missing { file })),
                State::Damaged(damage) => return Ok(Some(CacheProblem::Damaged { file, damage })),
            }
        }
        Ok(None)
    }

    /// Checks a file against the hash that the hub lists for it, or else the recorded one.
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
        let about =
            fs::metadata(&path).map_err(|source| FileError::Io { action: Action::Read, path, source })?;
        let stamp = Stamp { bytes: about.len(), modified: modified(&about), hash };
        self.files.insert(name.to_owned(), stamp);
        self.save()
    }

    /// Deletes a file and its record.
    pub(crate) fn remove(&mut self, name: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::remove_file(&path).map_err(|source| FileError::Io { action: Action::Remove, path, source })?;
        self.files.remove(name);
        self.save()
    }

    fn save(&self) -> Result<()> {
        let path = self.folder.join(RECORD);
        let json = serde_json::to_vec_pretty(&self.files).map_err(|e| FileError::Io {
            action: Action::Write,
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
