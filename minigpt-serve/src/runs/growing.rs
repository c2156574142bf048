//! A log that grows, a file of JSON lines: each time it is read from where it was read to.

use crate::problem::Problem;
use axum::http::StatusCode;
use minigpt_files::ReadAt;
use serde::Deserialize;
use std::path::Path;
use std::time::SystemTime;

/// The longest log that is read.
const LARGEST: u64 = 256 << 20;
/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;
/// Longer lines are passed over.
const LONGEST_LINE: usize = 64 << 10;
/// Bytes before the place where a log has been read to: if they have changed, it is another log.
const MARK: usize = 64;

/// What is read of a line.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Record {
    #[serde(default)]
    pub step: Option<f64>,
    #[serde(default)]
    pub loss: Option<f64>,
    #[serde(default)]
    pub val_loss: Option<f64>,
    #[serde(default)]
    pub seconds: Option<f64>,
}

/// Takes the lines of a log.
pub(super) trait Reader {
    /// Another log begins.
    fn clear(&mut self);
    /// A line of JSON.
    fn line(&mut self, text: &str, record: &Record);
}

/// A file of JSON lines that grows: each time, the new lines are read.
#[derive(Debug, Default)]
pub(super) struct Growing {
    read: u64,
    /// The bytes before that place.
    mark: Vec<u8>,
    changed: Option<SystemTime>,
    /// In the middle of a line that is too long.
    skipping: bool,
}

impl Growing {
    /// Hands over the whole lines behind those that were read before. Lines that are no JSON objects are passed over; a file
    /// that is not there has no lines.
    pub fn read(&mut self, path: &Path, reader: &mut impl Reader) -> Result<(), Problem> {
        let internal = |error: minigpt_files::Error| Problem::internal(error.to_string());
        let changed = std::fs::metadata(path).and_then(|file| file.modified()).ok();
        let file = match ReadAt::open(path) {
            Ok(file) => file,
            Err(error) if error.is_missing() => {
                if self.read > 0 {
                    *self = Self::default();
                    reader.clear();
                }
                return Ok(());
            }
            Err(error) => return Err(internal(error)),
        };
        if file.len() == self.read && changed == self.changed {
            return Ok(());
        }
        let marked = self.read - self.mark.len() as u64;
        if file.len() < self.read || file.read(marked..self.read).map_err(internal)? != self.mark {
            *self = Self::default();
            reader.clear();
        }
        self.changed = changed;
        if file.len() - self.read > LARGEST {
            let message = format!("{} is too long to be shown", path.display());
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        while self.read < file.len() {
            let end = file.len().min(self.read + PIECE);
            let bytes = file.read(self.read..end).map_err(internal)?;
            let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            let taken = match whole {
                0 if end < file.len() => {
                    self.skipping = true;
                    bytes.len()
                }
                whole => whole,
            };
            if whole > 0 {
                let mut lines = bytes[..whole - 1].split(|&byte| byte == b'\n');
                if std::mem::take(&mut self.skipping) {
                    lines.next();
                }
                lines.for_each(|line| take(line, reader));
            }
            self.read += taken as u64;
            self.mark.extend_from_slice(&bytes[..taken]);
            self.mark.drain(..self.mark.len().saturating_sub(MARK));
            if taken == 0 {
                break;
            }
        }
        Ok(())
    }
}

fn take(line: &[u8], reader: &mut impl Reader) {
    let line = line.trim_ascii();
    let plain = line.len() <= LONGEST_LINE && line.starts_with(b"{") && !line.contains(&b'\r');
    if let (true, Ok(text)) = (plain, std::str::from_utf8(line))
        && let Ok(record) = serde_json::from_str::<Record>(text)
    {
        reader.line(text, &record);
    }
}

/// Appends to a log, for tests.
#[cfg(test)]
pub(super) fn append(path: &Path, text: &str) {
    use std::io::Write;
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

#[cfg(test)]
mod tests {
    use super::super::lines::{Lines, Position};
    use super::*;
    use std::fs;

    #[test]
    fn a_log_is_read_as_it_grows_in_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let (mut growing, mut lines, mut position) =
            (Growing::default(), Lines::default(), Position::default());
        let mut news = |lines: &mut Lines| {
            growing.read(&path, lines).unwrap();
            let (new, anew) = lines.next(&mut position);
            (new.join(" "), anew)
        };
        assert_eq!(news(&mut lines), (String::new(), false));
        append(&path, "{\"step\":1}\n{\"step\":");
        assert_eq!(news(&mut lines), ("{\"step\":1}".into(), false));
        append(&path, "2}\nnonsense\n[1]\n\"step\"\n{\"a\":1}\r\n");
        assert_eq!(news(&mut lines), ("{\"step\":2} {\"a\":1}".into(), false));
        fs::write(&path, "{\"step\":1}\n").unwrap();
        assert_eq!(news(&mut lines), ("{\"step\":1}".into(), true), "a run that began anew is read anew");
        // Another log that is already longer than what was read of this one.
        fs::write(&path, "{\"step\":7}\n{\"step\":8}\n{\"step\":9}\n").unwrap();
        assert_eq!(news(&mut lines), ("{\"step\":7} {\"step\":8} {\"step\":9}".into(), true));
        fs::remove_file(&path).unwrap();
        assert_eq!(news(&mut lines), (String::new(), true));
    }

    #[test]
    fn a_line_without_end_is_passed_over_and_those_behind_it_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let long = "x".repeat(2 * PIECE as usize + 5);
        append(&path, &format!("{{\"step\":1}}\n{{\"a\":\"{long}\"}}\n{{\"step\":3}}\n"));
        let (mut growing, mut lines) = (Growing::default(), Lines::default());
        growing.read(&path, &mut lines).unwrap();
        assert_eq!(lines.all().collect::<Vec<_>>(), ["{\"step\":1}", "{\"step\":3}"]);
    }
}
