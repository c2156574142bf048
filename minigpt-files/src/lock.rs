//! One process at a time in a folder.

use crate::error::{Error, Result};
use std::fs::{self, File, TryLockError};
use std::path::Path;

/// A folder that belongs to this process for as long as this lives. A crash releases it.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Makes the folder if it is not there, and takes it.
    ///
    /// # Errors
    /// Another process has it ([`Error::Busy`]), or the place can't be written.
    pub fn take(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
        let path = folder.join(".lock");
        let file = File::create(&path).map_err(|e| Error::io("write", &path, e))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Busy { path: folder.to_owned() }),
            Err(TryLockError::Error(e)) => Err(Error::io("lock", &path, e)),
        }
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
}
