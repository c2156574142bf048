//! A file that can be read more than once: regular files as they are, pipes through a temporary file.
//!
//! Several passes are what keeps memory bounded (count first, then write), and a pipe allows only one, so
//! standard input is first copied to a temporary file, which vanishes with the process.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;

/// Bytes that a pipe may give: they are kept on the disk until the end.
const MOST_THROUGH_A_PIPE: u64 = 16 << 30;

/// An open input that can be rewound.
#[derive(Debug)]
pub struct InputFile {
    file: File,
    name: String,
    bytes: u64,
}

impl InputFile {
    /// Opens a path; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Self::spool(&mut io::stdin().lock(), "standard input");
        }
        let about = std::fs::metadata(path).map_err(|e| Error::io("read", path, e))?;
        if about.is_dir() {
            let why = io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, a file is needed here");
            return Err(Error::io("read", path, why));
        }
        let name = path.display().to_string();
        if !about.is_file() {
            return Self::spool(&mut minigpt_files::open_file_or_pipe(path)?, &name);
        }
        let (file, bytes) = minigpt_files::open_file(path)?;
        Ok(InputFile { file, name, bytes })
    }

    fn spool(from: &mut dyn io::Read, name: &str) -> Result<Self> {
        let mut file =
            tempfile::tempfile().map_err(|e| Error::io_named("make a temporary copy of", name, e))?;
        let from = &mut io::Read::take(from, MOST_THROUGH_A_PIPE + 1);
        let bytes = io::copy(from, &mut file).map_err(|e| Error::io_named("copy", name, e))?;
        if bytes > MOST_THROUGH_A_PIPE {
            return Err(Error::TooMuchThroughAPipe { name: name.to_owned(), limit: MOST_THROUGH_A_PIPE });
        }
        Ok(InputFile { file, name: name.to_owned(), bytes })
    }

    /// Its path, or "standard input".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its length when it was opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file from its start.
    pub fn rewind(&self) -> Result<&File> {
        (&self.file).rewind().map_err(|e| Error::io_named("read", &self.name, e))?;
        Ok(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_pipe_can_be_read_twice() {
        let input = InputFile::spool(&mut &b"abc"[..], "pipe").unwrap();
        for _ in 0..2 {
            let mut text = String::new();
            input.rewind().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "abc");
        }
        assert_eq!(input.bytes(), 3);
    }

    #[test]
    fn folders_and_missing_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing.jsonl");
        for path in [dir.path(), &missing] {
            let error = InputFile::open(path).unwrap_err().to_string();
            assert_eq!(error, format!("could not read {}", path.display()));
        }
    }
}
