//! `samples.jsonl`: what the model wrote on the way, a line a text: `{"step": 50, "text": "…"}`.

use super::{Error, Result};
use minigpt_files::{read_file, write_file};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// No log of samples is longer than this.
const LARGEST: u64 = 1 << 30;

/// A `samples.jsonl` that grows.
#[derive(Debug)]
pub(crate) struct SampleLog {
    file: File,
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct SampleLine {
    step: u64,
    text: String,
}

impl SampleLog {
    /// Goes on after a step: texts of later steps, which will be taken again, and a torn last line are dropped. From step 0 the
    /// file begins anew.
    pub fn resume(path: &Path, last_step: u64) -> Result<Self> {
        let bytes = match (last_step, read_file(path, LARGEST)) {
            (0, _) => Vec::new(),
            (_, Err(error)) if error.is_missing() => Vec::new(),
            (_, bytes) => bytes?,
        };
        let kept =
            |line: &&[u8]| serde_json::from_slice(line).is_ok_and(|line: SampleLine| line.step <= last_step);
        let lines =
            bytes.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n")).filter(kept);
        let kept = lines.collect::<Vec<_>>().concat();
        if last_step == 0 || kept != bytes {
            write_file(path, &kept)?;
        }
        let file =
            OpenOptions::new().append(true).create(true).open(path).map_err(Error::io("write", path))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Writes a text, in one piece.
    pub fn append(&mut self, step: u64, text: &str) -> Result<()> {
        let failed = Error::io("write", &self.path);
        let line = serde_json::to_vec(&SampleLine { step, text: text.to_owned() });
        let written = line.map_err(Into::into).and_then(|mut line| {
            line.push(b'\n');
            self.file.write_all(&line)
        });
        written.map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_run_that_goes_on_keeps_what_it_wrote_up_to_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.jsonl");
        let mut log = SampleLog::resume(&path, 0).unwrap();
        [(10, "a\nb"), (20, "圣"), (30, "c")]
            .iter()
            .for_each(|(step, text)| log.append(*step, text).unwrap());
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"step\":4").unwrap();
        let mut log = SampleLog::resume(&path, 20).unwrap();
        log.append(40, "d").unwrap();
        let steps = |text: String| {
            text.lines()
                .map(|line| serde_json::from_str::<SampleLine>(line).unwrap().step)
                .collect::<Vec<_>>()
        };
        assert_eq!(steps(fs::read_to_string(&path).unwrap()), [10, 20, 40]);
        SampleLog::resume(&path, 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"", "a new run begins with none");
        SampleLog::resume(&folder.path().join("other"), 5).unwrap();
    }
}
