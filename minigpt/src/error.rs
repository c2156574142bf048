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
    /// A folder without a run that could go on.
    #[error("{}: there is no run to resume", .0.display())]
    NoRun(PathBuf),
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
    /// The model's chat template is wrong, or does too much.
    #[error("the model's chat template {doing}")]
    Template {
        /// What it did: "is wrong", "failed".
        doing: &'static str,
        /// What Jinja says.
        source: minijinja::Error,
    },
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
    /// The tokenizer refused.
    #[error(transparent)]
    Tokenizer(#[from] minigpt_tokenizer::Error),
    /// Training refused.
    #[error(transparent)]
    Train(#[from] minigpt_train::Error),
}
