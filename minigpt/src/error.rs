//! What can go wrong with a model, a run or a conversation as a whole, in words for the person who can mend it.

use std::path::PathBuf;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting that does not exist or can't have this value; the text names it.
    #[error("{0}")]
    Setting(String),
    /// A setting that does not exist.
    #[error("there is no setting {name}{}", near.as_ref().map_or_else(String::new, |near| format!("; did you mean {near}?")))]
    NoSetting {
        /// As it was written.
        name: String,
        /// One that may be meant.
        near: Option<String>,
    },
    /// What is wrong with a configuration, and where in its text.
    #[error("line {line}, column {column}: {cause}\n{shown}")]
    Place {
        /// The line, from 1.
        line: usize,
        /// The character in it, from 1.
        column: usize,
        /// The line itself, with a mark under the character.
        shown: String,
        /// What is wrong; a part of this error's text.
        cause: Box<Error>,
    },
    /// A file with settings that can't be used.
    #[error("{}: not a usable configuration", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<Error>,
    },
    /// A file that could not be read.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was being done: "read", "create".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no place for files that go away.
    #[error("no temporary folder could be made")]
    Scratch(#[source] std::io::Error),
    /// A folder without a run that could go on.
    #[error("{}: there is no run to resume", .0.display())]
    NoRun(PathBuf),
    /// A place where a model was looked for; the text says what is there instead.
    #[error("{}: {message}", path.display())]
    NoModel {
        /// The file or folder.
        path: PathBuf,
        /// What it is.
        message: String,
    },
    /// A model that this machine's memory can't hold.
    #[error(
        "training this model takes about {}, but only {} of memory are free; try a smaller train.batch_size \
         (with more train.gradient_accumulation_steps), model.block_size or model.n_embd",
        minigpt_charts::bytes(*needed), minigpt_charts::bytes(*available)
    )]
    Memory {
        /// Bytes that training takes.
        needed: u64,
        /// Bytes that are free.
        available: u64,
    },
    /// A model that can't be talked to in text.
    #[error("{} holds no tokenizer (tokenizer.json)", .0.display())]
    NoTokenizer(PathBuf),
    /// A conversation that can't go on.
    #[error("{0}")]
    Conversation(String),
    /// What was said can't be told to the model.
    #[error(transparent)]
    Chat(#[from] minigpt_chat::Error),
    /// The hub, or a name on it.
    #[error("{0}")]
    Hub(String),
    /// The data does not say what is needed of it.
    #[error("{0}")]
    Data(String),
    /// Data could not be opened or fetched.
    #[error(transparent)]
    Dataset(#[from] minigpt_data::Error),
    /// A file could not be written.
    #[error(transparent)]
    File(#[from] minigpt_files::Error),
    /// A model's files are wrong.
    #[error(transparent)]
    Format(#[from] minigpt_formats::Error),
    /// The model refused.
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
    /// Generation refused.
    #[error(transparent)]
    Generate(#[from] minigpt_generate::Error),
    /// Looking inside was refused.
    #[error(transparent)]
    Insight(#[from] minigpt_insight::Error),
    /// The tokenizer refused.
    #[error(transparent)]
    Tokenizer(#[from] minigpt_tokenizer::Error),
    /// Runs that say nothing about a scaling law.
    #[error(transparent)]
    Scaling(#[from] minigpt_scaling::Error),
    /// Training refused.
    #[error(transparent)]
    Train(#[from] minigpt_train::Error),
}
