//! What can be wrong with runs, in words for the person who has them.

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A table that has no such column.
    #[error("there is no column {name}; there are {}", columns.join(", "))]
    NoColumn {
        /// What was looked for.
        name: String,
        /// What there is.
        columns: Vec<String>,
    },
    /// A table that can't be read.
    #[error("line {line}: {message}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        message: String,
    },
    /// No row is left.
    #[error("no run is left of {0}: look at the condition and the columns")]
    NoRun(u64),
    /// Runs from which five numbers can't be told.
    #[error("{0}")]
    TooFew(String),
    /// A number that makes no sense; the text names it.
    #[error("{0}")]
    Number(String),
}
