//! One line of question/answer data: a pair, or a conversation, as turns.
//!
//! Two forms are read: `{"question": "…", "answer": "…"}` and
//! `{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}`.
//! Further keys are ignored; a key given twice, a missing one or a value that is not text is refused with the
//! reason.

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// What the model is told before the conversation.
    System,
    /// The person, or the question.
    User,
    /// The model, or the answer.
    Assistant,
}

/// One thing said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// By whom.
    pub role: Role,
    /// What.
    pub text: String,
}

/// One example: what is said, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// At least one.
    pub turns: Vec<Turn>,
}

impl Record {
    /// A question and its answer.
    pub fn pair(question: impl Into<String>, answer: impl Into<String>) -> Self {
        let turn = |role, text| Turn { role, text };
        Record { turns: vec![turn(Role::User, question.into()), turn(Role::Assistant, answer.into())] }
    }

    /// Reads one line, without or with its line end.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(line)
            .map_err(|e| format!("not UTF-8: 0x{:02x} at byte {}", line[e.valid_up_to()], e.valid_up_to()))?;
        let Object(fields): Object<Fields> = serde_json::from_str(text).map_err(|e| in_words(&e))?;
        fields.into_record()
    }

    /// The text of the first user turn and of the last assistant turn, for scoring.
    pub fn question_and_answer(&self) -> Option<(&str, &str)> {
        let question = self.turns.iter().find(|turn| turn.role == Role::User)?;
        let answer = self.turns.iter().rfind(|turn| turn.role == Role::Assistant)?;
        Some((&question.text, &answer.text))
    }
}

#[derive(Deserialize)]
struct Fields {
    #[serde(default, deserialize_with = "present")]
    question: Option<String>,
    #[serde(default, deserialize_with = "present")]
    answer: Option<String>,
    #[serde(default, deserialize_with = "present")]
    messages: Option<Vec<Object<Message>>>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(deserialize_with = "role")]
    role: Role,
    content: String,
}

/// A struct written as an object: what serde derives would also take a list of the values without their keys.
struct Object<T>(T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// A key that is there must have a value: `null` is not the same as absent.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

fn role<'de, D: Deserializer<'de>>(from: D) -> Result<Role, D::Error> {
    let name = String::deserialize(from)?;
    match name.as_str() {
        "system" => Ok(Role::System),
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        _ => Err(D::Error::custom(format_args!(
            "unknown role {name:?}, expected \"system\", \"user\" or \"assistant\""
        ))),
    }
}

impl Fields {
    fn into_record(self) -> Result<Record, String> {
        match (self.question, self.answer, self.messages) {
            (Some(question), Some(answer), None) => Ok(Record::pair(question, answer)),
            (None, None, Some(messages)) if messages.is_empty() => Err("\"messages\" is empty".to_owned()),
            (None, None, Some(messages)) => {
                let turn =
                    |Object(message): Object<Message>| Turn { role: message.role, text: message.content };
                Ok(Record { turns: messages.into_iter().map(turn).collect() })
            }
            (None, None, None) => Err("missing \"question\" and \"answer\" (or \"messages\")".to_owned()),
            (None, Some(_), None) => Err("missing \"question\"".to_owned()),
            (Some(_), None, None) => Err("missing \"answer\"".to_owned()),
            (_, _, Some(_)) => {
                Err("has \"messages\" beside \"question\" or \"answer\": one or the other".to_owned())
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_and_conversations_are_read() {
        let pair =
            Record::parse("{\"answer\":\"是\\n\",\"question\":\"好？\",\"id\":7}\r\n".as_bytes()).unwrap();
        assert_eq!(pair, Record::pair("好？", "是\n"));
        let talk = br#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"},
            {"role":"assistant","content":"a","name":"x"}]}"#;
        let talk = Record::parse(talk).unwrap();
        let roles: Vec<Role> = talk.turns.iter().map(|turn| turn.role).collect();
        assert_eq!(roles, [Role::System, Role::User, Role::Assistant]);
        assert_eq!(talk.question_and_answer(), Some(("q", "a")));
    }

    #[test]
    fn a_bad_line_is_refused_with_its_reason() {
        let cases = [
            ("", "not JSON: EOF while parsing a value"),
            ("hello", "not JSON: expected value (column 1)"),
            (r#"{"question":"a","answer":"b""#, "not JSON: EOF while parsing an object (column 28)"),
            (r#"{"question":"a","answer":"b"} x"#, "not JSON: trailing characters (column 31)"),
            ("3", "invalid type: integer \"3\", expected an object (column 1)"),
            (r#"["a","b"]"#, "invalid type: sequence, expected an object"),
            ("{}", "missing \"question\" and \"answer\" (or \"messages\")"),
            (r#"{"question":"a"}"#, "missing \"answer\""),
            (r#"{"answer":"a"}"#, "missing \"question\""),
            (r#"{"question":1,"answer":"b"}"#, "integer \"1\", expected a string (column 13)"),
            (r#"{"question":null,"answer":"b"}"#, "null, expected a string (column 16)"),
            (r#"{"question":"a","question":"b"}"#, "duplicate field \"question\" (column 26)"),
            (r#"{"question":"\ud800"}"#, "not JSON: unexpected end of hex escape"),
            ("{\"question\":\"a\0\"}", "not JSON: control character"),
            (r#"{"messages":[]}"#, "\"messages\" is empty"),
            (r#"{"messages":{}}"#, "invalid type: map, expected a sequence"),
            (r#"{"messages":[["user","a"]]}"#, "invalid type: sequence, expected an object"),
            (r#"{"messages":[{"role":"bot","content":""}]}"#, "unknown role \"bot\", expected"),
            (r#"{"messages":[{"role":"user"}]}"#, "missing field \"content\""),
            (r#"{"messages":[{"role":"user","content":"a"}],"answer":"b"}"#, "one or the other"),
        ];
        for (line, expected) in cases {
            let reason = Record::parse(line.as_bytes()).unwrap_err();
            assert!(reason.contains(expected), "{line}: {reason}");
        }
        assert_eq!(Record::parse(b"{\"question\":\"\xff\"}").unwrap_err(), "not UTF-8: 0xff at byte 13");
    }

    #[test]
    fn deep_nesting_does_not_exhaust_the_stack() {
        let deep = [b"{\"x\":".repeat(9999), b"1".to_vec(), b"}".repeat(9999)].concat();
        assert!(Record::parse(&deep).unwrap_err().starts_with("missing"));
        let deep = [b"{\"messages\":".to_vec(), b"[".repeat(99_999)].concat();
        assert!(Record::parse(&deep).is_err());
    }
}
