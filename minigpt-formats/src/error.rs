//! The crate's error, and what can be wrong with a model's files. The problems of each format stand next to its readers.

use crate::check::CheckProblem;
use crate::gguf::GgufProblem;
use crate::hugging_face::HuggingFaceProblem;
use crate::mapped_model::TensorsProblem;
use crate::nanogpt::{MetaProblem, MomentsProblem, NanoGptProblem};
use crate::on_disk::TokenizerOrigin;
use crate::other_tools::{NotExpressible, Unsupported};
use crate::state_dict::StateDictProblem;
use crate::torch::TorchProblem;
use std::path::{Path, PathBuf};

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder is not what it should be.
    #[error("{}: {problem}", path.display())]
    Bad {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: Box<ModelFileProblem>,
    },
    /// A file could not be read.
    #[error("{}: {problem}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        problem: std::io::Error,
    },
    /// Another tool's files cannot express the model or its tokenizer.
    #[error(transparent)]
    NotExpressible(#[from] NotExpressible),
    /// Two models do not compute the same.
    #[error(transparent)]
    Check(#[from] CheckProblem),
    /// A file could not be written or mapped.
    #[error(transparent)]
    File(#[from] minigpt_files::Error),
    /// The model is impossible.
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
    /// The tokenizer is wrong.
    #[error(transparent)]
    Tokenizer(#[from] minigpt_tokenizer::Error),
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// What is wrong with a file or folder.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum ModelFileProblem {
    #[error("no such file or folder")]
    Missing,
    #[error("is a folder; name a file")]
    IsFolder,
    #[error(
        "is not a model: not a folder, not a GGUF file, and not a zip archive as torch.save has written since version 1.6"
    )]
    NotAModel,
    #[error(
        "is a state dictionary, which does not describe its model completely (for example, not the number of heads); \
         import it first"
    )]
    StateDictionary,
    #[error("has no tokenizer (tokenizer.json)")]
    NoTokenizer,
    #[error(
        "{origin}: the tokenizer has {tokens} tokens, but the model has {vocab_size}; they do not belong together"
    )]
    TokenizerTooLarge { origin: TokenizerOrigin, tokens: usize, vocab_size: usize },
    /// The file should be JSON; the text is the parser's.
    #[error("is not a JSON object: {0}")]
    NotJson(String),
    #[error(transparent)]
    HuggingFace(#[from] HuggingFaceProblem),
    #[error(transparent)]
    Torch(#[from] TorchProblem),
    #[error(transparent)]
    NanoGpt(#[from] NanoGptProblem),
    #[error(transparent)]
    Meta(#[from] MetaProblem),
    #[error(transparent)]
    Moments(#[from] MomentsProblem),
    #[error(transparent)]
    Gguf(#[from] GgufProblem),
    #[error(transparent)]
    StateDict(#[from] StateDictProblem),
    #[error(transparent)]
    Tensors(#[from] TensorsProblem),
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
}

impl Error {
    /// A file or folder that is not what it should be.
    pub(crate) fn bad(path: &Path, problem: impl Into<ModelFileProblem>) -> Self {
        Self::Bad { path: path.to_owned(), problem: Box::new(problem.into()) }
    }

    /// A read that the system refused.
    pub(crate) fn io(path: &Path, problem: std::io::Error) -> Self {
        Self::Io { path: minigpt_files::present_path(path), problem }
    }

    /// A tensor that could not be written to a file.
    pub(crate) fn writing(path: &Path, error: candle_core::Error) -> Self {
        match error {
            candle_core::Error::Io(problem) => Self::io(path, problem),
            error => error.into(),
        }
    }
}
