//! What can be wrong with a model's files, in words for the person who can mend it.

use std::path::{Path, PathBuf};

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder that is not what it should be.
    #[error("{}: {message}", path.display())]
    Bad {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// A file that could not be read.
    #[error("{}: {problem}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        problem: std::io::Error,
    },
    /// A model that another tool's files can't express; the text says why.
    #[error("{0}")]
    NotExpressible(String),
    /// Two models that can't be compared, or that compute something else.
    #[error("{0}")]
    Different(String),
    /// Values that are not finite, or no longer are.
    #[error("{0}")]
    NotFinite(String),
    /// A file could not be written or mapped.
    #[error(transparent)]
    File(#[from] minigpt_files::Error),
    /// The model is impossible.
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
    /// The tokenizer is wrong.
    #[error(transparent)]
    Tokenizer(#[from] minigpt_tokenizer::Error),
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

impl Error {
    /// A file or folder that is not what it should be.
    pub(crate) fn bad(path: &Path, message: impl Into<String>) -> Self {
        Self::Bad { path: path.to_owned(), message: message.into() }
    }

    /// The system's refusal to read.
    pub(crate) fn io(path: &Path, problem: std::io::Error) -> Self {
        Self::Io { path: minigpt_files::present_path(path), problem }
    }

    /// Why a tensor could not be written to a file.
    pub(crate) fn writing(path: &Path, error: candle_core::Error) -> Self {
        match error {
            candle_core::Error::Io(problem) => Self::io(path, problem),
            error => error.into(),
        }
    }
}
