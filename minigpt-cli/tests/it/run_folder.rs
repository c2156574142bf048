//! A run folder among a person's own files: edited, linked, moved and replaced while a run trains in it.
#![cfg(unix)]

use crate::support::{Place, Program, assert_contains, minigpt};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

/// Folders of small runs, and a text that is nobody else's.
struct Runs(Place);

const THESIS: &str = "years of work\n";

impl Runs {
    fn new() -> Self {
        let place = Place::new();
        let text = place.write("text.txt", "the cat sat on the mat. a dog ran by the sea. ".repeat(60));
        let config = format!(
            "[model]\nn_layer = 1\nn_head = 2\nn_embd = 16\nblock_size = 16\n[data]\npath = {text:?}\n\
             [train]\nbatch_size = 4\nmax_iters = 6\nwarmup_iters = 2\neval_interval = 3\neval_iters = 2\n\
             log_interval = 1\nsave_interval = 2\nsnapshots = 3\n",
        );
        place.write("config.toml", config);
        place.write("thesis.txt", THESIS);
        Self(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn train(&self, more: &[&str]) -> Program {
        let args = [&["train", "--quiet", "--config", "config.toml", "--out", "run"], more].concat();
        minigpt(&args).within(&self.path(""))
    }

    fn resume(&self, steps: u64) -> Program {
        let steps = format!("--max_iters={steps}");
        minigpt(&["train", "--quiet", "--resume", "--out", "run", &steps]).within(&self.path(""))
    }

    /// A run without an end that has made a few steps.
    fn endless(&self, more: &[&str]) -> Child {
        let endless = [
            "--max_iters=10000000",
            "--eval_interval=10000000",
            "--save_interval=10000000",
            "--save_seconds=0",
            "--snapshots=0",
        ];
        let mut child = self.train(&[&endless[..], more].concat()).spawn();
        let log = self.path("run/metrics.jsonl");
        while fs::read_to_string(&log).map_or(0, |text| text.lines().count()) < 5 {
            assert!(child.try_wait().unwrap().is_none(), "the run ended before");
            thread::sleep(Duration::from_millis(2));
        }
        child
    }

    /// The run goes on without an end, and has begun.
    fn endless_in_run(&self) -> Child {
        let log = self.path("run/metrics.jsonl");
        let lines = || fs::read_to_string(&log).map_or(0, |text| text.lines().count());
        let before = lines();
        let more = ["--log_interval=1", "--save_interval=10000000", "--save_seconds=0"];
        let endless = ["train", "--quiet", "--resume", "--out", "run", "--max_iters=10000000"];
        let mut child = minigpt(&[&endless[..], &more].concat()).within(&self.path("")).spawn();
        while lines() < before + 3 {
            assert!(child.try_wait().unwrap().is_none(), "the run ended before");
            thread::sleep(Duration::from_millis(2));
        }
        child
    }

    fn thesis_is_whole(&self) {
        assert_eq!(self.0.read_text("thesis.txt"), THESIS);
    }
}

/// Sends a signal to a process.
fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Asks a run to stop, and waits until it has; what it said.
fn stopped(child: Child) -> String {
    signal(&child, "-TERM");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    said
}

fn saved_step(runs: &Runs, run: &str) -> u64 {
    let state: Value = runs.0.read_json(&format!("{run}/last/training.json"));
    state["step"].as_u64().unwrap()
}

/// Regression: these rates came back from JSON with another last digit, and the run was another one.
#[test]
fn a_run_with_any_learning_rate_can_be_resumed() {
    let runs = Runs::new();
    let rates = [
        "--learning_rate=0.009009995912588721",
        "--min_lr=0.0009009995912588721",
        "--weight_decay=0.09009995912588721",
    ];
    runs.train(&rates).run().success();
    runs.resume(8).run().success();
    assert_eq!(saved_step(&runs, "run"), 8);
}

/// Regression: each of these ended the run at its next save with an error, and lost what it had learned since the last one.
#[test]
fn a_damaged_log_or_picture_costs_no_step() {
    let damages: [(&str, &[&str]); 6] = [
        ("echo '# note' >> run/metrics.jsonl", &[]),
        ("rm run/metrics.jsonl", &["metrics.jsonl is missing: a new one is started"]),
        (
            "rm run/metrics.jsonl; mkdir run/loss.svg",
            &["could not write", "loss.svg", "the run continues without it"],
        ),
        ("ln -s ../thesis.txt link; mv -f link run/metrics.jsonl", &["metrics.jsonl.aside"]),
        ("rm run/events*; rm run/samples.jsonl; mkdir -p run/samples.jsonl/x", &[]),
        (
            "mkdir run/last; cp thesis.txt run/last; ln -s ../thesis.txt run/.loss.svg.tmp",
            &["run/last.aside"],
        ),
    ];
    for (damage, said) in damages {
        let runs = Runs::new();
        let child = runs.endless(&[]);
        let done = Command::new("sh").args(["-c", damage]).current_dir(runs.path("")).status().unwrap();
        assert!(done.success(), "{damage}");
        // A few more steps.
        thread::sleep(Duration::from_millis(50));
        assert_contains(&stopped(child), said);
        let step = saved_step(&runs, "run");
        assert!(step >= 5, "{damage}: {step}");
        let resumed = runs.resume(step + 3).run().success();
        assert_eq!(saved_step(&runs, "run"), step + 3, "{damage}");
        if damage.starts_with("echo") {
            assert_contains(
                resumed.stderr(),
                &["is not a record (expected value) and was left out", "metrics.jsonl.aside"],
            );
            assert_contains(&runs.0.read_text("run/metrics.jsonl.aside"), &["# note"]);
            assert!(!runs.0.read_text("run/metrics.jsonl").contains('#'));
        }
        let log = runs.0.read_text("run/metrics.jsonl");
        let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
        assert_eq!(last["step"], step + 3, "{damage}");
        runs.thesis_is_whole();
    }
}

/// Regression: `ln -s ../thesis.txt run/.lock` and a resume left a thesis of 0 bytes.
#[test]
fn no_link_leads_a_run_out_of_its_folder() {
    let files = [
        ".lock",
        "metrics.jsonl",
        "samples.jsonl",
        "loss.svg",
        "config.toml",
        ".loss.svg.tmp",
        ".config.toml.tmp",
    ];
    for (i, file) in files.iter().enumerate() {
        for link in ["ln -sf ../thesis.txt", "ln -f thesis.txt"] {
            let runs = Runs::new();
            runs.train(&["--sample_interval=2"]).run().success();
            let link = format!("{link} run/{file}");
            let done = Command::new("sh").args(["-c", &link]).current_dir(runs.path("")).status().unwrap();
            assert!(done.success(), "{link}");
            let resumed = runs.resume(8).run();
            runs.thesis_is_whole();
            // A link is no lock, and the thesis no configuration; all else goes on.
            let refused = file == &"config.toml" || (i == 0 && link.contains("-sf"));
            assert_eq!(resumed.failed(), refused, "{link}: {}", resumed.stderr());
            if i == 0 && refused {
                assert_contains(resumed.stderr(), &["run/.lock is a symbolic link", "remove the link"]);
            }
        }
    }
    // Errors name the folder by its path, not by the file descriptor that it is open as.
    let runs = Runs::new();
    runs.train(&[]).run().success();
    fs::remove_file(runs.path("run/last/optimizer.safetensors")).unwrap();
    let refused = runs.resume(8).run().code(1);
    assert_contains(refused.stderr(), &["run/last/optimizer.safetensors"]);
    assert!(!refused.stderr().contains("/proc/"), "{}", refused.stderr());
    for folder in ["last", "best", "snapshots", "step-00000008"] {
        let runs = Runs::new();
        runs.train(&[]).run().success();
        runs.0.write("mine/notes.txt", "mine");
        let link = format!(
            "if [ -e run/{folder} ]; then cp -r run/{folder}/. mine; rm -r run/{folder}; fi; ln -s ../mine run/{folder}"
        );
        assert!(
            Command::new("sh").args(["-c", &link]).current_dir(runs.path("")).status().unwrap().success()
        );
        let before = runs.0.names("mine");
        let more = ["--keep_checkpoints=1", "--eval_interval=1", "--snapshots=8"];
        let done = minigpt(&[&["train", "--resume", "--out", "run", "--max_iters=8"], &more[..]].concat())
            .within(&runs.path(""))
            .run()
            .success();
        assert_eq!(runs.0.names("mine"), before, "{folder}");
        assert_eq!(saved_step(&runs, "run"), 8);
        assert!(
            folder == "best" || done.stderr().contains(&format!("run/{folder}")),
            "{folder}: {}",
            done.stderr()
        );
    }
}

/// Regression: a person's own folder with the name of a checkpoint was removed.
#[test]
fn only_checkpoints_of_a_run_are_rotated_away() {
    let runs = Runs::new();
    let keep = ["--keep_checkpoints=1"];
    runs.train(&keep).run().success();
    for name in ["step-00000002", "step-00000003"] {
        fs::create_dir(runs.path("run").join(name)).unwrap();
    }
    runs.0.write("run/step-00000002/notes.txt", "mine");
    // A checkpoint under another number is a copy that somebody made.
    for file in runs.0.names("run/step-00000006") {
        fs::copy(runs.path("run/step-00000006").join(&file), runs.path("run/step-00000003").join(&file))
            .unwrap();
    }
    runs.0.write("run/step-00000008/notes.txt", "mine too");
    let resume = ["train", "--resume", "--out", "run", "--max_iters=10", "--keep_checkpoints=1"];
    let done = minigpt(&resume).within(&runs.path("")).run().success();
    assert_contains(done.stderr(), &["step-00000008", "notes.txt", "the run continues without it"]);
    let steps: Vec<String> =
        runs.0.names("run").into_iter().filter(|name| name.starts_with("step-")).collect();
    assert_eq!(steps, ["step-00000002", "step-00000003", "step-00000008", "step-00000010"]);
    assert_eq!(runs.0.read_text("run/step-00000002/notes.txt"), "mine");
    assert_eq!(runs.0.names("run/step-00000008"), ["notes.txt"]);
}

#[test]
fn a_new_run_is_not_begun_over_files_of_somebody_else() {
    let runs = Runs::new();
    let refused =
        minigpt(&["train", "--config", "config.toml", "--out", "."]).within(&runs.path("")).run().code(1);
    assert_contains(
        refused.stderr(),
        &["contains config.toml, which was not written by a run", "choose another folder"],
    );
    assert!(!runs.path("last").exists() && !runs.path(".lock").exists());
    runs.0.write("best/notes.txt", "mine");
    fs::remove_file(runs.path("config.toml")).unwrap();
    let again = ["train", "text.txt", "--out", ".", "--max_iters=1"];
    assert_contains(minigpt(&again).within(&runs.path("")).run().code(1).stderr(), &["contains best"]);
    assert_eq!(runs.0.read_text("best/notes.txt"), "mine");
}

/// Regression: a run wrote its checkpoint into whatever stood where its folder had been.
#[cfg(target_os = "linux")]
#[test]
fn a_run_whose_folder_is_moved_goes_with_it_and_leaves_its_successor_alone() {
    let runs = Runs::new();
    let child = runs.endless(&[]);
    fs::rename(runs.path("run"), runs.path("moved")).unwrap();
    runs.train(&[]).run().success();
    let names = runs.0.names("run");
    let (log, weights) = (runs.0.read("run/metrics.jsonl"), runs.0.read("run/last/model.safetensors"));
    assert_contains(&stopped(child), &["was moved: the run continues in", "moved"]);
    assert_eq!((runs.0.names("run"), runs.0.read("run/metrics.jsonl")), (names, log));
    assert!(runs.0.read("run/last/model.safetensors") == weights);
    let logged = runs.0.read_text("moved/metrics.jsonl").lines().count() as u64;
    assert_eq!((saved_step(&runs, "run"), saved_step(&runs, "moved")), (6, logged));
}

/// A run folder that is removed under a run that was halted wherever it was: it is created again or, if something else has its
/// name by then, another one is.
#[cfg(target_os = "linux")]
#[test]
fn a_run_whose_folder_is_removed_saves_into_a_new_one() {
    for successor in [false, true] {
        let runs = Runs::new();
        let child = runs.endless(&[]);
        signal(&child, "-STOP");
        fs::remove_dir_all(runs.path("run")).unwrap();
        if successor {
            runs.0.write("run/notes.txt", "mine");
        }
        signal(&child, "-CONT");
        let said = stopped(child);
        if successor {
            assert_contains(&said, &["is not the run's folder any more", "run.aside"]);
            assert_eq!(runs.0.names("run"), ["notes.txt"]);
        } else {
            assert_contains(&said, &["was removed: the run creates it again"]);
        }
        assert!(saved_step(&runs, if successor { "run.aside" } else { "run" }) >= 5);
    }
}

/// Regression: a second SIGTERM two milliseconds after the first ended the process before it had saved.
#[cfg(unix)]
#[test]
fn a_second_signal_does_not_cost_what_the_first_one_saves() {
    for [first, second] in
        [["-TERM", "-TERM"], ["-HUP", "-TERM"], ["-INT", "-TERM"], ["-INT", "-INT"], ["-TERM", "-INT"]]
    {
        let runs = Runs::new();
        let child = runs.endless(&[]);
        signal(&child, first);
        thread::sleep(Duration::from_millis(2));
        signal(&child, second);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{first} {second}: {said}");
        assert!(saved_step(&runs, "run") >= 5, "{first} {second}");
    }
}

/// Regression: `train other.txt --resume --out run` went on with the run's own data and said nothing.
#[test]
fn data_that_is_named_with_resume_is_used_or_refused() {
    let runs = Runs::new();
    runs.train(&[]).run().success();
    fs::copy(runs.path("text.txt"), runs.path("copy.txt")).unwrap();
    let resume = |data: &str, steps: &str| {
        minigpt(&["train", data, "--resume", "--out", "run", steps]).within(&runs.path("")).run()
    };
    runs.0.write("other.txt", "a dog sat by the cat. ".repeat(50));
    let other = resume("other.txt", "--max_iters=7").code(1);
    assert_contains(other.stderr(), &["another data set", "leave the data out", "--from RUN"]);
    assert_contains(resume("-", "--max_iters=7").code(1).stderr(), &["standard input", "leave out the data"]);
    assert_contains(
        resume("run", "--max_iters=7").code(1).stderr(),
        &["run is a run, not data", "--resume --out run"],
    );
    assert_eq!(saved_step(&runs, "run"), 6);
    let same = resume("copy.txt", "--max_iters=8").success();
    assert_contains(same.stderr(), &["from here on: data.path: ", "copy.txt"]);
    assert_eq!(saved_step(&runs, "run"), 8);
}

/// Regression: `--epochs=2 --max_iters=3` made 34 steps.
#[test]
fn a_run_is_as_long_as_one_setting_says() {
    let runs = Runs::new();
    let both = runs.train(&["--epochs=2", "--max_iters=3"]).run().code(1);
    assert_contains(both.stderr(), &["train.epochs and train.max_iters both set the length of the run"]);
    // The file says max_iters = 6.
    runs.train(&["--epochs=1", "--eval_interval=0"]).run().success();
    let steps = saved_step(&runs, "run");
    assert!(steps > 6, "{steps}");
    let settings = runs.0.read_text("run/config.toml");
    assert!(settings.contains("epochs = 1") && !settings.contains("max_iters"), "{settings}");
    let longer = minigpt(&["train", "--resume", "--out", "run", &format!("--max_iters={}", steps + 2)]);
    let longer = longer.within(&runs.path("")).run().success();
    assert_contains(longer.stderr(), &["train.epochs: 1 → not set"]);
    assert_eq!(saved_step(&runs, "run"), steps + 2);
}

/// Regression: the model kept its characters, and `gpt2` was recorded.
#[test]
fn what_a_base_model_decides_is_refused_unless_it_is_the_same() {
    let runs = Runs::new();
    runs.train(&[]).run().success();
    let further = |out: &str, change: &str| {
        let args = ["train", "text.txt", "--from", "run", "--out", out, "--max_iters=1", change];
        minigpt(&args).within(&runs.path("")).run()
    };
    let refused = [
        ("--tokenizer=gpt2", "data.tokenizer is gpt2, but the model in"),
        ("--tokenizer=bpe:300", "its own tokenizer"),
        (
            "--bias=False",
            "model.bias is false, but the model in run/best has model.qkv_bias = true: fine-tuning keeps the shape of a model",
        ),
        ("--preset=gpt2", "keeps the shape"),
        ("--norm_position=post", "norm_position"),
        ("--n_layer=3", "n_layer"),
        ("--vocab_size=3", "vocab_size"),
    ];
    for (change, said) in refused {
        assert_contains(further("no", change).code(1).stderr(), &[said]);
        assert!(!runs.path("no").exists(), "{change}");
    }
    for (i, same) in ["--tokenizer=char", "--bias=True", "--n_layer=1", "--dropout=0.1"].iter().enumerate() {
        further(&format!("yes-{i}"), same).success();
    }
    assert!(!runs.0.read_text("yes-0/config.toml").contains("tokenizer"));
    // What a whole configuration says otherwise is told.
    let file = runs.0.read_text("config.toml").replace("n_layer = 1", "n_layer = 2");
    runs.0.write("other.toml", file.replace("[data]", "[data]\ntokenizer = \"gpt2\""));
    let args = ["train", "--config", "other.toml", "--from", "run", "--out", "told", "--max_iters=1"];
    let done = minigpt(&args).within(&runs.path("")).run().success();
    assert_contains(
        done.stderr(),
        &["the model keeps its shape", "model.n_layer: 2 → 1", "data.tokenizer: \"gpt2\""],
    );
    assert!(!runs.0.read_text("told/config.toml").contains("tokenizer"));
}

/// Regression: the validation loss rose from 5.76 to 7.40 without a word.
#[test]
fn overfitting_is_said_once_while_it_happens() {
    let runs = Runs::new();
    let words = ["sea", "cat", "mat", "dog", "sun", "hat", "the", "ran"];
    let text: String = (0..260_usize).map(|i| format!("{} ", words[(i * i * 7 + i / 3) % 8])).collect();
    let val: String = (0..80_usize).map(|i| format!("{} ", words[(i * i * 5 + i / 2 + 3) % 8])).collect();
    let (text, val) = (runs.0.write("small.txt", text), runs.0.write("val.txt", val));
    let (text, val) = (format!("data.path={text}"), format!("data.val_path={val}"));
    let more = [
        "--set",
        &text,
        "--set",
        &val,
        "--n_embd=64",
        "--max_iters=300",
        "--eval_interval=25",
        "--learning_rate=5e-3",
        "--save_interval=300",
    ];
    let run = |more: &[&str], language: &str| {
        let args = ["train", "--config", "config.toml", "--lang", language, "--out", language];
        minigpt(&[&args, more].concat()).within(&runs.path("")).run().success()
    };
    let said = run(&more, "en").stderr().to_owned();
    assert_eq!(said.matches("overfitting: since step").count(), 1, "{said}");
    assert_contains(&said, &["while the training loss fell from", "memorizing", "--patience=3"]);
    let said = run(&more, "zh").stderr().to_owned();
    assert_eq!(said.matches("过拟合").count(), 1, "{said}");
    assert!(!said.contains("overfitting"), "{said}");
}

#[test]
fn no_threads_are_refused_with_the_reason() {
    let said = minigpt(&["--threads", "0", "config", "list"]).run().code(2);
    assert_contains(said.stderr(), &["--threads", "expected 1 or more threads", "one per core"]);
}

/// Regression: the text of a second pipe replaced that of the run, which was refused too late and could not be resumed any more.
#[test]
fn standard_input_replaces_nothing_before_the_folder_is_known_to_be_free() {
    let runs = Runs::new();
    let small =
        ["--quiet", "--n_layer=1", "--n_head=2", "--n_embd=16", "--block_size=16", "--eval_interval=0"];
    let piped = |text: &str, out: &str, steps: &str| {
        let args = [&["train", "-", "--out", out, steps], &small[..]].concat();
        minigpt(&args).within(&runs.path("")).stdin(text.repeat(60))
    };
    let (first, second) = ("the cat sat on the mat. ", "one dog ran by the blue sea. ");
    piped(first, "run", "--max_iters=4").run().success();
    let kept = runs.0.read_text("run/input.txt");
    assert_eq!(kept, first.repeat(60));
    assert!(runs.0.read_text("run/config.toml").contains("run/input.txt"));
    let refused = piped(second, "run", "--max_iters=4").run().code(1);
    assert_contains(refused.stderr(), &["there is a run in this folder"]);
    assert_eq!(runs.0.read_text("run/input.txt"), kept);
    runs.resume(6).run().success();
    // The same while another run trains there, and in a folder of somebody else.
    let child = runs.endless_in_run();
    let busy = piped(second, "run", "--max_iters=4").run().code(1);
    assert_contains(busy.stderr(), &["another run is training here"]);
    stopped(child);
    assert_eq!(runs.0.read_text("run/input.txt"), kept);
    runs.0.write("mine/input.txt", THESIS);
    let foreign = piped(second, "mine", "--max_iters=4").run().code(1);
    assert_contains(foreign.stderr(), &["mine contains input.txt, which was not written by a run"]);
    assert_eq!((runs.0.read_text("mine/input.txt").as_str(), runs.0.names("mine").len()), (THESIS, 1));
    // A run that never saved leaves its lock and its text: that text is set aside.
    runs.0.write("killed/.lock", "");
    runs.0.write("killed/input.txt", THESIS);
    piped(second, "killed", "--max_iters=2").run().success();
    assert_eq!(runs.0.read_text("killed/input.txt.aside"), THESIS);
    let begun = |name: &String| name.starts_with(".stdin-");
    assert!(!runs.0.names("").iter().any(begun), "{:?}", runs.0.names(""));
}

/// Regression: a run whose lock file was replaced by a link took its own folder for another one, went on in `run.aside`, and
/// could not be resumed by its name.
#[cfg(target_os = "linux")]
#[test]
fn what_is_put_in_the_place_of_the_lock_is_moved_aside() {
    for (replace, aside) in [
        ("ln -sf ../thesis.txt run/.lock", true),
        ("rm run/.lock; mkdir run/.lock", true),
        ("rm run/.lock; mkfifo run/.lock", true),
        ("rm run/.lock; echo > run/.lock", false),
    ] {
        let runs = Runs::new();
        let child = runs.endless(&[]);
        // A run that trains makes a lock file that is missing anew.
        signal(&child, "-STOP");
        let done = Command::new("sh").args(["-c", replace]).current_dir(runs.path("")).status().unwrap();
        assert!(done.success(), "{replace}");
        signal(&child, "-CONT");
        let said = stopped(child);
        assert_eq!(said.contains("run/.lock.aside"), aside, "{replace}: {said}");
        assert!(!said.contains("another folder"), "{replace}: {said}");
        assert!(!runs.path("run.aside").exists(), "{replace}: {said}");
        let step = saved_step(&runs, "run");
        assert!(step >= 5, "{replace}: {step}");
        runs.resume(step + 2).run().success();
        runs.thesis_is_whole();
    }
}
