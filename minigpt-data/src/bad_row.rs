//! Why a line or row can't be used as an example.

use serde::{Serialize, Serializer};
use serde_json::Value;
use std::fmt;

/// What is wrong with one line or row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum BadRow {
    #[error("not UTF-8: 0x{byte:02x} at byte {at}")]
    NotUtf8 { byte: u8, at: usize },
    #[error("not JSON: {0}")]
    NotJson(JsonProblem),
    /// JSON, but not an object.
    #[error("{0}")]
    NotARow(JsonProblem),
    /// What follows an error in an array can't be found.
    #[error("not JSON from here on: {0}")]
    NotJsonFromHere(String),
    #[error("not an object")]
    NotAnObject,
    #[error("has the field {0:?} twice")]
    Duplicate(String),
    #[error("has {found} values, but the header has {expected}")]
    FieldCount { found: usize, expected: usize },
    #[error("longer than {mib} MiB")]
    TooLong { mib: usize },
    /// What a reader of CSV or Parquet says.
    #[error("{0}")]
    Unreadable(String),
    #[error("contains only white space")]
    Blank,
    #[error("has only \"text\", no question or answer")]
    OnlyText,
    #[error("has no \"text\"")]
    NoText,
    #[error("missing \"question\" and \"answer\"")]
    NoColumns,
    #[error(
        "has {columns}: missing \"question\" and \"answer\" (or \"messages\", \"conversations\", \"instruction\", \
         \"prompt\", \"text\")"
    )]
    UnknownForm { columns: String },
    #[error("has \"messages\" beside \"question\" or \"answer\": keep one of them")]
    TwoForms,
    #[error("missing {0:?}")]
    Missing(String),
    #[error("{name:?} is {found}, not text")]
    NotText { name: String, found: JsonKind },
    #[error("{name:?} is {found}, not a list")]
    NotAList { name: &'static str, found: JsonKind },
    #[error("{0:?} is empty")]
    EmptyList(&'static str),
    #[error("{name:?} contains {found}, not objects")]
    NotObjects { name: &'static str, found: JsonKind },
    #[error("\"history\" is not a list of pairs of question and answer")]
    History,
    #[error("{field:?} of a message is {found}, not text")]
    MessageNotText { field: String, found: JsonKind },
    #[error("a message has no {0:?}")]
    MessageWithout(String),
    #[error("unknown role {0:?}, expected \"system\", \"user\" (or \"human\") or \"assistant\" (or \"gpt\")")]
    UnknownRole(String),
}

impl Serialize for BadRow {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// serde_json's message with the column alone: the line is always 1 here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonProblem {
    /// What serde_json says.
    pub message: String,
    /// Where, from 1.
    pub column: Option<usize>,
}

impl JsonProblem {
    pub(crate) fn of(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let message = text.split(" at line ").next().unwrap_or(&text).replace('`', "\"");
        Self { message, column: Some(error.column()).filter(|column| *column > 0) }
    }
}

impl fmt::Display for JsonProblem {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.column {
            None => f.write_str(&self.message),
            Some(column) => write!(f, "{} (column {column})", self.message),
        }
    }
}

/// The type of a JSON value, or the value if it is a number.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "JSON's own names")]
pub enum JsonKind {
    Null,
    Bool,
    Number(String),
    Text,
    List,
    Object,
}

impl JsonKind {
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Number(number) => Self::Number(number.to_string()),
            Value::String(_) => Self::Text,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Object,
        }
    }
}

impl fmt::Display for JsonKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("true or false"),
            Self::Number(number) => write!(f, "the number {number}"),
            Self::Text => f.write_str("text"),
            Self::List => f.write_str("a list"),
            Self::Object => f.write_str("an object"),
        }
    }
}
