//! Why a file or folder could not be written, replaced, mapped or locked.

use crate::open_folder::present_path;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum Error {
    #[error("could not {action} {}", path.display())]
    Io { action: Action, path: PathBuf, source: io::Error },

    /// A folder, a pipe or a device where a file is needed.
    #[error("{} is not a regular file", path.display())]
    NotAFile { path: PathBuf },

    #[error("{} is larger than {limit} bytes, the limit for a file of this kind", path.display())]
    TooLarge { path: PathBuf, limit: u64 },

    #[error("{} is not UTF-8 text: byte {position} is invalid", path.display())]
    NotText { path: PathBuf, position: usize },

    #[error("{} already exists", path.display())]
    Exists { path: PathBuf },

    #[error("{} is a symbolic link, and its target is not overwritten: remove the link, or choose another path", path.display())]
    Link { path: PathBuf },

    /// A folder that this process works in.
    #[error("the folder {} was removed, or moved to where it can't be found", path.display())]
    Gone { path: PathBuf },

    /// A folder to be replaced has a file that this program never writes.
    #[error("{} also contains {other:?}, which this program did not write and does not delete: choose another folder", path.display())]
    NotOurs { path: PathBuf, other: String },

    #[error("another process is writing {}", path.display())]
    Busy { path: PathBuf },
}

impl Error {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// The system's refusal to do something with a path.
    pub(crate) fn io(action: Action, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: present_path(path), source }
    }
}

/// What could not be done with a file, in errors of this crate and of those above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "verbs")]
pub enum Action {
    Read,
    Write,
    Create,
    Remove,
    Move,
    Restore,
    Lock,
    Map,
    Copy,
    CopyToTemporary,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::Remove => "remove",
            Self::Move => "move",
            Self::Restore => "restore",
            Self::Lock => "lock",
            Self::Map => "map",
            Self::Copy => "copy",
            Self::CopyToTemporary => "make a temporary copy of",
        })
    }
}

/// Why a read failed that the system itself allowed; found inside an [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum ReadProblem {
    #[error("no program writes to this pipe")]
    NoWriter,
    #[error("the file became shorter after it was opened")]
    Shortened,
}

impl From<ReadProblem> for io::Error {
    fn from(problem: ReadProblem) -> Self {
        let kind = match problem {
            ReadProblem::NoWriter => io::ErrorKind::TimedOut,
            ReadProblem::Shortened => io::ErrorKind::UnexpectedEof,
        };
        Self::new(kind, problem)
    }
}
