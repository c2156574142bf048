//! Errors of questions about a model's inside.

use minigpt_model::Site;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The question has no answer for a model of this configuration.
    #[error("{0}")]
    Undefined(#[from] Undefined),
    /// The question names something that the model or the text does not have.
    #[error("{0}")]
    Request(#[from] InvalidRequest),
    /// A treebank that is not CoNLL-U, or has nothing to measure.
    #[error("{0}")]
    Relations(#[from] InvalidTreebank),
    /// The model's weights are broken.
    #[error("a logit is {0}: the model's weights are broken")]
    NotFinite(f32),
    /// The model failed, or a tensor operation did.
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        Self::Model(error.into())
    }
}

/// Why a question has no answer for a model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum Undefined {
    #[error("the forward pass did not reach {0}")]
    NotReached(Site),
    #[error(
        "attribution is not defined for a post-norm model: every block normalizes the whole residual stream again, so \
         what a part wrote does not reach the logits as a term of a sum"
    )]
    PostNormAttribution,
    #[error("the difference of the two logits is the same after both texts: there is nothing to restore")]
    EqualDifferences,
    #[error(
        "head roles are measured on repeated tokens, for which a context of {block_size} tokens is too short"
    )]
    ContextTooShort { block_size: usize },
}

/// What is wrong with a question.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum InvalidRequest {
    #[error("there is no layer {layer}: there are 0 to {last}")]
    NoLayer { layer: usize, last: usize },
    #[error("there is no head {head}: there are 0 to {last}")]
    NoHead { head: usize, last: usize },
    #[error("there is no token {id}: there are 0 to {last}")]
    NoToken { id: u32, last: usize },
    #[error("there is no position {position}: there are 0 to {last}")]
    NoPosition { position: usize, last: usize },
    #[error("there is no part {name:?}: write 3.1 for head 1 of layer 3, or mlp.3, attn.3, layer.3")]
    NoPart { name: String },
    #[error("name the parts to switch off")]
    NothingToSwitchOff,
    #[error("there is no token to look at")]
    EmptyText,
    #[error("{tokens} tokens do not fit the model's context of {block_size}")]
    TextTooLong { tokens: usize, block_size: usize },
    #[error("patching needs two texts of equal length; these have {clean} and {corrupt} tokens")]
    DifferentLengths { clean: usize, corrupt: usize },
    #[error("the two texts are the same: there is nothing to patch")]
    SameTexts,
    #[error("both texts lead to the token {id} {name:?}: name another token to compare it with")]
    SameAnswer { id: u32, name: String },
    #[error("the text has no end of a sentence, line or paragraph")]
    NoEnds,
    #[error(
        "tokens can't repeat at distance {distance}: it must be from 2 to {most}, since two copies must fit the context"
    )]
    RepeatDistance { distance: usize, most: usize },
}

/// What is wrong with a treebank. Lines and words are counted from 1.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum InvalidTreebank {
    #[error("the treebank has no sentences")]
    NoSentences,
    #[error("no sentence with two related words fits the model's context")]
    NoPairs,
    #[error("line {line}: {columns} columns; CoNLL-U has ten, separated by tabs")]
    ColumnCount { line: usize, columns: usize },
    #[error("line {line}: the word is numbered {id:?} instead of {expected}")]
    WordNumber { line: usize, id: String, expected: usize },
    #[error("line {line}: the head is {head:?}; it must be the number of a word, or 0")]
    NotAHead { line: usize, head: String },
    #[error("the sentence at line {line}: word {word} depends on a word that does not exist")]
    MissingHead { line: usize, word: usize },
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;
