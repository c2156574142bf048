//! What data was read as, and what is damaged in it, for people.

use crate::encoding::TextEncoding;
use crate::name::DataName;
use crate::record::RecordForm;
use crate::row_file::Layout;
use std::collections::BTreeSet;
use std::fmt;

/// What data was read as: "JSON lines of questions and answers in gb18030, in two parts".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Description {
    /// The built-in questions and answers.
    BuiltIn,
    /// Rows of random ids.
    Random,
    /// A folder of prepared tokens.
    Tokens,
    /// Data that was never in a file.
    Memory,
    /// A file of running text.
    Text {
        /// How it is encoded.
        encodings: Encodings,
        /// The layout of rows that it has, if it is read as text only because that was asked for.
        instead_of: Option<Layout>,
    },
    /// A folder of such files.
    Texts {
        /// How many there are.
        files: u64,
        /// How they are encoded.
        encodings: Encodings,
    },
    /// Rows, each with a text or an example.
    Rows {
        /// How they are written.
        layout: Layout,
        /// The form of the first good row.
        form: Option<RecordForm>,
        /// How the files are encoded.
        encodings: Encodings,
    },
    /// A training and perhaps a validation part.
    Parts {
        /// What the training part was read as.
        train: Box<Description>,
        /// Whether there is a validation part.
        has_validation: bool,
    },
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("the built-in questions and answers"),
            Self::Random => f.write_str("rows of random ids"),
            Self::Tokens => f.write_str("prepared tokens"),
            Self::Memory => f.write_str("data in memory"),
            Self::Text { encodings, instead_of } => {
                write!(f, "text{}", encodings.suffix())?;
                match instead_of {
                    Some(layout) => {
                        write!(f, ", as requested, although it is {layout} that could be read by row")
                    }
                    None => Ok(()),
                }
            }
            Self::Texts { files: 1, encodings } => write!(f, "1 text file{}", encodings.suffix()),
            Self::Texts { files, encodings } => write!(f, "{files} text files{}", encodings.suffix()),
            Self::Rows { layout, form, encodings } => {
                write!(f, "{layout}")?;
                match form {
                    None => {}
                    Some(RecordForm::Text) => f.write_str(" of texts")?,
                    Some(form) => write!(f, " of {form}")?,
                }
                f.write_str(&encodings.suffix())
            }
            Self::Parts { train, has_validation: true } => write!(f, "{train}, in two parts"),
            Self::Parts { train, has_validation: false } => write!(f, "{train}, the training part"),
        }
    }
}

/// The encodings of one or more files, each once; empty if all are UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encodings(Vec<&'static str>);

impl Encodings {
    pub(crate) fn of(files: impl IntoIterator<Item = Option<TextEncoding>>) -> Self {
        let name = |encoding: Option<TextEncoding>| encoding.map_or("UTF-8", TextEncoding::name);
        let names: BTreeSet<&str> = files.into_iter().map(name).collect();
        if names.iter().all(|&name| name == "UTF-8") {
            Self(Vec::new())
        } else {
            Self(names.into_iter().collect())
        }
    }

    /// Their names.
    pub fn names(&self) -> &[&'static str] {
        &self.0
    }

    fn suffix(&self) -> String {
        if self.0.is_empty() { String::new() } else { format!(" in {}", self.0.join(", ")) }
    }
}

/// Characters of data that were not valid in its encoding, and are U+FFFD now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The data.
    pub name: DataName,
    /// How many there were, at least one.
    pub replaced: u64,
}

impl Damage {
    /// The damage of data in which `replaced` characters were not valid, or `None` if all were.
    pub fn of(name: impl Into<DataName>, replaced: u64) -> Option<Self> {
        (replaced > 0).then(|| Self { name: name.into(), replaced })
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { name, replaced } = self;
        match replaced {
            1 => write!(f, "{name} is damaged: 1 invalid character was replaced by U+FFFD"),
            n => write!(f, "{name} is damaged: {n} invalid characters were replaced by U+FFFD"),
        }
    }
}
