//! What can go wrong in training.

use crate::best::{Answers, Best};
use crate::change::{Change, shown};
use crate::checkpoint::CheckpointError;
use crate::distributed::{MpiError, RankError};
use std::fmt;
use std::path::PathBuf;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum Error {
    #[error(transparent)]
    OutOfRange(#[from] minigpt_settings::OutOfRange),

    #[error("best_by is answers, but this run has no questions to ask")]
    NoQuestions,

    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),

    /// A setting that can't change when a run is resumed.
    #[error(
        "the run was started with {} = {} and can't be resumed with {}: it would be another run. Start a new one, from \
         this one's model if you like",
        .0.setting, shown(&.0.from), shown(&.0.to)
    )]
    OtherRun(Box<Change>),

    /// The run was started with other data, or with another tokenizer.
    #[error("the run was started with another {what} ({then}) than this one ({now})")]
    OtherData { what: Compared, then: String, now: String },

    #[error("{}: another run is training here; wait for it, or choose another folder", .0.display())]
    Locked(PathBuf),

    /// A folder with files that a run would overwrite.
    #[error("{} contains {name}, which was not written by a run: choose another folder", path.display())]
    ForeignFolder { path: PathBuf, name: String },

    #[error(
        "step {step}: the {what} is {value}: training has diverged. Nothing of this step was saved: {kept}. Try a lower \
         learning_rate, a longer warmup_iters, a lower weight_decay, or grad_clip = 1.0"
    )]
    Diverged { step: u64, what: NotFinite, value: f64, kept: Box<KeptCheckpoints> },

    /// The questions that choose the best model could not be asked.
    #[error("the model could not be asked questions: {0}")]
    Judge(JudgeError),

    #[error(
        "no gradient reached {0}: the loss does not depend on it, or an operation of the pass was not recorded"
    )]
    NoGradient(String),

    /// A file that could not be read or written.
    #[error("{}: {problem}", path.display())]
    Io { path: PathBuf, problem: std::io::Error },

    /// A file or folder could not be replaced.
    #[error(transparent)]
    File(#[from] minigpt_files::Error),

    /// A model folder could not be read or written.
    #[error(transparent)]
    Format(#[from] minigpt_formats::Error),

    /// The model failed.
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),

    /// The data failed.
    #[error(transparent)]
    Data(#[from] minigpt_data::Error),

    /// The tokenizer failed.
    #[error(transparent)]
    Tokenizer(#[from] minigpt_tokenizer::Error),

    /// A record of the run could not be written.
    #[error(transparent)]
    Record(#[from] crate::record::Error),

    #[error("the system provides no more threads ({0}); RAYON_NUM_THREADS sets how many are requested")]
    Threads(#[from] rayon::ThreadPoolBuildError),

    #[error(transparent)]
    OtherRank(#[from] RankError),

    #[error(transparent)]
    Mpi(#[from] MpiError),

    #[error("the system provides no thread to watch the other ranks: {0}")]
    Watchdog(#[source] std::io::Error),

    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a model could not be asked questions.
pub type JudgeError = Box<dyn std::error::Error + Send + Sync>;

/// What must be the same on all ranks, and in a run that is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "names")]
pub enum Compared {
    Version,
    Data,
    Validation,
    Tokenizer,
    Model,
    Settings,
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "version of this program",
            Self::Data => "data set",
            Self::Validation => "validation set",
            Self::Tokenizer => "tokenizer",
            Self::Model => "model",
            Self::Settings => "setting",
        })
    }
}

/// A number that is not finite any more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "names")]
pub enum NotFinite {
    Loss,
    ValidationLoss,
    GradientNorm,
    Weight(String),
    /// A moment of the optimizer.
    Moment(String),
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Loss => f.write_str("loss"),
            Self::ValidationLoss => f.write_str("validation loss"),
            Self::GradientNorm => f.write_str("gradient norm"),
            Self::Weight(name) => write!(f, "weight {name}"),
            Self::Moment(name) => write!(f, "optimizer's {name}"),
        }
    }
}

/// The checkpoints that a run has when it diverges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeptCheckpoints {
    /// The step that `last/` holds.
    pub last: Option<u64>,
    /// The evaluation after which `best/` was written.
    pub best: Option<Best>,
}

impl fmt::Display for KeptCheckpoints {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.last {
            None => f.write_str("there is no checkpoint yet")?,
            Some(step) => write!(f, "last/ holds step {step}, whose weights and moments were all finite")?,
        }
        match self.best {
            Some(Best { step, val_loss: Some(loss), .. }) => {
                write!(f, "; best/ holds step {step}, with a validation loss of {loss:.4}")
            }
            Some(Best { step, answers: Some(Answers { right, asked }), .. }) => {
                write!(f, "; best/ holds step {step}, which answers {right} of {asked}")
            }
            _ => Ok(()),
        }
    }
}
