//! One example: a pair, a conversation, or a plain text, in any of the forms that people have it in.
//!
//! | form | its fields |
//! |---|---|
//! | question and answer | `question`, `answer`; also `query` and `response`, 问题 and 答案 |
//! | prompt and completion | `prompt`, `completion` or `response` |
//! | instruction (Alpaca) | `instruction`, `input` (may be empty), `output`; `system` and `history` where they are |
//! | conversation (ShareGPT) | `conversations`: a list of `from` and `value` |
//! | messages (OpenAI) | `messages`: a list of `role` and `content` |
//! | text | `text` or `content` |
//!
//! Further fields are ignored; a missing one or a value that is not text is refused with the reason.

use crate::bad_row::{BadRow, JsonKind};
use crate::row::{Columns, Row};
use crate::text_reader::is_blank;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions before the conversation.
    System,
    /// The person, or the question.
    User,
    /// The model, or the answer.
    Assistant,
}

impl Role {
    /// What files call it.
    fn parse(name: &str) -> Result<Self, BadRow> {
        match name {
            "system" => Ok(Role::System),
            "user" | "human" => Ok(Role::User),
            "assistant" | "gpt" | "bot" | "model" | "chatgpt" => Ok(Role::Assistant),
            _ => Err(BadRow::UnknownRole(name.to_owned())),
        }
    }
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

/// The form that an example is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordForm {
    /// A question and its answer.
    QuestionAnswer,
    /// A prompt and its completion.
    PromptCompletion,
    /// Alpaca's instruction, input and output.
    Instruction,
    /// ShareGPT's conversations.
    Conversations,
    /// OpenAI's messages.
    Messages,
    /// Running text.
    Text,
}

impl RecordForm {
    /// All forms.
    pub const ALL: [Self; 6] = [
        Self::QuestionAnswer,
        Self::PromptCompletion,
        Self::Instruction,
        Self::Conversations,
        Self::Messages,
        Self::Text,
    ];

    /// The meanings of the columns of this form, as [`Columns`] names them.
    pub fn meanings(self) -> &'static [&'static str] {
        match self {
            Self::QuestionAnswer => &["question", "answer"],
            Self::PromptCompletion => &["prompt", "completion"],
            Self::Instruction => &["instruction", "input", "output", "system", "history"],
            Self::Conversations => &["conversations"],
            Self::Messages => &["messages"],
            Self::Text => &["text"],
        }
    }
}

impl fmt::Display for RecordForm {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::QuestionAnswer => "questions and answers",
            Self::PromptCompletion => "prompts and completions",
            Self::Instruction => "instructions and outputs (Alpaca)",
            Self::Conversations => "conversations (ShareGPT)",
            Self::Messages => "messages",
            Self::Text => "text",
        })
    }
}

/// The contents of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Example {
    /// Something said and answered.
    Record(RecordForm, Record),
    /// Running text.
    Text(String),
}

impl Example {
    /// What form it has.
    pub fn form(&self) -> RecordForm {
        match self {
            Self::Record(form, _) => *form,
            Self::Text(_) => RecordForm::Text,
        }
    }

    /// The example of a row, by the names of its columns.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_row(row: &Row, columns: &Columns) -> Result<Self, BadRow> {
        let fields = Fields { row, columns };
        let form = fields.form()?;
        let said = |text: &str| !is_blank(text);
        let record = |turns: Vec<Turn>| {
            let says_something = turns.iter().any(|turn| said(&turn.text));
            says_something.then_some(Self::Record(form, Record { turns })).ok_or(BadRow::Blank)
        };
        match form {
            RecordForm::Text => {
                Some(fields.text(TEXT)?).filter(|text| said(text)).map(Self::Text).ok_or(BadRow::Blank)
            }
            RecordForm::QuestionAnswer => record(fields.pair(QUESTION, ANSWER)?),
            RecordForm::PromptCompletion => record(fields.pair(PROMPT, COMPLETION)?),
            RecordForm::Instruction => record(fields.instruction()?),
            RecordForm::Conversations => record(fields.said("conversations", ["from", "value"])?),
            RecordForm::Messages => record(fields.said("messages", ["role", "content"])?),
        }
    }
}

