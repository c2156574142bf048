//! Reading standard input, with limits.

use crate::language::messages::main as message;
use crate::output;
use anyhow::{Context, Result, bail, ensure};
use minigpt_charts::bytes;
use std::io::{BufRead, IsTerminal, Read};

/// Bytes of a prompt, a message or a kept conversation: far more than any context holds.
pub const MOST_TEXT: u64 = 16 << 20;
/// Bytes of a text to encode, or of ids to decode.
pub const MOST_TO_ENCODE: u64 = 256 << 20;

/// Reads all of standard input, which must be UTF-8; at a terminal, a note says what to type.
pub fn text(what: &str, limit: u64) -> Result<String> {
    let stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        output::note(message::TypeIt { what });
    }
    let mut all = Vec::new();
    stdin.take(limit + 1).read_to_end(&mut all).context(message::NoStandardInput)?;
    ensure!(all.len() as u64 <= limit, "{}", message::TooLong { what, size: bytes(limit) });
    match String::from_utf8(all) {
        Ok(text) => Ok(text),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            bail!(message::NotUtf8 { at, byte: error.as_bytes()[at] })
        }
    }
}

/// Reads a line of up to `limit` bytes, without its line end; `None` at the end of the input.
pub fn line(from: &mut impl BufRead, limit: u64) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = from.take(limit + 1).read_until(b'\n', &mut line).context(message::NoStandardInput)?;
    ensure!(read as u64 <= limit, message::LineTooLong { size: bytes(limit) });
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok((read > 0).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_one_by_one_and_none_is_endless() {
        let mut input = &b"one\n\nthree"[..];
        let mut next = || line(&mut input, 5).unwrap();
        assert_eq!(
            [next(), next(), next(), next()],
            [Some(b"one".to_vec()), Some(Vec::new()), Some(b"three".to_vec()), None]
        );
        assert!(line(&mut std::io::BufReader::new(std::io::repeat(b'a')), 5).is_err());
    }
}
