//! `metrics.jsonl`: one JSON line per logged step, whole after any kill.
//!
//! Reading overlooks a torn last line and reports lines that are not records; resuming takes both away, together with the steps
//! that will be taken again.

use super::log_file::{self, Line, LogFile, lines};
use super::{DamagedLine, Error, Result, StepRecord, Warning};
use std::path::{Path, PathBuf};

/// A `metrics.jsonl` that grows.
#[derive(Debug)]
pub struct Metrics {
    log: LogFile,
    path: PathBuf,
}

impl Metrics {
    /// Begins an empty file, in place of any that is there.
    ///
    /// # Errors
    /// A place that can't be written.
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { log: LogFile::create(path)?, path: path.to_owned() })
    }

    /// The file, to be made with its first record.
    pub(crate) fn unopened(path: &Path) -> Self {
        Self { log: LogFile::unopened(path), path: path.to_owned() }
    }

    /// Goes on after `last_step`, the last one that the checkpoint has: records of later steps, which will be taken
    /// again, a torn last line and damaged lines are dropped in one step. A file that is missing begins with the next record.
    pub fn resume(path: &Path, last_step: u64) -> (Self, Vec<Warning>) {
        let (log, warnings) = LogFile::resume(path, parse, |record| record.step <= last_step);
        (Self { log, path: path.to_owned() }, warnings)
    }

    /// Writes a record, which from then on survives the end of this process, however it ends.
    ///
    /// # Errors
    /// A disk that is full or gone.
    pub fn append(&mut self, record: &StepRecord) -> Result<Option<Warning>> {
        let path = self.path.clone();
        self.append_at(&path, record)
    }

    /// The same for a file that may have been moved with its folder.
    pub(crate) fn append_at(&mut self, path: &Path, record: &StepRecord) -> Result<Option<Warning>> {
        self.log.append(path, &serde_json::to_vec(record), |line| parse(line).is_ok())
    }
}

/// What a `metrics.jsonl` holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Log {
    /// The records, in the order of the file.
    pub records: Vec<StepRecord>,
    /// Lines that are not records.
    pub damaged: Vec<DamagedLine>,
}

/// Reads a `metrics.jsonl`. Lines that are not records are left out and reported; a torn last line is not reported, because
/// every run that was killed may have one.
///
/// # Errors
/// A file that can't be read, or in which no line is a record.
pub fn read(path: &Path) -> Result<Log> {
    let bytes = log_file::read(path)?;
    let mut log = Log::default();
    for (_, line) in lines(&bytes, parse) {
        match line {
            Line::Record(record) => log.records.push(record),
            Line::Damaged(damage) => log.damaged.push(damage),
            Line::Torn => {}
        }
    }
    match log.damaged.first() {
        Some(DamagedLine { line, problem }) if log.records.is_empty() => {
            Err(Error::Line { path: path.to_owned(), line: *line, problem: problem.clone() })
        }
        _ => Ok(log),
    }
}

