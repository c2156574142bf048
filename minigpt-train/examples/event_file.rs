//! Turns the records of a run into an event file for TensorBoard, as if the run had begun at second 1,000,000,000:
//! `cargo run -p minigpt-train --example event_file -- metrics.jsonl sample.txt FOLDER [RESUMED_AFTER_STEP]`

use minigpt_train::record::{EventFile, read};
use std::path::Path;

const BEGAN: f64 = 1e9;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [metrics, sample, folder, resumed @ ..] = &args[..] else {
        return Err("usage: event_file METRICS.jsonl SAMPLE.txt FOLDER [RESUMED_AFTER_STEP]".into());
    };
    let records = read(Path::new(metrics))?.records;
    let began = BEGAN + records.first().map_or(0.0, |record| record.seconds);
    let mut events = EventFile::create(Path::new(folder), began, "localhost")?;
    if let [step, ..] = resumed {
        events.restart(step.parse::<u64>()? + 1, began)?;
    }
    for record in &records {
        events.record(record, BEGAN + record.seconds)?;
    }
    if let Some(last) = records.last() {
        let text = std::fs::read_to_string(sample)?;
        events.sample(last.step, BEGAN + last.seconds, &text)?;
    }
    Ok(())
}
