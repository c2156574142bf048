//! A run as its folder tells it: `config.toml`, `metrics.jsonl`, `samples.jsonl`, `snapshots/`, pictures. Files grow while they are
//! read, and may be anything: what is torn or no JSON is passed over, what is too large is not read.

use crate::problem::Problem;
use axum::http::StatusCode;
use minigpt_files::ReadAt;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The longest log that is read.
const LARGEST: u64 = 256 << 20;
/// The longest configuration, and the longest report.
const LARGEST_CONFIG: u64 = 1 << 20;
/// Runs of a folder that are listed, the latest.
const MOST_RUNS: usize = 500;
/// Records that are sent of one run; of longer ones every second, third, … is.
const MOST_RECORDS: usize = 6000;
/// What a folder of a sweep has.
const SWEEP: &str = "sweep.json";
/// Points of a small curve.
const SPARK: usize = 60;

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
    #[serde(skip)]
    changed: SystemTime,
}

/// A snapshot, and what it is called in questions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct RunSnapshot {
    pub step: u64,
    pub model: String,
}

/// All that there is about a run.
#[derive(Debug, Serialize)]
pub(super) struct RunAnswer {
    pub name: String,
    pub kind: &'static str,
    pub config: Value,
    pub records: Vec<Value>,
    pub samples: Vec<Value>,
    pub snapshots: Vec<RunSnapshot>,
    pub pictures: Vec<String>,
    /// What a sweep came to, in words.
    pub report: Option<String>,
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

/// A run is called running while its log grows: written in the last seconds, or since a few times what passed between its last
/// two records.
fn is_running(time: SystemTime, records: &[Value]) -> bool {
    let seconds = |record: &Value| record["seconds"].as_f64();
    let between = match records {
        [.., before, last] => seconds(last).zip(seconds(before)).map_or(0.0, |(last, before)| last - before),
        _ => 0.0,
    };
    let patience = Duration::from_secs_f64((4.0 * between).clamp(10.0, 600.0));
    time.elapsed().is_ok_and(|since| since < patience)
}

/// All runs, in a line each.
pub(super) fn lines(runs: &Path, known: &mut Vec<RunLine>) -> Vec<RunLine> {
    let lines: Vec<RunLine> = run_folders(runs)
        .into_iter()
        .map(|(name, path, time)| {
            let snapshots = snapshots(&name, &path);
            // A log that has not grown is not read again.
            let same = known.iter().find(|line| line.name == name && line.changed == time);
            if let Some(line) = same.filter(|line| !line.running) {
                return RunLine { snapshots, ..line.clone() };
            }
            line(name, &path, time, snapshots)
        })
        .collect();
    known.clone_from(&lines);
    lines
}

fn line(name: String, path: &Path, time: SystemTime, snapshots: Vec<RunSnapshot>) -> RunLine {
    let kind = if is_sweep(path) { "sweep" } else { "run" };
    let records = json_lines(&path.join("metrics.jsonl")).unwrap_or_default();
    let number = |field: &str| records.iter().rev().find_map(|record| record[field].as_f64());
    let loss = |record: &Value| Some((record["step"].as_u64()?, record["loss"].as_f64()?));
    let every = records.len().div_ceil(SPARK).max(1);
    RunLine {
        running: kind == "run" && is_running(time, &records),
        step: records.last().and_then(|record| record["step"].as_u64()).unwrap_or(0),
        loss: number("loss"),
        val_loss: number("val_loss"),
        spark: records.iter().step_by(every).filter_map(loss).collect(),
        name,
        kind,
        snapshots,
        changed: time,
    }
}

/// All that there is about a run.
pub(super) fn whole(runs: &Path, name: &str) -> Result<RunAnswer, Problem> {
    let path = run_folder(runs, name)?;
    let config = minigpt_files::read_text(&path.join("config.toml"), LARGEST_CONFIG).ok();
    let config =
        config.and_then(|text| toml::from_str::<Value>(&text).ok()).unwrap_or(Value::Object(Map::new()));
    let records = json_lines(&path.join("metrics.jsonl"))?;
    let last = records.len().saturating_sub(1);
    let every = records.len().div_ceil(MOST_RECORDS).max(1);
    // Where some are left out, those with a validation loss stay, and the last.
    let kept = |(at, record): (usize, Value)| {
        (at % every == 0 || at == last || !record["val_loss"].is_null()).then_some(record)
    };
    Ok(RunAnswer {
        kind: if is_sweep(&path) { "sweep" } else { "run" },
        config,
        records: records.into_iter().enumerate().filter_map(kept).collect(),
        samples: json_lines(&path.join("samples.jsonl"))?,
        snapshots: snapshots(name, &path),
        pictures: pictures(&path),
        report: minigpt_files::read_text(&path.join("report.txt"), LARGEST_CONFIG).ok(),
        name: name.to_owned(),
    })
}

fn snapshots(name: &str, path: &Path) -> Vec<RunSnapshot> {
    let Ok(entries) = fs::read_dir(path.join("snapshots")) else { return Vec::new() };
    let step = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("step-")?.parse::<u64>().ok();
    let mut steps: Vec<u64> = entries.filter_map(Result::ok).filter_map(step).collect();
    steps.sort_unstable();
    steps.into_iter().map(|step| RunSnapshot { step, model: format!("run:{name}/{step}") }).collect()
}

fn pictures(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let svg = |entry: fs::DirEntry| {
        entry.file_name().to_str().filter(|name| name.ends_with(".svg")).map(str::to_owned)
    };
    let mut names: Vec<String> = entries.filter_map(Result::ok).filter_map(svg).collect();
    names.sort();
    names
}

/// The values of a file of JSON lines; lines that are none are passed over, a file that is not there has none.
fn json_lines(path: &Path) -> Result<Vec<Value>, Problem> {
    Ok(Growing::default().read(path)?.0)
}

/// A file of JSON lines that grows: each time, what is new.
#[derive(Debug, Default, Clone)]
pub(super) struct Growing {
    read: u64,
}

impl Growing {
    /// The whole lines behind what was read before, and whether the file was begun anew (then they are all there are).
    pub fn read(&mut self, path: &Path) -> Result<(Vec<Value>, bool), Problem> {
        let file = match ReadAt::open(path) {
            Ok(file) => file,
            Err(error) if error.is_missing() => {
                let anew = self.read > 0;
                self.read = 0;
                return Ok((Vec::new(), anew));
            }
            Err(error) => return Err(Problem::internal(error.to_string())),
        };
        let anew = file.len() < self.read;
        if anew {
            self.read = 0;
        }
        if file.len() - self.read > LARGEST {
            let message = format!("{} is too long to be shown", path.display());
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        let bytes = file.read(self.read..file.len()).map_err(|error| Problem::internal(error.to_string()))?;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        let lines = bytes[..whole].split(|&byte| byte == b'\n');
        Ok((lines.filter_map(|line| serde_json::from_slice(line).ok()).collect(), anew))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn run(runs: &Path, name: &str, lines: &[&str]) -> PathBuf {
        let path = runs.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("config.toml"), "[model]\nn_layer = 2\n").unwrap();
        fs::write(path.join("metrics.jsonl"), lines.concat()).unwrap();
        path
    }

    #[test]
    fn a_log_is_read_as_it_grows_in_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut growing = Growing::default();
        assert_eq!(growing.read(&path).unwrap(), (vec![], false));
        fs::write(&path, "{\"step\":1}\n{\"step\":").unwrap();
        assert_eq!(growing.read(&path).unwrap().0.len(), 1);
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"2}\nnonsense\n").unwrap();
        let (new, anew) = growing.read(&path).unwrap();
        assert_eq!((new[0]["step"].as_u64(), new.len(), anew), (Some(2), 1, false));
        fs::write(&path, "{\"step\":1}\n").unwrap();
        let (new, anew) = growing.read(&path).unwrap();
        assert!(anew && new.len() == 1, "a run that began anew is read anew");
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
        let mut lines = lines(dir.path(), &mut Vec::new());
        let sweep = lines.iter().position(|line| line.kind == "sweep").map(|at| lines.remove(at)).unwrap();
        assert_eq!((sweep.name.as_str(), sweep.running), ("sweep", false));
        assert_eq!(whole(dir.path(), "sweep").unwrap().pictures, ["loss.svg"]);
        assert_eq!(lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!((lines[0].step, lines[0].loss, lines[0].val_loss), (20, Some(2.0), Some(2.2)));
        assert_eq!(lines[0].snapshots.iter().map(|one| one.step).collect::<Vec<_>>(), [3, 20]);
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
        let answer = whole(dir.path(), "long").unwrap();
        assert!(answer.records.len() <= MOST_RECORDS + 2);
        assert!(answer.records.iter().any(|record| record["val_loss"] == 1.5));
        assert_eq!(answer.records.last().unwrap()["step"], 20_000);
        assert_eq!(answer.config["model"]["n_layer"], 2);
    }
}
