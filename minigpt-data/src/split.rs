//! Splitting question/answer data in two, line by line and byte for byte.
//!
//! Lines are chosen by selection sampling: line `i` of `n` goes to the first part with the probability
//! (places left) / (lines left), so that the parts have exactly the asked sizes, keep the order of the file,
//! and no list of lines is ever in memory. Every line goes to exactly one part as it is, blank and bad ones as
//! well; those are counted and reported.

use crate::bad_lines::BadLines;
use crate::error::{Error, Result};
use crate::input_file::InputFile;
use crate::jsonl::{Parsed, parse};
use crate::lines::Lines;
use crate::random::{Purpose, below, generator};
use minigpt_files::OutputFolder;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

/// The files of a split.
const FILES: &[&str] = &["train.jsonl", "val.jsonl"];

/// How to split.
#[derive(Debug, Clone, Copy)]
pub struct SplitOptions {
    /// The part of the lines that goes to training, between 0 and 1.
    pub ratio: f64,
    /// The same seed gives the same split.
    pub seed: u64,
    /// Only the first lines of the file.
    pub limit: Option<u64>,
    /// Whether to replace an earlier split.
    pub force: bool,
}

/// What a split did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SplitReport {
    /// Lines in the file.
    pub lines: u64,
    /// Lines in `train.jsonl`.
    pub train_lines: u64,
    /// Lines in `val.jsonl`.
    pub val_lines: u64,
    /// Lines that are not question/answer data, though they went to a part like the others.
    pub bad: BadLines,
}

/// Which lines go to the first part, decided one after another.
#[derive(Debug)]
pub struct Selection {
    rng: ChaCha8Rng,
    left: u64,
    wanted: u64,
}

impl Selection {
    /// Chooses `ratio` of `count` things, rounded down as Python's `int(count * ratio)`.
    ///
    /// # Errors
    /// A ratio that is not between 0 and 1.
    pub fn new(count: u64, ratio: f64, seed: u64) -> Result<Self> {
        if !(0.0..=1.0).contains(&ratio) {
            return Err(Error::BadOption(format!("the ratio must be between 0 and 1, not {ratio}")));
        }
        let wanted = (count as f64 * ratio) as u64;
        Ok(Selection { rng: generator(seed, Purpose::Split, 0, 0), left: count, wanted: wanted.min(count) })
    }

    /// Whether the next thing goes to the first part.
    pub fn choose(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        let chosen = below(&mut self.rng, self.left) < self.wanted;
        self.left -= 1;
        self.wanted -= u64::from(chosen);
        chosen
    }
}

