//! What can be wrong with a state dictionary, and what should be known about one that was understood.

use super::Architecture;
use crate::torch::TorchProblem;
use serde::{Serialize, Serializer};
use std::fmt;

/// How many tensors a message lists.
const LISTED: usize = 40;

/// Why a state dictionary cannot be read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum StateDictProblem {
    #[error(transparent)]
    Torch(#[from] TorchProblem),
    #[error("no known state dictionary: {}. Its tensors: {tensors}", known())]
    Unknown { tensors: TensorNames },
    #[error("has {name} twice")]
    Twice { name: String },
    #[error("the tensors claim more elements than the file has")]
    TooManyElements,
    #[error("the queries, keys and values of {name} differ")]
    ThirdsDiffer { name: String },
    #[error(
        "looks like the state dictionary of the {architecture}: {understood} tensors were understood; \
         missing: {missing}; not understood: {not_understood}"
    )]
    Mismatch {
        architecture: Architecture,
        understood: usize,
        missing: TensorNames,
        not_understood: TensorNames,
    },
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
}

/// What was assumed of a state dictionary's model, or ignored in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts below say what the variants and fields are")]
pub enum StateDictNote {
    NoPositions { block_size: usize },
    SinusoidalTable,
    Ignored(TensorNames),
}

impl fmt::Display for StateDictNote {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::NoPositions { block_size } => {
                write!(f, "no pos_encoding: sinusoidal positions, a context of {block_size}")
            }
            Self::SinusoidalTable => {
                f.write_str("pos_encoding is the table of sines and cosines: sinusoidal positions")
            }
            Self::Ignored(names) => write!(f, "ignored, because they are not weights: {names}"),
        }
    }
}

impl Serialize for StateDictNote {
    /// Writes the English text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Names of tensors for a message: the first ones, and how many more there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorNames {
    /// The first names.
    pub first: Vec<String>,
    /// How many there are besides.
    pub more: usize,
}

impl FromIterator<String> for TensorNames {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        let mut names = names.into_iter();
        Self { first: names.by_ref().take(LISTED).collect(), more: names.count() }
    }
}

impl fmt::Display for TensorNames {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (self.first.is_empty(), self.more) {
            (true, _) => f.write_str("none"),
            (false, 0) => f.write_str(&self.first.join(", ")),
            (false, more) => write!(f, "{}, and {more} more", self.first.join(", ")),
        }
    }
}

/// The state dictionaries that are known, with names that tell them apart.
fn known() -> String {
    let [qa, textbook] =
        Architecture::ALL.map(|known| format!("that of the {known} ({})", known.signature()));
    format!("neither {qa} nor {textbook}")
}
