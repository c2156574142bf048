//! Everything that can go wrong in this crate, in words that say what to do about it.

use crate::file_hash::FileHash;
use minigpt_charts::counted;
use std::io;
use std::path::{Path, PathBuf};

/// What the functions of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why data could not be read, prepared, split, measured or fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("could not {action} {name}")]
    Io {
        /// What was being done: "read", "write", "create".
        action: &'static str,
        /// The file, or "standard input".
        name: String,
        /// What the system said.
        source: io::Error,
    },

    /// A tokenizer that is neither a name nor a file.
    #[error(
        "there is no tokenizer {}: it is char, gpt2, bpe:2000 (so many tokens, learnt from the data), or a tokenizer's file or folder",
        .0.display()
    )]
    NoTokenizer(PathBuf),

    /// Text that is not UTF-8.
    #[error("{name}: not UTF-8 text: {found} at byte {position} (line {line}){hint}")]
    InvalidUtf8 {
        /// The file, or "standard input".
        name: String,
        /// Offset of the first byte that can't be part of a character.
        position: u64,
        /// Line of that byte, counted from 1.
        line: u64,
        /// The byte in words.
        found: String,
        /// What to do about it, where it can be guessed.
        hint: &'static str,
    },

    /// A pipe without an end.
    #[error("{name} gave more than {}: put it into a file first", minigpt_charts::bytes(*limit))]
    TooMuchThroughAPipe {
        /// The pipe, or "standard input".
        name: String,
        /// Bytes that it may give.
        limit: u64,
    },

    /// Bytes that are not text in the encoding that it is read in.
    #[error("{name}: not {encoding} text: byte {position} is wrong")]
    NotInEncoding {
        /// The file, or "standard input".
        name: String,
        /// The encoding.
        encoding: &'static str,
        /// Offset of the byte.
        position: u64,
    },

    /// A file that is no text.
    #[error("{name} is {what}, not text")]
    Binary {
        /// The file.
        name: String,
        /// What it looks like.
        what: &'static str,
    },

    /// A Parquet file, in a build that can't read it.
    #[error("{name} is Parquet, which this build can't read: it was built without the feature \"parquet\"")]
    NoParquet {
        /// The file.
        name: String,
    },

    /// A Parquet file that is broken.
    #[error("{name}: not a Parquet file that can be read: {problem}")]
    BadParquet {
        /// The file.
        name: String,
        /// What is wrong.
        problem: String,
    },

    /// Nothing in the input.
    #[error("{name} has no text in it")]
    Empty {
        /// The file, folder or "standard input".
        name: String,
    },

    /// Text that is nothing but white space.
    #[error("{name} holds only white space: there is nothing to learn in it")]
    OnlyWhiteSpace {
        /// The file, folder or "standard input".
        name: String,
    },

    /// So few examples that holding out a part leaves none to learn from.
    #[error(
        "{name} has {}, and data.val_fraction = {val_fraction} leaves none of them to learn from; \
         data.val_fraction = 0 holds none out",
        counted(*records, "example")
    )]
    NothingLeft {
        /// The file.
        name: String,
        /// How many there are.
        records: u64,
        /// The part that is kept for validation.
        val_fraction: f64,
    },

    /// A folder without a file that counts as text.
    #[error("{} has no text files: files ending in {endings} are read, not {}", path.display(), counted(*others, "other file"))]
    NoTextFiles {
        /// The folder.
        path: PathBuf,
        /// The endings that count.
        endings: &'static str,
        /// How many files of other kinds there are.
        others: u64,
    },

    /// Question/answer data in which no line could be used.
    #[error("{name} has no usable line: {bad} bad, {blank} blank{first}")]
    NoValidLine {
        /// The file.
        name: String,
        /// How many lines were bad.
        bad: u64,
        /// How many held only white space.
        blank: u64,
        /// The first bad line and its reason.
        first: String,
    },

    /// An option with a value that makes no sense.
    #[error("{0}")]
    BadOption(String),

    /// A token file or its description that can't be used.
    #[error("{}: {problem}", path.display())]
    BadTokens {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },

    /// A token id that the vocabulary does not have.
    #[error(
        "{name}: token {position} is {id}, but the vocabulary has {vocab_size} entries: the tokens were made with another tokenizer"
    )]
    BeyondVocabulary {
        /// The file, or "the tokens".
        name: String,
        /// Index of the token.
        position: u64,
        /// Its id.
        id: u32,
        /// Ids must be below this.
        vocab_size: usize,
    },

    /// Fewer tokens than one window needs.
    #[error("{name} has {}, {needed} are needed: use more text or a smaller block_size", counted(*tokens, "token"))]
    TooShort {
        /// The file, or "the text".
        name: String,
        /// How many there are.
        tokens: u64,
        /// How many one window takes.
        needed: u64,
    },

    /// A saved position that this data set does not have.
    #[error(
        "the data position (epoch {epoch}, batch {batch}) is not in this data set, which has {batches} batches an epoch: was it saved with other data?"
    )]
    BadPosition {
        /// Epoch of the position.
        epoch: u64,
        /// Batch of the position.
        batch: u64,
        /// Batches an epoch.
        batches: u64,
    },

    /// The server has no such file.
    #[error("{url}: the server answered 404 Not Found: it has no such file")]
    NotThere {
        /// The address.
        url: String,
    },
    /// No way to the server.
    #[error(
        "could not reach {url} ({problem}): are you online? Behind a proxy set HTTPS_PROXY; or take a mirror as the endpoint; or fetch the file in another way and use it by its path"
    )]
    Offline {
        /// The address.
        url: String,
        /// What the system said.
        problem: String,
    },

    /// A download that did not end well.
    #[error("could not download {url}: {problem}")]
    Download {
        /// The address.
        url: String,
        /// What happened.
        problem: String,
    },

    /// A file that is not the one that was listed.
    #[error("{url} is not the file it should be: {found} instead of {expected}; it was deleted, try again")]
    WrongHash {
        /// The address.
        url: String,
        /// The hash that is listed.
        expected: FileHash,
        /// The hash of what came.
        found: FileHash,
    },

    /// A file or folder could not be written, replaced or mapped.
    #[error(transparent)]
    File(#[from] minigpt_files::Error),

    /// The tokenizer refused.
    #[error(transparent)]
    Tokenizer(#[from] minigpt_tokenizer::Error),

    /// Something is wrong with one line of the data.
    #[error("{name}, line {line}")]
    Line {
        /// The file.
        name: String,
        /// Line number from 1.
        line: u64,
        /// What it is.
        source: Box<Error>,
    },
}

impl Error {
    /// Wraps an I/O error with what was being done to which file.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Error::Io { action, name: path.display().to_string(), source }
    }

    /// Says in which line something went wrong.
    pub(crate) fn in_line(name: &str, line: u64, source: Error) -> Self {
        Error::Line { name: name.to_owned(), line, source: Box::new(source) }
    }

    /// Wraps an I/O error on something that has a name rather than a path.
    pub(crate) fn io_named(action: &'static str, name: &str, source: io::Error) -> Self {
        Error::Io { action, name: name.to_owned(), source }
    }
}
