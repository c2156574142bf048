//! Calls of tools in what a model writes: found by the form that its chat template teaches it.

use serde_json::{Map, Value as Json};

/// How a model writes that it calls a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolForm {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, between or behind text: Hermes, Qwen.
    Tagged,
    /// The whole answer is `{"name": …, "parameters": {…}}`, several of them divided by `;`: Llama 3.
    Object,
}

impl ToolForm {
    /// What ends a call, if nothing else can be written so.
    pub fn close(self) -> Option<&'static str> {
        match self {
            Self::Tagged => Some(CLOSE),
            Self::Object => None,
        }
    }
}

/// A call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The function.
    pub name: String,
    /// What it is given, as JSON.
    pub arguments: String,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerPart {
    /// What the model says.
    Text(String),
    /// What it calls.
    Call(ToolCall),
}

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
/// What Llama's models may put before a call.
const PYTHON: &str = "<|python_tag|>";

/// Finds calls in an answer as it comes. What is no call after all is passed on as text, so nothing is lost.
#[derive(Debug)]
pub struct ToolParser {
    form: ToolForm,
    /// Names of the tools.
    known: Vec<String>,
    /// What may become a call.
    held: String,
    /// Whether text has been passed on that is more than white space.
    said: bool,
    /// Whether a call was found.
    called: bool,
}

impl ToolParser {
    /// A parser for an answer that has not begun. `known` are the names of the tools that there are.
    pub fn new(form: ToolForm, known: Vec<String>) -> Self {
        Self { form, known, held: String::new(), said: false, called: false }
    }

    /// Takes the next text, and gives what is clear with it.
    pub fn push(&mut self, text: &str) -> Vec<AnswerPart> {
        self.held.push_str(text);
        match self.form {
            ToolForm::Tagged => self.tagged(),
            ToolForm::Object => self.object(),
        }
    }

    /// The answer is over: what was held is a call, or text.
    pub fn finish(&mut self) -> Vec<AnswerPart> {
        let held = std::mem::take(&mut self.held);
        let calls = match self.form {
            // Some models stop without closing the tag.
            ToolForm::Tagged => {
                let inside = held.trim_start().strip_prefix(OPEN);
                inside.and_then(|inside| self.call(inside, false)).map(|call| vec![call])
            }
            ToolForm::Object => self.objects(&held),
        };
        match calls {
            Some(calls) => calls.into_iter().map(AnswerPart::Call).collect(),
            None if self.called && held.trim().is_empty() => Vec::new(),
            None => self.text(held).into_iter().collect(),
        }
    }

    /// White space before a tag belongs to the tag, so it waits, like what may become one.
    fn tagged(&mut self) -> Vec<AnswerPart> {
        let mut parts = Vec::new();
        loop {
            let body = self.held.trim_start();
            let spaces = self.held.len() - body.len();
            let (end, call) = if let Some(inside) = body.strip_prefix(OPEN) {
                let Some(end) = inside.find(CLOSE) else { return parts };
                (spaces + OPEN.len() + end + CLOSE.len(), self.call(&inside[..end], false))
            } else {
                let stop = body.find(OPEN).unwrap_or_else(|| body.len() - begun(body, OPEN));
                if stop == 0 {
                    return parts;
                }
                (spaces + body[..stop].trim_end().len(), None)
            };
            let rest = self.held.split_off(end);
            let text = std::mem::replace(&mut self.held, rest);
            match call {
                Some(call) => {
                    self.called = true;
                    parts.push(AnswerPart::Call(call));
                }
                None => parts.extend(self.text(text)),
            }
        }
    }

    fn object(&mut self) -> Vec<AnswerPart> {
        let start = self.held.trim_start();
        let may_be = !self.said
            && (start.is_empty()
                || start.starts_with(['{', '['])
                || start.starts_with(PYTHON)
                || PYTHON.starts_with(start));
        if may_be {
            return Vec::new();
        }
        let held = std::mem::take(&mut self.held);
        self.text(held).into_iter().collect()
    }

    fn text(&mut self, text: String) -> Option<AnswerPart> {
        self.said |= !text.trim().is_empty();
        (!text.is_empty()).then_some(AnswerPart::Text(text))
    }

    /// A call from its JSON.
    fn call(&self, json: &str, must_be_known: bool) -> Option<ToolCall> {
        let object: Map<String, Json> = serde_json::from_str(json.trim()).ok()?;
        let name = object.get("name")?.as_str()?;
        if must_be_known && !self.known.iter().any(|known| known == name) {
            return None;
        }
        let arguments = match object.get("arguments").or_else(|| object.get("parameters")) {
            None if must_be_known => return None,
            None | Some(Json::Null) => "{}".to_owned(),
            Some(Json::String(text)) => text.clone(),
            Some(arguments) => arguments.to_string(),
        };
        Some(ToolCall { name: name.to_owned(), arguments })
    }

