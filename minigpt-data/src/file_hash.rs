//! The hash by which a file is known elsewhere: its SHA-256, or git's name for it, which is a SHA-1.

use crate::error::{Error, Result};
use crate::tokens::hex;
use minigpt_files::Action;
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The expected hash of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileHash {
    /// Of its bytes.
    Sha256(String),
    /// Git's name of a file with these bytes.
    GitBlob(String),
}

impl FileHash {
    /// A SHA-256 in hexadecimal; `None` if it isn't one.
    #[must_use]
    pub fn sha256(text: &str) -> Option<Self> {
        is_hex(text, 64).then(|| FileHash::Sha256(text.to_ascii_lowercase()))
    }

    /// Git's name of a file; `None` if it isn't one.
    #[must_use]
    pub fn git_blob(text: &str) -> Option<Self> {
        is_hex(text, 40).then(|| FileHash::GitBlob(text.to_ascii_lowercase()))
    }

    /// The hash of the same kind that the file at `path` has.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn of_file(&self, path: &Path) -> Result<Self> {
        match self {
            FileHash::Sha256(_) => Ok(FileHash::Sha256(sha256(path)?.0)),
            FileHash::GitBlob(_) => {
                let bytes = std::fs::metadata(path).map_err(|e| Error::io(Action::Read, path, e))?.len();
                let header = format!("blob {bytes}\0");
                Ok(FileHash::GitBlob(digest(path, Sha1::new_with_prefix(header))?.0))
            }
        }
    }
}

impl fmt::Display for FileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileHash::Sha256(hash) => write!(f, "SHA-256 {hash}"),
            FileHash::GitBlob(hash) => write!(f, "git SHA-1 {hash}"),
        }
    }
}

/// SHA-256 and length of a file.
pub(crate) fn sha256(path: &Path) -> Result<(String, u64)> {
    digest(path, Sha256::new())
}

fn digest(path: &Path, mut hash: impl Digest) -> Result<(String, u64)> {
    let mut file = File::open(path).map_err(|e| Error::io(Action::Read, path, e))?;
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((hex(&hash.finalize()), bytes)),
            Ok(n) => {
                hash.update(&buffer[..n]);
                bytes += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io(Action::Read, path, e)),
        }
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_sha256sum_and_git() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("hello");
        std::fs::write(&path, "hello\n").unwrap();
        // sha256sum hello; git hash-object hello
        let sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let git = "ce013625030ba8dba906f756967f9e9ca394464a";
        for expected in [FileHash::sha256(&sha256.to_uppercase()).unwrap(), FileHash::git_blob(git).unwrap()]
        {
            assert_eq!(expected.of_file(&path).unwrap(), expected);
        }
        assert_eq!(FileHash::sha256(git), None);
        assert_eq!(FileHash::git_blob("\u{1b}[2J"), None);
    }
}
