//! Where plain text comes from: a file, standard input, rows that hold a text each, or a folder of files read one after
//! another.
//!
//! In a folder, files that end in `.txt`, `.text`, `.md` or `.markdown` are read, in the order of their paths,
//! folders within it as well; names that start with a dot are left out, links to folders are not followed.
//! A line end is put between two files where the first has none, so that they never run together.

use crate::bad_row::BadRow;
use crate::description::{Description, Encodings};
use crate::error::{Error, Result};
use crate::input_file::InputFile;
use crate::name::DataName;
use crate::record::{Example, RecordForm};
use crate::record_file::{ReadOptions, RecordFile};
use crate::row_file::Layout;
use crate::text_reader::{Cleaned, TextReader, is_blank};
use minigpt_files::Action;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Extensions of text files in a folder.
const ENDINGS: [&str; 4] = ["txt", "text", "md", "markdown"];
pub(crate) const TEXT_ENDINGS: &str = ".txt, .text, .md or .markdown";

/// One or more files of text that can be read more than once.
#[derive(Debug)]
pub struct TextSource {
    name: DataName,
    documents: Documents,
    bytes: u64,
    left_out: u64,
    /// The layout of rows that the file could be read as.
    instead: Option<Layout>,
}

#[derive(Debug)]
enum Documents {
    One(InputFile),
    Folder(Vec<PathBuf>, ReadOptions),
    Rows(RecordFile),
}

/// A chunk of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextChunk<'a> {
    /// Some text.
    Text(&'a str),
    /// One file or row ended and another begins.
    NextFile,
}

/// Counts of a pass over a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextSummary {
    /// Files that were read.
    pub files: u64,
    /// Files of a folder that were left out, because they don't look like text.
    pub left_out: u64,
    /// Rows that held no text.
    #[serde(default)]
    pub bad_rows: u64,
    /// Characters (Unicode scalar values), after cleaning.
    pub characters: u64,
    /// What was changed on the way.
    pub cleaned: Cleaned,
}

impl TextSource {
    /// Finds the text at a path; `-` is standard input.
    ///
    /// # Errors
    /// What can't be read, a file that is no text, a folder without any.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        if !path.is_dir() {
            return Self::of_file(InputFile::open_as(path, options.encoding)?, None);
        }
        let mut found = Found::default();
        walk(path, &mut found)?;
        if found.files.is_empty() {
            return Err(Error::NoTextFiles { path: path.to_owned(), others: found.others });
        }
        found.files.sort();
        let name = DataName::from(path);
        let Found { files, bytes, others } = found;
        let documents = Documents::Folder(files, options.clone());
        Ok(TextSource { name, documents, bytes, left_out: others, instead: None })
    }

    /// The text of a file, which may have rows that are read as plain text on request.
    pub(crate) fn of_file(file: InputFile, instead: Option<Layout>) -> Result<Self> {
        refuse_binary(&file)?;
        let (name, bytes) = (file.name().clone(), file.bytes());
        Ok(TextSource { name, documents: Documents::One(file), bytes, left_out: 0, instead })
    }

    /// The texts of rows.
    pub(crate) fn of_rows(rows: RecordFile) -> Self {
        let (name, bytes) = (rows.name().clone(), rows.bytes());
        TextSource { name, documents: Documents::Rows(rows), bytes, left_out: 0, instead: None }
    }

    /// What it is read as.
    pub(crate) fn describe(&self) -> Result<Description> {
        Ok(match &self.documents {
            Documents::One(file) => {
                Description::Text { encodings: Encodings::of([file.encoding()]), instead_of: self.instead }
            }
            Documents::Folder(files, options) => {
                let encoding = |path: &PathBuf| Ok(InputFile::open_as(path, options.encoding)?.encoding());
                let encodings = files.iter().map(encoding).collect::<Result<Vec<_>>>()?;
                Description::Texts { files: files.len() as u64, encodings: Encodings::of(encodings) }
            }
            Documents::Rows(rows) => Description::Rows {
                layout: rows.layout(),
                form: Some(RecordForm::Text),
                encodings: rows.encodings(),
            },
        })
    }

    /// Characters of all files that were invalid in their encoding and were replaced by U+FFFD.
    ///
    /// # Errors
    /// A file of a folder that can't be read.
    pub fn replaced(&self) -> Result<u64> {
        match &self.documents {
            Documents::One(file) => Ok(file.replaced()),
            Documents::Folder(files, options) => {
                files.iter().map(|path| Ok(InputFile::open_as(path, options.encoding)?.replaced())).sum()
            }
            Documents::Rows(rows) => Ok(rows.replaced()),
        }
    }

    /// Whether it has columns of which some may be chosen.
    pub(crate) fn has_columns(&self) -> bool {
        matches!(self.documents, Documents::Rows(_))
    }

    /// The path, or standard input.
    pub fn name(&self) -> &DataName {
        &self.name
    }

    /// Bytes of all files together, for progress.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns an error if the text has only white space.
    ///
    /// # Errors
    /// Such a text, and one that can't be read.
    pub fn check_visible(&self, limit: Option<u64>) -> Result<()> {
        let mut blank = true;
        self.read(limit, &mut |chunk| {
            if let TextChunk::Text(text) = chunk {
                blank = blank && is_blank(text);
            }
            Ok(())
        })?;
        if blank { Err(Error::OnlyWhiteSpace { name: self.name.clone() }) } else { Ok(()) }
    }

    /// Gives all text, or its first `limit` characters, to `each`, chunk by chunk.
    ///
    /// # Errors
    /// A source without any text, text that is not UTF-8, and whatever `each` returns.
    pub fn read(
        &self,
        limit: Option<u64>,
        each: &mut dyn FnMut(TextChunk<'_>) -> Result<()>,
    ) -> Result<TextSummary> {
        let mut reading = Reading {
            summary: TextSummary { left_out: self.left_out, ..TextSummary::default() },
            left: limit.unwrap_or(u64::MAX),
            ends_line: true,
            each,
        };
        match &self.documents {
            Documents::One(file) => {
                reading.file(file.rewind()?, file.name())?;
                reading.summary.cleaned.replaced += file.replaced();
            }
            Documents::Folder(files, options) => {
                for path in files {
                    let file = InputFile::open_as(path, options.encoding)?;
                    refuse_binary(&file)?;
                    reading.file(file.rewind()?, file.name())?;
                    reading.summary.cleaned.replaced += file.replaced();
                }
            }
            Documents::Rows(rows) => {
                let read = rows.examples(None, &mut |_, example| match example {
                    Example::Text(text) => reading.file(text.as_bytes(), rows.name()).map(|()| None),
                    Example::Record(..) => Ok(Some(BadRow::NoText)),
                })?;
                reading.summary.files = rows.files();
                reading.summary.bad_rows = read.bad.total;
                reading.summary.cleaned.replaced += rows.replaced();
            }
        }
        if reading.summary.characters == 0 {
            return Err(Error::Empty { name: self.name.clone() });
        }
        Ok(reading.summary)
    }
}

