//! The logs of runs, `metrics.jsonl` and `samples.jsonl`: read in pieces as they grow, once for all clients, and kept within
//! bounds. Of a long log every second, fourth, … line is kept, and all of its latest lines.

use super::folder;
use crate::problem::Problem;
use axum::body::Bytes;
use axum::http::StatusCode;
use minigpt_files::ReadAt;
use serde::Deserialize;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The longest log that is read.
const LARGEST: u64 = 256 << 20;
/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;
/// Longer lines are passed over.
const LONGEST_LINE: usize = 64 << 10;
/// Lines that are kept of one log, and their bytes.
pub(super) const MOST_LINES: usize = 6000;
const MOST_BYTES: usize = 4 << 20;
/// The latest lines, which are kept whole for clients that watch, and their bytes.
const LATEST: usize = 500;
const LATEST_BYTES: usize = 1 << 20;
/// Bytes of all logs that are kept; those that were asked for longest ago are read again when they are asked for.
const ALL_BYTES: usize = 128 << 20;
/// Bytes of lines in one event.
const EVENT_BYTES: usize = 64 << 10;
/// Points of a small curve; there are up to twice as many.
const SPARK: usize = 40;
/// Bytes before the place where a log has been read to: if they have changed, it is another log.
const MARK: usize = 64;

/// What is read of a line.
#[derive(Debug, Default, Deserialize)]
struct Record {
    #[serde(default)]
    step: Option<f64>,
    #[serde(default)]
    loss: Option<f64>,
    #[serde(default)]
    val_loss: Option<f64>,
    #[serde(default)]
    seconds: Option<f64>,
}

/// Takes the lines of a log.
trait Reader {
    /// Another log begins.
    fn clear(&mut self);
    /// A line of JSON.
    fn line(&mut self, text: &str, record: &Record);
}

/// A file of JSON lines that grows: each time, the new lines are read.
#[derive(Debug, Default)]
struct Growing {
    read: u64,
    /// The bytes before that place.
    mark: Vec<u8>,
    changed: Option<SystemTime>,
    /// In the middle of a line that is too long.
    skipping: bool,
}

impl Growing {
    /// Hands over the whole lines behind those that were read before. Lines that are no JSON objects are passed over; a file
    /// that is not there has no lines.
    fn read(&mut self, path: &Path, reader: &mut impl Reader) -> Result<(), Problem> {
        let internal = |error: minigpt_files::Error| Problem::internal(error.to_string());
        let changed = std::fs::metadata(path).and_then(|file| file.modified()).ok();
        let file = match ReadAt::open(path) {
            Ok(file) => file,
            Err(error) if error.is_missing() => {
                if self.read > 0 {
                    *self = Self::default();
                    reader.clear();
                }
                return Ok(());
            }
            Err(error) => return Err(internal(error)),
        };
        if file.len() == self.read && changed == self.changed {
            return Ok(());
        }
        let marked = self.read - self.mark.len() as u64;
        if file.len() < self.read || file.read(marked..self.read).map_err(internal)? != self.mark {
            *self = Self::default();
            reader.clear();
        }
        self.changed = changed;
        if file.len() - self.read > LARGEST {
            let message = format!("{} is too long to be shown", path.display());
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        while self.read < file.len() {
            let end = file.len().min(self.read + PIECE);
            let bytes = file.read(self.read..end).map_err(internal)?;
            let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            let taken = match whole {
                0 if end < file.len() => {
                    self.skipping = true;
                    bytes.len()
                }
                whole => whole,
            };
            if whole > 0 {
                let mut lines = bytes[..whole - 1].split(|&byte| byte == b'\n');
                if std::mem::take(&mut self.skipping) {
                    lines.next();
                }
                lines.for_each(|line| take(line, reader));
            }
            self.read += taken as u64;
            self.mark.extend_from_slice(&bytes[..taken]);
            self.mark.drain(..self.mark.len().saturating_sub(MARK));
            if taken == 0 {
                break;
            }
        }
        Ok(())
    }
}

fn take(line: &[u8], reader: &mut impl Reader) {
    let line = line.trim_ascii();
    let plain = line.len() <= LONGEST_LINE && line.starts_with(b"{") && !line.contains(&b'\r');
    if let (true, Ok(text)) = (plain, std::str::from_utf8(line))
        && let Ok(record) = serde_json::from_str::<Record>(text)
    {
        reader.line(text, &record);
    }
}

/// Things of which every second, fourth, … is kept as they become many.
#[derive(Debug)]
struct Thinned<T> {
    kept: Vec<(u64, T)>,
    stride: u64,
}

impl<T> Default for Thinned<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), stride: 1 }
    }
}

