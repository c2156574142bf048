//! A single file that appears whole or not at all: written beside its place, synced, renamed.

use crate::error::{Action, Error, Result};
use crate::folder::{beside, parent, sync_folder};
use crate::open_folder::present_path;
use crate::own_file::{is_sole_file, is_still_at, open_for_writing};
use crate::under_way::UnderWay;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a file in one step: another one of that name is replaced, never half overwritten.
///
/// # Errors
/// The place can't be written, or another process is writing the same file.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    replace_file(path, |file| file.write_all(bytes).map_err(|e| Error::io(Action::Write, path, e)))
}

/// The same for a file that `write` fills piece by piece. If it fails, nothing has changed.
///
/// # Errors
/// What `write` returns; a place that can't be written; another process that is writing the same file.
pub fn replace_file<E: From<Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    check_replaceable(path)?;
    let _under_way = UnderWay::begin();
    // The name is always the same, so that what a killed process left is overwritten by the next one.
    let temporary = beside(path, "tmp");
    let file = open_locked(&temporary, path)?;
    let failed = |e| Error::io(Action::Write, path, e);
    let mut file = BufWriter::new(file);
    let written = write(&mut file).and_then(|()| {
        let file = file.into_inner().map_err(|e| failed(e.into_error()))?;
        file.sync_all().map_err(failed)?;
        fs::rename(&temporary, path).map_err(failed)?;
        Ok(())
    });
    if let Err(error) = written {
        // The first error is the one that matters.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(sync_folder(parent(path))?)
}

/// Gives a finished file its final name, once it is on the disk.
///
/// # Errors
/// The system refuses.
pub fn move_file(from: &Path, to: &Path) -> Result<()> {
    check_replaceable(to)?;
    let failed = |e| Error::io(Action::Write, to, e);
    File::options().read(true).write(true).open(from).and_then(|file| file.sync_all()).map_err(failed)?;
    fs::rename(from, to).map_err(failed)?;
    sync_folder(parent(to))
}

/// A rename would put a file in the place of a device or a pipe: root asking for `/dev/null` would take it from everybody.
fn check_replaceable(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path).map(|about| about.file_type()) {
        Ok(kind) if !kind.is_file() && !kind.is_symlink() && !kind.is_dir() => {
            Err(Error::NotAFile { path: present_path(path) })
        }
        _ => Ok(()),
    }
}

/// Whether something has this name, be it a link to nowhere. What the system does not want to say is an error, not a no: who
/// takes it for one uses or overwrites another file than was meant.
///
/// # Errors
/// The system does not say.
pub fn is_there(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(e) => Err(Error::io(Action::Read, path, e)),
    }
}

/// An empty file that no other process writes; `path` is for messages.
fn open_locked(temporary: &Path, path: &Path) -> Result<File> {
    let failed = |e| Error::io(Action::Write, path, e);
    loop {
        // A link of this name would lead the writing elsewhere. Removing it leaves what it leads to alone.
        if is_there(temporary)? && !is_sole_file(temporary) {
            fs::remove_file(temporary).map_err(failed)?;
        }
        // Not truncated yet: until it is locked it may be somebody else's.
        let file = open_for_writing(temporary).map_err(|error| match error {
            // The person knows the file by its own name.
            Error::Io { action, source, .. } => Error::io(action, path, source),
            error => error,
        })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Busy { path: present_path(path) }),
            // A file system without locks.
            Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        // Between opening and locking, its owner may have renamed it into place: then it is the finished file.
        if is_still_at(&file, temporary) {
            file.set_len(0).map_err(failed)?;
            return Ok(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.svg");
        write_file(&path, b"a long first version").unwrap();
        write_file(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write_file(&dir.path().join("no/such/a.svg"), b"x").is_err());
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write_file(&path, b"one").unwrap();
        let failed = replace_file(&path, |file| {
            file.write_all(b"half").unwrap();
            Err(Error::Busy { path: path.clone() })
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_killed_process_left_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".a.tmp"), "a long rest of an earlier attempt").unwrap();
        write_file(&dir.path().join("a"), b"new").unwrap();
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"new");
        assert!(!dir.path().join(".a.tmp").exists());
    }

    #[test]
    fn two_processes_can_not_write_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        replace_file(&path, |file| {
            assert!(matches!(write_file(&path, b"other"), Err(Error::Busy { .. })));
            file.write_all(b"first").map_err(|e| Error::io(Action::Write, &path, e))
        })
        .unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
    }

    #[test]
    #[cfg(unix)]
    fn what_can_not_be_looked_at_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        assert!(!is_there(&path).unwrap());
        assert!(!is_there(&path.join("b")).unwrap());
        std::os::unix::fs::symlink("a", &path).unwrap();
        assert!(is_there(&path).unwrap(), "a link that leads to itself");
        assert!(is_there(&path.join("b")).is_err());
        assert!(is_there(&dir.path().join("a".repeat(300))).is_err(), "a name too long to be asked about");
    }

    /// Regression: the target of a link with the temporary file's name was emptied.
    #[test]
    #[cfg(unix)]
    fn what_links_lead_to_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (thesis, path) = (dir.path().join("thesis.txt"), dir.path().join("a"));
        fs::write(&thesis, "years of work").unwrap();
        for name in ["a", ".a.tmp"] {
            std::os::unix::fs::symlink("thesis.txt", dir.path().join(name)).unwrap();
        }
        write_file(&path, b"new").unwrap();
        fs::hard_link(&thesis, dir.path().join(".a.tmp")).unwrap();
        write_file(&path, b"newer").unwrap();
        assert_eq!(fs::read_to_string(&thesis).unwrap(), "years of work");
        assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

    /// Regression: a chart for `/dev/null`, drawn by root, replaced the device (found by scripts/attack). A socket stands for it.
    #[test]
    #[cfg(unix)]
    fn what_is_no_file_is_not_replaced_by_one() {
        use std::os::unix::fs::FileTypeExt;
        let dir = tempfile::tempdir().unwrap();
        let (socket, file) = (dir.path().join("socket"), dir.path().join("file"));
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        fs::write(&file, "x").unwrap();
        assert!(matches!(write_file(&socket, b"x"), Err(Error::NotAFile { .. })));
        assert!(matches!(move_file(&file, &socket), Err(Error::NotAFile { .. })));
        assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
