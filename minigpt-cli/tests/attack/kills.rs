//! A run that is killed at any moment goes on to the same bits, and one that is asked to end does so with a checkpoint.

use crate::Outcome;
use crate::fixtures::Fixtures;
use crate::program::PATIENCE;
use crate::random::Random;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

pub fn kill(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    for _ in 0..=random.below(3) {
        kill_somewhere(random, fixtures, place);
    }
    finishes_as_if_nothing_had_been(fixtures, place)
}

/// Starts the run `place/run` or goes on with it, and kills it at some moment.
pub fn kill_somewhere(random: &mut Random, fixtures: &Fixtures, place: &Path) {
    let longest = fixtures.run_time.as_micros() as usize * 11 / 10;
    let running = fixtures.program(&train(fixtures, place)).start(place);
    thread::sleep(Duration::from_micros(random.below(longest) as u64));
    running.kill();
}

/// The command that trains `place/run`, resumed where it has a checkpoint.
pub fn train<'a>(fixtures: &'a Fixtures, place: &Path) -> Vec<&'a str> {
    let resume: &[&str] = if place.join("run/last").exists() { &["--resume"] } else { &[] };
    [&["train", "--quiet", "--config", &fixtures.config, "--out", "run"], resume].concat()
}

/// Resumes the run `place/run`, or starts it where nothing was saved, and compares it with the undisturbed one.
pub fn finishes_as_if_nothing_had_been(fixtures: &Fixtures, place: &Path) -> Outcome {
    fixtures.program(&train(fixtures, place)).run(place).success()?;
    for name in ["last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"] {
        let (whole, here) =
            (fs::read(fixtures.path("run").join(name)), fs::read(place.join("run").join(name)));
        if whole.unwrap() != here.unwrap_or_default() {
            return Err(format!("{name} is not that of the undisturbed run"));
        }
    }
    let log = |path: &Path| losses(&fs::read_to_string(path.join("run/metrics.jsonl")).unwrap_or_default());
    if log(&fixtures.folder) == log(place) {
        Ok(())
    } else {
        Err("metrics.jsonl is not that of the undisturbed run".to_owned())
    }
}

/// Step and losses of every line: all that does not depend on the clock.
fn losses(log: &str) -> Vec<[Value; 3]> {
    let line = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap_or_default();
        ["step", "loss", "val_loss"].map(|key| record[key].clone())
    };
    log.lines().map(line).collect()
}

pub fn signal(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    let endless =
        ["train", "--config", &fixtures.config, "--out", "run", "--set", "train.max_iters=10000000"];
    let mut running = fixtures.program(&endless).start(place);
    // Before its first step it may not know yet what to do with a signal.
    while fs::metadata(place.join("run/metrics.jsonl")).map_or(0, |about| about.len()) == 0 {
        if running.is_over() || running.elapsed() > PATIENCE {
            return running.end(PATIENCE).failed("made no step");
        }
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_micros(random.small(300_000) as u64));
    running.signal(random.pick::<&str>(&["TERM", "INT", "HUP"]));
    let patience = running.elapsed() + PATIENCE;
    running.end(patience).success()?;
    let state = fs::read_to_string(place.join("run/last/training.json")).unwrap_or_default();
    match serde_json::from_str::<Value>(&state) {
        Ok(state) if state["step"].as_u64() > Some(0) => Ok(()),
        _ => Err("the run left no checkpoint".to_owned()),
    }
}
