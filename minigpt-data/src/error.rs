//! The errors of this crate. Those about one subject are an enum of their own, next to the code that raises them.

use crate::bad_lines::BadLine;
use crate::download_problem::DownloadProblem;
use crate::file_hash::FileHash;
use crate::name::DataName;
use crate::row::ColumnsError;
use crate::text_reader::InvalidUtf8;
use crate::text_source::{FileKind, TEXT_ENDINGS};
use crate::tokens::TokensProblem;
use minigpt_charts::counted;
use minigpt_files::Action;
use minigpt_tokenizer::{END_OF_TEXT, SEP};
use std::io;
use std::path::{Path, PathBuf};

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why data could not be read, prepared, split, measured or fetched.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum Error {
    #[error("could not {action} {name}")]
    Io { action: Action, name: DataName, source: io::Error },

    #[error("{} is a folder; a file is needed here", .0.display())]
    Folder(PathBuf),

    #[error("{0} changed while it was being read")]
    Changed(DataName),

    #[error(
        "there is no tokenizer {}: use char, gpt2, bpe:2000 (2,000 tokens learned from the data), or the file or folder of a tokenizer",
        .0.display()
    )]
    NoTokenizer(PathBuf),

    #[error("{name}: not UTF-8 text: {found} at byte {position} (line {line}){}", found.hint())]
    InvalidUtf8 { name: DataName, position: u64, line: u64, found: InvalidUtf8 },

    /// A pipe without an end.
    #[error("{name} gave more than {}: save it as a file first", minigpt_charts::bytes(*limit))]
    TooMuchThroughAPipe { name: DataName, limit: u64 },

    #[error("{name}: not {encoding} text: byte {position} is invalid")]
    NotInEncoding { name: DataName, encoding: &'static str, position: u64 },

    #[error("{name} is {kind}, not text")]
    Binary { name: DataName, kind: FileKind },

    #[error("{name} is Parquet, which this build can't read: it was built without the feature \"parquet\"")]
    NoParquet { name: DataName },

    #[error("{name}: not a readable Parquet file: {problem}")]
    BadParquet { name: DataName, problem: String },

    #[error("{name} has no text in it")]
    Empty { name: DataName },

    #[error("{name} contains only white space: there is nothing to learn from it")]
    OnlyWhiteSpace { name: DataName },

    #[error("{name} has no examples")]
    NoExamples { name: DataName },

    #[error("{name}: within max_length {max_length} there is nothing to learn in any example")]
    NothingToLearn { name: DataName, max_length: usize },

    #[error(
        "{name} has {}, and data.val_fraction = {val_fraction} leaves none for training; \
         data.val_fraction = 0 holds out none",
        counted(*records, "example")
    )]
    NothingLeft { name: DataName, records: u64, val_fraction: f64 },

    #[error("{} has no text files: it reads files ending in {TEXT_ENDINGS}, not {}", path.display(), counted(*others, "other file"))]
    NoTextFiles { path: PathBuf, others: u64 },

    /// Question/answer data in which no line could be used.
    #[error("{name} has no usable line: {bad} bad, {blank} blank{}", first.as_ref().map_or_else(String::new, |first| format!("; {first}")))]
    NoValidLine { name: DataName, bad: u64, blank: u64, first: Option<Box<BadLine>> },

    #[error(transparent)]
    Option(#[from] OptionError),

    #[error(transparent)]
    Columns(#[from] ColumnsError),

    #[error(transparent)]
    Unsuitable(#[from] Unsuitable),

    /// A token file or its description that can't be used.
    #[error("{}: {problem}", path.display())]
    BadTokens { path: PathBuf, problem: TokensProblem },

    #[error(
        "{name}: token {position} is {id}, but the vocabulary has {vocab_size} entries: the tokens were made with another tokenizer"
    )]
    BeyondVocabulary { name: DataName, position: u64, id: u32, vocab_size: usize },

    /// Fewer tokens than one window needs.
    #[error("{name} has {}, {needed} are needed: use more text or a smaller block_size", counted(*tokens, "token"))]
    TooShort { name: DataName, tokens: u64, needed: u64 },

    #[error(
        "the data position (epoch {epoch}, batch {batch}) is not in this data set, which has {batches} batches per epoch: was it saved with other data?"
    )]
    BadPosition { epoch: u64, batch: u64, batches: u64 },

    #[error("{url}: the server answered 404 Not Found: it has no such file")]
    NotThere { url: String },

    #[error(
        "could not reach {url} ({problem}): is this machine online? Behind a proxy, set HTTPS_PROXY; or use a mirror as the endpoint; or fetch the file some other way and use it by its path"
    )]
    Offline { url: String, problem: String },

    #[error("could not download {url}: {problem}")]
    Download { url: String, problem: DownloadProblem },

    #[error("{url} is not the expected file: {found} instead of {expected}; it was deleted, try again")]
    WrongHash { url: String, expected: FileHash, found: FileHash },

    /// A file or folder could not be written, replaced or mapped.
    #[error(transparent)]
    File(#[from] minigpt_files::Error),

    /// The tokenizer refused.
    #[error(transparent)]
    Tokenizer(#[from] minigpt_tokenizer::Error),

    /// An example can't be written in its [`ExampleFormat`](crate::ExampleFormat).
    #[error(transparent)]
    Format(FormatError),

    /// Where in the data an error is.
    #[error("{name}, line {line}")]
    Line { name: DataName, line: u64, source: Box<Error> },
}

/// Why an [`ExampleFormat`](crate::ExampleFormat) can't write an example.
pub type FormatError = Box<dyn std::error::Error + Send + Sync>;

/// An option with a value that can't be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum OptionError {
    #[error("the batch size must be at least 1")]
    BatchSize,
    #[error("a batch of {positions} positions is too large")]
    BatchTooLarge { positions: u64 },
    #[error("the data set has {examples} examples, too few for one batch of {size}: use a smaller batch")]
    TooFewExamples { examples: u64, size: u64 },
    #[error("{examples} examples are too many to shuffle: draw them at random")]
    TooManyToShuffle { examples: u64 },
    #[error("{examples} examples are too many to shuffle")]
    TooManyToSplit { examples: u64 },
    #[error("the ratio must be from 0 to 1, not {0}")]
    Ratio(f64),
    #[error("the validation fraction must be at least 0 and less than 1, not {0}")]
    ValFraction(f64),
    #[error("max_length must be from 2 to {most}, not {length}")]
    MaxLength { length: usize, most: usize },
    #[error("block_size must be from 1 to {most}, not {size}")]
    BlockSize { size: usize, most: usize },
    #[error("unknown encoding {0:?}; examples are utf-8, gbk, gb18030, big5, utf-16le, shift_jis")]
    Encoding(String),
    #[error("name an output folder for data from standard input")]
    NoFolder,
}

