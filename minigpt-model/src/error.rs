//! What can be wrong with a configuration, with token ids, or with the name of a site.

use crate::preset::Preset;
use minigpt_settings::OutOfRange;

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No model can have this configuration.
    #[error(transparent)]
    Config(#[from] ModelConfigError),
    /// The model cannot read these token ids.
    #[error(transparent)]
    Ids(#[from] IdsError),
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// Why a model of some configuration cannot exist.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum ModelConfigError {
    #[error("unknown preset {name:?}; presets are {}", Preset::ALL.map(Preset::name).join(", "))]
    UnknownPreset { name: String },
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// `n_embd`, or the `d_model` of [`MultiHeadAttention`](crate::MultiHeadAttention).
    #[error("{name} {width} is not divisible by n_head {n_head}")]
    Heads { name: &'static str, width: usize, n_head: usize },
    #[error(
        "position_embedding rope needs an even head width, not n_embd {n_embd} / n_head {n_head} = {}",
        n_embd / n_head
    )]
    OddHeads { n_embd: usize, n_head: usize },
    #[error(
        "block_size is {block_size}; computed positions may take 256 MiB, so it must be at most {max} for this width"
    )]
    Context { block_size: usize, max: usize },
    #[error("d_model {d_model}, n_head {n_head}, d_k {d_k} and d_v {d_v} must all be at least 1")]
    Widths { d_model: usize, n_head: usize, d_k: usize, d_v: usize },
    #[error("not enough memory for the keys and values of {rows} texts of {tokens} tokens each")]
    CacheMemory { rows: usize, tokens: usize },
}

impl ModelConfigError {
    /// Settings that the error is about, the first one to change first.
    pub fn settings(&self) -> &[&'static str] {
        match self {
            Self::UnknownPreset { .. } => &["preset"],
            Self::OutOfRange(error) => std::slice::from_ref(&error.key),
            Self::Heads { .. } => &["n_embd", "n_head"],
            Self::OddHeads { .. } => &["position_embedding", "n_embd", "n_head"],
            Self::Context { .. } => &["block_size"],
            Self::Widths { .. } | Self::CacheMemory { .. } => &[],
        }
    }
}

/// Why a model cannot read some token ids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum IdsError {
    #[error("no tokens")]
    Empty,
    #[error("row {row} has {ids} ids, row 0 has {first}")]
    Ragged { row: usize, ids: usize, first: usize },
    /// `row` is `None` for a batch of one row.
    #[error("id {id} at position {position}{} is outside the vocabulary of {vocab_size} tokens", of_row(*row))]
    OutsideVocabulary { id: u32, position: usize, row: Option<usize>, vocab_size: usize },
    #[error("{tokens} tokens do not fit a context of {block_size}")]
    Context { tokens: usize, block_size: usize },
    #[error("the cache has {rows} rows, but no row {row}")]
    NoSuchRow { row: usize, rows: usize },
    #[error("row {row} appears twice")]
    RowTwice { row: usize },
    #[error("row {row} has {held} tokens; {more} more do not fit a context of {block_size}")]
    RowFull { row: usize, held: usize, more: usize, block_size: usize },
}

fn of_row(row: Option<usize>) -> String {
    row.map_or(String::new(), |row| format!(" of row {row}"))
}