    /// All calls of an answer that is nothing else. An answer in JSON that names no tool is an answer.
    fn objects(&self, text: &str) -> Option<Vec<ToolCall>> {
        let text = text.trim();
        let mut rest = text.strip_prefix(PYTHON).unwrap_or(text).trim_start();
        let mut calls = Vec::new();
        loop {
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Json>();
            let value = values.next()?.ok()?;
            calls.push(self.call(&value.to_string(), true)?);
            rest = rest[values.byte_offset()..].trim_start();
            match rest.strip_prefix(';') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest.is_empty().then_some(calls)
    }
}

/// The length of the longest end of the text that begins a word.
fn begun(text: &str, word: &str) -> usize {
    (1..word.len()).rev().find(|&n| word.is_char_boundary(n) && text.ends_with(&word[..n])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of an answer that comes in pieces of so many characters, texts joined.
    fn parts(form: ToolForm, answer: &str, piece: usize) -> Vec<AnswerPart> {
        let mut parser = ToolParser::new(form, vec!["f".into(), "g".into()]);
        let characters: Vec<char> = answer.chars().collect();
        let mut parts = Vec::new();
        for piece in characters.chunks(piece) {
            parts.extend(parser.push(&piece.iter().collect::<String>()));
        }
        parts.extend(parser.finish());
        let mut joined: Vec<AnswerPart> = Vec::new();
        for part in parts {
            match (joined.last_mut(), part) {
                (Some(AnswerPart::Text(text)), AnswerPart::Text(more)) => text.push_str(&more),
                (_, part) => joined.push(part),
            }
        }
        joined
    }

    fn text(text: &str) -> AnswerPart {
        AnswerPart::Text(text.to_owned())
    }

    fn call(name: &str, arguments: &str) -> AnswerPart {
        AnswerPart::Call(ToolCall { name: name.to_owned(), arguments: arguments.to_owned() })
    }

    #[test]
    fn tagged_calls_are_found_however_the_answer_is_cut() {
        let cases = [
            ("Hello <b>you</b>", vec![text("Hello <b>you</b>")]),
            (
                "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": \"<x>\"}}\n</tool_call>",
                vec![text("Let me see."), call("f", r#"{"b":1,"a":"<x>"}"#)],
            ),
            (
                "<tool_call>{\"name\": \"f\"}</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>",
                vec![call("f", "{}"), call("g", "{}")],
            ),
            // Not closed, and a string of JSON instead of an object.
            ("<tool_call>{\"name\": \"f\", \"arguments\": \"{}\"}", vec![call("f", "{}")]),
            ("<tool_call>{\"nam", vec![text("<tool_call>{\"nam")]),
            (
                "<tool_call>nonsense</tool_call> and so on",
                vec![text("<tool_call>nonsense</tool_call> and so on")],
            ),
            ("a < b <tool", vec![text("a < b <tool")]),
            ("  spaces", vec![text("  spaces")]),
            ("", vec![]),
        ];
        for (answer, want) in cases {
            for piece in [1, 2, 5, 1000] {
                assert_eq!(parts(ToolForm::Tagged, answer, piece), want, "{answer:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn an_answer_that_is_a_call_in_json_is_one_and_other_json_is_text() {
        let cases = [
            (r#"{"name": "f", "parameters": {"a": 1}}"#, vec![call("f", r#"{"a":1}"#)]),
            (r#"<|python_tag|>{"name": "f", "parameters": {}}"#, vec![call("f", "{}")]),
            (
                r#"{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}"#,
                vec![call("f", "{}"), call("g", "{}")],
            ),
            (
                r#"{"name": "unknown", "parameters": {}}"#,
                vec![text(r#"{"name": "unknown", "parameters": {}}"#)],
            ),
            (r#"{"name": "f"}"#, vec![text(r#"{"name": "f"}"#)]),
            (
                r#"{"name": "f", "parameters": {}} is how"#,
                vec![text(r#"{"name": "f", "parameters": {}} is how"#)],
            ),
            ("Hello {", vec![text("Hello {")]),
            ("{", vec![text("{")]),
            ("<|py", vec![text("<|py")]),
        ];
        for (answer, want) in cases {
            for piece in [1, 3, 1000] {
                assert_eq!(parts(ToolForm::Object, answer, piece), want, "{answer:?} in pieces of {piece}");
            }
        }
    }
}
