//! A folder that a person asked for: it replaces what is there only when told to, and only if every file in it is of a
//! kind that this program writes there. A mistyped path must not delete anybody's work.

use crate::error::{Action, Error, Result};
use crate::folder::NewFolder;
use crate::open_folder::present_path;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A folder being written, whole or not at all.
#[derive(Debug)]
pub struct OutputFolder {
    target: PathBuf,
    new: NewFolder,
    force: bool,
    ours: &'static [&'static str],
}

impl OutputFolder {
    /// Starts a folder; `ours` are the names of the files that may be in one that gets replaced. A `*` in a name stands
    /// for a number.
    ///
    /// # Errors
    /// Something is in the way, or the place can't be written.
    pub fn create(target: &Path, force: bool, ours: &'static [&'static str]) -> Result<Self> {
        check_target(target, force, ours)?;
        Ok(Self { target: target.to_owned(), new: NewFolder::create(target)?, force, ours })
    }

    /// Where to write the files.
    pub fn path(&self) -> &Path {
        self.new.path()
    }

    /// Puts the folder in its place.
    ///
    /// # Errors
    /// Something has come in the way meanwhile, or the place can't be written.
    pub fn finish(self) -> Result<()> {
        check_target(&self.target, self.force, self.ours)?;
        self.new.put_in_place()
    }
}

/// Refuses what may not be replaced. An empty folder may always be.
fn check_target(target: &Path, force: bool, ours: &[&str]) -> Result<()> {
    if !force {
        let mut entries = match fs::read_dir(target) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(Error::io(Action::Write, target, e)),
        };
        return match entries.next() {
            Some(_) => Err(Error::Exists { path: present_path(target) }),
            None => Ok(()),
        };
    }
    match foreign_entry(target, ours)? {
        Some(other) => Err(Error::NotOurs { path: present_path(target), other }),
        None => Ok(()),
    }
}

/// The name of something in a folder that is not a regular file with one of the names in `ours`, in which each `*` stands for a
/// number. `None` where the folder holds nothing else, or does not exist.
///
/// # Errors
/// It is not a folder, or can't be read.
pub fn foreign_entry(folder: &Path, ours: &[&str]) -> Result<Option<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(Action::Write, folder, e)),
    };
    for entry in entries {
        let entry = entry.map_err(|e| Error::io(Action::Read, folder, e))?;
        let other = entry.file_name().to_string_lossy().into_owned();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || !ours.iter().any(|name| is_named(&other, name)) {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

/// Whether a file has this name, in which each `*` stands for a number.
fn is_named(file: &str, name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((start, rest)) = name.split_once('*') else { return file == name };
    let Some(file) = file.strip_prefix(start) else { return false };
    let end = file.find(|c: char| !c.is_ascii_digit()).unwrap_or(file.len());
    digits(&file[..end]) && is_named(&file[end..], rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &[&str] = &["a.txt", "b.txt"];

    fn write(target: &Path, force: bool, text: &str) -> Result<()> {
        let out = OutputFolder::create(target, force, OURS)?;
        fs::write(out.path().join("a.txt"), text).unwrap();
        out.finish()
    }

    fn names(dir: &Path) -> Vec<String> {
        let name = |e: io::Result<fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
        fs::read_dir(dir).unwrap().map(name).collect()
    }

    #[test]
    fn an_unfinished_folder_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let out = OutputFolder::create(&dir.path().join("deep/out"), false, OURS).unwrap();
        fs::write(out.path().join("a.txt"), "half").unwrap();
        drop(out);
        assert!(names(&dir.path().join("deep")).is_empty());
    }

    #[test]
    fn an_existing_folder_is_replaced_only_when_asked() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        write(&target, false, "one").unwrap();
        assert!(matches!(write(&target, false, "two"), Err(Error::Exists { .. })));
        assert_eq!(fs::read_to_string(target.join("a.txt")).unwrap(), "one");
        write(&target, true, "two").unwrap();
        assert_eq!(fs::read_to_string(target.join("a.txt")).unwrap(), "two");
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn a_star_in_a_name_is_a_number() {
        let shard = "model-*-of-*.bin";
        assert!(is_named("model-00001-of-2.bin", shard) && is_named("a.txt", "a.txt"));
        for other in ["model--of-2.bin", "model-1-of-x.bin", "model-1-of-2.bin2", "model-1-of-", "a.txt"] {
            assert!(!is_named(other, shard), "{other}");
        }
    }

    #[test]
    fn an_empty_folder_is_not_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path().join("out").as_path(), false, "one").unwrap();
        fs::create_dir(dir.path().join("empty")).unwrap();
        write(&dir.path().join("empty"), false, "one").unwrap();
    }

    #[test]
    fn what_is_not_ours_is_never_deleted() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.txt"), "ours").unwrap();
        fs::write(dir.path().join("thesis.doc"), "theirs").unwrap();
        let error = write(dir.path(), true, "x").unwrap_err().to_string();
        assert!(error.contains("\"thesis.doc\", which this program did not write"), "{error}");
        assert_eq!(fs::read_to_string(dir.path().join("a.txt")).unwrap(), "ours");
        let file = dir.path().join("a.txt");
        assert!(write(&file, true, "x").unwrap_err().to_string().starts_with("could not write"));
    }
}
