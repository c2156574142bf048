//! A file that is read here and there for as long as a program runs.

use crate::error::{Action, Error, ReadProblem, Result};
use crate::read::open_file;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A regular file, open for reading at any place. Unlike a [map](crate::Mapped), one that another program cuts short
/// is an error when it is read, not the end of the process. Clones share it.
#[derive(Debug, Clone)]
pub struct ReadAt {
    file: Arc<File>,
    path: PathBuf,
    len: u64,
}

impl ReadAt {
    /// Opens a regular file.
    pub fn open(path: &Path) -> Result<Self> {
        let (file, len) = open_file(path)?;
        Ok(Self { file: Arc::new(file), path: path.to_owned(), len })
    }

    /// Its bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it had none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Some of its bytes.
    ///
    /// # Errors
    /// A range that is not in the file, or no longer.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let length = range.end.saturating_sub(range.start);
        let inside = range.end <= self.len && length <= isize::MAX as u64;
        let read = if inside { read_exact_at(&self.file, length as usize, range.start) } else { Err(cut()) };
        read.map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => Error::io(Action::Read, &self.path, cut()),
            _ => Error::io(Action::Read, &self.path, e),
        })
    }
}

fn cut() -> io::Error {
    ReadProblem::Shortened.into()
}

#[cfg(unix)]
fn read_exact_at(file: &File, length: usize, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, offset)?;
    Ok(bytes)
}

#[cfg(windows)]
fn read_exact_at(file: &File, length: usize, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match std::os::windows::fs::FileExt::seek_read(file, &mut bytes[filled..], offset + filled as u64)? {
            0 => return Err(cut()),
            n => filled += n,
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn parts_are_those_of_the_file_until_it_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"0123456789").unwrap();
        let file = ReadAt::open(&path).unwrap();
        assert_eq!((file.len(), file.is_empty()), (10, false));
        assert_eq!(file.read(3..5).unwrap(), b"34");
        assert_eq!(file.read(10..10).unwrap(), b"");
        assert!(file.read(8..11).is_err());
        fs::write(&path, b"01234").unwrap();
        assert_eq!(file.read(3..5).unwrap(), b"34");
        let Error::Io { source, .. } = file.read(3..6).unwrap_err() else { panic!("another error") };
        assert_eq!(source.to_string(), "the file became shorter after it was opened");
    }

    #[test]
    fn a_folder_and_a_device_are_no_files() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(ReadAt::open(dir.path()), Err(Error::NotAFile { .. })));
        #[cfg(unix)]
        assert!(matches!(ReadAt::open(Path::new("/dev/zero")), Err(Error::NotAFile { .. })));
    }
}
