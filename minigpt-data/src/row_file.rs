//! Files of rows, read in pieces: JSON lines, a JSON array, CSV, TSV, and Parquet.

use crate::bad_row::BadRow;
use crate::error::{Error, Result};
use crate::input_file::InputFile;
use crate::lines::{Line, Lines, MAX_LINE};
use crate::row::Row;
use minigpt_files::Action;
use serde::Serialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::io::{BufReader, Read};
use std::path::Path;

/// How rows are written in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// One JSON object a line.
    Jsonl,
    /// A list of JSON objects.
    Json,
    /// Values between commas, their names in the first line.
    Csv,
    /// The same between tabs.
    Tsv,
    /// Columns, compressed.
    Parquet,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Jsonl => "JSON lines",
            Self::Json => "a JSON array",
            Self::Csv => "CSV",
            Self::Tsv => "TSV",
            Self::Parquet => "Parquet",
        })
    }
}

impl Layout {
    /// The layout that a file's name promises.
    pub fn of_name(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "jsonl" | "ndjson" | "json" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            "tsv" => Some(Self::Tsv),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }

    /// The layout of a file with this name, if it has one, that begins with these bytes. Of a file whose name says
    /// nothing, a whole object in the first line is one of many.
    pub(crate) fn of(named: Option<Self>, sample: &[u8]) -> Option<Self> {
        if sample.starts_with(b"PAR1") {
            return Some(Self::Parquet);
        }
        let text = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(sample).trim_ascii_start();
        match (named, text.first()) {
            (Some(Self::Jsonl) | None, Some(b'[')) if begins_an_object(&text[1..]) => Some(Self::Json),
            (Some(named), _) => Some(named),
            (None, Some(b'{')) => {
                let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
                Row::parse(line).is_ok().then_some(Self::Jsonl)
            }
            (None, _) => None,
        }
    }
}

fn begins_an_object(text: &[u8]) -> bool {
    matches!(text.trim_ascii_start().first(), Some(b'{' | b']') | None)
}

/// One line or row of a file.
pub(crate) enum Found {
    /// A row.
    Row(Row),
    /// White space only.
    Blank,
    /// Not a row, and why.
    Bad(BadRow),
}

/// Called with each line or row and its number, from 1; returns whether to continue.
pub(crate) type Each<'a> = &'a mut dyn FnMut(u64, Found) -> Result<bool>;

/// The same with the bytes of it, where it is a line.
pub(crate) type EachRaw<'a> = &'a mut dyn FnMut(u64, Found, Option<&[u8]>) -> Result<bool>;

/// An open file of rows.
#[derive(Debug)]
pub(crate) struct RowFile {
    pub input: InputFile,
    pub layout: Layout,
}

impl RowFile {
    /// Gives all rows to `each`, in order.
    pub fn read(&self, each: Each) -> Result<()> {
        self.read_raw(&mut |number, found, _| each(number, found))
    }

    /// The same with the bytes of each, where it is a line.
    pub fn read_raw(&self, each: EachRaw) -> Result<()> {
        let each_row: Each = &mut |number, found| each(number, found, None);
        let file = BufReader::with_capacity(1 << 18, self.input.rewind()?);
        match self.layout {
            Layout::Jsonl => self.lines(file, each),
            Layout::Json => self.array(file, each_row),
            Layout::Csv => self.table(file, b',', each_row),
            Layout::Tsv => self.table(file, b'\t', each_row),
            Layout::Parquet => crate::parquet::read(&self.input, each_row),
        }
    }

    fn lines(&self, file: impl std::io::BufRead, each: EachRaw) -> Result<()> {
        let mut lines = Lines::new(file);
        while let Some(line) = lines.read().map_err(|e| self.unreadable(e))? {
            if !each(line.number, of_line(&line), line.bytes.map(without_mark))? {
                break;
            }
        }
        Ok(())
    }

    fn array(&self, file: impl Read, each: Each) -> Result<()> {
        let mut items = Items { each, number: 0, stopped: None };
        let mut json = serde_json::Deserializer::from_reader(file);
        let read = (&mut json).deserialize_seq(&mut items).and_then(|()| json.end());
        let number = items.number;
        match (items.stopped, read) {
            (Some(stopped), _) => stopped,
            (None, Ok(())) => Ok(()),
            (None, Err(error)) if error.is_io() => Err(self.unreadable(error.into())),
            // What follows an error in an array can't be found: it counts as one bad row.
            (None, Err(error)) => {
                let reason = BadRow::NotJsonFromHere(error.to_string());
                (items.each)(number + 1, Found::Bad(reason)).map(|_| ())
            }
        }
    }

