//! Why a download failed, or has to be tried again.

use crate::file_hash::FileHash;
use std::path::PathBuf;

/// What went wrong in a download.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum DownloadProblem {
    /// What the system or the HTTP client says.
    #[error("{0}")]
    Connection(String),
    #[error("the connection ended after {have} of {total} bytes")]
    EndedEarly { have: u64, total: u64 },
    #[error("the server answered {0}")]
    Status(String),
    #[error("the server answered {0}: is a token needed?")]
    NeedsToken(String),
    #[error("the server answered {0}: the token was not sent, because this is plain http or another server")]
    TokenWithheld(String),
    #[error("the response is longer than {limit} bytes")]
    ResponseTooLong { limit: u64 },
    #[error("the server sent a malformed response")]
    Malformed,
    #[error("the server sent a compressed response, which was not requested")]
    Compressed,
    #[error("the server sent a malformed Content-Range: {0:?}")]
    BadRange(String),
    #[error("byte {requested} onwards was requested, but the server sent {range:?}")]
    OtherRange { requested: u64, range: String },
    #[error("the file on the server is shorter than the part downloaded earlier")]
    ShorterThanPart,
    #[error("the part downloaded earlier is of another version of the file")]
    StalePart,
    #[error("the file on the server has {total} bytes, not {expected}")]
    OtherLength { total: u64, expected: u64 },
    #[error("the file on the server has {total} bytes, more than the limit of {limit}")]
    TooLarge { total: u64, limit: u64 },
    #[error("the server sent more than the {total} bytes of the file")]
    SentMore { total: u64 },
    #[error("{} changed during the download: is it being downloaded twice?", .0.display())]
    ChangedMeanwhile(PathBuf),
    #[error("{url:?} is not a URL: {problem}")]
    NotAUrl { url: String, problem: String },
    #[error("{0:?} is not a URL that begins with https:// or http://")]
    NotHttp(String),
    #[error("the server redirects from https to {0:?}, which anyone on the way could read")]
    LeavesHttps(String),
    #[error("the server redirects more than {0} times")]
    TooManyRedirects(usize),
}

/// Why a file that was downloaded earlier can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum FileDamage {
    #[error("the cached file is not recorded")]
    Unrecorded,
    #[error("the cached file is damaged: {found} instead of {expected}")]
    OtherHash { found: FileHash, expected: FileHash },
}
