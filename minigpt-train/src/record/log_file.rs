//! A file of JSON lines that grows while a run trains, and that people may edit, move or delete meanwhile.
//!
//! A line goes out in one write, so a process that dies leaves at most a torn last line.

use super::{DamagedLine, Error, Result, Warning};
use minigpt_files::Action;
use minigpt_files::{
    copy_aside, is_link, is_sole_file, is_still_at, is_there, open_for_appending, present_path, read_file,
    set_aside, write_file,
};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// No log is longer than this.
const LARGEST: u64 = 4 << 30;

/// What a line of a log is.
pub(super) enum Line<T> {
    /// A record.
    Record(T),
    /// The last line, without its end and not a record: what a killed process left.
    Torn,
    /// Not a record.
    Damaged(DamagedLine),
}

/// Every line of a log with its bytes.
pub(super) fn lines<T>(
    bytes: &[u8],
    parse: impl Fn(&[u8]) -> serde_json::Result<T>,
) -> impl Iterator<Item = (&[u8], Line<T>)> {
    bytes.split_inclusive(|&byte| byte == b'\n').enumerate().map(move |(i, line)| {
        let kind = match parse(line) {
            Ok(record) => Line::Record(record),
            // Only the last line can lack its end. An object that is whole but for that is a record all the same.
            Err(_) if !line.ends_with(b"\n") => Line::Torn,
            Err(error) => Line::Damaged(DamagedLine { line: i + 1, problem: problem(&error) }),
        };
        (line, kind)
    })
}

/// What the parser says, without its own count of lines, which always is 1 or 2.
fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// The bytes of a log.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    Ok(read_file(path, LARGEST)?)
}

/// A log that grows. It is opened when its first line is written.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: Option<File>,
    /// Whether the last line may lack its end: what follows begins a new one.
    torn: bool,
}

impl LogFile {
    /// Begins an empty file in place of any that is there.
    pub fn create(path: &Path) -> Result<Self> {
        write_file(path, b"")?;
        Ok(Self { path: path.to_owned(), file: Some(open_for_appending(path)?), torn: false })
    }

    /// A log that is opened, or made, with its first line.
    pub fn unopened(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None, torn: false }
    }

    /// Goes on with a file of which only some lines are kept: later ones will come again, and damaged ones can't be read. What
    /// was damaged is kept in a copy beside it.
    pub fn resume<T>(
        path: &Path,
        parse: impl Fn(&[u8]) -> serde_json::Result<T>,
        keeps: impl Fn(&T) -> bool,
    ) -> (Self, Vec<Warning>) {
        let (log, mut warnings) = (Self::unopened(path), Vec::new());
        let bytes = match read(path) {
            Ok(bytes) => bytes,
            Err(Error::Replace(error)) if error.is_missing() => return (log, warnings),
            Err(error) => {
                // A folder, a pipe, a link to nowhere.
                warnings.push(Warning::NotRecorded(error));
                return (log, warnings);
            }
        };
        let (mut kept, mut damaged, mut records) = (Vec::with_capacity(bytes.len()), Vec::new(), 0);
        for (line, kind) in lines(&bytes, parse) {
            match kind {
                Line::Record(record) => {
                    records += 1;
                    if keeps(&record) {
                        kept.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
                        kept.push(b'\n');
                    }
                }
                Line::Damaged(damage) => damaged.push(damage),
                Line::Torn => {}
            }
        }
        if records == 0 && !damaged.is_empty() {
            // Nothing of it is a log: it is moved aside when the first line is written.
            return (log, warnings);
        }
        let rewritten = (|| -> Result<()> {
            if !damaged.is_empty() {
                let copy = copy_aside(path)?;
                warnings.push(Warning::Damaged {
                    path: present_path(path),
                    damaged,
                    copy: present_path(&copy),
                });
            }
            // A link, or a second name, would take the lines elsewhere.
            if kept != bytes || !is_sole_file(path) {
                write_file(path, &kept)?;
            }
            Ok(())
        })();
        warnings.extend(rewritten.err().map(Warning::NotRecorded));
        (log, warnings)
    }

    /// Writes a line, which from then on survives the end of this process, however it ends.
    ///
    /// A log that was removed or replaced meanwhile begins anew at `path`, where the run's folder may have been moved to; what
    /// stands there instead is moved aside unless it is a log, too.
    pub fn append(
        &mut self,
        path: &Path,
        line: &serde_json::Result<Vec<u8>>,
        is_record: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Warning>> {
        path.clone_into(&mut self.path);
        let mut warning = None;
        let file = match self.file.take().filter(|file| is_still_at(file, path)) {
            Some(file) => file,
            None => self.reopen(&mut warning, is_record)?,
        };
        let file = self.file.insert(file);
        let written = match line {
            Ok(line) => {
                let start: &[u8] = if self.torn { b"\n" } else { b"" };
                file.write_all(&[start, line, b"\n"].concat())
            }
            Err(error) => Err(std::io::Error::other(error.to_string())),
        };
        self.torn = written.is_err();
        written.map_err(Error::io(Action::Write, path)).map(|()| warning)
    }

    fn reopen(&mut self, warning: &mut Option<Warning>, is_record: impl Fn(&[u8]) -> bool) -> Result<File> {
        self.torn = false;
        let path = self.path.clone();
        if !is_there(&path)? {
            *warning = Some(Warning::Begun { path: present_path(&path) });
        } else {
            let bytes = if is_link(&path) { None } else { read(&path).ok() };
            let is_log = bytes.as_ref().is_some_and(|bytes| {
                bytes.is_empty() || bytes.split_inclusive(|&byte| byte == b'\n').any(is_record)
            });
            if is_log && is_sole_file(&path) {
                self.torn = bytes.is_some_and(|bytes| bytes.last().is_some_and(|&byte| byte != b'\n'));
            } else {
                let aside = set_aside(&path)?;
                *warning = Some(Warning::SetAside { path: present_path(&path), aside: present_path(&aside) });
            }
        }
        Ok(open_for_appending(&path)?)
    }
}
