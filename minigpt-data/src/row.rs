//! One row of a file of examples: named values, whatever the file's format.

use crate::bad_row::{BadRow, JsonProblem};
use crate::description::Description;
use crate::error::{Error, Result};
use crate::name::DataName;
use crate::record::RecordForm;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Which columns to read, by what they mean ([`RecordForm::meanings`]). Columns that are not chosen have their default names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Pairs", into = "Pairs")]
pub struct Columns(Pairs);

/// Names by their meanings.
type Pairs = BTreeMap<String, String>;

impl Columns {
    /// Columns as pairs of a meaning and a name.
    ///
    /// # Errors
    /// An unknown meaning, one that is given twice or without a name, and meanings that no form of example has together.
    pub fn new<M, N>(pairs: impl IntoIterator<Item = (M, N)>) -> Result<Self>
    where
        M: Into<String>,
        N: Into<String>,
    {
        let mut columns = BTreeMap::new();
        for (meaning, name) in pairs {
            let (meaning, name) = (meaning.into(), name.into());
            if !RecordForm::ALL.iter().any(|form| form.meanings().contains(&meaning.as_str())) {
                return Err(unknown_meaning(meaning).into());
            }
            if name.is_empty() {
                return Err(ColumnsError::Unnamed(meaning).into());
            }
            if columns.insert(meaning.clone(), name).is_some() {
                return Err(ColumnsError::Twice(meaning).into());
            }
        }
        let columns = Self(columns);
        if !RecordForm::ALL.into_iter().any(|form| columns.meanings().all(|it| form.meanings().contains(&it)))
        {
            return Err(ColumnsError::NotTogether(columns.meanings().map(str::to_owned).collect()).into());
        }
        Ok(columns)
    }

    /// Whether no column was chosen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The meanings of the columns that were chosen.
    pub fn meanings(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The name in the file of the column with this meaning.
    pub fn name<'a>(&'a self, meaning: &'a str) -> &'a str {
        self.0.get(meaning).map_or(meaning, String::as_str)
    }

    /// Whether a column of this meaning was chosen.
    pub fn has(&self, meaning: &str) -> bool {
        self.0.contains_key(meaning)
    }
}

impl TryFrom<Pairs> for Columns {
    type Error = Error;

    fn try_from(columns: Pairs) -> Result<Self> {
        Self::new(columns)
    }
}

impl From<Columns> for Pairs {
    fn from(columns: Columns) -> Self {
        columns.0
    }
}

/// Columns that can't be read as chosen.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum ColumnsError {
    #[error("columns: unknown meaning {meaning:?}; did you mean {near}?")]
    UnknownMeaning { meaning: String, near: &'static str },
    #[error("columns: unknown meaning {0:?}; a column may mean {known}", known = meanings().collect::<Vec<_>>().join(", "))]
    NoMeaning(String),
    #[error("columns: {0} has no name")]
    Unnamed(String),
    #[error("columns: {0} is given twice")]
    Twice(String),
    #[error("columns: no form of example has {} together", .0.join(", "))]
    NotTogether(Vec<String>),
    #[error("columns are chosen, but {name} is {read_as}, which has no columns")]
    NoColumns { name: DataName, read_as: Description },
    #[error("columns: {name} is {read_as}, in which no column means {meaning}")]
    NoSuchColumn { name: DataName, read_as: Description, meaning: String },
}

/// All that a column may mean.
pub(crate) fn meanings() -> impl Iterator<Item = &'static str> {
    RecordForm::ALL.iter().flat_map(|form| form.meanings()).copied()
}

fn unknown_meaning(meaning: String) -> ColumnsError {
    match meanings().map(|known| (strsim::osa_distance(&meaning, known), known)).min() {
        // A third of its letters may be wrong, as in the names of settings.
        Some((wrong, near)) if 3 * wrong <= meaning.chars().count().max(near.len()) => {
            ColumnsError::UnknownMeaning { meaning, near }
        }
        _ => ColumnsError::NoMeaning(meaning),
    }
}

/// Named values in the order of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row(pub Vec<(String, Value)>);

impl Row {
    /// The value of a column, if it is there and not null. Capitals don't matter where nothing else fits.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let exact = self.0.iter().find(|(column, _)| column == name);
        let found = exact.or_else(|| self.0.iter().find(|(column, _)| column.eq_ignore_ascii_case(name)));
        found.map(|(_, value)| value).filter(|value| !value.is_null())
    }

    /// Whether there is a column of this name, even if its value is null.
    pub(crate) fn has_column(&self, name: &str) -> bool {
        self.0.iter().any(|(column, _)| column.eq_ignore_ascii_case(name))
    }

    /// The row as a line of JSON, columns in order.
    pub fn to_json(&self) -> String {
        let text = |name: &str| Value::from(name).to_string();
        let fields: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{}:{value}", text(name))).collect();
        format!("{{{}}}", fields.join(","))
    }

    /// The names of its columns, for messages.
    pub fn names(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|(name, _)| format!("{name:?}")).collect();
        names.join(", ")
    }

    /// Reads one line of JSON.
    ///
    /// # Errors
    /// A line that is not a JSON object, or that has a field twice.
    pub fn parse(line: &[u8]) -> Result<Self, BadRow> {
        let text = std::str::from_utf8(line)
            .map_err(|e| BadRow::NotUtf8 { byte: line[e.valid_up_to()], at: e.valid_up_to() })?;
        let row: Self = serde_json::from_str(text).map_err(|error| {
            let problem = JsonProblem::of(&error);
            if error.is_data() { BadRow::NotARow(problem) } else { BadRow::NotJson(problem) }
        })?;
        let names = row.0.iter().map(|(name, _)| name).enumerate();
        match names.clone().find(|(i, name)| row.0[..*i].iter().any(|(other, _)| other == *name)) {
            Some((_, name)) => Err(BadRow::Duplicate(name.clone())),
            None => Ok(row),
        }
    }
}

/// Reads an object; a list of values without their keys is refused.
impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Row;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
                let mut row = Row::default();
                while let Some(key) = map.next_key::<String>()? {
                    row.0.push((key, map.next_value()?));
                }
                Ok(row)
            }
        }

        from.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(pairs: &[(&str, &str)]) -> String {
        Columns::new(pairs.iter().copied()).unwrap_err().to_string()
    }

    #[test]
    fn only_meanings_that_some_form_of_example_has_are_columns() {
        assert!(Columns::new([("question", "Q"), ("answer", "A")]).is_ok());
        assert!(Columns::new([("instruction", "I"), ("history", "H"), ("output", "O")]).is_ok());
        let near = "columns: unknown meaning \"questio\"; did you mean question?";
        assert_eq!(refused(&[("questio", "Q")]), near);
        assert!(refused(&[("colour", "Q")]).contains("; a column may mean question, answer, prompt,"));
        assert_eq!(refused(&[("text", "")]), "columns: text has no name");
        assert_eq!(refused(&[("text", "a"), ("text", "b")]), "columns: text is given twice");
        let mixed = refused(&[("text", "a"), ("question", "b")]);
        assert_eq!(mixed, "columns: no form of example has question, text together");
        let read: Result<Columns, _> = serde_json::from_str(r#"{"answr": "A"}"#);
        assert!(read.unwrap_err().to_string().contains("did you mean answer?"));
        let columns: Columns = serde_json::from_str(r#"{"answer": "A"}"#).unwrap();
        assert_eq!(serde_json::to_string(&columns).unwrap(), r#"{"answer":"A"}"#);
    }
}
