//! Splitting data in two: examples shuffled and cut, text cut where it is.
//!
//! Rows that are no examples are counted, reported and left out. The shuffle needs sixteen bytes a row in memory; the rows
//! themselves stay where they are until they are written: those of JSON lines byte for byte, others as JSON lines.

use crate::bad_lines::BadLines;
use crate::corpus::CorpusKind;
use crate::error::{Error, OptionError, Result, Unsuitable};
use crate::name::DataName;
use crate::random::{Purpose, generator, permutation};
use crate::record_file::{ReadOptions, RecordFile};
use crate::source::Source;
use crate::text_parts::train_characters;
use crate::text_source::{TextChunk, TextSource, first_characters};
use minigpt_files::{Action, NewFolder, OutputFolder, move_file};
use serde::Serialize;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The files of a split, of examples and of text.
const LINES: [&str; 2] = ["train.jsonl", "val.jsonl"];
const TEXT: [&str; 2] = ["train.txt", "val.txt"];
const FILES: &[&str] = &[LINES[0], LINES[1], TEXT[0], TEXT[1]];

/// How to split.
#[derive(Debug, Clone)]
pub struct SplitOptions {
    /// What to read the data as, where it does not say.
    pub kind: Option<CorpusKind>,
    /// The part that goes to training, between 0 and 1.
    pub ratio: f64,
    /// The same seed gives the same split.
    pub seed: u64,
    /// Only the first examples, or characters of a text.
    pub limit: Option<u64>,
    /// The folder for the two files. Default: that of the input.
    pub out: Option<PathBuf>,
    /// Whether to replace an earlier split.
    pub force: bool,
    /// How to read the data.
    pub read: ReadOptions,
}

/// What a split counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SplitUnit {
    /// Lines or rows with an example each.
    Lines,
    /// The characters of a text.
    Characters,
}

impl fmt::Display for SplitUnit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Lines => "lines",
            Self::Characters => "characters",
        })
    }
}

/// The result of a split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SplitReport {
    /// What was counted and split.
    pub unit: SplitUnit,
    /// Lines (or characters) of the input.
    pub lines: u64,
    /// Those in the training file.
    pub train_lines: u64,
    /// Those in the validation file.
    pub val_lines: u64,
    /// Lines that are not examples, and are in neither file.
    pub bad: BadLines,
    /// Characters of the input that were invalid in its encoding and are U+FFFD in both files.
    pub replaced: u64,
    /// The training file.
    pub train: PathBuf,
    /// The validation file.
    pub val: PathBuf,
}

/// The shuffled order of `count` examples, and how many of them from its front are for training: Python's
/// `int(count * ratio)`.
///
/// # Errors
/// A ratio that is not between 0 and 1, or more examples than can be numbered.
pub fn split_order(count: u64, ratio: f64, seed: u64) -> Result<(Vec<u32>, usize)> {
    if !(0.0..=1.0).contains(&ratio) {
        return Err(OptionError::Ratio(ratio).into());
    }
    let count = u32::try_from(count).map_err(|_| OptionError::TooManyToSplit { examples: count })?;
    let order = permutation(&mut generator(seed, Purpose::Split, 0, 0), count);
    Ok((order, (f64::from(count) * ratio) as usize))
}

