//! `tojson` as transformers has it: Python's `json.dumps` without escapes for what is not ASCII. The engine's own escapes `<` and `&`
//! for HTML, and leaves out the spaces that models were trained with.

use super::bounds::{check_size, refuse};
use crate::error::TemplateProblem;
use minijinja::value::ValueKind;
use minijinja::{Error, Value};

/// The widest indent.
const WIDEST: usize = 100;

/// A value as JSON, on one line or with an indent, between other separators if there are two. The depth of values is bounded
/// where they are made.
pub(super) fn dumps(
    value: &Value,
    indent: Option<usize>,
    separators: Option<&[String]>,
) -> Result<String, Error> {
    if indent.is_some_and(|indent| indent > WIDEST) {
        return refuse(TemplateProblem::JsonIndent(WIDEST));
    }
    let (item, key) = match separators {
        Some([item, key]) => (item.as_str(), key.as_str()),
        None => (if indent.is_some() { "," } else { ", " }, ": "),
        Some(_) => return refuse(TemplateProblem::JsonSeparators),
    };
    if item.len() + key.len() > WIDEST {
        return refuse(TemplateProblem::JsonSeparatorLength(WIDEST));
    }
    let mut writer = Writer { indent, item, key, out: String::new() };
    writer.write(value, 0)?;
    Ok(writer.out)
}

struct Writer<'a> {
    indent: Option<usize>,
    item: &'a str,
    key: &'a str,
    out: String,
}

impl Writer<'_> {
    fn write(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        check_size(self.out.len())?;
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&value.to_string()),
            ValueKind::String => quote(value.as_str().unwrap_or_default(), &mut self.out),
            ValueKind::Seq | ValueKind::Iterable => {
                self.out.push('[');
                let mut first = true;
                for item in value.try_iter()?.checked() {
                    self.begin(&mut first, depth);
                    self.write(&item?, depth + 1)?;
                }
                self.end(']', first, depth);
            }
            ValueKind::Map => {
                self.out.push('{');
                let mut first = true;
                for key in value.try_iter()?.checked() {
                    let key = key?;
                    self.begin(&mut first, depth);
                    match key.as_str() {
                        Some(text) => quote(text, &mut self.out),
                        None => quote(&key.to_string(), &mut self.out),
                    }
                    self.out.push_str(self.key);
                    self.write(&value.get_item(&key)?, depth + 1)?;
                }
                self.end('}', first, depth);
            }
            kind => return refuse(TemplateProblem::NoJson(kind)),
        }
        Ok(())
    }

    fn begin(&mut self, first: &mut bool, depth: usize) {
        if !std::mem::take(first) {
            self.out.push_str(self.item);
        }
        self.line(depth + 1);
    }

    fn end(&mut self, close: char, empty: bool, depth: usize) {
        if !empty {
            self.line(depth);
        }
        self.out.push(close);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
