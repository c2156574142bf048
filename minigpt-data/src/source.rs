//! Recognizes what is at a path by its name and its first bytes, and opens it.
//!
//! | path | read as |
//! |---|---|
//! | `builtin` | the built-in questions and answers |
//! | `random` | rows of random ids, as the textbook model learns them |
//! | a folder with `train.bin`, or that file | prepared tokens |
//! | a folder with `train.jsonl` (or another layout of rows, or `.txt`) | its two parts: that, and `val.…` where there is one |
//! | another folder | its text files; without any, its files of rows |
//! | JSON lines, a JSON array, CSV, TSV, Parquet | examples, or texts, in any of the forms of `record.rs` |
//! | any other file, `-` | plain text |

use crate::builtin;
use crate::corpus::CorpusKind;
use crate::description::{Damage, Description};
use crate::error::{Error, Result, Unsuitable};
use crate::input_file::InputFile;
use crate::name::DataName;
use crate::prepared::{Prepared, TRAIN};
use crate::record::RecordForm;
use crate::record_file::{ReadOptions, RecordFile};
use crate::row::{Columns, ColumnsError};
use crate::row_file::{Layout, RowFile};
use crate::text_source::TextSource;
use minigpt_files::Action;
use std::path::{Path, PathBuf};

/// The name of rows of random ids.
pub const RANDOM: &str = "random";

/// What validation parts are called.
const VALIDATION: [&str; 4] = ["val", "valid", "validation", "dev"];
/// What parts may end in.
const PART_ENDINGS: [&str; 7] = ["jsonl", "ndjson", "json", "csv", "tsv", "parquet", "txt"];

/// Data that was found and opened.
#[derive(Debug)]
pub enum Source {
    /// The built-in questions and answers.
    BuiltIn,
    /// Rows of random ids.
    Random,
    /// A folder of prepared tokens.
    Tokens(PathBuf),
    /// Running text.
    Text(TextSource),
    /// Questions and answers.
    Records(RecordFile),
    /// Two files: one to learn from, one to judge by.
    Parts {
        /// To learn from.
        train: Box<Source>,
        /// To judge by.
        val: Option<Box<Source>>,
    },
}

impl Source {
    /// Opens what is at a path, as `kind` where that is given.
    ///
    /// # Errors
    /// Data that can't be read.
    pub fn open(path: &Path, kind: Option<CorpusKind>, options: &ReadOptions) -> Result<Self> {
        let source = Self::find(path, kind, options)?;
        source.check_columns(path, &options.columns)?;
        Ok(source)
    }

    fn find(path: &Path, kind: Option<CorpusKind>, options: &ReadOptions) -> Result<Self> {
        if path == Path::new(builtin::NAME) {
            return match kind {
                Some(CorpusKind::Text) => Err(Unsuitable::BuiltInAsText.into()),
                _ => Ok(Self::BuiltIn),
            };
        }
        if path == Path::new(RANDOM) {
            return Ok(Self::Random);
        }
        if path.is_dir() {
            return folder(path, kind, options);
        }
        if path.file_name().is_some_and(|name| name == TRAIN) && path.is_file() {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            return Ok(Self::Tokens(folder.unwrap_or(Path::new(".")).to_owned()));
        }
        file(path, kind, options)
    }

    /// What it is read as.
    pub fn kind(&self) -> CorpusKind {
        match self {
            Self::BuiltIn | Self::Random | Self::Records(_) => CorpusKind::Qa,
            Self::Tokens(_) | Self::Text(_) => CorpusKind::Text,
            Self::Parts { train, .. } => train.kind(),
        }
    }

    /// Characters that were not valid in its encoding, if there were any.
    ///
    /// # Errors
    /// Data that can't be read.
    pub fn damage(&self, path: &Path) -> Result<Option<Damage>> {
        Ok(Damage::of(path, self.replaced()?))
    }

    fn replaced(&self) -> Result<u64> {
        match self {
            Self::BuiltIn | Self::Random | Self::Tokens(_) => Ok(0),
            Self::Text(text) => text.replaced(),
            Self::Records(records) => Ok(records.replaced()),
            Self::Parts { train, val } => {
                Ok(train.replaced()? + val.as_ref().map_or(Ok(0), |val| val.replaced())?)
            }
        }
    }

