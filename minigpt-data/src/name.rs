//! What data is called in messages.

use serde::{Serialize, Serializer};
use std::fmt;
use std::path::Path;

/// Where data comes from, as a person knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataName {
    /// The path of a file or folder.
    Path(String),
    /// Standard input.
    StandardInput,
    /// Data that was never in a file.
    Memory,
    /// The part of other data that is trained on.
    TrainingPart(Box<DataName>),
}

impl DataName {
    /// The training part of this data.
    pub(crate) fn training_part(&self) -> Self {
        Self::TrainingPart(Box::new(self.clone()))
    }
}

impl fmt::Display for DataName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::StandardInput => f.write_str("standard input"),
            Self::Memory => f.write_str("the data"),
            Self::TrainingPart(whole) => write!(f, "the training part of {whole}"),
        }
    }
}

impl From<&Path> for DataName {
    fn from(path: &Path) -> Self {
        Self::Path(path.display().to_string())
    }
}

impl From<&str> for DataName {
    fn from(path: &str) -> Self {
        Self::Path(path.to_owned())
    }
}

impl Serialize for DataName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
