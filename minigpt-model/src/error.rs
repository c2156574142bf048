//! What can go wrong with a model, in words for the person who can mend it.

use std::path::PathBuf;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A configuration that no model can have; the text names the field.
    #[error("{0}")]
    Config(String),
    /// Token ids that this model can't read.
    #[error("{0}")]
    Ids(String),
    /// A model folder that is not what it should be.
    #[error("{}: {message}", path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// A file that could not be read or written.
    #[error("{}: {problem}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        problem: std::io::Error,
    },
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;
