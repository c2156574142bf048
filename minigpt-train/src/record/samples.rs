//! `samples.jsonl`: what the model wrote on the way, one text per line: `{"step": 50, "text": "…"}`.

use super::log_file::LogFile;
use super::{Result, Warning};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A `samples.jsonl` that grows.
#[derive(Debug)]
pub(crate) struct SampleLog(LogFile);

#[derive(Serialize, Deserialize)]
struct SampleLine {
    step: u64,
    text: String,
}

impl SampleLog {
    /// Begins an empty file, in place of any that is there.
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self(LogFile::create(path)?))
    }

    /// The file, to be made with its first text.
    pub fn unopened(path: &Path) -> Self {
        Self(LogFile::unopened(path))
    }

    /// Goes on after a step: texts of later steps, which will be taken again, a torn last line and damaged ones are dropped.
    pub fn resume(path: &Path, last_step: u64) -> (Self, Vec<Warning>) {
        let (log, warnings) = LogFile::resume(path, parse, |line| line.step <= last_step);
        (Self(log), warnings)
    }

    /// Writes a text, in one piece.
    pub fn append(&mut self, path: &Path, step: u64, text: &str) -> Result<Option<Warning>> {
        let line = serde_json::to_vec(&SampleLine { step, text: text.to_owned() });
        let warning = self.0.append(path, &line, |line| parse(line).is_ok())?;
        // A run that goes on may just have written none before.
        Ok(warning.filter(|warning| !matches!(warning, Warning::Begun { .. })))
    }
}

fn parse(line: &[u8]) -> serde_json::Result<SampleLine> {
    serde_json::from_slice(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_run_that_goes_on_keeps_what_it_wrote_up_to_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.jsonl");
        let mut log = SampleLog::create(&path).unwrap();
        for (step, text) in [(10, "a\nb"), (20, "圣"), (30, "c")] {
            log.append(&path, step, text).unwrap();
        }
        fs::write(&path, fs::read_to_string(&path).unwrap() + "{\"step\":4").unwrap();
        let (mut log, warnings) = SampleLog::resume(&path, 20);
        assert!(warnings.is_empty(), "{warnings:?}");
        log.append(&path, 40, "d").unwrap();
        let steps = |text: String| {
            text.lines()
                .map(|line| serde_json::from_str::<SampleLine>(line).unwrap().step)
                .collect::<Vec<_>>()
        };
        assert_eq!(steps(fs::read_to_string(&path).unwrap()), [10, 20, 40]);
        SampleLog::create(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"", "a new run begins with none");
        let other = folder.path().join("other");
        assert!(SampleLog::resume(&other, 5).0.append(&other, 6, "e").unwrap().is_none());
        assert_eq!(steps(fs::read_to_string(&other).unwrap()), [6]);
    }
}