/// What kind of file was found where text should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of file formats")]
pub enum FileKind {
    Zip,
    Gzip,
    Bzip2,
    Xz,
    Zstd,
    Pdf,
    Picture,
    Model,
    Program,
    /// Of no known kind.
    Binary,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Zip => "a zip archive (or an office document)",
            Self::Gzip => "compressed with gzip",
            Self::Bzip2 => "compressed with bzip2",
            Self::Xz => "compressed with xz",
            Self::Zstd => "compressed with zstd",
            Self::Pdf => "a PDF",
            Self::Picture => "a picture",
            Self::Model => "a model",
            Self::Program => "a program",
            Self::Binary => "a binary file",
        })
    }
}

/// Returns an error if a file is clearly not text.
fn refuse_binary(file: &InputFile) -> Result<()> {
    const SIGNS: [(&[u8], FileKind); 9] = [
        (b"PK\x03\x04", FileKind::Zip),
        (b"\x1f\x8b", FileKind::Gzip),
        (b"BZh", FileKind::Bzip2),
        (b"\xfd7zXZ", FileKind::Xz),
        (b"\x28\xb5\x2f\xfd", FileKind::Zstd),
        (b"%PDF-", FileKind::Pdf),
        (b"\x89PNG", FileKind::Picture),
        (b"GGUF", FileKind::Model),
        (b"\x7fELF", FileKind::Program),
    ];
    let sample = file.sample();
    let sign = SIGNS.iter().find(|(sign, _)| sample.starts_with(sign)).map(|(_, kind)| *kind);
    let is_odd = |&&byte: &&u8| byte < b' ' && !b"\t\n\r\x0c\x1b".contains(&byte);
    let odd = sample.iter().filter(is_odd).count();
    // A stray control character is no reason; one in a hundred bytes is.
    match sign.or((odd > 8 && odd * 100 > sample.len()).then_some(FileKind::Binary)) {
        Some(kind) => Err(Error::Binary { name: file.name().clone(), kind }),
        None => Ok(()),
    }
}

#[derive(Default)]
struct Found {
    files: Vec<PathBuf>,
    bytes: u64,
    others: u64,
}

