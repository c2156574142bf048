//! What can go wrong with a model, in words for the person who can mend it.

/// The crate's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A configuration that no model can have; the text names the field.
    #[error("{0}")]
    Config(String),
    /// Token ids that this model can't read.
    #[error("{0}")]
    Ids(String),
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;