    /// Returns an error if chosen columns have no use in this data.
    fn check_columns(&self, path: &Path, columns: &Columns) -> Result<()> {
        let form = match self {
            _ if columns.is_empty() => return Ok(()),
            // Each part was checked when it was opened.
            Self::Parts { .. } => return Ok(()),
            Self::Text(text) if text.has_columns() => Some(RecordForm::Text),
            // If no row can be used, reading them returns the error.
            Self::Records(records) => match records.form()? {
                None => return Ok(()),
                form => form,
            },
            Self::BuiltIn | Self::Random | Self::Tokens(_) | Self::Text(_) => None,
        };
        let (name, read_as) = (DataName::from(path), self.describe()?);
        let Some(form) = form else {
            return Err(ColumnsError::NoColumns { name, read_as }.into());
        };
        match columns.meanings().find(|meaning| !form.meanings().contains(meaning)) {
            None => Ok(()),
            Some(meaning) => {
                Err(ColumnsError::NoSuchColumn { name, read_as, meaning: meaning.to_owned() }.into())
            }
        }
    }

    /// What it is read as: "JSON lines of questions and answers".
    ///
    /// # Errors
    /// Data that can't be read.
    pub fn describe(&self) -> Result<Description> {
        Ok(match self {
            Self::BuiltIn => Description::BuiltIn,
            Self::Random => Description::Random,
            Self::Tokens(_) => Description::Tokens,
            Self::Text(text) => text.describe()?,
            Self::Records(records) => Description::Rows {
                layout: records.layout(),
                form: records.form()?,
                encodings: records.encodings(),
            },
            Self::Parts { train, val } => {
                Description::Parts { train: Box::new(train.describe()?), has_validation: val.is_some() }
            }
        })
    }
}

fn file(path: &Path, kind: Option<CorpusKind>, options: &ReadOptions) -> Result<Source> {
    let input = InputFile::open_as(path, options.encoding)?;
    let layout = if is_named_text(path) { None } else { Layout::of(Layout::of_name(path), input.sample()) };
    let Some(layout) = layout.or((kind == Some(CorpusKind::Qa)).then_some(Layout::Jsonl)) else {
        return Ok(Source::Text(TextSource::of_file(input, None)?));
    };
    let name = input.name().clone();
    let records = RecordFile::of(vec![RowFile { input, layout }], name, options);
    let as_it_is =
        kind == Some(CorpusKind::Text) && layout != Layout::Parquet && !options.columns.has("text");
    if as_it_is && records.form()? != Some(RecordForm::Text) {
        // Text was asked for: the rows are read as they are written.
        return Ok(Source::Text(TextSource::of_file(records.into_input()?, Some(layout))?));
    }
    rows(records, kind)
}

fn is_named_text(path: &Path) -> bool {
    path.extension().is_some_and(|ending| {
        ["txt", "text", "md", "markdown"].iter().any(|text| ending.eq_ignore_ascii_case(text))
    })
}

/// Rows as texts or as examples: as requested, otherwise by the form of the first good row.
fn rows(records: RecordFile, kind: Option<CorpusKind>) -> Result<Source> {
    let is_text = match kind {
        Some(kind) => kind == CorpusKind::Text,
        None => records.form()? == Some(RecordForm::Text),
    };
    Ok(if is_text { Source::Text(TextSource::of_rows(records)) } else { Source::Records(records) })
}

fn folder(path: &Path, kind: Option<CorpusKind>, options: &ReadOptions) -> Result<Source> {
    if Prepared::is_at(path) {
        return Ok(Source::Tokens(path.to_owned()));
    }
    let part = |stem: &str| {
        let candidates = PART_ENDINGS.iter().map(|ending| path.join(format!("{stem}.{ending}")));
        candidates.into_iter().find(|file| file.is_file())
    };
    if let Some(train) = part("train") {
        let val = VALIDATION.iter().find_map(|stem| part(stem));
        let open = |file: PathBuf| Source::open(&file, kind, options).map(Box::new);
        return Ok(Source::Parts { train: open(train)?, val: val.map(open).transpose()? });
    }
    match TextSource::open(path, options) {
        Err(error @ Error::NoTextFiles { .. }) => {
            let files = row_files(path, options)?;
            if files.is_empty() {
                return Err(error);
            }
            rows(RecordFile::of(files, path.into(), options), kind)
        }
        text => Ok(Source::Text(text?)),
    }
}

/// The files of rows in a folder, in the order of their names.
fn row_files(folder: &Path, options: &ReadOptions) -> Result<Vec<RowFile>> {
    let entries = std::fs::read_dir(folder).map_err(|e| Error::io(Action::Read, folder, e))?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()).map_err(|e| Error::io(Action::Read, folder, e)))
        .collect::<Result<_>>()?;
    paths.retain(|path| path.is_file() && Layout::of_name(path).is_some());
    paths.sort();
    let open = |path: PathBuf| {
        let input = InputFile::open_as(&path, options.encoding)?;
        let layout = Layout::of(Layout::of_name(&path), input.sample()).unwrap_or(Layout::Jsonl);
        Ok(RowFile { input, layout })
    };
    paths.into_iter().map(open).collect()
}