impl Record {
    /// A question and its answer.
    pub fn pair(question: impl Into<String>, answer: impl Into<String>) -> Self {
        Record { turns: vec![turn(Role::User, question.into()), turn(Role::Assistant, answer.into())] }
    }

    /// Reads one line of JSON, in any form.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Self, BadRow> {
        match Example::of_row(&Row::parse(line)?, &Columns::default())? {
            Example::Record(_, record) => Ok(record),
            Example::Text(_) => Err(BadRow::OnlyText),
        }
    }

    /// The text of the first user turn and of the last assistant turn, for scoring.
    pub fn question_and_answer(&self) -> Option<(&str, &str)> {
        let question = self.turns.iter().find(|turn| turn.role == Role::User)?;
        let answer = self.turns.iter().rfind(|turn| turn.role == Role::Assistant)?;
        Some((&question.text, &answer.text))
    }
}

fn turn(role: Role, text: String) -> Turn {
    Turn { role, text }
}

/// The names under which a meaning is looked for; the first is the one that is spoken of.
type Names = &'static [&'static str];

const QUESTION: Names = &["question", "query", "问题"];
const ANSWER: Names = &["answer", "response", "答案", "回答"];
const PROMPT: Names = &["prompt"];
const COMPLETION: Names = &["completion", "response"];
const INSTRUCTION: Names = &["instruction"];
const OUTPUT: Names = &["output", "response"];
const TEXT: Names = &["text", "content"];

/// A row, read by what its columns mean.
struct Fields<'a> {
    row: &'a Row,
    columns: &'a Columns,
}

impl<'a> Fields<'a> {
    /// The value of the first of these names that is there; a column that was chosen is the only one.
    fn find(&self, names: Names) -> Option<(&'a str, &'a Value)>
    where
        'a: 'a,
    {
        let spoken = names[0];
        if self.columns.has(spoken) {
            let name = self.columns.name(spoken);
            return self.row.get(name).map(|value| (name, value));
        }
        names.iter().find_map(|name| self.row.get(name).map(|value| (*name, value)))
    }

    fn has(&self, names: Names) -> bool {
        self.find(names).is_some()
    }

    fn form(&self) -> Result<RecordForm, BadRow> {
        let chosen = |name: &str| self.columns.has(name);
        let form = if chosen("text") {
            RecordForm::Text
        } else if chosen("question") || chosen("answer") {
            RecordForm::QuestionAnswer
        } else if self.has(&["messages"]) {
            RecordForm::Messages
        } else if self.has(&["conversations"]) {
            RecordForm::Conversations
        } else if self.has(INSTRUCTION) {
            RecordForm::Instruction
        } else if self.has(PROMPT) {
            RecordForm::PromptCompletion
        } else if self.has(QUESTION) || self.has(&["answer"]) {
            RecordForm::QuestionAnswer
        } else if self.has(TEXT) {
            RecordForm::Text
        } else {
            return Err(match self.row.names() {
                columns if columns.is_empty() => BadRow::NoColumns,
                columns => BadRow::UnknownForm { columns },
            });
        };
        let dialogue = ["messages", "conversations"].into_iter().filter(|name| self.row.get(name).is_some());
        if dialogue.count() > 0 && self.row.get("answer").is_some() && !chosen("answer") {
            return Err(BadRow::TwoForms);
        }
        Ok(form)
    }

    fn text(&self, names: Names) -> Result<String, BadRow> {
        match self.find(names) {
            None => Err(BadRow::Missing(self.columns.name(names[0]).to_owned())),
            Some((_, Value::String(text))) => Ok(text.clone()),
            Some((name, other)) => Err(BadRow::NotText { name: name.to_owned(), found: JsonKind::of(other) }),
        }
    }

    /// Returns an error if a chosen column is missing, even if the form doesn't need it. Null is allowed.
    fn check_chosen(&self, meaning: &str) -> Result<(), BadRow> {
        let name = self.columns.name(meaning);
        if self.columns.has(meaning) && !self.row.has_column(name) {
            return Err(BadRow::Missing(name.to_owned()));
        }
        Ok(())
    }