fn parse(line: &[u8]) -> serde_json::Result<StepRecord> {
    serde_json::from_slice(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn resumed(path: &Path, last_step: u64) -> Metrics {
        let (metrics, warnings) = Metrics::resume(path, last_step);
        assert!(warnings.is_empty(), "{warnings:?}");
        metrics
    }

    fn record(step: u64) -> StepRecord {
        StepRecord { step, loss: 4.0 - step as f64 / 64.0, tokens: step * 768, ..StepRecord::default() }
    }

    fn steps(path: &Path) -> Vec<u64> {
        read(path).unwrap().records.iter().map(|record| record.step).collect()
    }

    /// A file with records of the steps 1 to 5.
    fn five_steps() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut metrics = Metrics::create(&path).unwrap();
        (1..=5).for_each(|step| drop(metrics.append(&record(step)).unwrap()));
        (folder, path)
    }

    #[test]
    fn records_come_back_as_they_were_appended() {
        let (_folder, path) = five_steps();
        assert_eq!(read(&path).unwrap().records, (1..=5).map(record).collect::<Vec<_>>());
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
        let mut metrics = resumed(&path, 3);
        assert_eq!(steps(&path), [1, 2, 3]);
        [4, 5].iter().for_each(|&step| drop(metrics.append(&record(step)).unwrap()));
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
            let mut metrics = resumed(&path, 10);
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

    /// Regression: `echo '# note' >> metrics.jsonl` ended a run at its next save, and no resume was possible.
    #[test]
    fn a_damaged_line_is_left_out_and_the_file_as_it_was_is_kept() {
        let (folder, path) = five_steps();
        let damaged =
            fs::read_to_string(&path).unwrap().replacen("\"step\":2", "\"step\":two", 1) + "# note\n";
        fs::write(&path, &damaged).unwrap();
        let log = read(&path).unwrap();
        let problems: Vec<(usize, &str)> = log.damaged.iter().map(|d| (d.line, d.problem.as_str())).collect();
        assert_eq!(problems, [(2, "expected ident"), (6, "expected value")]);
        let (mut metrics, warnings) = Metrics::resume(&path, 4);
        let said = warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(said.contains("2 lines, starting with line 2, are not records"), "{said}");
        assert!(metrics.append(&record(5)).unwrap().is_none());
        assert_eq!(steps(&path), [1, 3, 4, 5]);
        assert_eq!(fs::read_to_string(folder.path().join("metrics.jsonl.aside")).unwrap(), damaged);
        // Nothing in it is a record.
        fs::write(&path, "{\"stride\":3}\n").unwrap();
        assert!(read(&path).unwrap_err().to_string().ends_with("line 1: missing field `step`"));
    }

    #[test]
    fn a_run_without_records_resumes_with_none_and_reading_it_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        assert!(read(&path).unwrap_err().to_string().starts_with("could not read "));
        let warning = resumed(&path, 100).append(&record(101)).unwrap();
        assert!(matches!(warning, Some(Warning::Begun { .. })), "{warning:?}");
        assert_eq!(steps(&path), [101]);
        assert!(Metrics::create(&folder.path().join("no/such/metrics.jsonl")).is_err());
    }

    /// What people do to a log while a run writes it.
    #[cfg(unix)]
    #[test]
    fn a_log_that_is_removed_or_replaced_goes_on_and_nothing_is_written_elsewhere() {
        let (folder, path) = five_steps();
        let thesis = folder.path().join("thesis.txt");
        fs::write(&thesis, "years of work\n").unwrap();
        let mut metrics = resumed(&path, 5);
        assert!(metrics.append(&record(6)).unwrap().is_none());
        fs::remove_file(&path).unwrap();
        assert!(matches!(metrics.append(&record(7)).unwrap(), Some(Warning::Begun { .. })));
        // An editor writes another file and renames it.
        let edited = fs::read_to_string(&path).unwrap() + "# note";
        fs::write(folder.path().join("edited"), edited).unwrap();
        minigpt_files::move_file(&folder.path().join("edited"), &path).unwrap();
        assert!(metrics.append(&record(8)).unwrap().is_none());
        assert_eq!((steps(&path), read(&path).unwrap().damaged[0].line), (vec![7, 8], 2));
        let replace: [&dyn Fn(); 4] = [
            &|| std::os::unix::fs::symlink("thesis.txt", &path).unwrap(),
            &|| fs::hard_link(&thesis, &path).unwrap(),
            &|| assert!(fs::copy(&thesis, &path).unwrap() > 0),
            &|| fs::create_dir(&path).unwrap(),
        ];
        for (i, replace) in replace.iter().enumerate() {
            fs::remove_file(&path).unwrap();
            replace();
            let warning = metrics.append(&record(9)).unwrap();
            assert!(matches!(warning, Some(Warning::SetAside { .. })), "{i}: {warning:?}");
            assert!(metrics.append(&record(10)).unwrap().is_none());
            assert_eq!(steps(&path), [9, 10]);
        }
        assert_eq!(fs::read_to_string(&thesis).unwrap(), "years of work\n");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("thesis.txt", &path).unwrap();
        Metrics::create(&path).unwrap().append(&record(1)).unwrap();
        assert_eq!(
            (fs::read_to_string(&thesis).unwrap().as_str(), steps(&path)),
            ("years of work\n", vec![1])
        );
    }
}
