//! `metrics.jsonl`: one JSON line a logged step, whole after any kill.
//!
//! A line goes out in one write, so a process that dies leaves at most a torn last line. Reading overlooks it, and
//! resuming takes it away together with the steps that will be taken again.

use super::{Error, Result, StepRecord};
use minigpt_files::{read_file, write_file};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// No log is longer than this.
const LARGEST: u64 = 4 << 30;

/// A `metrics.jsonl` that grows.
#[derive(Debug)]
pub struct Metrics {
    file: File,
    path: PathBuf,
}

impl Metrics {
    /// Begins an empty file, in place of any that is there.
    ///
    /// # Errors
    /// A place that can't be written.
    pub fn create(path: &Path) -> Result<Self> {
        File::create(path).map_err(Error::io("create", path))?;
        Self::open(path)
    }

    /// Goes on after `last_step`, the last one that the checkpoint has: records of later steps, which will be taken
    /// again, and a torn last line are dropped in one step. A run that was never recorded begins an empty file.
    ///
    /// # Errors
    /// A file that can't be read or written, or a line before the last that is not a record.
    pub fn resume(path: &Path, last_step: u64) -> Result<Self> {
        let bytes = match read_file(path, LARGEST) {
            Err(error) if error.is_missing() => return Self::create(path),
            bytes => bytes?,
        };
        let mut kept = Vec::with_capacity(bytes.len());
        for (line, record) in lines(path, &bytes)? {
            if record.step <= last_step {
                kept.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
                kept.push(b'\n');
            }
        }
        if kept != bytes {
            write_file(path, &kept)?;
        }
        Self::open(path)
    }

    fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).open(path).map_err(Error::io("write", path))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Writes a record, which from then on survives the end of this process, however it ends.
    ///
    /// # Errors
    /// A disk that is full or gone.
    pub fn append(&mut self, record: &StepRecord) -> Result<()> {
        let failed = Error::io("write", &self.path);
        let line = serde_json::to_vec(record).map_err(Into::into).and_then(|mut line| {
            line.push(b'\n');
            self.file.write_all(&line)
        });
        line.map_err(failed)
    }
}

/// The records of a `metrics.jsonl`, in the order of the file.
///
/// # Errors
/// A file that can't be read, or a line that is not a record; a torn last line is no error.
pub fn read(path: &Path) -> Result<Vec<StepRecord>> {
    let bytes = read_file(path, LARGEST)?;
    Ok(lines(path, &bytes)?.into_iter().map(|(_, record)| record).collect())
}

/// Every line with its record; without the last one if it is torn.
fn lines<'a>(path: &Path, bytes: &'a [u8]) -> Result<Vec<(&'a [u8], StepRecord)>> {
    let mut lines = Vec::new();
    for (i, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        match serde_json::from_slice(line) {
            Ok(record) => lines.push((line, record)),
            // Only the last line can lack its end. An object that is whole but for that is a record all the same.
            Err(_) if !line.ends_with(b"\n") => {}
            Err(e) => return Err(Error::Line { path: path.to_owned(), line: i + 1, problem: problem(&e) }),
        }
    }
    Ok(lines)
}

/// What the parser says, without its own count of lines, which always is 1 or 2.
fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn record(step: u64) -> StepRecord {
        StepRecord { step, loss: 4.0 - step as f64 / 64.0, tokens: step * 768, ..StepRecord::default() }
    }

    fn steps(path: &Path) -> Vec<u64> {
        read(path).unwrap().iter().map(|record| record.step).collect()
    }

    /// A file with records of the steps 1 to 5.
    fn five_steps() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut metrics = Metrics::create(&path).unwrap();
        (1..=5).for_each(|step| metrics.append(&record(step)).unwrap());
        (folder, path)
    }

    #[test]
    fn records_come_back_as_they_were_appended() {
        let (_folder, path) = five_steps();
        assert_eq!(read(&path).unwrap(), (1..=5).map(record).collect::<Vec<_>>());
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 5);
    }

    #[test]
    fn creating_forgets_what_was_there() {
        let (_folder, path) = five_steps();
        Metrics::create(&path).unwrap().append(&record(9)).unwrap();
        assert_eq!(steps(&path), [9]);
    }

    #[test]
    fn resuming_drops_the_steps_that_will_be_taken_again() {
        let (folder, path) = five_steps();
        let before = fs::read_to_string(&path).unwrap();
        let mut metrics = Metrics::resume(&path, 3).unwrap();
        assert_eq!(steps(&path), [1, 2, 3]);
        [4, 5].iter().for_each(|&step| metrics.append(&record(step)).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), before, "as if the run had never stopped");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_line_torn_anywhere_is_overlooked_and_taken_away() {
        let (_folder, path) = five_steps();
        let whole = fs::read(&path).unwrap();
        let fourth = whole.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(3).unwrap().0 + 1;
        for end in (fourth..whole.len()).rev().step_by(11) {
            fs::write(&path, &whole[..end]).unwrap();
            let expected: &[u64] = if end + 1 == whole.len() { &[1, 2, 3, 4, 5] } else { &[1, 2, 3, 4] };
            assert_eq!(steps(&path), expected, "cut at {end}");
            let mut metrics = Metrics::resume(&path, 10).unwrap();
            metrics.append(&record(6)).unwrap();
            assert_eq!(steps(&path), [expected, &[6]].concat(), "cut at {end}");
        }
    }

    #[test]
    fn bytes_that_a_power_cut_left_behind_are_a_torn_line_too() {
        let (_folder, path) = five_steps();
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend([0; 40]);
        fs::write(&path, bytes).unwrap();
        assert_eq!(steps(&path).len(), 5);
    }

    #[test]
    fn any_other_bad_line_is_an_error_that_says_where() {
        let (_folder, path) = five_steps();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen("\"step\":2", "\"step\":two", 1)).unwrap();
        for error in [read(&path).unwrap_err(), Metrics::resume(&path, 5).unwrap_err()] {
            assert!(error.to_string().ends_with("metrics.jsonl, line 2: expected ident"), "{error}");
        }
        fs::write(&path, text.replacen("\"step\":3", "\"stride\":3", 1)).unwrap();
        assert!(read(&path).unwrap_err().to_string().ends_with("line 3: missing field `step`"));
    }

    #[test]
    fn a_run_without_records_resumes_with_none_and_reading_it_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        assert!(read(&path).unwrap_err().to_string().starts_with("could not read "));
        Metrics::resume(&path, 100).unwrap().append(&record(101)).unwrap();
        assert_eq!(steps(&path), [101]);
        assert!(Metrics::create(&folder.path().join("no/such/metrics.jsonl")).is_err());
    }
}