impl<T> Thinned<T> {
    fn halve(&mut self, stays: impl Fn(&T) -> bool) {
        self.stride = self.stride.saturating_mul(2);
        let stride = self.stride;
        self.kept.retain(|(number, thing)| number.is_multiple_of(stride) || stays(thing));
    }
}

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

/// A line of a log.
#[derive(Debug, Clone)]
struct Line {
    step: Option<u64>,
    /// Whether it has a validation loss: it stays longer than others.
    validates: bool,
    text: Arc<str>,
}

/// The lines of a log, as far as they are kept.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// How often the log was begun anew.
    generation: u64,
    count: u64,
    kept: Thinned<Line>,
    /// There are so many lines with a validation loss that they are thinned, too.
    alike: bool,
    kept_bytes: usize,
    latest: VecDeque<(u64, Line)>,
    latest_bytes: usize,
}

impl Reader for Lines {
    fn clear(&mut self) {
        *self = Self { generation: self.generation + 1, ..Self::default() };
    }

    fn line(&mut self, text: &str, record: &Record) {
        let number = self.count;
        self.count += 1;
        let step = record.step.map(|step| step as u64);
        let line = Line { step, validates: record.val_loss.is_some(), text: text.into() };
        self.latest_bytes += text.len();
        self.latest.push_back((number, line.clone()));
        while self.latest.len() > LATEST || self.latest_bytes > LATEST_BYTES {
            let Some((_, line)) = self.latest.pop_front() else { break };
            self.latest_bytes -= line.text.len();
        }
        if number.is_multiple_of(self.kept.stride) || (line.validates && !self.alike) {
            self.kept_bytes += text.len();
            self.kept.kept.push((number, line));
        }
        while self.kept.kept.len() > MOST_LINES || self.kept_bytes > MOST_BYTES {
            let before = self.kept.kept.len();
            let alike = self.alike;
            self.kept.halve(|line| line.validates && !alike);
            self.alike |= self.kept.kept.len() > before * 3 / 4;
            self.kept_bytes = self.kept.kept.iter().map(|(_, line)| line.text.len()).sum();
        }
    }
}

/// How far a client has been told about a log.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    /// None before anything was told.
    generation: Option<u64>,
    next: u64,
    /// Lines up to this step are known already, whatever their number.
    known: Option<u64>,
}

impl Position {
    /// Nothing was told, but the client knows the lines up to a step.
    pub fn behind(step: u64) -> Self {
        Self { known: Some(step), ..Self::default() }
    }
}

impl Lines {
    fn bytes(&self) -> usize {
        self.kept_bytes + self.latest_bytes
    }

    /// All that is kept, in order, with the last line.
    fn all(&self) -> impl Iterator<Item = &str> {
        let last = self
            .latest
            .back()
            .filter(|(number, _)| self.kept.kept.last().is_none_or(|(kept, _)| kept < number));
        self.kept.kept.iter().chain(last).map(|(_, line)| &*line.text)
    }

    /// Lines from a number on: the latest all, older ones as far as they are kept.
    fn from(&self, next: u64) -> impl Iterator<Item = &(u64, Line)> {
        let latest = self.latest.front().map_or(self.count, |(number, _)| *number);
        let kept = self.kept.kept.iter().filter(move |(number, _)| (next..latest).contains(number));
        kept.chain(self.latest.iter().filter(move |(number, _)| *number >= next))
    }

