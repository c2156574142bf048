//! One line per request, on standard error: text or JSON, always in English. A thread of its own writes them, so that a slow
//! reader of standard error holds up no request; lines that find no room are counted, and the count is logged.

use crate::output;
use clap::ValueEnum;
use minigpt_serve::RequestRecord;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Lines that may wait to be written.
const WAITING: usize = 4096;
/// Characters of a path that are written down.
const LONGEST_PATH: usize = 200;
/// How long the last of them are waited for.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How a request is written down.
#[derive(Clone, Copy, ValueEnum)]
pub enum LogFormat {
    /// For humans.
    Text,
    /// One JSON object per line.
    Json,
}

/// What is on its way to standard error.
enum Entry {
    Line(String),
    /// All before it is written: say so.
    End(SyncSender<()>),
}

/// Where lines go.
pub struct Log {
    format: LogFormat,
    lines: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
}

impl Log {
    /// A log that is written from now on.
    pub fn start(format: LogFormat) -> Self {
        let (lines, waiting) = sync_channel(WAITING);
        let lost: Arc<AtomicU64> = Arc::default();
        let count = Arc::clone(&lost);
        std::thread::spawn(move || write(&waiting, &count));
        Self { format, lines, lost }
    }

    /// What takes the record of a request.
    pub fn writer(&self) -> Arc<dyn Fn(&RequestRecord) + Send + Sync> {
        let (format, lines, lost) = (self.format, self.lines.clone(), Arc::clone(&self.lost));
        Arc::new(move |record| {
            let line = match format {
                LogFormat::Text => text(record, now()),
                LogFormat::Json => json(record, now()),
            };
            if lines.try_send(Entry::Line(line)).is_err() {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Waits a moment for the last lines.
    pub fn finish(&self) {
        let (done, written) = sync_channel(1);
        if self.lines.try_send(Entry::End(done)).is_ok() {
            let _ = written.recv_timeout(LAST_LINES);
        }
    }
}

fn write(entries: &Receiver<Entry>, lost: &AtomicU64) {
    for entry in entries {
        match entry {
            // Not translated: each path would be held against all messages.
            Entry::Line(line) => output::note(&line),
            Entry::End(done) => drop(done.send(())),
        }
        match lost.swap(0, Ordering::Relaxed) {
            0 => {}
            count => output::note(format!(
                "{count} log lines were dropped: standard error is not read fast enough"
            )),
        }
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64())
}

fn text(record: &RequestRecord, now: f64) -> String {
    let seconds = now as u64 % 86_400;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let RequestRecord { method, status, .. } = record;
    let path = shortened(&record.path);
    let status = if *status == 0 { "–".to_owned() } else { status.to_string() };
    let mut line =
        format!("{hours:02}:{minutes:02}:{seconds:02}Z {method} {path} {status} {:.3} s", record.seconds);
    if record.prompt_tokens + record.completion_tokens > 0 {
        line += &format!(", {} + {} tokens", record.prompt_tokens, record.completion_tokens);
    }
    if let Some(first) = record.first_token_seconds {
        line += &format!(", first after {first:.3} s");
    }
    if let Some(rate) = record.tokens_per_second {
        line += &format!(", {rate:.1} tokens/s");
    }
    if let Some(asked) = &record.asked_model {
        line += &format!(", asked for model {asked:?}");
    }
    if !record.ignored.is_empty() {
        line += &format!(", ignored {}", record.ignored.join(", "));
    }
    if !record.unknown.is_empty() {
        let characters: Vec<String> =
            record.unknown.iter().map(|character| format!("{character:?}")).collect();
        line += &format!(", not in the vocabulary: {}", characters.join(" "));
    }
    if record.left {
        line += ", client left";
    }
    line
}

/// A path whose length no client decides.
fn shortened(path: &str) -> String {
    match path.char_indices().nth(LONGEST_PATH) {
        Some((end, _)) => format!("{}…", &path[..end]),
        None => path.to_owned(),
    }
}

fn json(record: &RequestRecord, now: f64) -> String {
    let mut line = json!({ "time": now });
    let record = RequestRecord { path: shortened(&record.path), ..record.clone() };
    if let (Some(line), Ok(Value::Object(record))) = (line.as_object_mut(), serde_json::to_value(record)) {
        line.extend(record);
    }
    line.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> RequestRecord {
        RequestRecord {
            method: "POST".into(),
            path: "/v1/completions".into(),
            status: 200,
            prompt_tokens: 5,
            completion_tokens: 7,
            first_token_seconds: Some(0.0123),
            tokens_per_second: Some(41.27),
            seconds: 0.5,
            ..RequestRecord::default()
        }
    }

    #[test]
    fn a_line_has_what_matters() {
        let want =
            "01:01:01Z POST /v1/completions 200 0.500 s, 5 + 7 tokens, first after 0.012 s, 41.3 tokens/s";
        assert_eq!(text(&record(), 3661.5), want);
        let odd = RequestRecord {
            ignored: vec!["tempature".into(), "top_q".into()],
            asked_model: Some("gpt\n4".into()),
            unknown: vec!['喜', '\n'],
            ..record()
        };
        let want = format!(
            "{want}, asked for model \"gpt\\n4\", ignored tempature, top_q, not in the vocabulary: '喜' '\\n'"
        );
        assert_eq!(text(&odd, 3661.5), want);
        let gone = RequestRecord { status: 0, left: true, ..RequestRecord::default() };
        assert!(text(&gone, 0.0).ends_with(" – 0.000 s, client left"));
        let long = RequestRecord { path: "猫".repeat(60_000), ..record() };
        let shown = "猫".repeat(LONGEST_PATH) + "…";
        assert!(text(&long, 0.0).contains(&format!(" {shown} 200 ")));
        assert_eq!(serde_json::from_str::<Value>(&json(&long, 0.0)).unwrap()["path"], shown);
    }

    #[test]
    fn json_has_the_same_under_its_names() {
        let line: Value = serde_json::from_str(&json(&record(), 1.5)).unwrap();
        assert_eq!(
            (&line["time"], &line["status"], &line["completion_tokens"]),
            (&json!(1.5), &json!(200), &json!(7))
        );
        assert!(line.get("model").is_none());
    }
}
