//! What can go wrong between ranks.

use crate::error::Compared;
use std::fmt;
use std::path::PathBuf;

/// Another rank failed, is gone, or differs from this one.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum RankError {
    #[error("rank {rank}: {reason}")]
    Aborted { rank: usize, reason: AbortReason },
    #[error("rank {0} has ended")]
    Ended(usize),
    #[error("the other ranks can't be reached: {0}")]
    Unreachable(MpiError),
    #[error("rank {rank} sent a malformed message")]
    Malformed { rank: usize },
    #[error("rank 0 sent a tensor of a different size")]
    OtherSize,
    #[error("no part of the batch was computed")]
    NoParts,
    #[error("could not encode a message to the other ranks: {0}")]
    Encode(String),
    #[error(
        "rank {rank} has another {what} ({other}) than rank 0 ({first}): all ranks must be given the same"
    )]
    Different { rank: usize, what: Compared, other: String, first: String },
    #[error("rank {rank} runs another version of this program than rank 0")]
    OtherVersion { rank: usize },
}

/// Why a rank ends all ranks.
#[derive(Debug, Clone)]
pub enum AbortReason {
    /// The others did not answer for this long.
    Timeout {
        /// How long this rank waited.
        seconds: f64,
    },
    /// The error that ended it, as its program words it.
    Failed(String),
}

impl fmt::Display for AbortReason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Timeout { seconds } => write!(
                f,
                "no answer from the other ranks for {seconds:.0} seconds: a machine, or the network between them, is \
                 stuck. Resume the run from its last checkpoint"
            ),
            Self::Failed(message) => f.write_str(message),
        }
    }
}

/// What is wrong with MPI.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum MpiError {
    #[error(
        "this process was started by {launcher}, but no MPI library can be loaded ({}): install the launcher's, or name \
         it with MINIGPT_MPI_LIBRARY",
        tried.join("; ")
    )]
    NoLibrary { launcher: LauncherKind, tried: Vec<String> },
    #[error(
        "the launcher ({launcher}) started {started} processes, but the library {} ({version}) knows of {known}: they \
         belong to different MPI implementations. Name the launcher's own library with MINIGPT_MPI_LIBRARY",
        library.display()
    )]
    OtherImplementation {
        launcher: LauncherKind,
        started: usize,
        library: PathBuf,
        version: String,
        known: usize,
    },
    #[error(
        "this MPI library can't be used by a program with threads: it provides thread level {provided}, and \
         MPI_THREAD_FUNNELED ({needed}) is needed. Install one that was built with threads, or name it with \
         MINIGPT_MPI_LIBRARY"
    )]
    ThreadLevel { provided: i32, needed: i32 },
    #[error("the receive buffer does not have the size of the message")]
    BufferSize,
    #[error("{bytes} bytes are too many for one message")]
    TooLong { bytes: usize },
    /// What the library says.
    #[error("{0}")]
    Library(String),
}

/// Who started this process as one of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "names")]
pub enum LauncherKind {
    OpenMpi,
    MpichOrSlurm,
    /// Another one that sets PMIx's variables.
    Pmix,
}

impl fmt::Display for LauncherKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "Open MPI",
            Self::MpichOrSlurm => "MPICH or Slurm",
            Self::Pmix => "a launcher that speaks PMIx",
        })
    }
}
