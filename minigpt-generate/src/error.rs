//! What can go wrong while decoding, in words for the person who can mend it.

/// The crate's error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting that makes no sense.
    #[error("{field} {message}")]
    Config {
        /// The field of [`GenerationConfig`](crate::GenerationConfig).
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// A prompt that can't be continued.
    #[error("{which} {message}")]
    Prompt {
        /// Which prompt.
        which: String,
        /// What is wrong with it.
        message: String,
    },
    /// The model computes NaN or infinity.
    #[error(
        "after {position} tokens the model gives {value} for token {id} instead of a number: its weights are damaged, \
         or too large for its precision"
    )]
    NotFinite {
        /// How many tokens the row had.
        position: usize,
        /// The token.
        id: usize,
        /// What it got.
        value: f32,
    },
    /// Nothing may come next.
    #[error(
        "no token is left to choose after {position} tokens: the schema or grammar, logit_bias, bad_words_ids, suppress_tokens \
         and min_new_tokens forbid all"
    )]
    NoToken {
        /// How many tokens the row had.
        position: usize,
    },
    /// A schema or grammar that can't be followed, or no further.
    #[error("the schema or grammar can't be followed: {message}")]
    Constraint {
        /// Why.
        message: String,
    },
    /// The forward pass failed.
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
    /// The forward pass of several texts failed.
    #[error("the model could not be run: {message}")]
    Pass {
        /// What went wrong.
        message: String,
    },
    /// The engine did not take a request.
    #[error("{message}")]
    Refused {
        /// Why.
        message: String,
    },
    /// A mistake in this program.
    #[error("a mistake in the program ended this text: {message}")]
    Panicked {
        /// What it said.
        message: String,
    },
    /// The engine was stopped before the text was whole.
    #[error("the engine was stopped before the text was whole")]
    Stopped,
    /// The engine's thread ended because of a mistake in the program, and all texts with it.
    #[error("the engine has ended after an internal error: {message}")]
    EngineFailed {
        /// What went wrong.
        message: String,
    },
}

impl Error {
    pub(crate) fn config(field: &str, message: impl Into<String>) -> Self {
        Self::Config { field: field.to_owned(), message: message.into() }
    }

    pub(crate) fn constraint(message: impl Into<String>) -> Self {
        Self::Constraint { message: message.into() }
    }

    /// What a panic said.
    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        Self::Panicked { message: panic_message(panic) }
    }
}

/// The text of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;
