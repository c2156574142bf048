//! `minigpt train` as a person types it, and as the world treats it: killed, resumed, misconfigured.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A folder with a small text and a configuration that uses dropout, accumulation and every schedule.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let words =
            ["the cat sat on the mat. ", "a dog ran by the sea. ", "猫坐在垫子上。", "to be or not to be\n"];
        let text: String = (0..600).map(|i| words[(i * i + i / 7) % 4]).collect();
        fs::write(place.path("text.txt"), text).unwrap();
        let config = format!(
            "[model]\nn_layer = 2\nn_head = 2\nn_embd = 32\nblock_size = 16\ndropout = 0.1\n\
             [data]\npath = {:?}\n\
             [train]\nbatch_size = 4\ngradient_accumulation_steps = 2\nmax_iters = 60\nwarmup_iters = 5\n\
             eval_interval = 10\neval_iters = 3\nlog_interval = 1\nsave_interval = 3\noptimizer = \"muon\"\n",
            place.path("text.txt")
        );
        fs::write(place.path("config.toml"), config).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, out: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_minigpt"));
        command.arg("train").arg("--config").arg(self.path("config.toml"));
        command.arg("--out").arg(self.path(out)).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn train(&self, out: &str, more: &[&str]) -> Output {
        self.command(out, more).output().unwrap()
    }

    fn trained(&self, out: &str, more: &[&str]) -> String {
        let output = self.train(out, more);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, out: &str, more: &[&str]) -> String {
        let output = self.train(out, more);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    }

    fn weights(&self, out: &str) -> Vec<u8> {
        fs::read(self.path(out).join("last/model.safetensors")).unwrap()
    }

    /// Step and losses of every line of the log.
    fn losses(&self, out: &str) -> Vec<(u64, f64, Option<f64>)> {
        let text = fs::read_to_string(self.path(out).join("metrics.jsonl")).unwrap();
        let line = |line: &str| {
            let record: Value = serde_json::from_str(line).unwrap();
            (record["step"].as_u64().unwrap(), record["loss"].as_f64().unwrap(), record["val_loss"].as_f64())
        };
        text.lines().map(line).collect()
    }
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_run_leaves_everything_that_was_promised() {
    let place = Place::new();
    let report = place.trained("run", &[]);
    assert!(report.contains("best validation") && report.contains("step 60"), "{report}");
    for name in ["config.toml", "metrics.jsonl", "loss.svg", "best/config.json", "last/tokenizer.json"] {
        assert!(place.path("run").join(name).exists(), "{name} is missing");
    }
    let events = fs::read_dir(place.path("run")).unwrap();
    assert!(events.map(|e| e.unwrap().file_name()).any(|n| n.to_string_lossy().contains("tfevents")));
    let losses = place.losses("run");
    assert_eq!(losses.len(), 60);
    assert!(losses[59].1 < 0.8 * losses[0].1, "{} is no progress from {}", losses[59].1, losses[0].1);
    assert!(losses[9].2.is_some() && losses[8].2.is_none());
}

#[test]
fn killed_at_any_moment_a_run_resumes_to_the_same_bits() {
    let place = Place::new();
    place.trained("whole", &["--quiet"]);
    // Killed again and again, at moments that fall into steps, evaluations and the writing of checkpoints.
    let mut resume: &[&str] = &["--quiet"];
    for attempt in 0..6u64 {
        let mut child = place.command("killed", resume).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(120 + 67 * attempt));
        kill(&mut child);
        if place.path("killed").join("last/training.json").exists() || place.path("killed/.last.old").exists()
        {
            resume = &["--quiet", "--resume"];
        }
    }
    place.trained("killed", resume);
    assert_eq!(place.losses("killed"), place.losses("whole"));
    assert!(place.weights("killed") == place.weights("whole"), "the weights differ");
}

#[test]
fn the_same_seed_gives_the_same_weights_and_another_seed_others() {
    let place = Place::new();
    for (out, seed) in [("a", "train.seed=1"), ("b", "train.seed=1"), ("c", "train.seed=2")] {
        place.trained(out, &["--quiet", "--set", seed, "--set", "train.max_iters=5"]);
    }
    assert!(place.weights("a") == place.weights("b"));
    assert!(place.weights("a") != place.weights("c"));
}

#[test]
fn a_time_limit_ends_a_run_that_can_be_resumed() {
    let place = Place::new();
    let report = place.trained("run", &["--max-minutes", "0.0001"]);
    assert!(report.contains("time limit"), "{report}");
    place.trained("run", &["--resume"]);
    assert_eq!(place.losses("run").last().unwrap().0, 60);
}

