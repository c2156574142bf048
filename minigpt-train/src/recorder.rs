//! What a run leaves behind beside its models: `metrics.jsonl`, `samples.jsonl`, TensorBoard's event file, and a picture of the loss.

use crate::error::Result;
use crate::record::{self, Axis, EventFile, Metrics, SampleLog, StepRecord, loss_chart};
use crate::run_folder::RunFolder;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes a run's records.
#[derive(Debug)]
pub struct Recorder {
    metrics: Metrics,
    samples: SampleLog,
    events: EventFile,
    path: PathBuf,
}

impl Recorder {
    /// Records a run from a step on; what was recorded beyond it (and lost with a crash) is forgotten.
    pub fn new(run: &RunFolder, step: u64) -> Result<Self> {
        let path = run.join("metrics.jsonl");
        let metrics = match step {
            0 => Metrics::create(&path)?,
            step => Metrics::resume(&path, step)?,
        };
        let samples = SampleLog::resume(&run.join("samples.jsonl"), step)?;
        let mut events = EventFile::create(run.path(), now(), &host())?;
        if step > 0 {
            events.restart(step + 1, now())?;
        }
        Ok(Self { metrics, samples, events, path: run.path().to_owned() })
    }

    /// Records a step.
    pub fn log(&mut self, record: &StepRecord) -> Result<()> {
        self.metrics.append(record)?;
        self.events.record(record, now())?;
        Ok(self.events.flush()?)
    }

    /// Records a text that the model wrote.
    pub fn sample(&mut self, step: u64, text: &str) -> Result<()> {
        self.samples.append(step, text)?;
        self.events.sample(step, now(), text)?;
        Ok(self.events.flush()?)
    }

    /// Draws the loss so far.
    pub fn draw(&self) -> Result<()> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let records = record::read(&self.path.join("metrics.jsonl"))?;
        let svg = loss_chart(&[(name, records)], Axis::Step).svg();
        Ok(minigpt_files::write_file(&self.path.join("loss.svg"), svg.as_bytes())?)
    }
}

/// Seconds since 1970, as TensorBoard counts.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

fn host() -> String {
    std::env::var("HOSTNAME").unwrap_or_else(|_| "minigpt".to_owned())
}
