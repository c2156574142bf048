//! A folder that appears whole or not at all.
//!
//! Files are written to a temporary folder beside the final one, flushed to the disk, and renamed in one step.
//! A folder that is in the way is replaced only when asked, and only if every file in it is of a kind that this
//! program writes there: `--force` with a mistyped path must not delete anybody's work.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder being written.
#[derive(Debug)]
pub struct OutputFolder {
    target: PathBuf,
    temporary: TempDir,
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
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent).map_err(|e| Error::io("create", parent, e))?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".minigpt-");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Readable by others as far as the user's umask allows, like any new folder.
            builder.permissions(fs::Permissions::from_mode(0o777));
        }
        let temporary = builder.tempdir_in(parent).map_err(|e| Error::io("write in", parent, e))?;
        Ok(OutputFolder { target: target.to_owned(), temporary, force, ours })
    }

    /// Where to write the files.
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Puts the folder in its place.
    pub fn finish(self) -> Result<()> {
        let failed = |e| Error::io("write", &self.target, e);
        for entry in fs::read_dir(self.path()).map_err(failed)? {
            sync(&entry.map_err(failed)?.path()).map_err(failed)?;
        }
        // Looked at again: it may have appeared while we worked.
        check_target(&self.target, self.force, self.ours)?;
        let old = self.temporary.path().with_extension("old");
        let moved = match fs::rename(&self.target, &old) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            Err(e) => return Err(failed(e)),
        };
        if let Err(e) = fs::rename(self.temporary.path(), &self.target) {
            if moved {
                fs::rename(&old, &self.target).map_err(failed)?;
            }
            return Err(failed(e));
        }
        let _ = self.temporary.keep();
        if moved {
            fs::remove_dir_all(&old).map_err(|e| Error::io("remove", &old, e))?;
        }
        Ok(())
    }
}

/// Makes sure that a file is on the disk. (Some systems want it open for writing.)
fn sync(path: &Path) -> io::Result<()> {
    File::options().read(true).write(true).open(path)?.sync_all()
}

/// Refuses what may not be replaced. An empty folder may always be.
fn check_target(target: &Path, force: bool, ours: &[&str]) -> Result<()> {
    let entries = match fs::read_dir(target) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io("write", target, e)),
    };
    for entry in entries {
        let entry = entry.map_err(|e| Error::io("read", target, e))?;
        if !force {
            return Err(Error::Exists { path: target.to_owned() });
        }
        let other = entry.file_name().to_string_lossy().into_owned();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || !ours.iter().any(|name| is_named(&other, name)) {
            return Err(Error::NotOurs { path: target.to_owned(), other });
        }
    }
    Ok(())
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
        assert!(write(&target, false, "two").unwrap_err().to_string().contains("--force"));
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
        assert!(error.contains("\"thesis.doc\", which is not ours"), "{error}");
        assert_eq!(fs::read_to_string(dir.path().join("a.txt")).unwrap(), "ours");
        let file = dir.path().join("a.txt");
        assert!(write(&file, true, "x").unwrap_err().to_string().starts_with("could not write"));
    }
}
