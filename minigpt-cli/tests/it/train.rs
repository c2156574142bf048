//! `minigpt train` as a person types it, and as the world treats it: killed, resumed, misconfigured.

use crate::support::{Done, Place, Program, assert_contains, minigpt};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::Duration;

/// A place with a small text and a configuration that uses dropout, accumulation and every schedule.
struct Runs(Place);

impl Runs {
    fn new() -> Self {
        let place = Place::new();
        let words =
            ["the cat sat on the mat. ", "a dog ran by the sea. ", "猫坐在垫子上。", "to be or not to be\n"];
        let text: String = (0..600).map(|i| words[(i * i + i / 7) % 4]).collect();
        let text = place.write("text.txt", text);
        let config = format!(
            "[model]\nn_layer = 2\nn_head = 2\nn_embd = 32\nblock_size = 16\ndropout = 0.1\n\
             [data]\npath = {text:?}\n\
             [train]\nbatch_size = 4\ngradient_accumulation_steps = 2\nmax_iters = 60\nwarmup_iters = 5\n\
             eval_interval = 10\neval_iters = 3\nlog_interval = 1\nsave_interval = 3\noptimizer = \"muon\"\n",
        );
        place.write("config.toml", config);
        Self(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn train(&self, out: &str, more: &[&str]) -> Program {
        let (config, out) = (self.0.text("config.toml"), self.0.text(out));
        minigpt(&[&["train", "--config", &config, "--out", &out], more].concat())
    }

    fn trained(&self, out: &str, more: &[&str]) -> Done {
        self.train(out, more).run().success()
    }

    fn refused(&self, out: &str, more: &[&str]) -> String {
        self.train(out, more).run().code(1).stderr().to_owned()
    }

    /// Makes a run look as if it had been begun with other settings of `[train]`.
    fn as_if_begun_with(&self, out: &str, changes: &[(&str, f64)]) {
        let (state, settings) = (format!("{out}/last/training.json"), format!("{out}/config.toml"));
        let mut json: Value = serde_json::from_slice(&self.0.read(&state)).unwrap();
        let mut toml: toml::Table = self.0.read_text(&settings).parse().unwrap();
        for &(key, value) in changes {
            let whole = json["train"][key].is_u64();
            json["train"][key] = if whole { Value::from(value as u64) } else { Value::from(value) };
            let value = if whole { toml::Value::from(value as i64) } else { toml::Value::from(value) };
            toml["train"].as_table_mut().unwrap().insert(key.to_owned(), value);
        }
        self.0.write(&state, json.to_string());
        self.0.write(&settings, toml.to_string());
    }

    fn weights(&self, out: &str) -> Vec<u8> {
        self.0.read(&format!("{out}/last/model.safetensors"))
    }

    /// Step and losses of every line of the log.
    fn losses(&self, out: &str) -> Vec<(u64, f64, Option<f64>)> {
        let text = self.0.read_text(&format!("{out}/metrics.jsonl"));
        let line = |line: &str| {
            let record: Value = serde_json::from_str(line).unwrap();
            (record["step"].as_u64().unwrap(), record["loss"].as_f64().unwrap(), record["val_loss"].as_f64())
        };
        text.lines().map(line).collect()
    }
}

#[test]
fn a_run_leaves_everything_that_was_promised() {
    let runs = Runs::new();
    let done = runs.trained("run", &[]);
    assert_contains(done.stdout(), &["best validation", "step 60"]);
    for name in ["config.toml", "metrics.jsonl", "loss.svg", "best/config.json", "last/tokenizer.json"] {
        assert!(runs.path("run").join(name).exists(), "{name} is missing");
    }
    let events = fs::read_dir(runs.path("run")).unwrap();
    assert!(events.map(|e| e.unwrap().file_name()).any(|n| n.to_string_lossy().contains("tfevents")));
    let losses = runs.losses("run");
    assert_eq!(losses.len(), 60);
    assert!(losses[59].1 < 0.8 * losses[0].1, "{} is no progress from {}", losses[59].1, losses[0].1);
    assert!(losses[9].2.is_some() && losses[8].2.is_none());
}

/// Waits until a run's log has this step, lets it go on for a moment, and kills it while it is under way. What it
/// said before its first step: where it began.
fn kill_after(runs: &Runs, out: &str, mut child: Child, step: u64, moment: Duration) -> u64 {
    let path = runs.path(out).join("metrics.jsonl");
    let reached = || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let last: Option<Value> = whole.lines().last().and_then(|line| serde_json::from_str(line).ok());
        last.is_some_and(|record| record["step"].as_u64().unwrap() >= step)
    };
    while !reached() {
        assert_eq!(child.try_wait().unwrap(), None, "the run ended before step {step}");
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(moment);
    assert_eq!(child.try_wait().unwrap(), None, "the run is too short to be killed at step {step}");
    child.kill().unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    let Some((_, rest)) = said.split_once(" steps from step ") else { return 0 };
    rest.split(',').next().unwrap().parse().unwrap()
}

#[test]
fn killed_at_any_moment_a_run_resumes_to_the_same_bits() {
    const STEPS: u64 = 300;
    let steps = format!("train.max_iters={STEPS}");
    let runs = Runs::new();
    runs.trained("whole", &["--quiet", "--set", &steps]);
    // Killed again and again, at moments that fall into steps, evaluations and the writing of checkpoints.
    let mut saved = 0;
    for attempt in 0..8 {
        let resume: &[&str] = if attempt == 0 { &[] } else { &["--resume"] };
        let child = runs.train("killed", &[&["--set", &steps], resume].concat()).spawn();
        let (step, moment) = (20 + 27 * attempt, Duration::from_micros(1300 * attempt));
        let began = kill_after(&runs, "killed", child, step, moment);
        // It went on from a checkpoint of the attempt before, which is at most one interval behind the log.
        assert!(began >= saved && (attempt == 0) == (began == 0) && began < STEPS, "{began} after {saved}");
        saved = step - 3;
    }
    let done = runs.trained("killed", &["--resume", "--set", &steps]);
    assert_contains(done.stderr(), &[&format!("{STEPS} steps from step ")]);
    assert_eq!(runs.losses("killed"), runs.losses("whole"));
    assert!(runs.weights("killed") == runs.weights("whole"), "the weights differ");
}

#[test]
fn the_same_seed_gives_the_same_weights_and_another_seed_others() {
    let runs = Runs::new();
    for (out, seed) in [("a", "train.seed=1"), ("b", "train.seed=1"), ("c", "train.seed=2")] {
        runs.trained(out, &["--quiet", "--set", seed, "--set", "train.max_iters=5"]);
    }
    assert!(runs.weights("a") == runs.weights("b"));
    assert!(runs.weights("a") != runs.weights("c"));
}

#[test]
fn a_time_limit_ends_a_run_that_can_be_resumed() {
    let runs = Runs::new();
    let done = runs.trained("run", &["--max-minutes", "0.0001"]);
    assert_contains(done.stdout(), &["time limit"]);
    // The limit counts anew each time.
    for _ in 0..3 {
        let before = runs.losses("run").last().unwrap().0;
        runs.trained("run", &["--resume", "--max-minutes", "0.0001"]);
        assert!(runs.losses("run").last().unwrap().0 > before, "a resumed run made no step");
    }
    runs.trained("run", &["--resume"]);
    assert_eq!(runs.losses("run").last().unwrap().0, 60);
}

#[test]
fn a_run_that_ends_before_its_first_evaluation_is_judged_all_the_same() {
    let runs = Runs::new();
    let done = runs.trained("run", &["--max-minutes", "0.0001", "--set", "train.eval_interval=1000"]);
    assert_contains(done.stdout(), &["time limit", "best validation", "run/best"]);
    assert!(runs.path("run/best/config.json").exists());
    assert!(runs.losses("run").last().unwrap().2.is_some());
}

#[test]
fn patience_ends_a_run_that_gets_no_better() {
    let runs = Runs::new();
    let still = ["--set", "train.learning_rate=0", "--set", "train.min_lr=0", "--set", "train.patience=2"];
    assert_contains(runs.trained("run", &still).stdout(), &["patience", "step 30"]);
    // Evaluations at the end of a start are not what patience counts.
    let start = |more: &[&str]| {
        let limit = ["--max-minutes", "0.00000001", "--quiet"];
        runs.trained("stopped", &[&limit[..], more].concat()).stdout().to_owned()
    };
    let mut said = start(&still);
    for _ in 0..29 {
        assert_contains(&said, &["time limit"]);
        said = start(&["--resume"]);
    }
    assert_contains(&said, &["patience", "step 30"]);
}

/// Step, loss, epoch and its mean loss of every line of the log.
fn epochs(runs: &Runs, out: &str) -> Vec<(u64, f64, Option<u64>, Option<f64>)> {
    let line = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| record[name].as_f64();
        (
            record["step"].as_u64().unwrap(),
            number("loss").unwrap(),
            record["epoch"].as_u64(),
            number("epoch_loss"),
        )
    };
    runs.0.read_text(&format!("{out}/metrics.jsonl")).lines().map(line).collect()
}

/// 11 batches an epoch.
const EPOCHS: [&str; 6] =
    ["--set", "train.epochs=3", "--set", "data.limit=800", "--set", "train.eval_interval=0"];

#[test]
fn an_epoch_ends_with_its_mean_loss_and_a_validation() {
    let runs = Runs::new();
    let done = runs.trained("run", &[&EPOCHS[..], &["--set=train.gradient_accumulation_steps=1"]].concat());
    let log = epochs(&runs, "run");
    assert_eq!(log.len(), 33);
    for (i, (step, _, epoch, mean)) in log.iter().enumerate() {
        assert_eq!(*epoch, step.is_multiple_of(11).then_some(step / 11));
        assert_eq!((runs.losses("run")[i].2.is_some(), mean.is_some()), (epoch.is_some(), epoch.is_some()));
        if let Some(mean) = mean {
            let want = log[i - 10..=i].iter().map(|(_, loss, _, _)| loss).sum::<f64>() / 11.0;
            assert!((mean - want).abs() < 1e-9, "{mean} is not {want}");
            let line = format!("epoch {}, step {step}: mean training loss {mean:.4}, validation ", step / 11);
            assert_contains(done.stderr(), &[&line]);
        }
    }
    let events = runs.0.names("run").into_iter().find(|name| name.contains("tfevents")).unwrap();
    let events = runs.0.read(&format!("run/{events}"));
    assert_eq!(events.windows(10).filter(|bytes| bytes == b"loss/epoch").count(), 3);
}

/// Two batches a step: epochs end within steps.
#[test]
fn a_run_that_goes_on_within_an_epoch_has_the_same_mean() {
    let runs = Runs::new();
    runs.trained("whole", &[&EPOCHS[..], &["--quiet"]].concat());
    let log = epochs(&runs, "whole");
    let ends: Vec<u64> = log.iter().filter(|line| line.2.is_some()).map(|line| line.0).collect();
    assert_eq!((log.len(), ends), (17, vec![6, 11, 17]));
    runs.trained("run", &[&EPOCHS[..], &["--quiet", "--max-minutes", "0.0001"]].concat());
    for _ in 0..8 {
        runs.trained("run", &["--quiet", "--resume", "--max-minutes", "0.0001"]);
    }
    runs.trained("run", &["--quiet", "--resume"]);
    assert_eq!(epochs(&runs, "run"), log);
    assert!(runs.weights("run") == runs.weights("whole"), "the weights differ");
}

#[test]
fn a_model_without_a_tokenizer_is_tried_with_ids() {
    let runs = Runs::new();
    let ids: Vec<u8> = (0..2000u16).flat_map(|i| (i % 53 % 50).to_le_bytes()).collect();
    runs.0.write("bins/train.bin", &ids);
    runs.0.write("bins/val.bin", &ids[..400]);
    let path = format!("data.path={}", runs.0.text("bins"));
    let done = runs.trained("run", &["--set", &path, "--set=model.vocab_size=50", "--set=train.max_iters=2"]);
    assert_contains(done.stdout(), &["minigpt generate ", "--ids 0"]);
    assert_contains(runs.trained("text", &["--set", "train.max_iters=2"]).stdout(), &["--prompt "]);
}

#[test]
fn a_run_that_diverges_stops_and_keeps_the_last_good_checkpoint() {
    let runs = Runs::new();
    runs.trained("run", &["--quiet", "--set", "train.max_iters=10"]);
    let before = runs.weights("run");
    runs.as_if_begun_with("run", &[("learning_rate", 1e30)]);
    let error = runs.refused("run", &["--resume", "--set=train.save_interval=5", "--set=train.max_iters=60"]);
    assert_contains(&error, &["diverged", "learning_rate"]);
    // The steps that were made before anybody could know are in the log, and in no checkpoint.
    assert!(runs.losses("run").last().unwrap().0 > 10);
    assert!(runs.weights("run") == before, "the checkpoint has changed");
    runs.as_if_begun_with("run", &[("learning_rate", 1e-3)]);
    runs.trained("run", &["--quiet", "--resume", "--set", "train.max_iters=12"]);
}

/// With a wild rate or decay, weights, losses or moments stop being finite at once or after a few steps, in the training loss,
/// in the validation loss, or in the weights alone.
#[test]
fn nothing_that_is_not_finite_is_ever_written() {
    let runs = Runs::new();
    let often = ["--quiet", "--set", "train.eval_interval=1", "--set", "train.save_interval=1"];
    let wild = [
        ("learning_rate", 1e10),
        ("learning_rate", 1e30),
        ("weight_decay", 1e300),
        ("learning_rate", 100.0),
        ("learning_rate", 1000.0),
    ];
    for (i, change) in wild.into_iter().enumerate() {
        let run = format!("run-{i}");
        runs.trained(&run, &[&often[..], &["--set", "train.max_iters=3"]].concat());
        runs.as_if_begun_with(&run, &[("warmup_iters", 0.0), ("grad_clip", 0.0), change]);
        let done = runs.train(&run, &["--quiet", "--resume", "--set", "train.max_iters=60"]).run();
        let change = format!("{change:?}");
        for name in ["best", "last"] {
            let folder = runs.path(&run).join(name);
            let model = minigpt_formats::load(&folder, &minigpt_model::Device::Cpu).unwrap();
            for parameter in model.gpt.parameters() {
                let values = parameter.tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                assert!(values.iter().all(|x| x.is_finite()), "{change}: {name} holds {}", parameter.name);
            }
        }
        let state: Value =
            serde_json::from_slice(&runs.0.read(&format!("{run}/last/training.json"))).unwrap();
        let (step, best) = (&state["step"], &state["best"]);
        assert!(best["val_loss"].is_f64(), "{change}: {state}");
        assert!(done.failed(), "{change} did not diverge in 60 steps");
        let held = format!("last/ holds step {step}, whose weights and moments were all finite");
        let best = format!("best/ holds step {}, with a validation loss of", best["step"]);
        assert_contains(done.stderr(), &["training has diverged", &held, &best]);
        // What is kept can be resumed: it goes on, or it says again that it has diverged.
        runs.as_if_begun_with(&run, &[("learning_rate", 1e-4)]);
        let again = runs.train(&run, &["--quiet", "--resume"]).run();
        assert!(!again.failed() || again.stderr().contains("training has diverged"), "{}", again.stderr());
    }
}

/// Waits for something that a running program does; a program that has ended never will.
fn wait_for(child: &mut Child, what: impl Fn() -> bool) {
    while !what() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before");
        thread::sleep(Duration::from_millis(10));
    }
}

