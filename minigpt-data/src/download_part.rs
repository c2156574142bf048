//! A partial download: `FILE.part`, and next to it a note of which file it is a part of.

use crate::error::{Error, Result};
use crate::recorded_hash::with_suffix;
use minigpt_files::Action;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Which file a part belongs to.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The address.
    pub(crate) url: String,
    /// The version of the file there, where the server says.
    pub(crate) version: Option<String>,
}

/// The bytes that are here so far. Nothing is created before the first of them comes.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) path: PathBuf,
    note_path: PathBuf,
    pub(crate) note: Note,
    file: Option<File>,
    pub(crate) have: u64,
}

impl Part {
    /// Finds an earlier part of the same address, or starts a new one.
    pub(crate) fn find(target: &Path, url: &str) -> Result<Self> {
        let path = with_suffix(target, ".part");
        let note_path = with_suffix(target, ".part.json");
        let note: Option<Note> =
            fs::read(&note_path).ok().and_then(|json| serde_json::from_slice(&json).ok());
        let mut part = Part { path, note_path, note: Note::default(), file: None, have: 0 };
        match note {
            Some(note) if note.url == url => {
                part.note = note;
                part.have = fs::metadata(&part.path).map_or(0, |about| about.len());
            }
            _ => part.restart()?,
        }
        url.clone_into(&mut part.note.url);
        Ok(part)
    }

    /// Writes down what the bytes belong to, before any of them.
    pub(crate) fn describe(&mut self, version: Option<String>) -> Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(|e| Error::io(Action::Create, folder, e))?;
        }
        self.note.version = version;
        let json = serde_json::to_vec(&self.note)
            .map_err(|e| Error::io(Action::Write, &self.note_path, e.into()))?;
        fs::write(&self.note_path, json).map_err(|e| Error::io(Action::Write, &self.note_path, e))?;
        let file = File::options().create(true).append(true).open(&self.path);
        self.file = Some(file.map_err(|e| Error::io(Action::Write, &self.path, e))?);
        Ok(())
    }

    /// Adds bytes at the end.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.write_all(bytes).map_err(|e| Error::io(Action::Write, &self.path, e))?;
        }
        self.have += bytes.len() as u64;
        Ok(())
    }

    /// Throws away what is here.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.file = None;
        self.have = 0;
        self.note.version = None;
        remove(&self.path)?;
        remove(&self.note_path)
    }

    /// Gives the part its name.
    pub(crate) fn finish(&self, path: &Path) -> Result<()> {
        minigpt_files::move_file(&self.path, path)?;
        remove(&self.note_path)
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io(Action::Remove, path, e)),
        _ => Ok(()),
    }
}
