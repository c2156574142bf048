//! A run as its folder shows it: `config.toml`, `snapshots/`, pictures, and its logs (see `log`). Files may be anything: those
//! that are too large are not read.

use super::log::{Figures, Summary};
use crate::problem::Problem;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The longest configuration, and the longest report.
const LARGEST_CONFIG: u64 = 1 << 20;
/// Runs of a folder that are listed, the latest.
const MOST_RUNS: usize = 500;
/// What a folder of a sweep has.
const SWEEP: &str = "sweep.json";
/// A run in a line of the list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RunLine {
    pub name: String,
    /// `run`, or `sweep`: a folder of runs with pictures of its own.
    pub kind: &'static str,
    /// Whether something was written to it just now.
    pub running: bool,
    pub step: u64,
    pub loss: Option<f64>,
    pub val_loss: Option<f64>,
    pub spark: Vec<(u64, f64)>,
    pub snapshots: Vec<RunSnapshot>,
}

/// A snapshot, and what it is called in questions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct RunSnapshot {
    pub step: u64,
    pub model: String,
}

/// What there is about a run beside its logs.
#[derive(Debug, Serialize)]
struct RunAnswer<'a> {
    name: &'a str,
    kind: &'static str,
    config: Value,
    snapshots: Vec<RunSnapshot>,
    pictures: Vec<String>,
    /// What a sweep came to, in words.
    report: Option<String>,
}

/// Where the runs of a folder are: the folders in it that have a configuration or a log, or are sweeps, the latest first.
fn run_folders(runs: &Path) -> Vec<(String, PathBuf, SystemTime)> {
    let Ok(entries) = fs::read_dir(runs) else { return Vec::new() };
    let mut found: Vec<(String, PathBuf, SystemTime)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_str()?.to_owned();
            let files = ["metrics.jsonl", "config.toml", SWEEP].iter();
            let time = files.filter_map(|file| changed(&path.join(file))).max()?;
            (!name.starts_with('.')).then_some((name, path, time))
        })
        .collect();
    found.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
    found.truncate(MOST_RUNS);
    found
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// A folder of a sweep says what it is, and has its runs below it.
fn is_sweep(path: &Path) -> bool {
    path.join(SWEEP).is_file()
}

/// The folder of a run of this name; only names of the list are, so that a name can't lead elsewhere.
pub(super) fn run_folder(runs: &Path, name: &str) -> Result<PathBuf, Problem> {
    let missing = || {
        Problem::new(StatusCode::NOT_FOUND, format!("there is no run {name:?} here"))
            .with_code("run_not_found")
    };
    run_folders(runs)
        .into_iter()
        .find(|(known, ..)| known == name)
        .map(|(_, path, _)| path)
        .ok_or_else(missing)
}

/// The folder of a snapshot `NAME/STEP`.
pub(crate) fn snapshot_folder(runs: &Path, name: &str) -> Option<PathBuf> {
    let (run, step) = name.rsplit_once('/')?;
    let step: u64 = step.parse().ok()?;
    let folder = run_folder(runs, run).ok()?.join("snapshots").join(format!("step-{step}"));
    folder.is_dir().then_some(folder)
}

/// Whether the log grows: it was written in the last seconds, or within a few times the time between its last two records.
fn is_running(time: SystemTime, figures: &Figures) -> bool {
    let patience = Duration::from_secs_f64((4.0 * figures.between()).clamp(10.0, 600.0));
    time.elapsed().is_ok_and(|since| since < patience)
}

/// All runs, in a line each, with what is known of their logs.
pub(super) fn lines(runs: &Path, logs: &mut HashMap<String, Summary>) -> Vec<RunLine> {
    let line = |(name, path, time): (String, PathBuf, SystemTime)| {
        let figures = logs.entry(name.clone()).or_default().figures(&path);
        let kind = if is_sweep(&path) { "sweep" } else { "run" };
        RunLine {
            running: kind == "run" && is_running(time, figures),
            step: figures.step,
            loss: figures.loss,
            val_loss: figures.val_loss,
            spark: figures.spark(),
            snapshots: snapshots(&name, &path),
            name,
            kind,
        }
    };
    run_folders(runs).into_iter().map(line).collect()
}

/// What there is about a run beside its logs, as JSON.
pub(super) fn about(name: &str, path: &Path) -> Result<String, Problem> {
    let config = minigpt_files::read_text(&path.join("config.toml"), LARGEST_CONFIG).ok();
    let config = config.and_then(|text| toml::from_str::<Value>(&text).ok());
    let about = RunAnswer {
        name,
        kind: if is_sweep(path) { "sweep" } else { "run" },
        config: config.unwrap_or(Value::Object(Map::new())),
        snapshots: snapshots(name, path),
        pictures: pictures(path),
        report: minigpt_files::read_text(&path.join("report.txt"), LARGEST_CONFIG).ok(),
    };
    serde_json::to_string(&about).map_err(|error| Problem::internal(error.to_string()))
}