    /// The next lines behind a position, which moves on: as many as fit an event. Says whether the log was begun anew.
    pub fn next(&self, position: &mut Position) -> (Vec<Arc<str>>, bool) {
        let generation = Some(self.generation);
        let anew = position.generation.is_some() && position.generation != generation;
        if anew {
            *position = Position::default();
        }
        position.generation = generation;
        let (mut lines, mut bytes) = (Vec::new(), 0);
        for (number, line) in self.from(position.next) {
            if bytes > 0 && bytes + line.text.len() > EVENT_BYTES {
                return (lines, anew);
            }
            position.next = number + 1;
            if position.known.is_none_or(|known| line.step.is_some_and(|step| step > known)) {
                bytes += line.text.len();
                lines.push(Arc::clone(&line.text));
            }
        }
        (position.next, position.known) = (self.count, None);
        (lines, anew)
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

/// Lines of JSON as a list.
pub(super) fn list<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut list = String::from("[");
    for line in lines {
        if list.len() > 1 {
            list.push(',');
        }
        list.push_str(line);
    }
    list.push(']');
    list
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
    use super::*;
    use std::fs;
    use std::io::Write;

    fn append(path: &Path, text: &str) {
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    fn texts(lines: &[Arc<str>]) -> Vec<&str> {
        lines.iter().map(|line| &**line).collect()
    }

    #[test]
    fn a_log_is_read_as_it_grows_in_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let (mut growing, mut lines, mut position) =
            (Growing::default(), Lines::default(), Position::default());
        let mut news = |lines: &mut Lines| {
            growing.read(&path, lines).unwrap();
            let (new, anew) = lines.next(&mut position);
            (texts(&new).join(" "), anew)
        };
        assert_eq!(news(&mut lines), (String::new(), false));
        append(&path, "{\"step\":1}\n{\"step\":");
        assert_eq!(news(&mut lines), ("{\"step\":1}".into(), false));
        append(&path, "2}\nnonsense\n[1]\n\"step\"\n{\"a\":1}\r\n");
        assert_eq!(news(&mut lines), ("{\"step\":2} {\"a\":1}".into(), false));
        fs::write(&path, "{\"step\":1}\n").unwrap();
        assert_eq!(news(&mut lines), ("{\"step\":1}".into(), true), "a run that began anew is read anew");
        // Another log that is already longer than what was read of this one.
        fs::write(&path, "{\"step\":7}\n{\"step\":8}\n{\"step\":9}\n").unwrap();
        assert_eq!(news(&mut lines), ("{\"step\":7} {\"step\":8} {\"step\":9}".into(), true));
        fs::remove_file(&path).unwrap();
        assert_eq!(news(&mut lines), (String::new(), true));
    }

    #[test]
    fn a_line_without_end_is_passed_over_and_those_behind_it_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let long = "x".repeat(2 * PIECE as usize + 5);
        append(&path, &format!("{{\"step\":1}}\n{{\"a\":\"{long}\"}}\n{{\"step\":3}}\n"));
        let (mut growing, mut lines) = (Growing::default(), Lines::default());
        growing.read(&path, &mut lines).unwrap();
        assert_eq!(lines.all().collect::<Vec<_>>(), ["{\"step\":1}", "{\"step\":3}"]);
    }

    #[test]
    fn whatever_a_log_holds_what_is_kept_of_it_is_bounded() {
        for (text, validates) in
            [("{}", false), ("{}", true), (&*format!("{{\"a\":\"{}\"}}", "x".repeat(9000)), true)]
        {
            let mut lines = Lines::default();
            let count = 30_000u64;
            for step in 0..count {
                let val_loss = validates.then_some(1.0);
                lines.line(text, &Record { step: Some(step as f64), val_loss, ..Record::default() });
                assert!(lines.kept.kept.len() <= MOST_LINES && lines.kept_bytes <= MOST_BYTES);
                assert!(lines.latest.len() <= LATEST && lines.latest_bytes <= LATEST_BYTES);
            }
            // A client that comes late gets what is kept, in events of a bounded size.
            let mut position = Position::behind(count - 4);
            assert_eq!(lines.next(&mut position).0.len(), 3);
            let (mut position, mut told) = (Position::default(), 0);
            loop {
                let (news, _) = lines.next(&mut position);
                assert!(news.iter().map(|line| line.len()).sum::<usize>() <= EVENT_BYTES);
                if news.is_empty() {
                    break;
                }
                told += news.len();
            }
            assert!(told >= lines.kept.kept.len() && told <= MOST_LINES + LATEST, "{told}");
        }
    }

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
