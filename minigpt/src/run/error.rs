//! Why a run cannot be started, resumed or evaluated.

use crate::suggestion::MOST_MINUTES;
use minigpt_charts::{bytes, count};
use std::path::PathBuf;

/// Why a run cannot be started, resumed or evaluated.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum RunError {
    #[error("{}: no run to resume", .0.display())]
    NoRun(PathBuf),
    #[error("{}: this folder already holds a run", .0.display())]
    Exists(PathBuf),
    #[error("{}: the name of the run's folder is not valid Unicode", .0.display())]
    NotUnicode(PathBuf),
    #[error(
        "training this model takes about {}, but only {} of memory are free; try a smaller train.batch_size (with more \
         train.gradient_accumulation_steps), model.block_size or model.n_embd",
        bytes(*needed), bytes(*available)
    )]
    Memory { needed: u64, available: u64 },
    #[error("minutes: {}; it must be above 0 and at most {}", shown(*.0), count(MOST_MINUTES as u64))]
    Minutes(f64),
    #[error(
        "{name} is {value}, but the model in {} has model.{key} = {has}: fine-tuning keeps the shape of a model",
        base.display()
    )]
    OtherShape { name: String, value: String, base: PathBuf, key: String, has: String },
    #[error(
        "data.tokenizer is {wanted}, but the model in {} has its own tokenizer, which fine-tuning keeps: leave \
         data.tokenizer out",
        base.display()
    )]
    OtherTokenizer { wanted: String, base: PathBuf },
    #[error(
        "model.block_size is {wanted}, but the model in {} has {most}: a context can be made shorter, not longer",
        base.display()
    )]
    LongerContext { wanted: usize, base: PathBuf, most: usize },
    #[error("model.init: the model in {} already has weights", .0.display())]
    HasWeights(PathBuf),
    #[error("model.preset: a resumed run keeps its model")]
    PresetOfResumed,
    #[error("the tokenizer has {tokens} tokens, but the model only {model}")]
    SmallVocabulary { tokens: usize, model: usize },
    #[error("data.format is own, but there is no model with a chat template to fine-tune")]
    NoTemplate,
    #[error(
        "the model's files name no token that ends an answer (eos_token); with data.format = questions it can be trained \
         in another format"
    )]
    NoEndToken,
    #[error(
        "{setting} is for questions and answers, but {path} is running text, which is cut into windows of \
         model.block_size tokens"
    )]
    NotForText { setting: &'static str, path: String },
    #[error(
        "{0}: its tokens were made with the meta.pkl next to them, whose characters are not the model's tokens"
    )]
    OtherCharacters(String),
    #[error("train.best_by is answers, but {0} has no questions and answers")]
    NoQuestions(String),
    #[error("data.rehearse_path: {0} has no questions and answers")]
    NothingToRehearse(String),
    #[error("{0}: no validation data")]
    NoValidation(String),
    #[error("the data has no tokens to predict")]
    NothingToPredict,
    #[error("the data does not mark its answers")]
    NoAnswers,
    #[error("rank 0 sent a malformed message: {0}")]
    Message(serde_json::Error),
}

/// Minutes as a person would write them.
fn shown(minutes: f64) -> String {
    if minutes.abs() < 1e15 { minutes.to_string() } else { format!("{minutes:e}") }
}
