//! A run folder among a person's own files: links in it, records that are damaged or replaced while the run writes them, a
//! folder that is moved, signals that come twice, and settings of any value.

use crate::Outcome;
use crate::files::{contents, copy};
use crate::fixtures::Fixtures;
use crate::program::{PATIENCE, Running};
use crate::random::Random;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// What stands in a run folder, or does so for a moment.
const FILES: [&str; 12] = [
    ".lock",
    "config.toml",
    "metrics.jsonl",
    "samples.jsonl",
    "loss.svg",
    ".config.toml.tmp",
    ".metrics.jsonl.tmp",
    ".loss.svg.tmp",
    "last/training.json",
    "last/model.safetensors",
    "best/config.json",
    "metrics.jsonl.aside",
];
const FOLDERS: [&str; 9] = [
    "last",
    "best",
    "snapshots",
    "step-00000042",
    "step-00000045",
    ".last.new",
    ".last.old",
    ".best.new.removed",
    "snapshots/step-40",
];

/// Links in a run folder that goes on: what they lead to stays as it is, and nothing new stands there.
pub fn link(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    let (run, mine) = (place.join("run"), place.join("mine"));
    copy(&fixtures.path("run"), &run);
    fs::create_dir_all(mine.join("folder")).unwrap();
    fs::write(mine.join("thesis.txt"), "years of work\n").unwrap();
    fs::write(mine.join("folder/notes.txt"), "mine").unwrap();
    for _ in 0..=random.below(3) {
        let is_file = random.one_in(2);
        let name = if is_file { *random.pick(&FILES) } else { *random.pick(&FOLDERS) };
        let (path, theirs) = (run.join(name), mine.join(if is_file { "thesis.txt" } else { "folder" }));
        // Somebody may keep the folder itself elsewhere, and link to it.
        if !is_file && path.is_dir() && random.one_in(2) {
            copy(&path, &theirs);
        }
        remove(&path);
        // Behind a link that was made before there is nothing of the run's.
        if path
            .parent()
            .is_some_and(|parent| fs::canonicalize(parent).is_ok_and(|parent| parent.starts_with(&mine)))
        {
            continue;
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match random.below(4) {
            0 if is_file => fs::hard_link(&theirs, &path).unwrap(),
            1 => symlink(Path::new("../mine/nothing"), &path),
            2 => symlink(path.file_name().unwrap().as_ref(), &path),
            _ => symlink(&theirs, &path),
        }
    }
    let before = contents(&mine);
    let more = [
        "--max_iters=46",
        "--keep_checkpoints=1",
        "--snapshots=9",
        "--sample_interval=2",
        "--eval_interval=1",
    ];
    let args = [&["train", "--quiet", "--resume", "--out", "run"], &more[..]].concat();
    let ended = fixtures.program(&args).run(place);
    ended.in_words()?;
    if contents(&mine) == before { Ok(()) } else { ended.failed("what a link leads to is not as it was") }
}

/// Records and folders of a run that somebody damages or replaces meanwhile: the run ends with the weights of an undisturbed one.
pub fn record(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    fs::write(place.join("thesis.txt"), "years of work\n").unwrap();
    let run = place.join("run");
    let train = ["train", "--quiet", "--config", &fixtures.config, "--out", "run"];
    let running = fixtures.program(&train).start(place);
    let longest = fixtures.run_time.as_micros() as usize;
    for _ in 0..=random.below(4) {
        thread::sleep(Duration::from_micros(random.below(longest / 3) as u64));
        // Before its folder is its own, what stands in it may make it refuse to begin.
        if run.join("last").exists() {
            damage(random, &run);
        }
    }
    let ended = running.end(PATIENCE);
    ended.success()?;
    if random.one_in(2) {
        damage(random, &run);
    }
    // It has made all its steps, or goes on to them, in either case with what is left of its records.
    let resumed = fixtures.program(&[&train[..], &["--resume"]].concat()).run(place);
    if run.join("last/training.json").exists() {
        resumed.success()?;
    }
    let thesis = fs::read_to_string(place.join("thesis.txt")).unwrap();
    if thesis != "years of work\n" {
        return resumed.failed("a file outside of the run's folder is not as it was");
    }
    let weights = |folder: &Path| fs::read(folder.join("last/model.safetensors")).unwrap_or_default();
    if weights(&run) == weights(&fixtures.path("run")) {
        Ok(())
    } else {
        resumed.failed("the weights are not those of the undisturbed run")
    }
}

/// What people, editors and backups do to a file in a run folder.
fn damage(random: &mut Random, run: &Path) {
    let name =
        *random.pick(&["metrics.jsonl", "samples.jsonl", "loss.svg", "events", "best", "snapshots", "notes"]);
    let find = |prefix: &str| {
        let entries = fs::read_dir(run).ok()?;
        let named =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
        entries.filter_map(|entry| Some(entry.ok()?.path())).find(named)
    };
    let path =
        if name == "events" { find("events").unwrap_or_else(|| run.join(name)) } else { run.join(name) };
    let text = fs::read_to_string(&path).unwrap_or_default();
    // Any of this may fail: the run writes at the same time.
    let done = match random.below(8) {
        0 if path.is_file() => fs::write(&path, text + "# note\n"),
        1 => {
            remove(&path);
            Ok(())
        }
        2 => {
            remove(&path);
            fs::create_dir(&path)
        }
        3 => {
            remove(&path);
            symlink(Path::new("../thesis.txt"), &path);
            Ok(())
        }
        4 => {
            remove(&path);
            fs::hard_link(run.join("../thesis.txt"), &path)
        }
        5 if path.is_file() => fs::write(&path, &text.as_bytes()[..random.below(text.len())]),
        // An editor renames a new file.
        6 => {
            fs::write(run.join("edited"), text + "note").and_then(|()| fs::rename(run.join("edited"), &path))
        }
        _ => fs::write(run.join(random.pick(&["best", "last", "snapshots"])).join("notes.txt"), "mine"),
    };
    drop(done);
}

/// A run whose folder is moved or removed, and perhaps replaced: it saves its steps, and not into its successor.
pub fn moved(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    let running = endless(fixtures, place)?;
    let run = place.join("run");
    let removed = random.one_in(3);
    if removed {
        remove(&run);
    } else {
        fs::rename(&run, place.join("moved")).unwrap();
    }
    // A write that is under way while the folder moves can still land in its successor; the next one does not.
    thread::sleep(Duration::from_millis(500));
    // A removed folder is made again by the run, at any moment: what is put there then may be in a folder of the run's own.
    let successor = if removed { 0 } else { random.below(3) };
    match successor {
        0 => {}
        1 => {
            drop(fs::create_dir(&run));
            fs::write(run.join("notes.txt"), "mine").unwrap();
        }
        _ => copy(&fixtures.path("run"), &run),
    }
    let before = contents(&run);
    thread::sleep(Duration::from_micros(random.small(200_000) as u64));
    running.signal("TERM");
    let ended = running.end(PATIENCE);
    ended.success()?;
    if successor > 0 && contents(&run) != before {
        return ended.failed("the run wrote into its successor");
    }
    let own = |name: &str| saved(&place.join(name)).is_some();
    match (removed, successor) {
        (false, _) if own("moved") => Ok(()),
        (true, 0) if own("run") => Ok(()),
        (true, 1 | 2) if own("run.aside") => Ok(()),
        _ => ended.failed("the run left no checkpoint"),
    }
}

/// Several signals one after another: the first one wins until the run is saved.
pub fn signals(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    let running = endless(fixtures, place)?;
    let begun = running.elapsed();
    running.signal(random.pick::<&str>(&["TERM", "INT", "HUP"]));
    for _ in 0..=random.below(3) {
        thread::sleep(Duration::from_micros(random.small(20_000) as u64));
        // A person who presses Ctrl-C once more, and not at once, wants it to end without saving.
        if (running.elapsed() - begun).as_millis() < 700 {
            running.signal(random.pick::<&str>(&["TERM", "INT", "HUP"]));
        }
    }
    let ended = running.end(PATIENCE + begun);
    ended.success()?;
    match saved(&place.join("run")) {
        Some(1..) => Ok(()),
        _ => ended.failed("the run left no checkpoint"),
    }
}

/// Numbers of any value in the settings: the run can go on with them.
pub fn numbers(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    const SETTINGS: [&str; 9] = [
        "learning_rate",
        "min_lr",
        "weight_decay",
        "grad_clip",
        "eps",
        "beta1",
        "beta2",
        "val_fraction",
        "initializer_range",
    ];
    let mut changes = Vec::new();
    for _ in 0..=random.below(4) {
        // Below 0.06, with all of its digits.
        let value = random.next() as f64 / u64::MAX as f64 / 16.0 * 0.5_f64.powi(random.below(8) as i32);
        let change = format!("--{}={value:?}", random.pick(&SETTINGS));
        let is_new = |other: &String| other.split('=').next() != change.split('=').next();
        if changes.iter().all(is_new) {
            changes.push(change);
        }
    }
    let words: Vec<&str> = changes.iter().map(String::as_str).collect();
    let train = ["train", "--quiet", "--config", &fixtures.config, "--out", "run", "--max_iters=2"];
    let begun = fixtures.program(&[&train[..], &words].concat()).run(place);
    begun.in_words()?;
    if !begun.succeeded() {
        return if begun.stderr.contains("diverged") { Ok(()) } else { begun.failed("was refused") };
    }
    let resumed =
        fixtures.program(&["train", "--quiet", "--resume", "--out", "run", "--max_iters=3"]).run(place);
    resumed.in_words()?;
    if resumed.succeeded() || resumed.stderr.contains("diverged") {
        Ok(())
    } else {
        resumed.failed(&format!("can't go on with {changes:?}"))
    }
}

/// A run without an end that has made a step.
fn endless(fixtures: &Fixtures, place: &Path) -> Result<Running, String> {
    let more =
        ["--max_iters=10000000", "--save_interval=10000000", "--eval_interval=10000000", "--save_seconds=0"];
    let args = [&["train", "--config", &fixtures.config, "--out", "run"], &more[..]].concat();
    let mut running = fixtures.program(&args).start(place);
    while fs::metadata(place.join("run/metrics.jsonl")).map_or(0, |about| about.len()) == 0 {
        if running.is_over() || running.elapsed() > PATIENCE {
            return Err(running.end(PATIENCE).failed("made no step").err().unwrap_or_default());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(running)
}

/// The step of a run's checkpoint.
fn saved(run: &Path) -> Option<u64> {
    let state = fs::read_to_string(run.join("last/training.json")).ok()?;
    serde_json::from_str::<Value>(&state).ok()?["step"].as_u64()
}

/// Removes whatever has this path, if anything does.
fn remove(path: &Path) {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|about| about.is_dir());
    // The run may write into it at the same time.
    for _ in 0..10 {
        let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        if removed.is_ok() || fs::symlink_metadata(path).is_err() {
            return;
        }
    }
}

#[cfg(unix)]
fn symlink(to: &Path, path: &Path) {
    // The run may have put something there again.
    drop(std::os::unix::fs::symlink(to, path));
}

#[cfg(not(unix))]
fn symlink(_to: &Path, _path: &Path) {}
