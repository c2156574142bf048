//! Errors of the files of a run.

use minigpt_files::Action;
use std::path::{Path, PathBuf};

/// Why a record could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was being done.
        action: Action,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line that is not a record.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number from 1.
        line: usize,
        /// The parser's message.
        problem: String,
    },
    /// A file that could not be replaced.
    #[error(transparent)]
    Replace(#[from] minigpt_files::Error),
}

/// The result of recording.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Wraps what the system said with what was being done to which file.
    pub(super) fn io(action: Action, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Error::Io { action, path: minigpt_files::present_path(path), source }
    }
}
