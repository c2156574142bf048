//! The logs of runs, `metrics.jsonl` and `samples.jsonl`: read as they grow (`growing`), once for all clients, and kept within
//! bounds (`lines`).

use super::folder;
use super::growing::{Growing, Reader, Record};
use super::lines::{Lines, Thinned, list};
use crate::problem::Problem;
use axum::body::Bytes;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of all logs that are kept; those that were asked for longest ago are read again when they are asked for.
const ALL_BYTES: usize = 128 << 20;
/// Points of a small curve; there are up to twice as many.
const SPARK: usize = 40;

/// What the list of runs shows of a log.
#[derive(Debug, Default)]
pub(super) struct Summary {
    log: Growing,
    figures: Figures,
}

impl Summary {
    /// The figures of a run, as far as its log has grown. A log that can't be read has none, and the run is listed all the same.
    pub fn figures(&mut self, folder: &Path) -> &Figures {
        let _ = self.log.read(&folder.join("metrics.jsonl"), &mut self.figures);
        &self.figures
    }
}

#[derive(Debug, Default)]
pub(super) struct Figures {
    count: u64,
    pub step: u64,
    pub loss: Option<f64>,
    pub val_loss: Option<f64>,
    /// Seconds of the last record, and of the one before.
    seconds: [Option<f64>; 2],
    spark: Thinned<(u64, f64)>,
}

impl Reader for Figures {
    fn clear(&mut self) {
        *self = Self::default();
    }

    fn line(&mut self, _: &str, record: &Record) {
        let number = self.count;
        self.count += 1;
        let step = record.step.map(|step| step as u64);
        self.step = step.unwrap_or(0);
        self.loss = record.loss.or(self.loss);
        self.val_loss = record.val_loss.or(self.val_loss);
        self.seconds = [record.seconds, self.seconds[0]];
        if let (Some(step), Some(loss), true) = (step, record.loss, number.is_multiple_of(self.spark.stride))
        {
            self.spark.kept.push((number, (step, loss)));
            if self.spark.kept.len() > 2 * SPARK {
                self.spark.halve(|_| false);
            }
        }
    }
}

impl Figures {
    pub fn spark(&self) -> Vec<(u64, f64)> {
        self.spark.kept.iter().map(|(_, point)| *point).collect()
    }

    /// Seconds between the last two records.
    pub fn between(&self) -> f64 {
        let [last, before] = self.seconds;
        last.zip(before).map_or(0.0, |(last, before)| last - before)
    }
}

/// Both logs of a run.
#[derive(Debug, Default)]
pub(super) struct Logs {
    metrics: Growing,
    samples_log: Growing,
    pub records: Lines,
    pub samples: Lines,
    /// The last answer about this run, and what it was made of: all clients share its bytes.
    answer: Option<(String, [u64; 4], Bytes)>,
}

impl Logs {
    fn read(&mut self, folder: &Path) -> Result<(), Problem> {
        self.metrics.read(&folder.join("metrics.jsonl"), &mut self.records)?;
        self.samples_log.read(&folder.join("samples.jsonl"), &mut self.samples)
    }

    fn bytes(&self) -> usize {
        let answer = self.answer.as_ref().map_or(0, |(.., answer)| answer.len());
        self.records.bytes() + self.samples.bytes() + answer
    }

    /// All that there is about a run, as JSON: `about` is an object, to which the lines of both logs are added.
    pub fn answer(&mut self, about: String) -> Bytes {
        let Self { records, samples, .. } = self;
        let state = [records.generation, records.count, samples.generation, samples.count];
        if let Some((same, of, answer)) = &self.answer
            && (same, of) == (&about, &state)
        {
            return answer.clone();
        }
        let rest = about.strip_prefix('{').unwrap_or(&about);
        let answer =
            format!("{{\"records\":{},\"samples\":{},{rest}", list(records.all()), list(samples.all()));
        let answer = Bytes::from(answer);
        self.answer = Some((about, state, answer.clone()));
        answer
    }
}

