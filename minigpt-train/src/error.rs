//! What can go wrong in training.

/// The crate's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;