fn snapshots(name: &str, path: &Path) -> Vec<RunSnapshot> {
    let Ok(entries) = fs::read_dir(path.join("snapshots")) else { return Vec::new() };
    let step = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("step-")?.parse::<u64>().ok();
    let mut steps: Vec<u64> = entries.filter_map(Result::ok).filter_map(step).collect();
    steps.sort_unstable();
    steps.into_iter().map(|step| RunSnapshot { step, model: format!("run:{name}/{step}") }).collect()
}

/// The names of its pictures.
pub(super) fn pictures(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let svg = |entry: fs::DirEntry| {
        entry.file_name().to_str().filter(|name| name.ends_with(".svg")).map(str::to_owned)
    };
    let mut names: Vec<String> = entries.filter_map(Result::ok).filter_map(svg).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::super::lines::MOST_LINES;
    use super::super::log::RunLogs;
    use super::*;
    use serde_json::json;

    fn run(runs: &Path, name: &str, lines: &[&str]) -> PathBuf {
        let path = runs.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("config.toml"), "[model]\nn_layer = 2\n").unwrap();
        fs::write(path.join("metrics.jsonl"), lines.concat()).unwrap();
        path
    }

    #[test]
    fn only_runs_are_listed_and_no_name_leads_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = run(
            dir.path(),
            "a",
            &["{\"step\":10,\"loss\":2.5}\n", "{\"step\":20,\"loss\":2.0,\"val_loss\":2.2}\n"],
        );
        fs::create_dir(dir.path().join("no-run")).unwrap();
        fs::create_dir_all(path.join("snapshots/step-20")).unwrap();
        fs::create_dir_all(path.join("snapshots/step-3")).unwrap();
        fs::create_dir_all(path.join("snapshots/.step-4.new")).unwrap();
        fs::create_dir(dir.path().join("sweep")).unwrap();
        fs::write(dir.path().join("sweep/sweep.json"), "{}").unwrap();
        fs::write(dir.path().join("sweep/loss.svg"), "<svg/>").unwrap();
        let list = RunLogs::default().list(dir.path(), Duration::ZERO).answer;
        let mut lines: Vec<Value> =
            serde_json::from_slice::<Value>(&list).unwrap()["runs"].as_array().unwrap().clone();
        let sweep = lines.iter().position(|line| line["kind"] == "sweep").map(|at| lines.remove(at)).unwrap();
        assert_eq!((&sweep["name"], &sweep["running"]), (&json!("sweep"), &json!(false)));
        assert_eq!(pictures(&dir.path().join("sweep")), ["loss.svg"]);
        assert_eq!(lines.len(), 1);
        let figures = ["name", "step", "loss", "val_loss"].map(|field| &lines[0][field]);
        assert_eq!(figures, [&json!("a"), &json!(20), &json!(2.0), &json!(2.2)]);
        assert_eq!(lines[0]["spark"], json!([[10, 2.5], [20, 2.0]]));
        let steps: Vec<&Value> =
            lines[0]["snapshots"].as_array().unwrap().iter().map(|one| &one["step"]).collect();
        assert_eq!(steps, [3, 20]);
        assert!(snapshot_folder(dir.path(), "a/20").is_some());
        for bad in ["a/4", "a/../a/20", "../a/20", "a", "", "/", "a/-1", "./20"] {
            assert!(snapshot_folder(dir.path(), bad).is_none(), "{bad}");
        }
        for bad in ["..", ".", "", "no-run", "a/snapshots", "/etc"] {
            assert_eq!(run_folder(dir.path(), bad).unwrap_err().status, StatusCode::NOT_FOUND, "{bad}");
        }
    }

    #[test]
    fn a_long_run_is_thinned_but_keeps_its_validation_and_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let lines: Vec<String> = (1..=20_000u64)
            .map(|step| {
                format!(
                    "{{\"step\":{step},\"loss\":1.0{}}}\n",
                    if step == 777 { ",\"val_loss\":1.5" } else { "" }
                )
            })
            .collect();
        run(dir.path(), "long", &lines.iter().map(String::as_str).collect::<Vec<_>>());
        let (path, mut logs) = (dir.path().join("long"), RunLogs::default());
        let answer = logs.of("long", &path).unwrap().answer(about("long", &path).unwrap());
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let records = answer["records"].as_array().unwrap();
        assert!((MOST_LINES / 2..=MOST_LINES + 1).contains(&records.len()), "{}", records.len());
        assert!(records.iter().any(|record| record["val_loss"] == 1.5));
        assert_eq!(records.last().unwrap()["step"], 20_000);
        assert_eq!(answer["config"]["model"]["n_layer"], 2);
    }
}