const ENDLESS: [&str; 6] = [
    "--quiet",
    "--set",
    "train.max_iters=10000000",
    "--set",
    "train.save_interval=10000000",
    "--set=train.eval_interval=10000000",
];

#[cfg(unix)]
#[test]
fn a_request_to_terminate_and_a_closed_terminal_save_as_ctrl_c_does() {
    let runs = Runs::new();
    for (i, signal) in ["-TERM", "-HUP", "-INT"].into_iter().enumerate() {
        let run = format!("run-{i}");
        let mut child =
            runs.train(&run, &[&ENDLESS[..], &["--set", "train.save_seconds=0"]].concat()).spawn();
        let metrics = runs.path(&run).join("metrics.jsonl");
        wait_for(&mut child, || fs::read_to_string(&metrics).is_ok_and(|text| text.lines().count() > 5));
        let sent =
            std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{signal}: {}", String::from_utf8_lossy(&output.stderr));
        let state: Value =
            serde_json::from_slice(&runs.0.read(&format!("{run}/last/training.json"))).unwrap();
        let (step, _, val_loss) = *runs.losses(&run).last().unwrap();
        assert_eq!((state["step"].as_u64().unwrap(), val_loss), (step, None), "{signal}");
    }
}

/// The signal of a file that was cut while it is mapped.
#[cfg(unix)]
#[test]
fn a_bus_error_ends_in_words() {
    let runs = Runs::new();
    let mut child = runs.train("run", &ENDLESS).spawn();
    let metrics = runs.path("run/metrics.jsonl");
    wait_for(&mut child, || fs::read_to_string(&metrics).is_ok_and(|text| text.lines().count() > 1));
    let kill = std::process::Command::new("kill").args(["-BUS", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_contains(&String::from_utf8_lossy(&output.stderr), &["error: a file was truncated"]);
}

#[test]
fn a_checkpoint_is_written_by_the_clock_too() {
    let runs = Runs::new();
    let mut child =
        runs.train("run", &[&ENDLESS[..], &["--set", "train.save_seconds=0.05"]].concat()).spawn();
    let state = runs.path("run/last/training.json");
    wait_for(&mut child, || state.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    // The kill may have been between two checkpoints, or have cut the last line of the log: the state says where it is.
    let state: Value = serde_json::from_slice(&fs::read(&state).unwrap()).unwrap();
    let step = state["step"].as_u64().unwrap();
    assert!(step > 0);
    runs.trained("run", &["--quiet", "--resume", "--set", &format!("train.max_iters={}", step + 2)]);
    assert_eq!(runs.losses("run").last().unwrap().0, step + 2);
}

#[test]
fn only_what_training_made_is_rotated_away() {
    let runs = Runs::new();
    fs::create_dir_all(runs.path("run/step-00000000-mine")).unwrap();
    let keep = ["--quiet", "--set", "train.max_iters=9", "--set", "train.keep_checkpoints=2"];
    runs.trained("run", &keep);
    let names =
        fs::read_dir(runs.path("run")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut kept: Vec<String> = names.filter(|name| name.contains("step-")).collect();
    kept.sort();
    assert_eq!(kept, ["step-00000000-mine", "step-00000006", "step-00000009"]);
}

#[test]
fn a_refused_run_changes_nothing_in_the_folder_of_another() {
    let runs = Runs::new();
    runs.trained("run", &["--quiet", "--set", "train.max_iters=3"]);
    let settings = || fs::read_to_string(runs.path("run/config.toml")).unwrap();
    let before = settings();
    runs.refused("run", &["--set", "train.max_iters=5"]);
    assert_eq!(settings(), before);
    fs::write(runs.path("other.txt"), "the dog sat by the cat. ".repeat(50)).unwrap();
    let other = format!("data.path={}", runs.path("other.txt").display());
    runs.refused("run", &["--resume", "--set", &other]);
    assert_eq!(settings(), before);
}

/// Whether there is a run can't be told where the system does not say; a new one would be begun over it.
#[cfg(unix)]
#[test]
fn a_folder_that_can_not_be_looked_into_is_no_place_for_a_new_run() {
    let runs = Runs::new();
    fs::create_dir(runs.path("run")).unwrap();
    std::os::unix::fs::symlink("last", runs.path("run/last")).unwrap();
    let error = runs.refused("run", &[]);
    assert_contains(&error, &["could not read", "run/last/training.json"]);
    assert!(!runs.path("run/metrics.jsonl").exists());
}

/// What a kill between the two renames of a checkpoint leaves, where folders can't be exchanged in one step.
#[test]
fn a_run_whose_checkpoint_was_being_replaced_is_mended_and_resumed() {
    let runs = Runs::new();
    runs.trained("whole", &["--quiet", "--set", "train.max_iters=6"]);
    runs.trained("run", &["--quiet", "--set", "train.max_iters=3", "--set", "train.lr_decay_iters=6"]);
    fs::rename(runs.path("run/last"), runs.path("run/.last.old")).unwrap();
    runs.trained("run", &["--quiet", "--resume", "--set", "train.max_iters=6"]);
    assert!(runs.weights("run") == runs.weights("whole"));
}

#[test]
fn a_run_goes_on_with_its_own_settings() {
    let runs = Runs::new();
    let own = ["--set", "train.seed=7", "--set", "train.learning_rate=2e-3", "--set", "model.dropout=0.2"];
    runs.trained("whole", &[&own[..], &["--quiet", "--set", "train.max_iters=9"]].concat());
    let shorter = ["--quiet", "--set", "train.max_iters=6", "--set", "train.lr_decay_iters=9"];
    runs.trained("run", &[&own[..], &shorter].concat());
    let out = runs.0.text("run");
    let resume = |more: &[&str]| minigpt(&[&["train", "--resume", "--out", &out], more].concat()).run();
    // What would make it another run is refused with both values, and changes nothing.
    let before = (runs.0.read("run/config.toml"), runs.0.read("run/last/training.json"));
    let others = [
        ("train.seed=8", "train.seed = 7", "8"),
        ("train.learning_rate=1e-3", "train.learning_rate = 0.002", "0.001"),
        ("train.batch_size=5", "train.batch_size = 4", "5"),
        ("train.beta2=0.9", "train.beta2 = 0.99", "0.9"),
        ("model.dropout=0.1", "model.embd_pdrop = 0.2", "0.1"),
        ("model.n_layer=3", "model.n_layer = 2", "3"),
        ("data.val_fraction=0.2", "data.val_fraction = 0.1", "0.2"),
        ("model.preset=textbook", "model.preset", "keeps its model"),
    ];
    for (change, then, now) in others {
        let done = resume(&["--set", change]).code(1);
        assert_contains(done.stderr(), &[then, now]);
    }
    assert_eq!(before, (runs.0.read("run/config.toml"), runs.0.read("run/last/training.json")));
    // What keeps its meaning is said and recorded; the rest is as it was, also with another file or none.
    let done = resume(&["--set", "train.max_iters=9", "--set", "train.seed=7"]).success();
    assert_contains(done.stderr(), &["from here on: train.max_iters: 6 → 9", "steps from step 6"]);
    assert!(!done.stderr().contains("train.seed"), "{}", done.stderr());
    assert!(runs.weights("run") == runs.weights("whole"), "the run went on as another");
    let state: Value = serde_json::from_slice(&runs.0.read("run/last/training.json")).unwrap();
    let changed = serde_json::json!([{ "step": 6, "setting": "train.max_iters", "from": 6, "to": 9 }]);
    assert_eq!(state["changes"], changed);
    let again = runs.trained("run", &["--resume"]);
    assert_contains(again.stderr(), &["the run keeps its own settings;", "train.seed: 1337 → 7"]);
    assert_contains(&runs.0.read_text("run/config.toml"), &["max_iters = 9", "seed = 7"]);
    assert_contains(minigpt(&["train", "--resume"]).run().code(1).stderr(), &["which run?", "--out"]);
}

#[test]
fn another_number_of_threads_changes_no_bit_of_a_run_that_goes_on() {
    let runs = Runs::new();
    let two = |out, more: &[&str]| {
        let done = runs.train(out, &[&["--quiet", "--set", "train.lr_decay_iters=9"], more].concat());
        done.env("RAYON_NUM_THREADS", "2").run().success()
    };
    two("whole", &["--set", "train.max_iters=9"]);
    for threads in ["1", "3", "5"] {
        two(threads, &["--set", "train.max_iters=5"]);
        let rest = runs.train(threads, &["--quiet", "--resume", "--set", "train.max_iters=9"]);
        rest.env("RAYON_NUM_THREADS", threads).run().success();
        assert!(runs.weights(threads) == runs.weights("whole"), "{threads} threads gave other weights");
    }
}

#[test]
fn fine_tuning_starts_from_a_models_weights_and_tokenizer() {
    let runs = Runs::new();
    runs.trained("first", &["--quiet"]);
    let from = runs.path("first/best");
    let more = ["--from", from.to_str().unwrap(), "--set", "train.max_iters=3"];
    runs.trained("second", &more);
    let (first, second) = (runs.losses("first"), runs.losses("second"));
    assert!(second[0].1 < 0.9 * first[0].1, "fine-tuning begins at {} not {}", second[0].1, first[0].1);
}

/// nanoGPT's `crop_block_size`: a model goes on in a shorter context, with the positions that it has.
#[test]
fn fine_tuning_crops_the_context_when_asked_and_never_lengthens_it() {
    let runs = Runs::new();
    runs.trained("first", &["--quiet", "--set", "train.max_iters=20"]);
    let from = runs.0.text("first/last");
    let shorter = ["--quiet", "--from", &from, "--set", "model.block_size=8", "--set", "train.max_iters=2"];
    runs.trained("second", &shorter);
    assert_eq!(runs.0.read_json("second/last/config.json")["n_positions"], 8);
    assert_contains(&runs.0.read_text("second/config.toml"), &["block_size = 8"]);
    let (first, second) = (runs.losses("first"), runs.losses("second"));
    assert!(second[0].1 < first[0].1, "it begins at {} not below {}", second[0].1, first[0].1);
    runs.trained("second", &["--quiet", "--resume", "--set", "train.max_iters=4"]);
    let tensors = minigpt(&["inspect", "--model", &runs.0.text("second/last"), "--tensors", "--json"]);
    assert_eq!(tensors.run().success().json()["tensors"][1]["shape"], serde_json::json!([8, 32]));

    let said = runs.refused("third", &["--from", &from, "--set", "model.block_size=17"]);
    assert_contains(&said, &["model.block_size is 17", "has 16", "shorter, not longer"]);
    assert_contains(
        &runs.refused("third", &["--from", &from, "--set", "model.block_size=0"]),
        &["block_size is 0"],
    );
    assert_contains(
        &runs.refused("third", &["--from", &from, "--set", "model.n_layer=1"]),
        &["model.n_layer is 1"],
    );
    let init = runs.refused("third", &["--from", &from, "--set", "model.init=plain"]);
    assert_contains(&init, &["already has weights"]);
    assert!(!runs.path("third").exists());
}

#[test]
fn a_run_begins_with_the_weights_that_it_was_told_to_draw() {
    let runs = Runs::new();
    let first = |out: &str, init: &[&str]| {
        runs.trained(out, &[&["--quiet", "--set", "train.max_iters=1"], init].concat());
        assert!(runs.0.read_json(&format!("{out}/last/config.json")).get("init").is_none());
        runs.losses(out)[0].1
    };
    let drawn =
        ["gpt2", "plain", "pytorch"].map(|init| first(init, &["--set", &format!("model.init={init}")]));
    assert_eq!(first("absent", &[]), drawn[0]);
    assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2], "{drawn:?}");
    // Embeddings of deviation 1 make a tied head sure of itself.
    assert!(drawn[2] > 1.5 * drawn[0], "{drawn:?}");
    assert_contains(&runs.0.read_text("pytorch/config.toml"), &["init = \"pytorch\""]);
    let other = ["--resume", "--set", "model.init=plain", "--set", "train.max_iters=2"];
    assert_contains(&runs.refused("pytorch", &other), &["model.init"]);
    runs.trained("pytorch", &["--quiet", "--resume", "--set", "train.max_iters=2"]);
}

#[test]
fn the_log_has_the_norm_of_each_layers_gradients() {
    let runs = Runs::new();
    runs.trained("run", &["--quiet", "--set", "train.max_iters=4", "--set", "train.log_interval=2"]);
    let log = runs.0.read_text("run/metrics.jsonl");
    for line in log.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let norms = record["grad_norms"].as_object().unwrap();
        assert_eq!(norms.keys().collect::<Vec<_>>(), ["h.0", "h.1", "ln_f", "wpe", "wte"]);
        let all = norms.values().map(|norm| norm.as_f64().unwrap().powi(2)).sum::<f64>().sqrt();
        assert!((all / record["grad_norm"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{line}");
    }
    let events = runs.0.names("run").into_iter().find(|name| name.contains("tfevents")).unwrap();
    let events = runs.0.read(&format!("run/{events}"));
    let tag = b"grad_norm/h.1";
    assert_eq!(events.windows(tag.len()).filter(|bytes| bytes == tag).count(), log.lines().count());
}

#[test]
fn what_can_not_be_is_refused_in_words() {
    let runs = Runs::new();
    runs.trained("run", &["--quiet", "--set", "train.max_iters=3"]);
    fs::write(runs.path("other.txt"), "the dog sat by the cat. ".repeat(50)).unwrap();
    let other = format!("data.path={}", runs.path("other.txt").display());
    let cases: [(&str, &[&str], &str); 8] = [
        ("run", &[], "there is a run in this folder"),
        ("nothing", &["--resume"], "no run to resume"),
        ("run", &["--resume", "--set", &other], "another data set"),
        ("run", &["--resume", "--set", "model.n_layer=3"], "started with model.n_layer = 2"),
        ("new", &["--set", "data.path=/no/such/file"], "/no/such/file"),
        ("new", &["--set", "train.batch_size=0"], "batch_size is 0"),
        ("new", &["--set", "model.n_embd=100000", "--set", "model.n_layer=100"], "of memory are free"),
        ("text.txt/run", &[], "text.txt"),
    ];
    for (out, more, part) in cases {
        let error = runs.refused(out, more);
        assert_contains(&error, &[part]);
    }
    assert!(!runs.path("new/last").exists());
}

#[test]
fn two_runs_can_not_share_a_folder() {
    let runs = Runs::new();
    let mut first = runs.train("run", &["--quiet", "--set", "train.max_iters=100000"]).spawn();
    while !runs.path("run/metrics.jsonl").exists() {
        thread::sleep(Duration::from_millis(20));
    }
    let error = runs.refused("run", &[]);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(error.contains("another run is training here"), "{error}");
}

/// A file may not grow beyond a limit: what a full disk looks like to a program.
#[cfg(unix)]
#[test]
fn a_disk_that_is_full_costs_no_checkpoint() {
    let runs = Runs::new();
    runs.trained("whole", &["--quiet"]);
    runs.trained("run", &["--quiet", "--set", "train.max_iters=30", "--set", "train.lr_decay_iters=60"]);
    let before = runs.weights("run");
    let longer = ["--quiet", "--resume", "--set", "train.max_iters=60"];
    let full = runs.train("run", &longer).under_shell("ulimit -f 40").run().code(1);
    assert_contains(full.stderr(), &["\nerror: ", "model.safetensors: File too large"]);
    assert!(runs.weights("run") == before, "the checkpoint has changed");
    runs.trained("run", &longer);
    assert!(runs.weights("run") == runs.weights("whole"), "the run did not go on as if nothing had happened");
}

/// What a limit of threads looks like to a program, for root too: no room for their stacks.
#[cfg(target_os = "linux")]
#[test]
fn threads_that_the_system_does_not_give_are_an_error_in_words() {
    let runs = Runs::new();
    let limited = runs.train("run", &["--quiet"]).under_shell("ulimit -v 1500000");
    let done = limited.env("RAYON_NUM_THREADS", "2000").run().code(1);
    assert_contains(done.stderr(), &["error: the system refuses to start more threads", "RAYON_NUM_THREADS"]);
}

#[test]
fn a_folder_that_is_no_folder_is_refused_before_anything_is_computed() {
    let runs = Runs::new();
    let message = runs.refused("text.txt", &[]);
    assert!(message.contains("text.txt"), "{message}");
}
