//! Errors of turning a conversation into ids.

use minijinja::value::ValueKind;
use std::error::Error as _;
use std::fmt;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A conversation that can't be encoded.
    #[error("{0}")]
    Conversation(#[from] ConversationProblem),
    /// The model's chat template is invalid, or does too much.
    #[error("the model's chat template {failure}")]
    Template {
        /// What happened.
        failure: TemplateFailure,
        /// Why.
        source: TemplateCause,
    },
    /// The vocabulary lacks what question/answer models need.
    #[error(transparent)]
    Data(#[from] minigpt_data::Error),
    /// The tokenizer failed.
    #[error(transparent)]
    Tokenizer(#[from] minigpt_tokenizer::Error),
}

/// Why a conversation can't be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum ConversationProblem {
    #[error(
        "the model's chat template does not write this conversation turn by turn, so its answers can't be told apart"
    )]
    NotTurnByTurn,
    #[error("the texts use every private-use character of Unicode")]
    NoPrivateCharacter,
}

/// What happened to a template. The template is named before the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum TemplateFailure {
    #[error("is invalid")]
    Invalid,
    #[error("failed")]
    Failed,
    #[error("takes more than 3,000,000 steps")]
    TooManySteps,
}

/// Why a template is invalid, or failed.
#[derive(Debug)]
pub enum TemplateCause {
    /// It exceeds a bound of ours.
    Problem {
        /// Which one.
        problem: TemplateProblem,
        /// The line of the template, from 1.
        line: Option<usize>,
    },
    /// In the words of the template engine.
    Engine(minijinja::Error),
}

impl fmt::Display for TemplateCause {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Problem { problem, line: Some(line) } => write!(f, "line {line}: {problem}"),
            Self::Problem { problem, line: None } => problem.fmt(f),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TemplateCause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Problem { .. } => None,
            Self::Engine(error) => error.source(),
        }
    }
}

impl From<minijinja::Error> for TemplateCause {
    /// Finds the problem that one of our functions raised inside the engine.
    fn from(error: minijinja::Error) -> Self {
        let mut cause = error.source();
        while let Some(inner) = cause {
            if let Some(problem) = inner.downcast_ref::<TemplateProblem>() {
                return Self::Problem { problem: problem.clone(), line: error.line() };
            }
            cause = inner.source();
        }
        Self::Engine(error)
    }
}

/// Something that a template may not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum TemplateProblem {
    #[error("it has more than 1 MiB")]
    SourceTooLong,
    #[error("a bracket is closed that was not opened")]
    UnopenedBracket,
    #[error("an expression has more than {0} operators in a row or nested")]
    ExpressionTooDeep(usize),
    #[error("it has more than {0} branches")]
    TooManyBranches(usize),
    #[error("it makes a value of more than 8 MiB")]
    ValueTooLarge,
    #[error("it makes values of more than 128 MiB in all")]
    TooMuch,
    #[error("it makes a value nested more than 64 levels deep")]
    ValueTooDeep,
    #[error("it takes more than 3 seconds")]
    TooSlow,
    #[error("a tuple can't be multiplied")]
    MultipliedTuple,
    #[error("a slice can't have a step of 0")]
    ZeroStep,
    #[error("a value of type {0} can't be sliced")]
    NotSliceable(ValueKind),
    #[error("at most 1000 characters can be stripped")]
    StripsTooMuch,
    #[error("it sorts too much")]
    SortsTooMuch,
    #[error("it formats to more than 8 MiB, or with a width of more than 999")]
    FormatTooLarge,
    #[error("a value of type {0} can't be written as JSON")]
    NoJson(ValueKind),
    #[error("tojson supports neither ensure_ascii nor sort_keys")]
    JsonOptions,
    #[error("the indent of tojson is at most {0}")]
    JsonIndent(usize),
    #[error("tojson needs two separators")]
    JsonSeparators,
    #[error("the separators of tojson have at most {0} characters")]
    JsonSeparatorLength(usize),
    #[error("the format of strftime_now has at most 1000 characters")]
    TimeFormatTooLong,
    #[error("strftime_now does not support %{0}")]
    TimeFormat(char),
    #[error("no thread could be started for it: {0}")]
    NoThread(String),
    #[error("it made the template engine panic")]
    Panicked,
}
