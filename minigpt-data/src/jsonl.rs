//! Question/answer data line by line: good lines become records, bad ones are counted and reported.

use crate::bad_lines::BadLines;
use crate::error::{Error, Result};
use crate::input_file::InputFile;
use crate::lines::{Line, Lines, MAX_LINE};
use crate::record::Record;
use std::io::BufReader;
use std::path::Path;

/// A file of question/answer lines that can be read more than once.
#[derive(Debug)]
pub struct JsonlFile {
    input: InputFile,
}

/// What a pass over the file met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JsonlSummary {
    /// Lines of any kind.
    pub lines: u64,
    /// Lines that became records.
    pub records: u64,
    /// The others.
    pub bad: BadLines,
}

/// What a line is.
pub(crate) enum Parsed {
    /// Good.
    Record(Record),
    /// White space only.
    Blank,
    /// Bad, and why.
    Bad(String),
}

impl JsonlFile {
    /// Opens a path; `-` is standard input.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(JsonlFile { input: InputFile::open(path)? })
    }

    /// The path, or "standard input".
    pub fn name(&self) -> &str {
        self.input.name()
    }

    pub(crate) fn input(&self) -> &InputFile {
        &self.input
    }

    /// Gives the good lines, or the first `limit` of them, to `each` with their number.
    ///
    /// # Errors
    /// No good line at all, a file that can't be read, and whatever `each` returns.
    pub fn read(
        &self,
        limit: Option<u64>,
        each: &mut dyn FnMut(u64, Record) -> Result<()>,
    ) -> Result<JsonlSummary> {
        let mut lines = Lines::new(BufReader::with_capacity(1 << 18, self.input.rewind()?));
        let mut summary = JsonlSummary::default();
        while limit.is_none_or(|limit| summary.records < limit) {
            let Some(line) = lines.read().map_err(|e| Error::io_named("read", self.name(), e))? else {
                break;
            };
            summary.lines += 1;
            match parse(&line) {
                Parsed::Record(record) => {
                    each(line.number, record)?;
                    summary.records += 1;
                }
                Parsed::Blank => summary.bad.blank += 1,
                Parsed::Bad(reason) => summary.bad.add(line.number, reason),
            }
        }
        if summary.records == 0 {
            return Err(summary.bad.into_error(self.name()));
        }
        Ok(summary)
    }
}

/// Sorts a line into one of three kinds. A byte order mark before the first is not part of it.
pub(crate) fn parse(line: &Line<'_>) -> Parsed {
    let Some(bytes) = line.bytes else {
        return Parsed::Bad(format!("longer than {} MiB", MAX_LINE >> 20));
    };
    let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) if line.number == 1 => rest,
        _ => bytes,
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Parsed::Blank;
    }
    match Record::parse(bytes) {
        Ok(record) => Parsed::Record(record),
        Err(reason) => Parsed::Bad(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bad_lines::BadLine;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, JsonlFile) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qa.jsonl");
        std::fs::write(&path, bytes).unwrap();
        let file = JsonlFile::open(&path).unwrap();
        (dir, file)
    }

    #[test]
    fn bad_lines_are_counted_and_named_and_the_rest_is_read() {
        let (_dir, file) = file(
            b"\xef\xbb\xbf{\"question\":\"a\",\"answer\":\"b\"}\r\n\r\n{\"question\":1,\"answer\":\"b\"}\n\
              \xff\n{\"question\":\"c\",\"answer\":\"d\"}",
        );
        let mut seen = Vec::new();
        let summary = file
            .read(None, &mut |line, record| {
                seen.push((line, record));
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, [(1, Record::pair("a", "b")), (5, Record::pair("c", "d"))]);
        assert_eq!((summary.lines, summary.records), (5, 2));
        assert_eq!((summary.bad.total, summary.bad.blank), (2, 1));
        assert_eq!(summary.bad.first[1], BadLine { line: 4, reason: "not UTF-8: 0xff at byte 0".into() });
    }

    #[test]
    fn all_bad_lines_are_counted_but_few_are_kept() {
        let (_dir, file) = file(&[b"x\n".repeat(1000), br#"{"question":"","answer":""}"#.to_vec()].concat());
        let summary = file.read(None, &mut |_, _| Ok(())).unwrap();
        assert_eq!((summary.bad.total, summary.bad.first.len()), (1000, 20));
    }

    #[test]
    fn a_file_without_a_good_line_is_an_error() {
        for (bytes, expected) in [
            (&b""[..], "has no usable line: 0 bad, 0 blank"),
            (
                b"\n\nx\ny\n",
                "has no usable line: 2 bad, 2 blank; line 3: not JSON: expected value (column 1)",
            ),
        ] {
            let (_dir, file) = file(bytes);
            let error = file.read(None, &mut |_, _| Ok(())).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
        }
    }

    #[test]
    fn a_limit_counts_good_lines() {
        let (_dir, file) =
            file(&[b"bad\n".to_vec(), b"{\"question\":\"\",\"answer\":\"\"}\n".repeat(9)].concat());
        let summary = file.read(Some(3), &mut |_, _| Ok(())).unwrap();
        assert_eq!((summary.lines, summary.records, summary.bad.total), (4, 3, 1));
    }

    #[test]
    fn a_line_of_ten_megabytes_is_a_line_like_any_other() {
        let long = "中".repeat((10 << 20) / 3);
        let (_dir, file) = file(format!("{{\"question\":\"{long}\",\"answer\":\"b\"}}").as_bytes());
        let summary = file.read(None, &mut |_, record| {
            assert_eq!(record.turns[0].text.len(), long.len());
            Ok(())
        });
        assert_eq!(summary.unwrap().records, 1);
    }
}
