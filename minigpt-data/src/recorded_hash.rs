//! The SHA-256 that was recorded beside a file (`FILE.sha256`, as `sha256sum` writes it).

use crate::error::{Error, Result};
use minigpt_files::Action;
use std::fs;
use std::path::{Path, PathBuf};

fn record_path(path: &Path) -> PathBuf {
    with_suffix(path, ".sha256")
}

/// The hash that an earlier download recorded.
pub(crate) fn recorded(path: &Path) -> Option<String> {
    let line = fs::read_to_string(record_path(path)).ok()?;
    line.split_whitespace().next().map(str::to_owned)
}

/// Records the hash of a file for later downloads, and for `sha256sum --check`.
pub(crate) fn record(path: &Path, sha256: &str) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let record = record_path(path);
    fs::write(&record, format!("{sha256}  {name}\n")).map_err(|e| Error::io(Action::Write, &record, e))
}

/// A path with something after its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
