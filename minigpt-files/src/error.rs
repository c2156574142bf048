//! Why a file or folder could not be written, replaced, mapped or locked.

use crate::open_folder::present_path;
use std::io;
use std::path::{Path, PathBuf};

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was being done: "read", "write", "create".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A folder, a pipe or a device where a file is needed.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// What it was asked for.
        path: PathBuf,
    },

    /// A file that is larger than anything of its kind.
    #[error("{} has more than the {limit} bytes that are read of such a file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How many are read at most.
        limit: u64,
    },

    /// Bytes that are not text.
    #[error("{} is not UTF-8 text: byte {position} is wrong", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Offset of the first byte that can't be part of a character.
        position: usize,
    },

    /// A file or folder that is in the way.
    #[error("{} exists already", path.display())]
    Exists {
        /// Where it is.
        path: PathBuf,
    },

    /// A link where a file is to be written: what it leads to is not this program's.
    #[error("{} is a link, and what it leads to is not written: remove the link, or choose another place", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },

    /// A folder that this process works in and that is no longer where it was.
    #[error("the folder {} was removed, or moved to where it can't be found", path.display())]
    Gone {
        /// Where it was.
        path: PathBuf,
    },

    /// A folder that holds what this program never wrote.
    #[error("{} also holds {other:?}, which is not ours to delete: choose another folder", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// The file in it that nobody here wrote.
        other: String,
    },

    /// Another process is writing the same file or folder.
    #[error("another process is writing {}", path.display())]
    Busy {
        /// What it is writing.
        path: PathBuf,
    },
}

impl Error {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// The system's refusal to do something with a path.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: present_path(path), source }
    }
}
