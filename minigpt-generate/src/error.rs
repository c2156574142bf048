//! Errors of settings, prompts and generation.

use crate::constraint_error::ConstraintProblem;
use crate::engine::Refused;
use std::fmt;
use std::sync::Arc;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting with an invalid value.
    #[error("{field} {problem}")]
    Config {
        /// The field of [`GenerationConfig`](crate::GenerationConfig).
        field: String,
        /// What is wrong with it.
        problem: SettingProblem,
    },
    /// A generation config that is not JSON.
    #[error("the generation config is not valid: {0}")]
    ConfigJson(serde_json::Error),
    /// No prompts were given.
    #[error("the list of prompts is empty")]
    NoPrompts,
    /// A prompt that can't be continued.
    #[error("{which} {problem}")]
    Prompt {
        /// Which prompt.
        which: WhichPrompt,
        /// What is wrong with it.
        problem: PromptProblem,
    },
    /// The model computes NaN or infinity.
    #[error(
        "after {position} tokens the model gives {value} for token {id} instead of a number: its weights are damaged, \
         or too large for its precision"
    )]
    NotFinite {
        /// How many tokens the text had.
        position: usize,
        /// The token.
        id: usize,
        /// Its logit.
        value: f32,
    },
    /// No token may follow.
    #[error(
        "no token is left to choose after {position} tokens: the schema or grammar, logit_bias, bad_words_ids, suppress_tokens \
         and min_new_tokens forbid all"
    )]
    NoToken {
        /// How many tokens the text had.
        position: usize,
    },
    /// A schema or grammar that can't be followed, or no further.
    #[error("the schema or grammar can't be followed: {0}")]
    Constraint(#[from] ConstraintProblem),
    /// The forward pass failed.
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
    /// A forward pass that several texts shared failed.
    #[error("the model could not be run: {0}")]
    Pass(Arc<Error>),
    /// The engine lost a slot, which is a bug.
    #[error("internal error: a slot of the cache is missing")]
    NoSlot,
    /// The engine did not take a request.
    #[error("{0}")]
    Refused(Box<Refused>),
    /// A panic ended a text, which is a bug.
    #[error("internal error, generation stopped: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
    /// The engine was stopped before the text was finished.
    #[error("the engine was stopped before the text was finished")]
    Stopped,
    /// A panic ended the engine's thread, and all texts with it.
    #[error("the engine stopped after an internal error: {message}")]
    EngineFailed {
        /// The message of the panic.
        message: String,
    },
}

/// What is wrong with a setting. The name of the setting comes before the text.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum SettingProblem {
    #[error("must be {range}, but is {value}")]
    OutOfRange { range: SettingRange, value: f64 },
    #[error("must be at most {limit} ({most}), but is {value}")]
    TooLarge { limit: SettingLimit, most: usize, value: usize },
    /// A value of the wrong type, in the words of the JSON parser.
    #[error("is {value}: {reason}")]
    WrongType { value: String, reason: String },
    #[error("must be false, true or \"never\", but is {0}")]
    EarlyStopping(serde_json::Value),
    #[error("must be story, code, summary or exact, but is {0}")]
    UnknownStyle(String),
    #[error("names token {id}, outside of the vocabulary of {vocab_size} tokens")]
    UnknownToken { id: u32, vocab_size: usize },
    #[error("of token {id} is {bias}")]
    Bias { id: u32, bias: f32 },
    #[error("has an empty string, which would end every text at once")]
    EmptyString,
    #[error("has a word without tokens")]
    EmptyWord,
    #[error("need a tokenizer, but this model has none")]
    NoTokenizer,
    #[error("is {0}, but beams do not sample: turn do_sample off")]
    SampledBeams(usize),
    #[error("is {0}, but greedy decoding has only one answer: sample, or use beams")]
    OneGreedyAnswer(usize),
    #[error("must be 1 with a schema or grammar, but is {0}")]
    BeamsWithGrammar(usize),
    #[error("can't be used with a schema or grammar")]
    SearchWithGrammar,
    #[error("must be 0 with a schema or grammar, but is {0}: the text ends where the grammar does")]
    MinimumWithGrammar(usize),
    #[error("must be 1 to stream tokens: a beam search returns whole texts")]
    StreamedBeams,
}

/// The values that a setting may have.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum SettingRange {
    #[error("at least 1")]
    AtLeastOne,
    #[error("a finite number")]
    Finite,
    #[error("above 0 and at most 1")]
    Share,
    #[error("from 0 (greedy) to {0}")]
    Temperature(f64),
    #[error("from {0} to {1}")]
    FromTo(f64, f64),
}

/// What bounds a setting from above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum SettingLimit {
    #[error("max_new_tokens")]
    MaxNewTokens,
    #[error("num_beams")]
    NumBeams,
    #[error("the size of the vocabulary")]
    Vocabulary,
    #[error("the number of texts generated at once")]
    Slots,
}

/// A prompt among those of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichPrompt {
    /// The only one.
    Only,
    /// One of several.
    Of {
        /// Its number, from 1.
        number: usize,
        /// How many there are.
        count: usize,
    },
}

impl fmt::Display for WhichPrompt {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Only => f.write_str("the prompt"),
            Self::Of { number, count } => write!(f, "prompt {number} of {count}"),
        }
    }
}

/// What is wrong with a prompt. The prompt is named before the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum PromptProblem {
    #[error("is empty: there must be a token to begin with")]
    Empty,
    #[error("has id {id} at position {position}, outside of the vocabulary of {vocab_size} tokens")]
    UnknownToken { id: u32, position: usize, vocab_size: usize },
    #[error("has {tokens} tokens, more than the model's context of {block_size}")]
    TooLong { tokens: usize, block_size: usize },
    #[error("has {block_size} tokens and fills the model's context: there is no room for an answer")]
    NoRoom { block_size: usize },
}

impl Error {
    pub(crate) fn config(field: &str, problem: SettingProblem) -> Self {
        Self::Config { field: field.to_owned(), problem }
    }

    /// The error of a panic.
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
pub type Result<T, E = Error> = std::result::Result<T, E>;
