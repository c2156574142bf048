//! One process at a time in a folder.

use crate::error::{Action, Error, Result};
use crate::open_folder::{entry_path, present_path, target_of};
use crate::own_file::{has_identity, is_still_at, open_for_writing, set_aside};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The name of the file in the folder that is locked.
pub const NAME: &str = ".lock";

/// A folder that belongs to this process for as long as this value lives. A crash releases it.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// The folder itself, which keeps its identity when it is moved. Not every system can open a folder.
    folder: Option<File>,
    file: File,
}

impl Lock {
    /// Locks a folder, which is created if it does not exist.
    ///
    /// # Errors
    /// Another process has it ([`Error::Busy`]), or it can't be written.
    pub fn take(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|e| Error::io(Action::Create, folder, e))?;
        let open = File::open(folder).ok();
        // Through the open folder: a folder that is moved between the two calls is still the one that gets the lock.
        let file = lock_file(&entry_path(open.as_ref(), folder), folder)?;
        Ok(Self { path: folder.to_owned(), folder: open, file })
    }

    /// Creates a folder and locks it. Returns `None` if something with this path exists.
    ///
    /// # Errors
    /// The folder can't be created or locked.
    pub fn create(folder: &Path) -> Result<Option<Self>> {
        let failed = |e| Error::io(Action::Create, folder, e);
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        match fs::create_dir(folder) {
            Ok(()) => Self::take(folder).map(Some),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(e) => Err(failed(e)),
        }
    }

    /// Locks the same folder again after its lock file was removed or replaced. A link, a folder or anything else that no process
    /// can lock is moved aside; returns its new path.
    ///
    /// # Errors
    /// Another process has locked it since ([`Error::Busy`]), or the folder was removed.
    pub fn retake(&mut self) -> Result<Option<PathBuf>> {
        let path = self.entry_path().join(NAME);
        let is_other = fs::symlink_metadata(&path).is_ok_and(|about| !about.is_file());
        let aside = if is_other { Some(present_path(&set_aside(&path)?)) } else { None };
        self.file = lock_file(&self.entry_path(), &self.path)?;
        Ok(aside)
    }

    /// A path for reading and writing the folder's files. On Linux it goes through the open folder, so that it leads to this
    /// folder and to no other, even if the folder is moved and another one takes its name. [`present_path`](crate::present_path)
    /// turns it into one that people can read.
    pub fn entry_path(&self) -> PathBuf {
        entry_path(self.folder.as_ref(), &self.path)
    }

    /// Whether a process has ever locked this folder.
    ///
    /// # Errors
    /// The system does not say.
    pub fn is_known(folder: &Path) -> Result<bool> {
        crate::is_there(&folder.join(NAME))
    }

    /// The folder's present path: the one that was locked, or the one that the folder was moved to since.
    ///
    /// # Errors
    /// The folder was removed, or moved to where it can't be found ([`Error::Gone`]); its lock file was removed, so that another
    /// process may have locked it since ([`Error::Busy`]).
    pub fn folder(&self) -> Result<PathBuf> {
        let Some(folder) = &self.folder else { return Ok(self.path.clone()) };
        // The user may have named the folder by a link.
        let is_at = |path: &Path| has_identity(folder, fs::metadata(path));
        let moved = || target_of(&entry_path(Some(folder), &self.path)).filter(|path| is_at(path));
        let found = Some(self.path.clone()).filter(|path| is_at(path)).or_else(moved);
        let Some(path) = found else { return Err(Error::Gone { path: self.path.clone() }) };
        if is_still_at(&self.file, &self.entry_path().join(NAME)) {
            Ok(path)
        } else {
            Err(Error::Busy { path })
        }
    }
}

/// Opens and locks the lock file of a folder; `shown` is the folder's path for messages.
fn lock_file(folder: &Path, shown: &Path) -> Result<File> {
    let path = folder.join(NAME);
    let file = open_for_writing(&path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Busy { path: shown.to_owned() }),
        Err(TryLockError::Error(e)) => Err(Error::io(Action::Lock, &path, e)),
    }
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
    fn a_link_is_not_a_lock_and_its_target_keeps_its_bytes() {
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
        let mut lock = Lock::take(&run).unwrap();
        assert_eq!(lock.folder().unwrap(), run);
        fs::rename(&run, &moved).unwrap();
        fs::create_dir(&run).unwrap();
        let moved = fs::canonicalize(&moved).unwrap();
        assert_eq!(lock.folder().unwrap(), moved);
        // What is written through the lock follows the folder, without being told where it went.
        crate::write_file(&lock.entry_path().join("log"), b"1").unwrap();
        assert_eq!(fs::read(moved.join("log")).unwrap(), b"1");
        assert_eq!(fs::read_dir(&run).unwrap().count(), 0);
        assert_eq!(present_path(&lock.entry_path().join("log")), moved.join("log"));
        fs::remove_file(moved.join(NAME)).unwrap();
        assert!(matches!(lock.folder(), Err(Error::Busy { .. })));
        lock.retake().unwrap();
        assert_eq!(lock.folder().unwrap(), moved);
        fs::remove_dir_all(&moved).unwrap();
        assert!(matches!(lock.folder(), Err(Error::Gone { .. })));
        assert!(lock.retake().unwrap_err().is_missing());
        assert!(crate::write_file(&lock.entry_path().join("log"), b"1").unwrap_err().is_missing());
        assert!(Lock::create(&run).unwrap().is_none(), "it exists");
        assert!(Lock::create(&moved).unwrap().is_some());
    }
}
