//! Standard output (one JSON value for programs, plain text for people) and notes on standard error. Control characters in
//! texts that come from files, servers and models are escaped here for the terminal.

use crate::language::messages::common as message;
use crate::{language, screen};
use anyhow::{Context, Result};
use minigpt_charts::printable;
use minigpt_data::Unknown;
use minigpt_tokenizer::Tokenizer;
use serde::Serialize;
use std::fmt::Display;
use std::io::{IsTerminal, Write};

/// Columns of the longest bar.
const LONGEST_BAR: usize = 30;

/// Writes one JSON value and a line break to standard output.
pub fn json(value: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if out.is_terminal() {
        let value = serde_json::to_string(value).context(message::JsonUnwritable)?;
        return writeln!(out, "{}", printable_json(&value)).context(message::StdoutUnwritable);
    }
    serde_json::to_writer(&mut out, value).map_err(std::io::Error::from).context(message::JsonUnwritable)?;
    writeln!(out).context(message::StdoutUnwritable)
}

/// The same JSON with control characters as escapes.
fn printable_json(value: &str) -> String {
    let escape = |c: char| {
        if printable(c.encode_utf8(&mut [0; 4])).len() == c.len_utf8() {
            c.to_string()
        } else {
            format!("\\u{:04x}", u32::from(c))
        }
    };
    value.chars().map(escape).collect()
}

/// Writes text to standard output.
pub fn text(text: impl Display) -> Result<()> {
    drawn(&printable(&text.to_string()))
}

/// Writes generated text to standard output: with control characters escaped on a terminal, unchanged elsewhere.
pub fn written(written: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let shown = if out.is_terminal() { printable(written) } else { written.into() };
    out.write_all(shown.as_bytes()).and_then(|()| out.flush()).context(message::StdoutUnwritable)
}

/// Writes a picture with colors to standard output as it is. The names in it must be printable.
pub fn drawn(picture: &str) -> Result<()> {
    std::io::stdout().lock().write_all(picture.as_bytes()).context(message::StdoutUnwritable)
}

/// Writes a note to standard error, which may be closed.
pub fn note(text: impl Display) {
    note_drawn(&printable(&text.to_string()));
}

/// Notes which characters of a text the vocabulary lacks, and how they are encoded.
pub fn unknown(what: &str, tokenizer: &Tokenizer, unknown: &Unknown) {
    if let Some(unknown) = unknown.note(tokenizer) {
        note(message::LabeledNote { what, note: language::local(&unknown) });
    }
}

/// Writes a picture with colors to standard error as it is. The names in it must be printable.
pub fn note_drawn(picture: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{picture}");
}

/// A token with its spaces and line ends made visible.
pub fn visible(token: &str) -> String {
    let mut shown = String::new();
    for c in token.chars() {
        match c {
            ' ' => shown.push('·'),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

/// A bar of up to 30 columns, or of a third of the terminal, to an eighth of a column.
pub fn bar(probability: f64) -> String {
    bar_of(probability, LONGEST_BAR.min(screen::table_columns() / 3))
}

fn bar_of(probability: f64, columns: usize) -> String {
    let eighths = (probability.clamp(0.0, 1.0) * 8.0 * columns as f64).round() as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    format!("{}{rest}", "█".repeat(eighths / 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_a_terminal_means_the_same() {
        let text = "\u{9b}2J \u{7f}\u{202e}x\u{1b}天";
        let written = printable_json(&serde_json::to_string(text).unwrap());
        assert_eq!(written, r#""\u009b2J \u007f\u202ex\u001b天""#);
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
    }

    #[test]
    fn bars_grow_by_eighths() {
        assert_eq!([0.0, 1.0 / 60.0, 1.0 / 30.0, 0.1].map(|p| bar_of(p, 30)), ["", "▌", "█", "███"]);
        assert_eq!(bar_of(f64::NAN, 30), "");
    }

    #[test]
    fn what_can_not_be_seen_is_made_visible() {
        assert_eq!(visible(" the\n\t"), "·the\\n\\t");
        assert_eq!(visible("猫"), "猫");
    }
}