/// Data that can't be used for what was asked.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum Unsuitable {
    #[error("the built-in set is questions and answers, not text")]
    BuiltInAsText,
    #[error("random rows have nothing to measure")]
    RandomStats,
    #[error("random rows have nothing to split")]
    RandomSplit,
    #[error("random rows say nothing about which model suits them")]
    RandomGlance,
    #[error("{} is already split", .0.display())]
    AlreadySplit(PathBuf),
    #[error("{} is not text: train on it directly", .0.display())]
    PrepareExamples(PathBuf),
    #[error("the training and the validation data must both be text, or both questions and answers")]
    DifferentKinds,
    #[error("there are no examples to rehearse")]
    NothingToRehearse,
    #[error("this tokenizer has neither {SEP} nor {END_OF_TEXT}, one of which question/answer data needs")]
    NoSeparator,
}

impl Error {
    /// Wraps an I/O error with what was being done to which file.
    pub(crate) fn io(action: Action, path: &Path, source: io::Error) -> Self {
        Error::Io { action, name: path.into(), source }
    }

    /// Adds the line in which something went wrong.
    pub(crate) fn in_line(name: &DataName, line: u64, source: Error) -> Self {
        Error::Line { name: name.clone(), line, source: Box::new(source) }
    }

    /// Wraps an I/O error on something that has a name rather than a path.
    pub(crate) fn io_named(action: Action, name: &DataName, source: io::Error) -> Self {
        Error::Io { action, name: name.clone(), source }
    }
}
