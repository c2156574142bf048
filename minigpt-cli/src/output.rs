//! What reaches standard output: one JSON value for programs, plain text for people.

use anyhow::{Context, Result};
use serde::Serialize;
use std::io::Write;

/// Writes one JSON value and a line end to standard output, and nothing else.
pub fn json(value: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, value).map_err(std::io::Error::from).context("could not write JSON")?;
    writeln!(out).context("could not write to standard output")
}

/// Writes text to standard output as it is.
pub fn text(text: &str) -> Result<()> {
    std::io::stdout().lock().write_all(text.as_bytes()).context("could not write to standard output")
}

/// Tells the person something that is not the answer, on standard error. Nobody listening there is no reason to stop.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
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

/// A bar of up to 30 columns, to an eighth of a column.
pub fn bar(probability: f64) -> String {
    let eighths = (probability.clamp(0.0, 1.0) * 240.0).round() as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    format!("{}{rest}", "█".repeat(eighths / 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_by_eighths() {
        assert_eq!([0.0, 1.0 / 60.0, 1.0 / 30.0, 0.1].map(bar), ["", "▌", "█", "███"]);
        assert_eq!(bar(f64::NAN), "");
    }

    #[test]
    fn what_can_not_be_seen_is_made_visible() {
        assert_eq!(visible(" the\n\t"), "·the\\n\\t");
        assert_eq!(visible("猫"), "猫");
    }
}