    fn optional(&self, names: Names) -> Result<Option<String>, BadRow> {
        self.check_chosen(names[0])?;
        if self.has(names) { self.text(names).map(Some) } else { Ok(None) }
    }

    fn pair(&self, question: Names, answer: Names) -> Result<Vec<Turn>, BadRow> {
        Ok(vec![turn(Role::User, self.text(question)?), turn(Role::Assistant, self.text(answer)?)])
    }

    fn instruction(&self) -> Result<Vec<Turn>, BadRow> {
        let mut turns = Vec::new();
        if let Some(system) = self.optional(&["system"])?.filter(|text| !text.is_empty()) {
            turns.push(turn(Role::System, system));
        }
        self.check_chosen("history")?;
        if let Some((_, history)) = self.find(&["history"]) {
            let pairs: Vec<(String, String)> =
                serde_json::from_value(history.clone()).map_err(|_| BadRow::History)?;
            for (question, answer) in pairs {
                turns.extend([turn(Role::User, question), turn(Role::Assistant, answer)]);
            }
        }
        let mut question = self.text(INSTRUCTION)?;
        if let Some(input) = self.optional(&["input"])?.filter(|text| !text.is_empty()) {
            question = format!("{question}\n{input}");
        }
        turns.extend([turn(Role::User, question), turn(Role::Assistant, self.text(OUTPUT)?)]);
        Ok(turns)
    }

