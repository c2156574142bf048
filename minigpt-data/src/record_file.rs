//! Examples one by one, from one file or several: good rows become records, bad ones are counted and reported.

use crate::bad_lines::BadLines;
use crate::bad_row::BadRow;
use crate::description::Encodings;
use crate::encoding::TextEncoding;
use crate::error::{Error, Result};
use crate::input_file::InputFile;
use crate::name::DataName;
use crate::record::{Example, Record, RecordForm};
use crate::row::Columns;
use crate::row_file::{Found, Layout, RowFile};
use std::collections::BTreeMap;
use std::path::Path;

/// How to read data.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The encoding of the text. Default: detected.
    pub encoding: Option<TextEncoding>,
    /// Which columns to read.
    pub columns: Columns,
}

/// Examples that can be read more than once.
#[derive(Debug)]
pub struct RecordFile {
    files: Vec<RowFile>,
    columns: Columns,
    name: DataName,
}

/// Counts of a pass over the examples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordSummary {
    /// Lines or rows of any kind.
    pub lines: u64,
    /// Those that became records.
    pub records: u64,
    /// In which forms they were.
    pub forms: BTreeMap<RecordForm, u64>,
    /// The others.
    pub bad: BadLines,
}

impl RecordFile {
    /// Opens a file of questions and answers; `-` is standard input.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        let input = InputFile::open_as(path, options.encoding)?;
        let layout = Layout::of(Layout::of_name(path), input.sample()).unwrap_or(Layout::Jsonl);
        Ok(Self::of(vec![RowFile { input, layout }], path.into(), options))
    }

    pub(crate) fn of(files: Vec<RowFile>, name: DataName, options: &ReadOptions) -> Self {
        Self { files, columns: options.columns.clone(), name }
    }

    /// The first file, to be read as something else.
    pub(crate) fn into_input(self) -> Result<InputFile> {
        let nothing = || Error::Empty { name: self.name.clone() };
        self.files.into_iter().next().map(|file| file.input).ok_or_else(nothing)
    }

    /// How many files there are.
    pub(crate) fn files(&self) -> u64 {
        self.files.len() as u64
    }

    /// The path, or standard input.
    pub fn name(&self) -> &DataName {
        match &self.files[..] {
            [one] => one.input.name(),
            _ => &self.name,
        }
    }

    /// Bytes of all files together, for progress.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.input.bytes()).sum()
    }

    /// The layout of the first file.
    pub fn layout(&self) -> Layout {
        self.files.first().map_or(Layout::Jsonl, |file| file.layout)
    }

    /// The encoding of the text, if it is not UTF-8.
    pub fn encoding(&self) -> Option<TextEncoding> {
        self.files.iter().find_map(|file| file.input.encoding())
    }

    /// The encodings of all files.
    pub(crate) fn encodings(&self) -> Encodings {
        Encodings::of(self.files.iter().map(|file| file.input.encoding()))
    }

    /// Characters of all files that were invalid in their encoding and were replaced by U+FFFD.
    pub fn replaced(&self) -> u64 {
        self.files.iter().map(|file| file.input.replaced()).sum()
    }

    /// The form of the first good row, if one of the first 1,000 rows is good.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn form(&self) -> Result<Option<RecordForm>> {
        /// Rows that are looked at.
        const FEW: u64 = 1000;
        let (mut form, mut seen) = (None, 0);
        for file in &self.files {
            file.read(&mut |_, found| {
                seen += 1;
                if let Found::Row(row) = found {
                    form = Example::of_row(&row, &self.columns).ok().map(|example| example.form());
                }
                Ok(form.is_none() && seen < FEW)
            })?;
            if form.is_some() || seen >= FEW {
                break;
            }
        }
        Ok(form)
    }

    /// Gives the good rows, or the first `limit` of them, to `each` with their number.
    ///
    /// # Errors
    /// No good row at all, a file that can't be read, and whatever `each` returns.
    pub fn read(
        &self,
        limit: Option<u64>,
        each: &mut dyn FnMut(u64, Record) -> Result<()>,
    ) -> Result<RecordSummary> {
        let summary = self.examples(limit, &mut |line, example| match example {
            Example::Record(_, record) => each(line, record).map(|()| None),
            Example::Text(_) => Ok(Some(BadRow::OnlyText)),
        })?;
        if summary.records == 0 {
            return Err(summary.bad.into_error(self.name()));
        }
        Ok(summary)
    }

    /// Gives the good rows, or the first `limit` of them, as JSON without a line end: what was a line of JSON byte for byte.
    pub(crate) fn rows(
        &self,
        limit: Option<u64>,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<RecordSummary> {
        let mut summary = RecordSummary::default();
        for file in &self.files {
            file.read_raw(&mut |line, found, raw| {
                summary.lines += 1;
                match found {
                    Found::Row(row) => match Example::of_row(&row, &self.columns) {
                        Ok(_) => {
                            let written;
                            let raw = match raw {
                                Some(raw) => raw.trim_ascii_end(),
                                None => {
                                    written = row.to_json();
                                    written.as_bytes()
                                }
                            };
                            each(raw)?;
                            summary.records += 1;
                        }
                        Err(reason) => summary.bad.add(line, reason),
                    },
                    Found::Blank => summary.bad.blank += 1,
                    Found::Bad(reason) => summary.bad.add(line, reason),
                }
                Ok(limit.is_none_or(|limit| summary.records < limit))
            })?;
        }
        Ok(summary)
    }

    /// Gives examples of every form to `each`, which may refuse one with a reason.
    pub(crate) fn examples(
        &self,
        limit: Option<u64>,
        each: &mut dyn FnMut(u64, Example) -> Result<Option<BadRow>>,
    ) -> Result<RecordSummary> {
        let mut summary = RecordSummary::default();
        let wanted = |summary: &RecordSummary| limit.is_none_or(|limit| summary.records < limit);
        for file in &self.files {
            if !wanted(&summary) {
                break;
            }
            file.read(&mut |line, found| {
                summary.lines += 1;
                let example = match found {
                    Found::Row(row) => Example::of_row(&row, &self.columns),
                    Found::Bad(reason) => Err(reason),
                    Found::Blank => {
                        summary.bad.blank += 1;
                        return Ok(true);
                    }
                };
                match example {
                    Ok(example) => {
                        let form = example.form();
                        match each(line, example).map_err(|e| Error::in_line(file.input.name(), line, e))? {
                            None => {
                                summary.records += 1;
                                *summary.forms.entry(form).or_default() += 1;
                            }
                            Some(reason) => summary.bad.add(line, reason),
                        }
                    }
                    Err(reason) => summary.bad.add(line, reason),
                }
                Ok(wanted(&summary))
            })?;
        }
        Ok(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bad_lines::BadLine;
    use crate::bad_row::JsonKind;
    use crate::input_file::tests::written;

    fn file(bytes: &[u8]) -> RecordFile {
        let files = vec![RowFile { input: written(bytes), layout: Layout::Jsonl }];
        RecordFile::of(files, "a".into(), &ReadOptions::default())
    }

    #[test]
    fn bad_lines_are_counted_and_named_and_the_rest_is_read() {
        let file = file(
            b"{\"question\":\"a\",\"answer\":\"b\"}\r\n\r\n{\"question\":1,\"answer\":\"b\"}\n\
              rubbish\n{\"prompt\":\"c\",\"completion\":\"d\"}\n{\"text\":\"t\"}",
        );
        let mut seen = Vec::new();
        let summary = file
            .read(None, &mut |line, record| {
                seen.push((line, record));
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, [(1, Record::pair("a", "b")), (5, Record::pair("c", "d"))]);
        assert_eq!((summary.lines, summary.records), (6, 2));
        assert_eq!((summary.bad.total, summary.bad.blank), (3, 1));
        assert_eq!(summary.forms.len(), 2);
        let first = BadLine {
            line: 3,
            reason: BadRow::NotText { name: "question".to_owned(), found: JsonKind::Number("1".to_owned()) },
        };
        assert_eq!(summary.bad.first[0], first);
        assert_eq!(file.form().unwrap(), Some(RecordForm::QuestionAnswer));
        assert_eq!(file.read(Some(1), &mut |_, _| Ok(())).unwrap().lines, 1);
    }

    #[test]
    fn a_file_without_a_good_line_is_an_error_that_names_the_first_bad_one() {
        for (bytes, expected) in [
            (&b"\n \nrubbish\n"[..], "1 bad, 2 blank; line 3: not JSON"),
            (b"", "0 bad, 0 blank"),
            (b"{}\n{}", "2 bad, 0 blank; line 1: missing"),
        ] {
            let error = file(bytes).read(None, &mut |_, _| Ok(())).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn an_error_of_whoever_reads_names_the_line() {
        let file = file(b"{\"question\":\"a\",\"answer\":\"b\"}\n");
        let failed = file.read(None, &mut |_, _| Err(Error::NotThere { url: "no".to_owned() })).unwrap_err();
        assert!(matches!(failed, Error::Line { line: 1, .. }), "{failed:?}");
    }
}
