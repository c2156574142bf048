//! What can go wrong in training, in words for the person who can mend it.

use std::path::PathBuf;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that training can't work with; the text names it.
    #[error("{0}")]
    Config(String),
    /// A setting is outside of its range.
    #[error(transparent)]
    OutOfRange(#[from] minigpt_settings::OutOfRange),
    /// A checkpoint that can't be resumed.
    #[error("{0}")]
    Checkpoint(String),
    /// A setting that can't change when a run goes on.
    #[error(
        "the run was begun with {setting} = {from} and can't go on with {to}: it would be another run. Begin a new one, \
         from this one's model if you like"
    )]
    OtherRun {
        /// Its section and name.
        setting: String,
        /// What it was.
        from: String,
        /// What was asked for.
        to: String,
    },
    /// The run was begun with other data, or with another tokenizer.
    #[error("the run was begun with another {what} ({then}) than this one ({now})")]
    OtherData {
        /// The data set, or the tokenizer.
        what: &'static str,
        /// Its fingerprint then.
        then: String,
        /// Its fingerprint now.
        now: String,
    },
    /// Another process is training in the same folder.
    #[error("{}: another run is training here; wait for it, or choose another folder", .0.display())]
    Locked(PathBuf),
    /// A folder that holds files which a run would overwrite.
    #[error("{} holds {name}, which no run has written: choose another folder", path.display())]
    ForeignFolder {
        /// The folder.
        path: PathBuf,
        /// The file or folder in it.
        name: String,
    },
    /// A loss, a gradient, a weight or a moment is not finite any more.
    #[error(
        "step {step}: the {what} is {value}: training has diverged. Nothing of this step was saved: {kept}. Try a lower \
         learning_rate, a longer warmup_iters, a lower weight_decay, or grad_clip = 1.0"
    )]
    Diverged {
        /// The step that failed, from 1.
        step: u64,
        /// What is not finite.
        what: String,
        /// What it is.
        value: f64,
        /// Which checkpoints there are, and what they hold.
        kept: String,
    },
    /// The questions that a model is judged by could not be asked.
    #[error("the model could not be asked questions: {0}")]
    Judge(String),
    /// A parameter that the loss does not depend on.
    #[error(
        "no gradient reached {0}: the loss does not depend on it, or an operation of the pass was not recorded"
    )]
    NoGradient(String),
    /// A file that could not be read or written.
    #[error("{}: {problem}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        problem: std::io::Error,
    },
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
    /// What the run records could not be written.
    #[error(transparent)]
    Record(#[from] crate::record::Error),
    /// The system gave no threads.
    #[error("the system gives no more threads ({0}); RAYON_NUM_THREADS says how many are asked for")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// Another rank failed, is gone, or differs from this one.
    #[error("{0}")]
    OtherRank(String),
    /// MPI can't be used.
    #[error("{0}")]
    Mpi(String),
    /// The system gave no thread to watch over the others.
    #[error("the system gives no thread to watch the other ranks with: {0}")]
    Watchdog(#[source] std::io::Error),
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;
