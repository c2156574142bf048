//! One process at a time in a folder.

use crate::error::{Error, Result};
use crate::own_file::{has_identity, is_still_at, open_for_writing};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// The name of the file in the folder that is locked.
const NAME: &str = ".lock";

/// A folder that belongs to this process for as long as this lives. A crash releases it.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// The folder itself, which keeps its identity when it is moved. Not everywhere can a folder be opened.
    folder: Option<File>,
    file: File,
}

impl Lock {
    /// Makes the folder if it is not there, and takes it.
    ///
    /// # Errors
    /// Another process has it ([`Error::Busy`]), or the place can't be written.
    pub fn take(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
        let path = folder.join(NAME);
        let file = open_for_writing(&path)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path: folder.to_owned(), folder: File::open(folder).ok(), file }),
            Err(TryLockError::WouldBlock) => Err(Error::Busy { path: folder.to_owned() }),
            Err(TryLockError::Error(e)) => Err(Error::io("lock", &path, e)),
        }
    }

    /// Whether a process has ever taken this folder.
    ///
    /// # Errors
    /// The system does not say.
    pub fn is_known(folder: &Path) -> Result<bool> {
        crate::is_there(&folder.join(NAME))
    }

    /// Where the folder is now: where it was taken, or where it was moved to since.
    ///
    /// # Errors
    /// The folder was removed, or moved to where it can't be found ([`Error::Gone`]); its lock was removed, so that it may
    /// belong to another process by now ([`Error::Busy`]).
    pub fn folder(&self) -> Result<PathBuf> {
        let Some(folder) = &self.folder else { return Ok(self.path.clone()) };
        // The person may well have named the folder by a link.
        let is_at = |path: &Path| has_identity(folder, fs::metadata(path));
        let moved = || moved_to(folder).filter(|path| is_at(path));
        let found = Some(self.path.clone()).filter(|path| is_at(path)).or_else(moved);
        let Some(path) = found else { return Err(Error::Gone { path: self.path.clone() }) };
        match is_still_at(&self.file, &path.join(NAME)) {
            true => Ok(path),
            false => Err(Error::Busy { path }),
        }
    }
}

/// The present path of an open folder.
#[cfg(target_os = "linux")]
fn moved_to(folder: &File) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok()
}

#[cfg(not(target_os = "linux"))]
fn moved_to(_folder: &File) -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_taken_once_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path()).unwrap();
        assert!(matches!(Lock::take(dir.path()), Err(Error::Busy { .. })));
        drop(first);
        Lock::take(dir.path()).unwrap();
    }

    /// Regression: the file that a link named `.lock` led to was emptied.
    #[test]
    #[cfg(unix)]
    fn a_link_is_no_lock_and_what_it_leads_to_keeps_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let (thesis, run) = (dir.path().join("thesis.txt"), dir.path().join("run"));
        fs::create_dir(&run).unwrap();
        fs::write(&thesis, "years of work").unwrap();
        std::os::unix::fs::symlink("../thesis.txt", run.join(NAME)).unwrap();
        assert!(matches!(Lock::take(&run), Err(Error::Link { .. })));
        fs::remove_file(run.join(NAME)).unwrap();
        fs::hard_link(&thesis, run.join(NAME)).unwrap();
        drop(Lock::take(&run));
        assert_eq!(fs::read_to_string(&thesis).unwrap(), "years of work");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_folder_that_is_moved_is_found_and_its_successor_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let (run, moved) = (dir.path().join("run"), dir.path().join("moved"));
        let lock = Lock::take(&run).unwrap();
        assert_eq!(lock.folder().unwrap(), run);
        fs::rename(&run, &moved).unwrap();
        fs::create_dir(&run).unwrap();
        assert_eq!(lock.folder().unwrap(), fs::canonicalize(&moved).unwrap());
        fs::remove_file(moved.join(NAME)).unwrap();
        assert!(matches!(lock.folder(), Err(Error::Busy { .. })));
        fs::remove_dir_all(&moved).unwrap();
        assert!(matches!(lock.folder(), Err(Error::Gone { .. })));
    }
}
