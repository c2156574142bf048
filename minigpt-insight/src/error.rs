//! What can go wrong when somebody looks inside a model, in words for that person.

/// The crate's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked is not defined for a model of this configuration; the text says why.
    #[error("{0}")]
    Undefined(String),
    /// What was asked for is not there: a layer, a head, a position, a token, a part of the model.
    #[error("{0}")]
    Request(String),
    /// A text with dependencies that is not CoNLL-U; the text says where.
    #[error("{0}")]
    Relations(String),
    /// The model's numbers are none.
    #[error("a logit is {0}: the model's weights are broken")]
    NotFinite(f32),
    /// The model refused, or a tensor operation failed.
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        Self::Model(error.into())
    }
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;
