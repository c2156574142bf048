//! What can be wrong with nanoGPT's files.

use crate::state_dict::StateDictProblem;
use crate::torch::{PickleError, TorchProblem};

/// What is wrong with a `ckpt.pt`.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum NanoGptProblem {
    #[error(transparent)]
    Torch(#[from] TorchProblem),
    #[error("not a nanoGPT checkpoint: it has no \"model\" and \"model_args\"")]
    Incomplete,
    /// Neither a checkpoint nor a state dictionary; the latter's problem lists what the file holds.
    #[error("not a nanoGPT checkpoint: it has no \"model\" and \"model_args\"; {state_dict}")]
    NotACheckpoint { state_dict: Box<StateDictProblem> },
    #[error("model_args has no usable {0}")]
    Argument(&'static str),
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
}

/// What is wrong with a `meta.pkl`.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum MetaProblem {
    #[error(transparent)]
    Pickle(#[from] PickleError),
    #[error("has no stoi: not a meta.pkl of nanoGPT")]
    NoStoi,
    #[error("stoi does not number characters from 0 on")]
    Numbering,
    #[error("stoi skips a number")]
    Gap,
    #[error("vocab_size is not the number of characters in stoi, which is {characters}")]
    VocabSize { characters: usize },
    #[error("itos is neither a dictionary nor a list")]
    Itos,
    #[error("stoi has {stoi} characters, itos has {itos}")]
    Counts { stoi: usize, itos: usize },
    #[error("stoi and itos disagree: {id} is {word:?} in stoi and {} in itos", quoted(other.as_ref()))]
    Disagree { id: usize, word: String, other: Option<String> },
    #[error(transparent)]
    Tokenizer(#[from] minigpt_tokenizer::Error),
}

/// What is wrong with the optimizer state for a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum MomentsProblem {
    #[error("the optimizer state is malformed: {0}")]
    Malformed(String),
    #[error("the optimizer state has no {name}")]
    Missing { name: String },
    #[error("{name} in the optimizer state does not have the model's shape")]
    Shape { name: String },
}

fn quoted(word: Option<&String>) -> String {
    word.map_or("nothing".to_owned(), |word| format!("{word:?}"))
}
