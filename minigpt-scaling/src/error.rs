//! Errors in tables of runs and in requests for a fit.

use crate::fit::{FEWEST_RUNS, FEWEST_SIZES};

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum Error {
    #[error("there is no column {name}; there are {}", columns.join(", "))]
    NoColumn { name: String, columns: Vec<String> },
    /// Lines are counted from 1.
    #[error("line {line}: {problem}")]
    Line { line: u64, problem: LineProblem },
    #[error("no usable run in {rows} rows: check the condition and the columns")]
    NoRun { rows: u64 },
    #[error(
        "{runs} runs of {sizes} sizes and {token_counts} token counts: the law has five parameters and needs at least \
         {FEWEST_RUNS} runs of {FEWEST_SIZES} sizes and {FEWEST_SIZES} token counts"
    )]
    TooFewRuns { runs: usize, sizes: usize, token_counts: usize },
    #[error("{runs} runs are too many to fit: the limit is {most}")]
    TooManyRuns { runs: usize, most: usize },
    #[error("{runs} runs saw data more than once; fitting the value of repetition takes at least {fewest}")]
    TooFewRepeatedRuns { runs: usize, fewest: usize },
    #[error("among the runs that saw no data twice: {0}")]
    SinglePassRuns(Box<Error>),
    #[error("delta is {delta}; it must be greater than 0")]
    Delta { delta: f64 },
}

/// What is wrong with a line of a table.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum LineProblem {
    #[error("it has {fields} fields, but the header has {expected}")]
    FieldCount { fields: u64, expected: u64 },
    #[error("not UTF-8")]
    NotUtf8,
    #[error("{name} is {text:?}, not a number above 0")]
    NotPositive { name: String, text: String },
    #[error("{name} is {text:?}, which is not below {limit:e}")]
    TooLarge { name: String, text: String, limit: f64 },
    /// In the words of the CSV reader.
    #[error("{0}")]
    Csv(String),
}
