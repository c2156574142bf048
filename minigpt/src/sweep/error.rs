//! Why a sweep cannot be planned or run.

use super::plan::{FEWEST_STEPS, MOST_EPOCHS};
use std::path::PathBuf;

/// Why a sweep cannot be planned or run.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum SweepError {
    #[error("{}: this folder already holds a sweep; resume it, or choose another folder", .0.display())]
    Exists(PathBuf),
    #[error("{}: no sweep (sweep.json) in this folder", .0.display())]
    NoSweep(PathBuf),
    #[error("{}: {problem}", path.display())]
    Malformed { path: PathBuf, problem: serde_json::Error },
    #[error("{}: not a sweep of version {version}", path.display())]
    OtherVersion { path: PathBuf, version: u32 },
    #[error("{}: the runs are malformed", .0.display())]
    MalformedRuns(PathBuf),
    #[error("{}: the name of the sweep's folder is not valid Unicode", .0.display())]
    NotUnicode(PathBuf),
    #[error("the FLOPs are {0}; they must be more than 0")]
    Flops(f64),
    #[error("the epochs are {0}; they must be more than 0")]
    Epochs(f64),
    #[error("widths: give between 4 and 12 of them, in ascending order")]
    Widths,
    #[error("width {0}: it must be a multiple of 8 from 8 to 8192")]
    Width(usize),
    #[error(
        "{0} epochs: beyond {MOST_EPOCHS} epochs a repeated token is worth much less than a new one, and the plain law is \
         wrong; use the law of repeated data, or fewer epochs"
    )]
    TooManyEpochs(f64),
    #[error("{title}: {tokens} tokens are more than the {most} of {epochs} epochs")]
    TooManyTokens { title: String, tokens: u64, most: u64, epochs: f64 },
    #[error(
        "{title}: {tokens} training tokens are too few: the shortest run, which sees an eighth of the longest run's tokens, \
         should take at least {FEWEST_STEPS} steps of {tokens_per_step} tokens"
    )]
    TooLittleData { title: String, tokens: u64, tokens_per_step: u64 },
    #[error("{minutes:.1} minutes are too short: the smallest sweep takes about {least:.1} on this machine")]
    TooFewMinutes { minutes: f64, least: f64 },
    #[error("{flops:.1e} FLOPs are too few: the smallest sweep takes {least:.1e}")]
    TooFewFlops { flops: f64, least: f64 },
    #[error("{0}: no validation data")]
    NoValidation(String),
    #[error("internal error: a run of the sweep stopped")]
    RunStopped,
    #[error("internal error: a measurement stopped")]
    MeasurementStopped,
}
