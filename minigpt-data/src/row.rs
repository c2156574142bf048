//! One row of a file of examples: named values, whatever the file's format.

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Which columns to read, by what they mean: `question`, `answer`, `prompt`, `completion`, `instruction`, `input`,
/// `output`, `messages`, `conversations`, `text`. Those that are not named have their usual names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Columns(pub BTreeMap<String, String>);

impl Columns {
    /// What a column of this meaning is called in the file.
    pub fn name<'a>(&'a self, meaning: &'a str) -> &'a str {
        self.0.get(meaning).map_or(meaning, String::as_str)
    }

    /// Whether somebody chose a column of this meaning.
    pub fn has(&self, meaning: &str) -> bool {
        self.0.contains_key(meaning)
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

    /// It as a line of JSON, its columns in their order.
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
    /// What is wrong with it, in words.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(line)
            .map_err(|e| format!("not UTF-8: 0x{:02x} at byte {}", line[e.valid_up_to()], e.valid_up_to()))?;
        serde_json::from_str(text).map_err(|e| in_words(&e))
    }
}

/// An object; a list of values without their keys is none, and a key given twice is a mistake.
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
                    if row.0.iter().any(|(other, _)| *other == key) {
                        return Err(A::Error::custom(format_args!("duplicate field {key:?}")));
                    }
                    row.0.push((key, map.next_value()?));
                }
                Ok(row)
            }
        }

        from.deserialize_map(Fields)
    }
}

/// serde_json's message with the column alone: the line is always 1 here.
fn in_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or(&text).replace('`', "\"");
    let kind = if error.is_data() { "" } else { "not JSON: " };
    match error.column() {
        0 => format!("{kind}{text}"),
        column => format!("{kind}{text} (column {column})"),
    }
}