fn walk(folder: &Path, found: &mut Found) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|e| Error::io(Action::Read, folder, e))? {
        let entry = entry.map_err(|e| Error::io(Action::Read, folder, e))?;
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let kind = entry.file_type().map_err(|e| Error::io(Action::Read, &path, e))?;
        if kind.is_dir() {
            walk(&path, found)?;
        } else if is_text(&path) {
            // Follows a link to a file: its length counts, and one that leads nowhere is an error.
            let about = fs::metadata(&path).map_err(|e| Error::io(Action::Read, &path, e))?;
            if about.is_file() {
                found.bytes += about.len();
                found.files.push(path);
            }
        } else {
            found.others += 1;
        }
    }
    Ok(())
}

fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|end| ENDINGS.iter().any(|text| end.eq_ignore_ascii_case(text)))
}

/// The state of one pass.
struct Reading<'a> {
    summary: TextSummary,
    left: u64,
    ends_line: bool,
    each: &'a mut dyn FnMut(TextChunk<'_>) -> Result<()>,
}

impl Reading<'_> {
    fn file(&mut self, file: impl Read, name: &DataName) -> Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        let mut reader = TextReader::new(file, name.clone());
        let mut first = true;
        while let Some(chunk) = reader.read()? {
            if first && self.summary.characters > 0 {
                self.between_files()?;
            }
            first = false;
            self.text(&chunk)?;
            if self.left == 0 {
                break;
            }
        }
        self.summary.files += 1;
        self.summary.cleaned.add(reader.cleaned());
        Ok(())
    }

    fn between_files(&mut self) -> Result<()> {
        if !self.ends_line {
            self.text("\n")?;
        }
        if self.left > 0 { (self.each)(TextChunk::NextFile) } else { Ok(()) }
    }

    fn text(&mut self, chunk: &str) -> Result<()> {
        let (chunk, count) = first_characters(chunk, self.left);
        self.left -= count;
        self.summary.characters += count;
        if !chunk.is_empty() {
            self.ends_line = chunk.ends_with('\n');
            (self.each)(TextChunk::Text(chunk))?;
        }
        Ok(())
    }
}

/// At most `limit` characters from the front of `text`, and how many they are.
pub(crate) fn first_characters(text: &str, limit: u64) -> (&str, u64) {
    let count = text.chars().count() as u64;
    if count <= limit {
        return (text, count);
    }
    let end = text.char_indices().nth(limit as usize).map_or(text.len(), |(at, _)| at);
    (&text[..end], limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn read(source: &TextSource, limit: Option<u64>) -> (String, TextSummary) {
        let mut text = String::new();
        let summary = source
            .read(limit, &mut |chunk| {
                match chunk {
                    TextChunk::Text(chunk) => text.push_str(chunk),
                    TextChunk::NextFile => text.push('|'),
                }
                Ok(())
            })
            .unwrap();
        (text, summary)
    }

    #[test]
    fn a_folder_is_read_in_the_order_of_its_paths() {
        let dir = folder(&[
            ("b.txt", "bee"),
            ("a/z.MD", "zed\n"),
            ("a.txt", "\u{feff}ay"),
            ("empty.txt", ""),
            ("picture.png", "no"),
            (".hidden.txt", "no"),
            (".git/x.txt", "no"),
        ]);
        let source = TextSource::open(dir.path(), &ReadOptions::default()).unwrap();
        let (text, summary) = read(&source, None);
        assert_eq!(text, "zed\n|ay\n|bee");
        assert_eq!((summary.files, summary.left_out, summary.characters), (4, 1, 10));
        assert_eq!(summary.cleaned.byte_order_marks, 1);
        assert_eq!(read(&source, None).0, text, "a second pass reads the same");
    }

    #[test]
    fn a_limit_counts_characters() {
        let dir = folder(&[("a.txt", "中文字"), ("b.txt", "more")]);
        let source = TextSource::open(dir.path(), &ReadOptions::default()).unwrap();
        for (limit, expected) in
            [(1, "中"), (3, "中文字"), (4, "中文字\n"), (5, "中文字\n|m"), (99, "中文字\n|more")]
        {
            assert_eq!(read(&source, Some(limit)).0, expected);
        }
    }

    #[test]
    fn nothing_to_read_is_an_error_that_says_so() {
        let dir = folder(&[("a.csv", "1,2"), ("empty.txt", "\u{feff}")]);
        let read = |path: &Path| {
            TextSource::open(path, &ReadOptions::default()).and_then(|s| s.read(None, &mut |_| Ok(())))
        };
        assert!(read(&dir.path().join("empty.txt")).unwrap_err().to_string().ends_with("has no text in it"));
        assert!(read(dir.path()).unwrap_err().to_string().ends_with("has no text in it"));
        fs::remove_file(dir.path().join("empty.txt")).unwrap();
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("not 1 other file"), "{error}");
    }
}
