//! What a run leaves behind beside its models: `metrics.jsonl`, `samples.jsonl`, TensorBoard's event file, and a picture of the loss.
//!
//! Nothing here ends a run: a file that can't be written causes one [`Warning`] until it can be written again.

use crate::record::{self, Axis, EventFile, Metrics, Result, SampleLog, StepRecord, Warning, loss_chart};
use minigpt_files::present_path;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const METRICS: &str = "metrics.jsonl";
const SAMPLES: &str = "samples.jsonl";
const PICTURE: &str = "loss.svg";
const EVENTS: &str = "events";

/// Writes a run's records into its folder. The folder is passed to each call because the user may move it.
#[derive(Debug)]
pub struct Recorder {
    metrics: Metrics,
    samples: SampleLog,
    events: Option<EventFile>,
    /// The step of the last drawing.
    drawn: u64,
    /// The last error of each file that can't be written.
    problems: BTreeMap<&'static str, String>,
    warnings: Vec<Warning>,
}

impl Recorder {
    /// Records a run from `step` on. Records of later steps, which a crash has undone, are removed.
    pub fn new(folder: &Path, step: u64) -> Self {
        let (metrics, samples) = (folder.join(METRICS), folder.join(SAMPLES));
        let mut recorder = Self {
            metrics: Metrics::unopened(&metrics),
            samples: SampleLog::unopened(&samples),
            events: None,
            drawn: 0,
            problems: BTreeMap::new(),
            warnings: Vec::new(),
        };
        if step == 0 {
            let begun = Metrics::create(&metrics).map(|metrics| recorder.metrics = metrics);
            recorder.note_failure(METRICS, begun);
            let begun = SampleLog::create(&samples).map(|samples| recorder.samples = samples);
            recorder.note_failure(SAMPLES, begun);
        } else {
            let warnings;
            (recorder.metrics, warnings) = Metrics::resume(&metrics, step);
            recorder.warnings.extend(warnings);
            let warnings;
            (recorder.samples, warnings) = SampleLog::resume(&samples, step);
            recorder.warnings.extend(warnings);
        }
        recorder
            .with_events(folder, |events| if step > 0 { events.restart(step + 1, now()) } else { Ok(()) });
        recorder
    }

    /// Takes the warnings since the last call.
    pub fn warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// Records a step.
    pub fn log(&mut self, folder: &Path, record: &StepRecord) {
        let written = self.metrics.append_at(&folder.join(METRICS), record);
        let warning = self.note_failure(METRICS, written).flatten();
        self.warnings.extend(warning);
        self.with_events(folder, |events| events.record(record, now()));
    }

    /// Records a text that the model wrote.
    pub fn sample(&mut self, folder: &Path, step: u64, text: &str) {
        let written = self.samples.append(&folder.join(SAMPLES), step, text);
        let warning = self.note_failure(SAMPLES, written).flatten();
        self.warnings.extend(warning);
        self.with_events(folder, |events| events.sample(step, now(), text));
    }

    /// Draws the loss chart if the run is a tenth longer than at the last drawing. Drawing reads the whole log: at every save, a long run would
    /// read it again and again.
    pub fn draw_if_due(&mut self, folder: &Path, step: u64) {
        if step >= self.drawn + self.drawn / 10 {
            self.drawn = step;
            self.draw(folder);
        }
    }

    /// Draws the loss chart.
    pub fn draw(&mut self, folder: &Path) {
        let drawn = draw(folder);
        self.note_failure(PICTURE, drawn);
    }

    /// Writes into TensorBoard's file, or into a new one if it is gone.
    fn with_events(&mut self, folder: &Path, write: impl FnOnce(&mut EventFile) -> Result<()>) {
        let here = self.events.take().filter(|events| events.is_in(folder));
        let written =
            here.map_or_else(|| EventFile::create(folder, now(), &host()), Ok).and_then(|mut events| {
                write(&mut events)?;
                events.flush()?;
                Ok(events)
            });
        self.events = self.note_failure(EVENTS, written);
    }

    /// Adds a warning about a file that can't be written, unless its last one was the same.
    fn note_failure<T>(&mut self, file: &'static str, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => {
                self.problems.remove(file);
                Some(value)
            }
            Err(error) => {
                let text = error.to_string();
                if self.problems.insert(file, text.clone()) != Some(text) {
                    self.warnings.push(Warning::NotRecorded(error));
                }
                None
            }
        }
    }
}

fn draw(folder: &Path) -> Result<()> {
    let path = folder.join(METRICS);
    if !minigpt_files::is_there(&path)? {
        return Ok(());
    }
    let name = present_path(folder).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let log = record::read(&path)?;
    let svg = loss_chart(&[(name, log.records)], Axis::Step).svg();
    Ok(minigpt_files::write_file(&folder.join(PICTURE), svg.as_bytes())?)
}

/// Seconds since 1970, as TensorBoard counts.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

fn host() -> String {
    std::env::var("HOSTNAME").unwrap_or_else(|_| "minigpt".to_owned())
}
