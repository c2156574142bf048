//! What can go wrong between what was said and the ids for the model.

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A conversation that can't be told to the model.
    #[error("{0}")]
    Conversation(String),
    /// The model's chat template is wrong, or does too much.
    #[error("the model's chat template {doing}")]
    Template {
        /// What it did: "is wrong", "failed".
        doing: &'static str,
        /// What Jinja says.
        source: minijinja::Error,
    },
    /// The vocabulary lacks what question/answer models need.
    #[error(transparent)]
    Data(#[from] minigpt_data::Error),
    /// The tokenizer refused.
    #[error(transparent)]
    Tokenizer(#[from] minigpt_tokenizer::Error),
}
