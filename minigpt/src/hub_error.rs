//! Why a model of the hub cannot be used.

use crate::hub_listing::WEIGHTS;
use minigpt_data::FileDamage;
use std::fmt;
use std::path::PathBuf;

/// Why a model of the hub cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum HubError {
    #[error("no home folder for the cache: set MINIGPT_CACHE")]
    NoCacheFolder,
    #[error("{name} is not in the cache ({}), and offline mode does not allow to ask the hub", cache.display())]
    NotCached { name: String, cache: PathBuf },
    #[error(
        "{name} in the cache ({}) cannot be used: {problem}; go online once to fetch it again",
        folder.display()
    )]
    CacheUnusable { name: String, folder: PathBuf, problem: CacheProblem },
    #[error(
        "the hub has no model {repository} with revision {revision}, or it is private and needs HF_TOKEN"
    )]
    NoSuchModel { repository: String, revision: String },
    #[error("the hub's answer is not a list of files: {0}")]
    NotAListing(serde_json::Error),
    #[error("the hub's answer names no commit")]
    NoCommit,
    #[error("{0:?} is not a model name; write hf:owner/model")]
    NotAName(String),
    #[error("{0:?} is not a revision")]
    NotARevision(String),
    #[error("the hub's answer gives {hash:?} as the hash of {file}")]
    NotAHash { file: String, hash: String },
    #[error("{file} has {bytes} bytes, but at most {most} are read")]
    TooLarge { file: String, bytes: u64, most: u64 },
    #[error("the hub's answer does not give the length of {0}")]
    NoLength(String),
    #[error("the model has no readable weights: none of {}", WEIGHTS.join(", "))]
    NoWeights,
    #[error("{file} is not an index of weights: {problem}")]
    NotAnIndex { file: String, problem: serde_json::Error },
    #[error("{index} names the file {file:?}, which is not in the same folder")]
    OutsideFolder { index: String, file: String },
    #[error("{index} names {file}, which the model does not have")]
    MissingShard { index: String, file: String },
}

/// What is wrong with the cached files of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum CacheProblem {
    Unrecorded,
    Missing { file: String },
    Damaged { file: String, damage: FileDamage },
}

impl fmt::Display for CacheProblem {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Unrecorded => f.write_str("its files are not recorded"),
            Self::Missing { file } => write!(f, "{file} is missing"),
            Self::Damaged { file, damage } => write!(f, "{file}: {damage}"),
        }
    }
}