/// Splits a file of lines into `train.jsonl` and `val.jsonl` of a new folder.
///
/// `progress` gets the bytes done so far and the bytes in all.
///
/// # Errors
/// An empty file, a bad ratio, an output that is in the way or can't be written.
pub fn split(
    input: &Path,
    out: &Path,
    options: &SplitOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<SplitReport> {
    let input = InputFile::open(input)?;
    let folder = OutputFolder::create(out, options.force, FILES)?;
    let count = count_lines(&input)?.min(options.limit.unwrap_or(u64::MAX));
    if count == 0 {
        return Err(Error::Empty { name: input.name().to_owned() });
    }
    let mut selection = Selection::new(count, options.ratio, options.seed)?;
    let mut parts = [part(&folder, FILES[0])?, part(&folder, FILES[1])?];
    let mut report = SplitReport { lines: count, train_lines: 0, val_lines: 0, bad: BadLines::default() };

    let mut lines = Lines::new(BufReader::with_capacity(1 << 18, input.rewind()?));
    let mut done = 0;
    for _ in 0..count {
        let train = selection.choose();
        let to = &mut parts[usize::from(!train)];
        let line = lines
            .read_through(|piece| to.write_all(piece))
            .map_err(|e| Error::io("split into", out, e))?
            .ok_or_else(|| changed(&input))?;
        report.train_lines += u64::from(train);
        report.val_lines += u64::from(!train);
        match parse(&line) {
            Parsed::Record(_) => {}
            Parsed::Blank => report.bad.blank += 1,
            Parsed::Bad(reason) => report.bad.add(line.number, reason),
        }
        done += line.length;
        progress(done, input.bytes());
    }
    for mut to in parts {
        to.flush().map_err(|e| Error::io("write", out, e))?;
    }
    folder.finish()?;
    Ok(report)
}

fn part(folder: &OutputFolder, name: &str) -> Result<BufWriter<File>> {
    let path = folder.path().join(name);
    Ok(BufWriter::with_capacity(1 << 18, File::create(&path).map_err(|e| Error::io("create", &path, e))?))
}

/// How many lines a file has; the last may lack its line end.
pub(crate) fn count_lines(input: &InputFile) -> Result<u64> {
    use std::io::BufRead;
    let mut reader = BufReader::with_capacity(1 << 18, input.rewind()?);
    let (mut count, mut open) = (0, false);
    loop {
        let piece = reader.fill_buf().map_err(|e| Error::io_named("read", input.name(), e))?;
        let Some(&last) = piece.last() else { return Ok(count + u64::from(open)) };
        count += memchr::memchr_iter(b'\n', piece).count() as u64;
        open = last != b'\n';
        let used = piece.len();
        reader.consume(used);
    }
}

fn changed(input: &InputFile) -> Error {
    let why = std::io::Error::other("it became shorter while it was being read");
    Error::io_named("read", input.name(), why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options(ratio: f64, seed: u64) -> SplitOptions {
        SplitOptions { ratio, seed, limit: None, force: true }
    }

    fn run(bytes: &[u8], options: &SplitOptions) -> Result<(Vec<u8>, Vec<u8>, SplitReport)> {
        let dir = tempfile::tempdir().unwrap();
        let input = dir.path().join("in.jsonl");
        std::fs::write(&input, bytes).unwrap();
        let out = dir.path().join("out");
        let report = split(&input, &out, options, &mut |_, _| {})?;
        Ok((std::fs::read(out.join(FILES[0])).unwrap(), std::fs::read(out.join(FILES[1])).unwrap(), report))
    }

    #[test]
    fn the_parts_have_exactly_the_asked_sizes() {
        let bytes: Vec<u8> = (0..1000).flat_map(|i| format!("{i}\n").into_bytes()).collect();
        for (ratio, expected) in [(0.8, 800), (0.0, 0), (1.0, 1000), (0.9995, 999)] {
            let (train, val, report) = run(&bytes, &options(ratio, 1)).unwrap();
            assert_eq!(report.train_lines, expected);
            assert_eq!(memchr::memchr_iter(b'\n', &train).count() as u64, expected);
            assert_eq!(report.val_lines, 1000 - expected);
            assert_eq!(train.len() + val.len(), bytes.len());
            assert_eq!(report.bad.total, 1000, "numbers are not question/answer lines");
        }
    }

    #[test]
    fn a_seed_decides_and_another_decides_otherwise() {
        let bytes = b"{}\n{ }\n{  }\n{   }\n".repeat(50);
        let of = |seed| run(&bytes, &options(0.5, seed)).unwrap().0;
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn every_line_is_equally_likely_to_be_chosen() {
        let mut chosen = [0; 10];
        for seed in 0..2000 {
            let mut selection = Selection::new(10, 0.3, seed).unwrap();
            chosen.iter_mut().for_each(|n| *n += i32::from(selection.choose()));
        }
        assert!(chosen.iter().all(|&n| (500..700).contains(&n)), "{chosen:?}");
    }

    #[test]
    fn empty_files_and_impossible_ratios_leave_nothing() {
        assert!(run(b"", &options(0.5, 0)).unwrap_err().to_string().ends_with("has no text in it"));
        for ratio in [-0.1, 1.1, f64::NAN] {
            assert!(run(b"x\n", &options(ratio, 0)).unwrap_err().to_string().contains("between 0 and 1"));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_line_is_in_exactly_one_part_byte_for_byte(
            mut bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), any::<u8>()], 1..300),
            ratio in 0.0..=1.0, seed: u64,
        ) {
            // Make lines distinct, so that each can be found again: number them.
            bytes = bytes.split_inclusive(|&b| b == b'\n').enumerate()
                .flat_map(|(i, line)| [format!("{i} ").as_bytes(), line].concat()).collect();
            let (train, val, report) = run(&bytes, &options(ratio, seed)).unwrap();
            let lines = |part: &[u8]| -> Vec<Vec<u8>> {
                part.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect()
            };
            let (train, val) = (lines(&train), lines(&val));
            prop_assert_eq!((train.len() as u64, val.len() as u64), (report.train_lines, report.val_lines));
            let number = |line: &Vec<u8>| -> u64 {
                std::str::from_utf8(line.split(|&b| b == b' ').next().unwrap()).unwrap().parse().unwrap()
            };
            let mut together = [train, val].concat();
            together.sort_by_key(number);
            prop_assert_eq!(together, lines(&bytes));
        }
    }
}
