//! Files that this program keeps writing: opened only where they are regular files, never through a link.

use crate::error::{Action, Error, Result};
use crate::file::is_there;
use crate::open_folder::present_path;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Opens a regular file for appending, and creates it if it does not exist.
///
/// # Errors
/// The path is a link, a folder, a pipe or a device, or it can't be written.
pub fn open_for_appending(path: &Path) -> Result<File> {
    open_regular(path, File::options().append(true).create(true))
}

/// Opens a regular file for writing without truncating it, and creates it if it does not exist.
pub(crate) fn open_for_writing(path: &Path) -> Result<File> {
    open_regular(path, File::options().write(true).create(true).truncate(false))
}

fn open_regular(path: &Path, options: &mut OpenOptions) -> Result<File> {
    if is_link(path) {
        return Err(Error::Link { path: present_path(path) });
    }
    do_not_follow(options);
    let failed = |e| Error::io(Action::Write, path, e);
    let file = options.open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_file() {
        Ok(file)
    } else {
        Err(Error::NotAFile { path: present_path(path) })
    }
}

/// Makes opening a link fail, and opening a pipe not wait for its reader.
#[cfg(unix)]
fn do_not_follow(options: &mut OpenOptions) {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
}

#[cfg(windows)]
fn do_not_follow(options: &mut OpenOptions) {
    use std::os::windows::fs::OpenOptionsExt;
    const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
    options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
}

/// Whether a path is a symbolic link, whatever it leads to.
pub fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_symlink())
}

/// Whether a path is a regular file that has no other name: neither a symbolic link nor one of several hard links. What is
/// written into it changes nothing elsewhere.
#[cfg(unix)]
pub fn is_sole_file(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::symlink_metadata(path).is_ok_and(|about| about.is_file() && about.nlink() == 1)
}

/// Whether a path is a regular file and not a link.
#[cfg(not(unix))]
pub fn is_sole_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_file())
}

/// Whether an open file or folder still has this path; links are not followed. Systems without file identities say yes as long
/// as something is there.
pub fn is_still_at(file: &File, path: &Path) -> bool {
    has_identity(file, fs::symlink_metadata(path))
}

#[cfg(unix)]
pub(crate) fn has_identity(file: &File, other: io::Result<fs::Metadata>) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |about: fs::Metadata| (about.dev(), about.ino());
    matches!((file.metadata().map(identity), other.map(identity)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(not(unix))]
pub(crate) fn has_identity(_file: &File, other: io::Result<fs::Metadata>) -> bool {
    other.is_ok()
}

/// Moves what has this path out of the way: to `NAME.aside` beside it, or `NAME.aside-2` and so on where that exists. Returns
/// the new path. A link is moved itself; what it leads to stays.
///
/// # Errors
/// The system refuses.
pub fn set_aside(path: &Path) -> Result<PathBuf> {
    let aside = free_name(path)?;
    fs::rename(path, &aside).map_err(|e| Error::io(Action::Move, path, e))?;
    Ok(aside)
}

/// Copies a file to `NAME.aside` beside it, or to the next name that is free. Returns the copy's path.
///
/// # Errors
/// The file can't be read, or the copy can't be written.
pub fn copy_aside(path: &Path) -> Result<PathBuf> {
    let aside = free_name(path)?;
    let failed = |e| Error::io(Action::Write, &aside, e);
    let mut copy = File::options().write(true).create_new(true).open(&aside).map_err(failed)?;
    let mut file = File::open(path).map_err(|e| Error::io(Action::Read, path, e))?;
    io::copy(&mut file, &mut copy).map_err(failed)?;
    Ok(aside)
}

/// The first of `NAME.aside`, `NAME.aside-2`, … that does not exist.
///
/// # Errors
/// The system does not say what exists.
pub fn free_name(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut number = 1;
    loop {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let aside = path.with_file_name(format!("{name}.aside{suffix}"));
        if !is_there(&aside)? {
            return Ok(aside);
        }
        number += 1;
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_is_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (thesis, path) = (dir.path().join("thesis.txt"), dir.path().join("log"));
        fs::write(&thesis, "years of work").unwrap();
        symlink("thesis.txt", &path).unwrap();
        for open in [open_for_appending, open_for_writing] {
            assert!(matches!(open(&path), Err(Error::Link { .. })));
        }
        assert!(is_link(&path) && !is_sole_file(&path) && is_sole_file(&thesis));
        fs::remove_file(&path).unwrap();
        symlink("nowhere", &path).unwrap();
        assert!(open_for_appending(&path).is_err());
        assert!(!dir.path().join("nowhere").exists(), "a link to nothing was followed");
        assert_eq!(fs::read_to_string(&thesis).unwrap(), "years of work");
    }

    #[test]
    fn only_regular_files_are_opened_and_a_pipe_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(open_for_appending(&pipe).is_err());
        assert!(open_for_appending(dir.path()).is_err());
    }

    #[test]
    fn a_file_that_was_replaced_is_not_the_open_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = open_for_appending(&path).unwrap();
        file.write_all(b"a").unwrap();
        assert!(is_still_at(&file, &path));
        fs::hard_link(&path, dir.path().join("other")).unwrap();
        assert!(!is_sole_file(&path));
        let aside = set_aside(&path).unwrap();
        assert_eq!(aside, dir.path().join("log.aside"));
        assert!(!is_still_at(&file, &path) && is_still_at(&file, &aside));
        fs::write(&path, "b").unwrap();
        assert!(!is_still_at(&file, &path));
        assert_eq!(copy_aside(&path).unwrap(), dir.path().join("log.aside-2"));
        assert_eq!(fs::read(dir.path().join("log.aside-2")).unwrap(), b"b");
    }
}