    fn table(&self, file: impl Read, delimiter: u8, each: Each) -> Result<()> {
        let mut table = csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(file);
        let names = table.headers().map_err(|e| self.unreadable(e.into()))?;
        let names: Vec<String> =
            names.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect();
        let mut record = csv::StringRecord::new();
        for number in 1.. {
            let found = match table.read_record(&mut record) {
                Ok(false) => break,
                Ok(true) if record.len() != names.len() => {
                    Found::Bad(BadRow::FieldCount { found: record.len(), expected: names.len() })
                }
                Ok(true) => {
                    let values = record.iter().map(Value::from);
                    Found::Row(Row(names.iter().cloned().zip(values).collect()))
                }
                Err(error) if error.is_io_error() => return Err(self.unreadable(error.into())),
                Err(error) => Found::Bad(BadRow::Unreadable(error.to_string())),
            };
            if !each(number, found)? {
                break;
            }
        }
        Ok(())
    }

    fn unreadable(&self, error: std::io::Error) -> Error {
        Error::io_named(Action::Read, self.input.name(), error)
    }
}

/// A line without the byte order mark that a file may begin with.
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Sorts a line into one of three kinds. A byte order mark before the first is not part of it.
fn of_line(line: &Line<'_>) -> Found {
    let Some(bytes) = line.bytes else {
        return Found::Bad(BadRow::TooLong { mib: MAX_LINE >> 20 });
    };
    let bytes = if line.number == 1 { without_mark(bytes) } else { bytes };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Found::Blank;
    }
    Row::parse(bytes).map_or_else(Found::Bad, Found::Row)
}

/// The items of an array, one by one.
struct Items<'a> {
    each: Each<'a>,
    number: u64,
    /// Why reading stopped early: no more rows are wanted, or an error of the callback.
    stopped: Option<Result<()>>,
}

impl<'de> Visitor<'de> for &mut Items<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<Value>()? {
            self.number += 1;
            let found = match item {
                Value::Object(fields) => Found::Row(Row(fields.into_iter().collect())),
                _ => Found::Bad(BadRow::NotAnObject),
            };
            match (self.each)(self.number, found) {
                Ok(true) => {}
                Ok(false) => {
                    self.stopped = Some(Ok(()));
                    return Err(serde::de::Error::custom("enough"));
                }
                Err(error) => {
                    self.stopped = Some(Err(error));
                    return Err(serde::de::Error::custom("failed"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input_file::tests::written;

    fn rows(layout: Layout, bytes: &[u8]) -> Vec<(u64, String)> {
        let file = RowFile { input: written(bytes), layout };
        let mut rows = Vec::new();
        file.read(&mut |number, found| {
            let shown = match found {
                Found::Row(row) => serde_json::to_string(&row.0).unwrap(),
                Found::Blank => "blank".to_owned(),
                Found::Bad(reason) => reason.to_string(),
            };
            rows.push((number, shown));
            Ok(rows.len() < 4)
        })
        .unwrap();
        rows
    }

    #[test]
    fn layouts_are_known_by_name_and_by_their_first_bytes() {
        let of = |name: &str, sample: &[u8]| Layout::of(Layout::of_name(Path::new(name)), sample);
        assert_eq!(of("a.json", b" [\n {\"a\": 1}]"), Some(Layout::Json));
        assert_eq!(of("a.json", b"{\"a\": 1}\n{}"), Some(Layout::Jsonl));
        assert_eq!(of("a.JSONL", b"rubbish"), Some(Layout::Jsonl));
        assert_eq!(of("-", b"{\"a\": 1}\n{}"), Some(Layout::Jsonl));
        assert_eq!(of("-", b"{ said the cat"), None);
        assert_eq!(of("a", b"[1] The first chapter"), None);
        assert_eq!(of("a.csv", b"a,b\n"), Some(Layout::Csv));
        assert_eq!(of("a", b"PAR1\0\0"), Some(Layout::Parquet));
    }

    #[test]
    fn rows_come_with_their_numbers_until_nobody_wants_more() {
        let jsonl = rows(Layout::Jsonl, b"\xef\xbb\xbf{\"a\":1}\r\n\n7\n{\"a\":2}\n{\"a\":3}\n");
        let numbers: Vec<u64> = jsonl.iter().map(|row| row.0).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert_eq!((jsonl[0].1.as_str(), jsonl[1].1.as_str()), ("[[\"a\",1]]", "blank"));
        let array = rows(Layout::Json, b"[{\"a\":1}, 7,\n{\"b\":[]}]");
        assert_eq!(array[1], (2, "not an object".to_owned()));
        assert_eq!(array[2], (3, "[[\"b\",[]]]".to_owned()));
        let broken = rows(Layout::Json, b"[{\"a\":1}, {\"a\":");
        assert!(broken[1].1.starts_with("not JSON from here on"), "{broken:?}");
        let csv = rows(Layout::Csv, "\u{feff}q,a\n\"1, 2\n3\",x\nonly\n你,好\n".as_bytes());
        assert_eq!(csv[0].1, "[[\"q\",\"1, 2\\n3\"],[\"a\",\"x\"]]");
        assert_eq!(csv[1].1, "has 1 values, but the header has 2");
        assert_eq!(csv[2].1, "[[\"q\",\"你\"],[\"a\",\"好\"]]");
        assert_eq!(rows(Layout::Tsv, b"q\ta\nx, y\tz\n")[0].1, "[[\"q\",\"x, y\"],[\"a\",\"z\"]]");
    }
}