/// Splits data into a training and a validation file.
///
/// `progress` gets the bytes done so far and the bytes in all.
///
/// # Errors
/// Data without a single example, a bad ratio, an output that is in the way or can't be written.
pub fn split(
    input: &Path,
    options: &SplitOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SplitReport> {
    match Source::open(input, options.kind, &options.read)? {
        Source::Records(records) => split_records(input, &records, options, progress),
        Source::Text(text) => split_text(input, &text, options, progress),
        Source::BuiltIn | Source::Tokens(_) | Source::Parts { .. } => {
            Err(Unsuitable::AlreadySplit(input.to_owned()).into())
        }
        Source::Random => Err(Unsuitable::RandomSplit.into()),
    }
}

fn split_records(
    input: &Path,
    records: &RecordFile,
    options: &SplitOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SplitReport> {
    let mut rows = Rows::new(records.name())?;
    let total = records.bytes();
    let summary = records.rows(options.limit, &mut |line| {
        rows.add(line)?;
        progress(rows.bytes.min(total), total);
        Ok(())
    })?;
    if summary.records == 0 {
        return Err(summary.bad.into_error(records.name()));
    }
    let (order, cut) = split_order(summary.records, options.ratio, options.seed)?;
    let mut place = Place::new(input, options, LINES)?;
    for (part, order) in [&order[..cut], &order[cut..]].into_iter().enumerate() {
        rows.write(order, &mut place.parts[part])?;
    }
    let [train, val] = place.finish()?;
    let (train_lines, val_lines) = (cut as u64, summary.records - cut as u64);
    Ok(SplitReport {
        unit: SplitUnit::Lines,
        lines: summary.lines,
        train_lines,
        val_lines,
        bad: summary.bad,
        replaced: records.replaced(),
        train,
        val,
    })
}

fn split_text(
    input: &Path,
    text: &TextSource,
    options: &SplitOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SplitReport> {
    let count = text.read(options.limit, &mut |_| Ok(()))?;
    let train_lines = match options.ratio {
        0.0 => 0,
        ratio => train_characters(text, &count, 1.0 - ratio)?,
    };
    let mut place = Place::new(input, options, TEXT)?;
    let (mut left, mut done) = (train_lines, 0);
    text.read(options.limit, &mut |chunk| {
        let TextChunk::Text(chunk) = chunk else { return Ok(()) };
        let (first, characters) = first_characters(chunk, left);
        left -= characters;
        for (part, text) in [(0, first), (1, &chunk[first.len()..])] {
            place.parts[part].write_all(text.as_bytes()).map_err(|e| Error::io(Action::Write, input, e))?;
        }
        done += chunk.len() as u64;
        progress(done, text.bytes());
        Ok(())
    })?;
    let [train, val] = place.finish()?;
    let (lines, val_lines) = (count.characters, count.characters - train_lines);
    let (bad, replaced) = (BadLines::default(), count.cleaned.replaced);
    Ok(SplitReport { unit: SplitUnit::Characters, lines, train_lines, val_lines, bad, replaced, train, val })
}

/// Good rows in a temporary file, each a line, and where they are.
struct Rows {
    file: BufWriter<File>,
    spans: Vec<(u64, u64)>,
    bytes: u64,
    name: DataName,
}

impl Rows {
    fn new(name: &DataName) -> Result<Self> {
        let file = tempfile::tempfile();
        let file = file.map_err(|e| Error::io_named(Action::CopyToTemporary, name, e))?;
        let file = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { file, spans: Vec::new(), bytes: 0, name: name.clone() })
    }

    fn add(&mut self, line: &[u8]) -> Result<()> {
        self.file.write_all(line).map_err(|e| Error::io_named(Action::Copy, &self.name, e))?;
        self.spans.push((self.bytes, line.len() as u64));
        self.bytes += line.len() as u64;
        Ok(())
    }

    fn write(&mut self, order: &[u32], to: &mut impl Write) -> Result<()> {
        let copied = self.file.flush().and_then(|()| {
            let mut file = self.file.get_ref();
            let mut line = Vec::new();
            for &row in order {
                let (start, length) = self.spans[row as usize];
                file.seek(SeekFrom::Start(start))?;
                line.resize(length as usize, 0);
                file.read_exact(&mut line)?;
                line.push(b'\n');
                to.write_all(&line)?;
            }
            io::Result::Ok(())
        });
        copied.map_err(|e| Error::io_named(Action::Copy, &self.name, e))
    }
}

/// Where the two files go.
struct Place {
    parts: [BufWriter<File>; 2],
    targets: [PathBuf; 2],
    staged: Staged,
}

enum Staged {
    /// A folder of their own.
    Folder(OutputFolder),
    /// Beside the input: a folder that they are moved out of.
    Beside(NewFolder),
}

impl Place {
    fn new(input: &Path, options: &SplitOptions, names: [&str; 2]) -> Result<Self> {
        let (staged, folder) = match &options.out {
            Some(out) => (Staged::Folder(OutputFolder::create(out, options.force, FILES)?), out.clone()),
            None if input.as_os_str() == "-" => {
                return Err(OptionError::NoFolder.into());
            }
            None => {
                let beside = input.parent().unwrap_or(Path::new("")).to_owned();
                let targets = names.map(|name| beside.join(name));
                for target in &targets {
                    let is_there = minigpt_files::is_there(target)?;
                    if is_there && (!options.force || same_file(target, input)) {
                        return Err(minigpt_files::Error::Exists { path: target.clone() }.into());
                    }
                }
                (Staged::Beside(NewFolder::create(&beside.join(".split"))?), beside)
            }
        };
        let path = match &staged {
            Staged::Folder(folder) => folder.path(),
            Staged::Beside(folder) => folder.path(),
        };
        let create = |name: &str| {
            let path = path.join(name);
            let file = File::create(&path).map_err(|e| Error::io(Action::Create, &path, e))?;
            Ok::<_, Error>(BufWriter::with_capacity(1 << 18, file))
        };
        let parts = [create(names[0])?, create(names[1])?];
        Ok(Self { parts, targets: names.map(|name| folder.join(name)), staged })
    }

    /// Puts both into their place.
    fn finish(self) -> Result<[PathBuf; 2]> {
        for (mut part, target) in self.parts.into_iter().zip(&self.targets) {
            part.flush().map_err(|e| Error::io(Action::Write, target, e))?;
        }
        match self.staged {
            Staged::Folder(folder) => folder.finish()?,
            Staged::Beside(folder) => {
                // The training file comes last: it is what a reader looks for.
                for target in self.targets.iter().rev() {
                    move_file(&folder.path().join(target.file_name().unwrap_or_default()), target)?;
                }
            }
        }
        Ok(self.targets)
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn options(ratio: f64, seed: u64) -> SplitOptions {
        SplitOptions {
            kind: None,
            ratio,
            seed,
            limit: None,
            out: None,
            force: true,
            read: ReadOptions::default(),
        }
    }

    fn run(name: &str, bytes: &[u8], options: &SplitOptions) -> Result<(String, String, SplitReport)> {
        let dir = tempfile::tempdir().unwrap();
        let input = dir.path().join(name);
        fs::write(&input, bytes).unwrap();
        let report = split(&input, options, &mut |_, _| {})?;
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "nothing but the input and two files");
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        Ok((read(&report.train), read(&report.val), report))
    }

    fn line(i: usize) -> String {
        format!("{{\"question\": \"{i}\",\t\"answer\":\"a\"}}\n")
    }

    #[test]
    fn examples_are_shuffled_and_cut_and_bad_lines_are_in_neither() {
        let mut lines: Vec<String> = (0..100).map(line).collect();
        lines.insert(7, "\n".to_owned());
        lines.insert(30, "rubbish\n".to_owned());
        let bytes = lines.concat();
        let (train, val, report) = run("data.jsonl", bytes.as_bytes(), &options(0.9, 1)).unwrap();
        assert_eq!((report.lines, report.train_lines, report.val_lines), (102, 90, 10));
        assert_eq!((report.bad.total, report.bad.blank, report.bad.first[0].line), (1, 1, 31));
        assert_eq!((train.lines().count(), val.lines().count()), (90, 10));
        let together: Vec<String> =
            train.lines().chain(val.lines()).map(|line| format!("{line}\n")).collect();
        let in_order: Vec<String> = (0..100).map(line).collect();
        assert_ne!(together, in_order, "the order was kept");
        let mut sorted = together;
        sorted.sort_by_key(|line| in_order.iter().position(|other| other == line).unwrap());
        assert_eq!(sorted, in_order);
        assert_eq!(run("data.jsonl", bytes.as_bytes(), &options(0.9, 1)).unwrap().0, train);
        assert_ne!(run("data.jsonl", bytes.as_bytes(), &options(0.9, 2)).unwrap().0, train);
    }

    #[test]
    fn a_table_becomes_json_lines_and_a_text_is_cut() {
        let (train, _, report) =
            run("a.csv", "question,answer\n1,\"x, y\"\n2,z\n".as_bytes(), &options(1.0, 1)).unwrap();
        assert!(train.contains("{\"question\":\"1\",\"answer\":\"x, y\"}\n"), "{train}");
        assert_eq!((report.train_lines, report.val_lines), (2, 0));
        let (train, val, report) = run("a.txt", "天空 is blue".as_bytes(), &options(0.5, 1)).unwrap();
        assert_eq!((train.as_str(), val.as_str(), report.unit), ("天空 is", " blue", "characters"));
    }

    #[test]
    fn nothing_is_overwritten_and_nothing_usable_is_an_error() {
        assert!(run("a.jsonl", b"", &options(0.5, 0)).is_err());
        let error = run("a.jsonl", b"x\n", &options(0.5, 0)).unwrap_err().to_string();
        assert!(error.contains("has no usable line: 1 bad"), "{error}");
        for ratio in [-0.1, 1.1, f64::NAN] {
            let error = run("a.jsonl", line(1).as_bytes(), &options(ratio, 0)).unwrap_err().to_string();
            assert!(error.contains("from 0 to 1"), "{error}");
        }
        // The input itself would be replaced.
        assert!(run("train.jsonl", line(1).as_bytes(), &options(0.5, 0)).is_err());
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.jsonl"), line(1)).unwrap();
        fs::write(dir.path().join("val.jsonl"), "mine").unwrap();
        let polite = SplitOptions { force: false, ..options(0.5, 0) };
        assert!(split(&dir.path().join("a.jsonl"), &polite, &mut |_, _| {}).is_err());
        assert_eq!(fs::read_to_string(dir.path().join("val.jsonl")).unwrap(), "mine");
    }

    proptest! {
        #[test]
        fn every_example_is_in_exactly_one_part(count in 0_u64..200, ratio in 0.0..=1.0, seed: u64) {
            let (mut order, cut) = split_order(count, ratio, seed).unwrap();
            prop_assert_eq!(cut, (count as f64 * ratio) as usize);
            order.sort_unstable();
            prop_assert!(order.into_iter().map(u64::from).eq(0..count));
        }
    }
}