    /// A list of objects that say who says what. Each form is also met with the names of the other.
    fn said(&self, name: &'static str, names: [&str; 2]) -> Result<Vec<Turn>, BadRow> {
        let Some(value) = self.row.get(self.columns.name(name)) else {
            return Err(BadRow::Missing(name.to_owned()));
        };
        let Value::Array(items) = value else {
            return Err(BadRow::NotAList { name, found: JsonKind::of(value) });
        };
        if items.is_empty() {
            return Err(BadRow::EmptyList(name));
        }
        let turns = items.iter().map(|item| {
            let Value::Object(fields) = item else {
                return Err(BadRow::NotObjects { name, found: JsonKind::of(item) });
            };
            let [who, what] = if fields.contains_key(names[0]) {
                names
            } else if names[0] == "role" {
                ["from", "value"]
            } else {
                ["role", "content"]
            };
            let text = |field: &str| match fields.get(field) {
                Some(Value::String(text)) => Ok(text.clone()),
                Some(other) => {
                    Err(BadRow::MessageNotText { field: field.to_owned(), found: JsonKind::of(other) })
                }
                None => {
                    let field = if field == who { names[0] } else { field };
                    Err(BadRow::MessageWithout(field.to_owned()))
                }
            };
            Ok(turn(Role::parse(&text(who)?)?, text(what)?))
        });
        turns.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Example, BadRow> {
        Example::of_row(&Row::parse(line.as_bytes())?, &Columns::default())
    }

    fn record(line: &str) -> (RecordForm, Record) {
        match parse(line).unwrap() {
            Example::Record(form, record) => (form, record),
            Example::Text(text) => panic!("{text}"),
        }
    }

    fn said(record: &Record) -> Vec<(Role, &str)> {
        record.turns.iter().map(|turn| (turn.role, turn.text.as_str())).collect()
    }

    #[test]
    fn every_form_is_read() {
        use RecordForm::{Conversations, Instruction, Messages, PromptCompletion, QuestionAnswer};
        use Role::{Assistant, System, User};
        let pair = |form, line| assert_eq!(record(line), (form, Record::pair("q", "a")), "{line}");
        pair(QuestionAnswer, "{\"answer\":\"a\",\"question\":\"q\",\"id\":7}\r\n");
        pair(QuestionAnswer, r#"{"问题":"q","答案":"a"}"#);
        pair(QuestionAnswer, r#"{"Question":"q","Answer":"a"}"#);
        pair(PromptCompletion, r#"{"prompt":"q","completion":"a"}"#);
        pair(PromptCompletion, r#"{"prompt":"q","response":"a"}"#);
        pair(Instruction, r#"{"instruction":"q","input":"","output":"a"}"#);
        pair(Conversations, r#"{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}]}"#);
        pair(Messages, r#"{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}"#);
        let (_, alpaca) =
            record(r#"{"system":"s","history":[["1","2"]],"instruction":"add","input":"1, 2","output":"3"}"#);
        let expected = [(System, "s"), (User, "1"), (Assistant, "2"), (User, "add\n1, 2"), (Assistant, "3")];
        assert_eq!(said(&alpaca), expected);
        assert_eq!(alpaca.question_and_answer(), Some(("1", "3")));
        assert_eq!(parse(r#"{"text":"once"}"#), Ok(Example::Text("once".to_owned())));
    }

    #[test]
    fn columns_can_be_chosen() {
        let row = Row::parse(br#"{"Q":"q","A":"a","text":"t"}"#).unwrap();
        let choose =
            |pairs: &[(&str, &str)]| Example::of_row(&row, &Columns::new(pairs.iter().copied()).unwrap());
        let pair = Example::Record(RecordForm::QuestionAnswer, Record::pair("q", "a"));
        assert_eq!(choose(&[("question", "Q"), ("answer", "A")]), Ok(pair));
        assert_eq!(choose(&[("text", "Q")]), Ok(Example::Text("q".to_owned())));
        assert_eq!(choose(&[("question", "Q"), ("answer", "B")]), Err(BadRow::Missing("B".to_owned())));
        let alpaca = Row::parse(br#"{"instruction":"i","more":null,"output":"o"}"#).unwrap();
        let with_input = |name| Example::of_row(&alpaca, &Columns::new([("input", name)]).unwrap());
        assert!(with_input("more").is_ok());
        assert_eq!(with_input("mor"), Err(BadRow::Missing("mor".to_owned())));
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
            ("{}", "missing \"question\" and \"answer\""),
            (r#"{"id":1}"#, "has \"id\": missing \"question\" and \"answer\" (or \"messages\","),
            (r#"{"question":"a"}"#, "missing \"answer\""),
            (r#"{"answer":"a"}"#, "missing \"question\""),
            (r#"{"question":1,"answer":"b"}"#, "\"question\" is the number 1, not text"),
            (r#"{"question":null,"answer":"b"}"#, "missing \"question\""),
            (r#"{"question":"a","question":"b"}"#, "has the field \"question\" twice"),
            (r#"{"question":"\ud800"}"#, "not JSON: unexpected end of hex escape"),
            ("{\"question\":\"a\0\"}", "not JSON: control character"),
            (r#"{"messages":[]}"#, "\"messages\" is empty"),
            (r#"{"messages":{}}"#, "\"messages\" is an object, not a list"),
            (r#"{"messages":[["user","a"]]}"#, "\"messages\" contains a list, not objects"),
            (r#"{"messages":[{"role":"tool","content":""}]}"#, "unknown role \"tool\", expected"),
            (r#"{"messages":[{"role":"user"}]}"#, "a message has no \"content\""),
            (r#"{"messages":[{"content":"user"}]}"#, "a message has no \"role\""),
            (r#"{"messages":[{"role":"user","content":"a"}],"answer":"b"}"#, "keep one of them"),
            (r#"{"instruction":"a"}"#, "missing \"output\""),
            (r#"{"instruction":"a","output":"b","history":[1]}"#, "\"history\" is not a list"),
        ];
        for (line, expected) in cases {
            let reason = parse(line).unwrap_err().to_string();
            assert!(reason.contains(expected), "{line}: {reason}");
        }
        assert_eq!(Row::parse(b"{\"question\":\"\xff\"}"), Err(BadRow::NotUtf8 { byte: 0xff, at: 13 }));
    }

    #[test]
    fn deep_nesting_does_not_exhaust_the_stack() {
        let deep = [b"{\"x\":".repeat(9999), b"1".to_vec(), b"}".repeat(9999)].concat();
        assert!(Row::parse(&deep).unwrap_err().to_string().contains("recursion limit"));
        let deep = [b"{\"messages\":".to_vec(), b"[".repeat(99_999)].concat();
        assert!(Row::parse(&deep).is_err());
    }
}