/// The list of runs, as clients get it.
#[derive(Debug, Clone, Default)]
pub(super) struct Listed {
    lines: Vec<folder::RunLine>,
    /// As the answer to a request.
    pub answer: Bytes,
    /// As an event.
    pub event: Bytes,
    /// Changes with the list.
    pub version: u64,
}

/// What is known of all runs of a folder, shared by all clients.
#[derive(Debug, Default)]
pub(crate) struct RunLogs {
    summaries: HashMap<String, Summary>,
    /// Those asked for most recently first.
    logs: VecDeque<(String, Logs)>,
    listed: Listed,
    looked: Option<Instant>,
}

impl RunLogs {
    /// All runs. The folder is looked at unless that was done just now.
    pub(super) fn list(&mut self, runs: &Path, age: Duration) -> Listed {
        if self.looked.is_some_and(|looked| looked.elapsed() < age) {
            return self.listed.clone();
        }
        let lines = folder::lines(runs, &mut self.summaries);
        let names: HashSet<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        self.summaries.retain(|name, _| names.contains(name.as_str()));
        self.logs.retain(|(name, _)| names.contains(name.as_str()));
        if self.listed.version == 0 || lines != self.listed.lines {
            let json = serde_json::to_string(&lines).unwrap_or_else(|_| "[]".to_owned());
            self.listed = Listed {
                answer: format!("{{\"runs\":{json}}}").into(),
                event: format!("data: {{\"kind\":\"runs\",\"runs\":{json}}}\n\n").into(),
                version: self.listed.version + 1,
                lines,
            };
        }
        self.looked = Some(Instant::now());
        self.listed.clone()
    }

    /// The logs of a run, as far as they have grown.
    pub(super) fn of(&mut self, name: &str, folder: &Path) -> Result<&mut Logs, Problem> {
        let known = self.logs.iter().position(|(known, _)| known == name);
        let mut logs =
            known.and_then(|known| self.logs.remove(known)).map_or_else(Logs::default, |(_, logs)| logs);
        logs.read(folder)?;
        self.logs.push_front((name.to_owned(), logs));
        let bytes =
            |logs: &VecDeque<(String, Logs)>| logs.iter().map(|(_, logs)| logs.bytes()).sum::<usize>();
        while self.logs.len() > 1 && bytes(&self.logs) > ALL_BYTES {
            self.logs.pop_back();
        }
        Ok(&mut self.logs[0].1)
    }

    /// The same as they were read before, if they are still here.
    pub(super) fn known(&self, name: &str) -> Option<&Logs> {
        self.logs.iter().find(|(known, _)| known == name).map(|(_, logs)| logs)
    }
}

#[cfg(test)]
mod tests {
    use super::super::growing::append;
    use super::*;
    use std::fs;

    #[test]
    fn all_clients_share_one_copy_of_a_log_and_of_the_answer_about_it() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("a");
        fs::create_dir(&run).unwrap();
        append(&run.join("metrics.jsonl"), "{\"step\":1}\n");
        let mut logs = RunLogs::default();
        let answer = |logs: &mut RunLogs| logs.of("a", &run).unwrap().answer("{\"name\":\"a\"}".to_owned());
        let (first, again) = (answer(&mut logs), answer(&mut logs));
        assert_eq!(first, "{\"records\":[{\"step\":1}],\"samples\":[],\"name\":\"a\"}");
        assert_eq!(first.as_ptr(), again.as_ptr());
        append(&run.join("metrics.jsonl"), "{\"step\":2}\n");
        assert_eq!(
            answer(&mut logs),
            "{\"records\":[{\"step\":1},{\"step\":2}],\"samples\":[],\"name\":\"a\"}"
        );
        let (one, other) = (logs.list(dir.path(), Duration::ZERO), logs.list(dir.path(), Duration::ZERO));
        assert_eq!((one.version, one.answer.as_ptr()), (other.version, other.answer.as_ptr()));
    }
}
