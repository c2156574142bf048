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