#[test]
fn patience_ends_a_run_that_gets_no_better() {
    let place = Place::new();
    let still = ["--set", "train.learning_rate=0", "--set", "train.min_lr=0", "--set", "train.patience=2"];
    assert!(place.trained("run", &still).contains("patience"));
}

#[test]
fn a_run_that_diverges_stops_and_keeps_the_last_good_checkpoint() {
    let place = Place::new();
    let wild = [
        "--set",
        "train.learning_rate=1e30",
        "--set",
        "train.warmup_iters=0",
        "--set",
        "train.save_interval=1",
    ];
    let error = place.refused("run", &wild);
    assert!(error.contains("diverged") && error.contains("learning_rate"), "{error}");
    if place.path("run/last").exists() {
        minigpt_formats::load(&place.path("run/last"), &minigpt_model::Device::Cpu).unwrap().gpt;
    }
}

#[test]
fn fine_tuning_starts_from_a_models_weights_and_tokenizer() {
    let place = Place::new();
    place.trained("first", &["--quiet"]);
    let from = place.path("first/best");
    let more = ["--from", from.to_str().unwrap(), "--set", "train.max_iters=3"];
    place.trained("second", &more);
    let (first, second) = (place.losses("first"), place.losses("second"));
    assert!(second[0].1 < 0.9 * first[0].1, "fine-tuning begins at {} not {}", second[0].1, first[0].1);
}

#[test]
fn what_can_not_be_is_refused_in_words() {
    let place = Place::new();
    place.trained("run", &["--quiet", "--set", "train.max_iters=3"]);
    fs::write(place.path("other.txt"), "the dog sat by the cat. ".repeat(50)).unwrap();
    let other = format!("data.path={}", place.path("other.txt").display());
    let cases: [(&str, &[&str], &str); 8] = [
        ("run", &[], "there is a run in this folder"),
        ("nothing", &["--resume"], "there is no run to resume"),
        ("run", &["--resume", "--set", &other], "another data set"),
        ("run", &["--resume", "--set", "model.n_layer=3"], "model.n_layer is 3, but the model"),
        ("new", &["--set", "data.path=/no/such/file"], "/no/such/file"),
        ("new", &["--set", "train.batch_size=0"], "batch_size is 0"),
        ("new", &["--set", "model.n_embd=100000", "--set", "model.n_layer=100"], "of memory are free"),
        ("text.txt/run", &[], "text.txt"),
    ];
    for (out, more, part) in cases {
        let error = place.refused(out, more);
        assert!(error.contains(part), "{part:?} is not in {error}");
        assert!(!error.contains("panicked"), "{error}");
    }
    assert!(!Path::new(&place.path("new/last")).exists());
}

#[test]
fn two_runs_can_not_share_a_folder() {
    let place = Place::new();
    let mut first = place.command("run", &["--set", "train.max_iters=100000"]).spawn().unwrap();
    while !place.path("run/metrics.jsonl").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let error = place.refused("run", &[]);
    kill(&mut first);
    assert!(error.contains("another run is training here"), "{error}");
}

/// A file may not grow beyond a limit: what a full disk looks like to a program.
#[cfg(unix)]
#[test]
fn a_disk_that_is_full_costs_no_checkpoint() {
    let place = Place::new();
    place.trained("whole", &["--quiet"]);
    place.trained("run", &["--quiet", "--set", "train.max_iters=30", "--set", "train.lr_decay_iters=60"]);
    let before = place.weights("run");
    let mut full = Command::new("sh");
    full.args(["-c", "trap '' XFSZ; ulimit -f 40; exec \"$@\"", "sh"]).arg(env!("CARGO_BIN_EXE_minigpt"));
    full.arg("train").arg("--config").arg(place.path("config.toml")).arg("--out").arg(place.path("run"));
    let output = full.args(["--quiet", "--resume"]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.starts_with("error: ") && message.contains("File too large"), "{message}");
    assert!(place.weights("run") == before, "the checkpoint has changed");
    place.trained("run", &["--quiet", "--resume"]);
    assert!(
        place.weights("run") == place.weights("whole"),
        "the run did not go on as if nothing had happened"
    );
}

#[test]
fn a_folder_that_is_no_folder_is_refused_before_anything_is_computed() {
    let place = Place::new();
    let message = place.refused("text.txt", &[]);
    assert!(message.contains("text.txt"), "{message}");
}
