//! `minigpt train novel.txt`: whatever it is, it just works, and says what it does.

use crate::support::{Place, assert_contains, minigpt};
use serde_json::json;
use std::fs;

const TEXT: &str = "It was the best of times, it was the worst of times, it was the age of wisdom.\n";
const CHINESE: &str = "话说天下大势，分久必合，合久必分。周末七国分争，并入于秦。\n";

fn pairs() -> Vec<(String, String)> {
    (0..80).map(|i| (format!("What is {i} plus {i}?"), format!("It is {}.", 2 * i))).collect()
}

/// Trains for a moment in a folder, and gives what was said.
fn train(place: &Place, args: &[&str]) -> String {
    let args = [&["train"], args, &["--minutes", "0.01"]].concat();
    let done = minigpt(&args).within(&place.path("")).run().success();
    format!("{}\n{}", done.stderr(), done.stdout())
}

#[test]
fn a_text_becomes_a_model_that_can_be_used_at_once() {
    let place = Place::new();
    place.write("novel.txt", TEXT.repeat(200));
    let said = train(&place, &["novel.txt"]);
    assert_contains(
        &said,
        &["novel.txt: text", "layers", "width", "steps, about", "sample:", "guessing among all"],
    );
    // Short enough for 80 columns: a line that is broken inside quotes can't be typed again.
    assert_contains(&said, &["minigpt generate runs/novel --prompt 'It was", "minigpt plot runs/novel"]);
    let wrote = minigpt(&["generate", "runs/novel", "--prompt", "It was", "-n", "5"]).within(&place.path(""));
    wrote.run().success();
    // The same again is another run; the first one goes on by its name.
    assert_contains(&train(&place, &["novel.txt"]), &["runs/novel-2"]);
    let more = ["train", "--resume", "--out", "runs/novel", "--max_iters=100000", "--max-minutes", "0.01"];
    minigpt(&more).within(&place.path("")).run().success();
}

#[test]
fn what_was_chosen_can_be_said_otherwise() {
    let place = Place::new();
    place.write("novel.txt", TEXT.repeat(100));
    train(&place, &["novel.txt", "--n_layer=1", "--set", "train.batch_size=3", "--out", "mine"]);
    let config = place.read_text("mine/config.toml");
    assert_contains(&config, &["n_layer = 1\n", "batch_size = 3\n", "optimizer = \"muon\""]);
    // With a number of steps, there is no time to plan.
    let done =
        minigpt(&["train", "novel.txt", "--max_iters=2", "--out", "two"]).within(&place.path("")).run();
    assert_contains(done.success().stdout(), &["step 2: finished all steps"]);
    // With both, whichever is over first.
    assert_contains(
        &train(&place, &["novel.txt", "--max_iters=2"]),
        &["2 steps, about", "step 2: finished all steps"],
    );
    // And a configuration that names the data alone gets the same small model.
    place.write("run.toml", "[data]\npath = \"novel.txt\"\n");
    let done = minigpt(&["train", "--config", "run.toml", "--max_iters=2"]).within(&place.path("")).run();
    assert_contains(done.success().stderr(), &["chosen model"]);
    assert_contains(&place.read_text("runs/run/config.toml"), &["n_embd = 64\n"]);
}

/// It was "model.n_embd 256 is not divisible by n_head 12": those of GPT-2, which nobody had asked for.
#[test]
fn a_size_that_was_asked_for_is_laid_over_the_model_that_is_chosen() {
    let place = Place::new();
    place.write("novel.txt", TEXT.repeat(100));
    place.write("run.toml", "[data]\npath = \"novel.txt\"\n");
    let chosen = |data: &[&str], change: &str, out: &str| {
        let args = [&["train"], data, &[change, "--max_iters=1", "--out", out]].concat();
        minigpt(&args).within(&place.path("")).run().success().stderr().to_owned()
    };
    for (data, out) in [(&["novel.txt"][..], "a"), (&["--config", "run.toml"], "b")] {
        assert_contains(&chosen(data, "--n_embd=256", &format!("{out}/1")), &["4 heads, width 256"]);
        assert_contains(&chosen(data, "--n_head=5", &format!("{out}/2")), &["5 heads, width "]);
        assert_contains(&chosen(data, "--n-layer=1", &format!("{out}/3")), &["chosen model: 1 layer, "]);
    }
    let both = ["train", "novel.txt", "--n_embd=256", "--n_head=3"];
    let done = minigpt(&both).within(&place.path("")).run();
    assert!(done.failed());
    assert_contains(done.stderr(), &["model.n_embd 256 is not divisible by n_head 3"]);
    assert!(!done.stderr().contains("line "), "there is no file that it could be in: {}", done.stderr());
}

#[test]
fn data_alone_is_planned_for_and_evaluated_with_the_model_that_would_be_trained() {
    let place = Place::new();
    place.write("novel.txt", TEXT.repeat(100));
    place.write("run.toml", "[data]\npath = \"novel.txt\"\n[train]\nmax_iters = 2\n");
    let run = |args: &[&str]| minigpt(args).within(&place.path("")).run().success();
    let planned = run(&["plan", "--config", "run.toml", "--set", "n_embd=40", "--json"]);
    let parameters = planned.json()["parameters"].as_u64().unwrap();
    assert!(parameters < 100_000, "{parameters}");
    let said = run(&["train", "novel.txt", "--eval-only", "--max_iters=1"]);
    assert_contains(said.stdout(), &["untrained"]);
    assert!(!place.path("runs").exists());
    // A run that goes on differs from its file only in what the file says.
    run(&["train", "--config", "run.toml"]);
    place.write("run.toml", "[data]\npath = \"novel.txt\"\n[train]\nmax_iters = 3\n");
    let said = run(&["train", "--config", "run.toml", "--resume", "--max_iters=4"]);
    assert_contains(said.stderr(), &["run.toml differs (file → run): train.max_iters: 3 → 4"]);
    assert!(!said.stderr().contains("n_layer"), "{}", said.stderr());
}

#[test]
fn every_kind_of_data_is_recognised() {
    let place = Place::new();
    let line = |(q, a): (String, String)| json!({ "question": q, "answer": a }).to_string() + "\n";
    place.write("qa.jsonl", pairs().into_iter().map(line).collect::<String>());
    assert_contains(&train(&place, &["qa.jsonl"]), &["JSON lines of questions and answers", "minigpt chat"]);
    let rows = pairs().iter().map(|(q, a)| format!("\"{q}\",\"{a}\"\n")).collect::<String>();
    place.write("qa.csv", format!("question,answer\n{rows}"));
    assert_contains(&train(&place, &["qa.csv"]), &["CSV", "runs/qa-2"]);
    fs::create_dir(place.path("书")).unwrap();
    place.write("书/一.txt", CHINESE.repeat(40));
    place.write("书/二.md", CHINESE.repeat(40));
    assert_contains(&train(&place, &["书"]), &["2 text files", "one token per character", "runs/书"]);
    let prepare = ["data", "prepare", "书", "--out", "tokens"];
    minigpt(&prepare).within(&place.path("")).run().success();
    assert_contains(&train(&place, &["tokens"]), &["prepared tokens", "runs/tokens"]);
    assert_contains(&train(&place, &["tokens/train.bin"]), &["runs/tokens-2"]);
}

/// A run was learned from as "JSON lines of texts": its own samples.
#[test]
fn a_run_is_not_taken_for_data() {
    let place = Place::new();
    place.write("novel.txt", TEXT.repeat(100));
    train(&place, &["novel.txt"]);
    for (folder, what) in [("runs/novel", "is a run, not data"), ("runs/novel/best", "is a model, not data")]
    {
        let done = minigpt(&["train", folder, "--max_iters=1"]).within(&place.path("")).run();
        assert!(done.failed() && !place.path("runs/novel-2").exists());
        assert_contains(done.stderr(), &[what, &format!("--from {folder}")]);
    }
    let again = ["train", "--resume", "--out", "runs/novel", "--lang", "zh"];
    let done = minigpt(&again).within(&place.path("")).run().success();
    assert_contains(done.stderr(), &["这次训练已完成全部步数", "--max_iters=N"]);
}

/// What is said is what is run, whichever of two sizes the measured speed happens to choose.
#[test]
fn what_is_announced_is_what_is_trained() {
    let place = Place::new();
    place.write("novel.txt", TEXT.repeat(4000));
    let said = train(&place, &["novel.txt"]);
    let config: toml::Table = place.read_text("runs/novel/config.toml").parse().unwrap();
    let model = |key: &str| config["model"][key].as_integer().unwrap();
    let [layers, heads] = ["n_layer", "n_head"].map(model);
    let [width, context] = ["n_embd", "block_size"].map(model);
    let steps = config["train"]["max_iters"].as_integer().unwrap();
    let s = if steps == 1 { "" } else { "s" };
    assert_contains(
        &said,
        &[
            &format!("{layers} layers, {heads} heads, width {width}, context {context}"),
            &format!("{steps} step{s}, about"),
            &format!("step {steps}: finished all steps"),
        ],
    );
}

/// It was shown as a sample of the last step, and once more as what the model writes.
#[test]
fn the_sample_at_the_end_is_shown_once() {
    let place = Place::new();
    place.write("novel.txt", TEXT.repeat(100));
    let said = train(&place, &["novel.txt", "--max_iters=4", "--sample_interval=4", "--prompt=It was the"]);
    let samples = said.lines().filter(|line| line.starts_with("It was the"));
    assert_eq!(samples.count(), 1, "{said}");
}

#[test]
fn standard_input_is_kept_so_that_the_run_can_go_on() {
    let place = Place::new();
    let args = ["train", "-", "--minutes", "0.01"];
    let done = minigpt(&args).within(&place.path("")).stdin(TEXT.repeat(100)).run().success();
    assert_contains(done.stdout(), &["runs/stdin"]);
    let more = ["train", "--resume", "--out", "runs/stdin", "--max_iters=100000", "--max-minutes", "0.01"];
    minigpt(&more).within(&place.path("")).run().success();
}

/// Regression: `train - < white.txt` left the run's folder with a copy of it.
#[test]
fn standard_input_that_is_refused_leaves_nothing() {
    let place = Place::new();
    for args in [&["train", "-"][..], &["train", "-", "--out", "a/b/ws"], &["train", "-", "--nonsense=3"]] {
        let done = minigpt(args).within(&place.path("")).stdin(" \n\t\n".repeat(100)).run();
        assert!(done.failed(), "{args:?}");
        assert!(place.names("").is_empty(), "{args:?} leaves {:?}", place.names(""));
    }
    // What was there stays.
    place.write("kept/mine.txt", "mine");
    let white = minigpt(&["train", "-", "--out", "kept"]).within(&place.path("")).stdin("  ").run().code(1);
    assert_contains(white.stderr(), &["contains only white space"]);
    assert_eq!(place.names("kept"), ["mine.txt"]);
}

#[test]
fn nothing_that_can_be_seen_is_nothing_to_learn() {
    let place = Place::new();
    place.write("novel.txt", TEXT.repeat(100));
    place.write("white.txt", " \n\t\n".repeat(300));
    place.write("invisible.txt", "\u{200b}".repeat(900));
    for args in [
        &["train", "invisible.txt"][..],
        &["train", "invisible.txt", "--n_layer=1", "--n_embd=16", "--n_head=1", "--max_iters=1"],
        &["train", "novel.txt", "--val_path=white.txt", "--max_iters=1"],
        &["tokenizer", "train", "white.txt", "--kind", "char", "--out", "tokenizer"],
        &["tokenizer", "train", "invisible.txt", "--vocab-size", "300", "--out", "tokenizer"],
    ] {
        let done = minigpt(args).within(&place.path("")).run().code(1);
        assert_contains(done.stderr(), &[".txt contains only white space"]);
    }
    assert!(!place.path("tokenizer").exists() && !place.path("runs").exists());
}

#[test]
fn a_model_is_trained_further_on_a_text_of_ones_own() {
    let place = Place::new();
    place.write("novel.txt", TEXT.repeat(100));
    place.write("other.txt", TEXT.to_uppercase().repeat(50) + &TEXT.repeat(50));
    train(&place, &["novel.txt"]);
    let said = train(&place, &["other.txt", "--from", "runs/novel"]);
    assert_contains(&said, &["runs/other", "on this machine", "chosen for fine-tuning"]);
    assert_contains(&said, &["continues a text in its style; it looks nothing up"]);
    assert!(!said.contains("chosen model"), "{said}");
    // Its size may be said again, and not otherwise.
    train(&place, &["other.txt", "--from", "runs/novel", "--n_embd=64"]);
    let wider = ["train", "other.txt", "--from", "runs/novel", "--n_embd=33"];
    let done = minigpt(&wider).within(&place.path("")).run();
    assert_contains(
        done.stderr(),
        &["model.n_embd is 33, but the model in runs/novel/best has model.n_embd = 64"],
    );
}

#[test]
fn what_can_not_be_learned_from_is_said() {
    let place = Place::new();
    let refused = |args: &[&str]| {
        let done = minigpt(args).within(&place.path("")).run();
        assert!(done.failed(), "{}", done.stderr());
        assert!(!place.path("runs").exists(), "{args:?} left a folder");
        done.stderr().to_owned()
    };
    assert_contains(&refused(&["train", "missing.txt"]), &["missing.txt"]);
    place.write("empty.txt", "");
    assert_contains(&refused(&["train", "empty.txt"]), &["empty.txt"]);
    place.write("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0");
    assert_contains(&refused(&["train", "picture.png"]), &["a picture"]);
    place.write("short.txt", "ab");
    refused(&["train", "short.txt", "--minutes", "0.01"]);
    place.write("novel.txt", TEXT.repeat(20));
    let said = refused(&["train", "novel.txt", "--tokenizer=bpe:many"]);
    assert_contains(&said, &["there is no tokenizer bpe:many", "bpe:2000"]);
    assert_contains(&refused(&["train", "novel.txt", "--minutes", "0"]), &["--minutes is 0"]);
    assert_contains(&refused(&["train", "novel.txt", "--minutes", "-1"]), &["--minutes is -1"]);
    assert_contains(&refused(&["train", "novel.txt", "--minutes", "nan"]), &["--minutes"]);
}

/// 200 questions were learned for four seconds, with dropout and a tenth held out; none of them was answered.
#[test]
fn few_questions_are_learned_by_heart_and_counted() {
    let place = Place::new();
    let line = |(q, a): (String, String)| json!({ "question": q, "answer": a }).to_string() + "\n";
    place.write("qa.jsonl", pairs().into_iter().take(12).map(line).collect::<String>());
    let done = minigpt(&["train", "qa.jsonl", "--max_iters=300"]).within(&place.path("")).run().success();
    assert_contains(
        done.stderr(),
        &["all questions are used for training, none is held out", "answers 12 of 12"],
    );
    assert_contains(done.stdout(), &["12 of 12 questions, word for word"]);
    let config = place.read_text("runs/qa/config.toml");
    assert_contains(&config, &["val_fraction = 0.0\n", "best_by = \"answers\"\n"]);
    let best = place.read_json("runs/qa/last/training.json")["best"].clone();
    assert_eq!(best["answers"], json!({ "right": 12, "asked": 12 }));
    // Somebody who holds questions out wants to know about others than those that were learned.
    let held_out = ["train", "qa.jsonl", "--val_fraction=0.25", "--max_iters=1", "--out", "held"];
    let done = minigpt(&held_out).within(&place.path("")).run().success();
    assert!(!done.stderr().contains("none is held out"), "{}", done.stderr());
    assert_contains(&place.read_text("held/config.toml"), &["best_by = \"loss\"\n"]);
}

/// It was "within max_length 128 there is nothing to learn".
#[test]
fn one_example_is_learned_for_as_long_as_was_asked_for() {
    let place = Place::new();
    place.write("one.jsonl", "{\"question\": \"Who?\", \"answer\": \"Me.\"}\n");
    let said = train(&place, &["one.jsonl"]);
    assert_contains(&said, &["of 1 questions, word for word"]);
    assert!(!said.contains("times the whole data"), "{said}");
    let done = minigpt(&["train", "one.jsonl", "--val_fraction=0.1"]).within(&place.path("")).run();
    assert!(done.failed());
    assert_contains(done.stderr(), &["one.jsonl has 1 example", "val_fraction = 0.1 leaves none"]);
}

#[test]
fn white_space_and_options_that_would_do_nothing_are_refused() {
    let place = Place::new();
    place.write("blank.txt", " \n\t\n".repeat(400));
    place.write("blank.jsonl", "{\"question\": \" \", \"answer\": \"\"}\n{\"text\": \"\\n\"}\n");
    place.write("novel.txt", TEXT.repeat(100));
    for (args, said) in [
        (&["blank.txt"][..], "blank.txt contains only white space"),
        (
            &["blank.jsonl"],
            "blank.jsonl has no usable line: 2 bad, 0 blank; line 1: contains only white space",
        ),
        // Options that an evaluation has no use for.
        (&["novel.txt", "--eval-only", "--minutes=1"], "cannot be used with"),
        (&["novel.txt", "--eval-only", "--max-minutes=1"], "cannot be used with"),
        (&["novel.txt", "--eval-only", "--ranks=2"], "cannot be used with"),
        (&["novel.txt", "--eval-only", "--serve"], "cannot be used with"),
        (&["blank.txt", "--n_layer=1", "--max_iters=1"], "blank.txt contains only white space"),
        (&["novel.txt", "--max_length=64", "--max_iters=1"], "data.max_length is for questions and answers"),
        (&["novel.txt", "--loss_on=answer", "--max_iters=1"], "data.loss_on is for questions and answers"),
        (&["novel.txt", "--best_by=answers", "--max_iters=1"], "has no questions and answers"),
    ] {
        let done = minigpt(&[&["train"], args].concat()).within(&place.path("")).run();
        assert!(done.failed(), "{args:?}");
        assert_contains(done.stderr(), &[said]);
    }
}

#[test]
fn what_a_model_of_a_text_can_not_do_is_said_and_a_search_is_pointed_elsewhere() {
    let place = Place::new();
    place.write("notes/monday.md", TEXT.repeat(60));
    place.write("notes/tuesday.md", TEXT.repeat(60));
    let said = train(&place, &["notes"]);
    assert_contains(&said, &["continues a text in its style; it looks nothing up"]);
    for command in ["rag", "search", "index"] {
        let done = minigpt(&[command, "notes"]).run();
        assert!(done.failed());
        assert_contains(done.stderr(), &["does not search documents", "`minigpt train qa.jsonl`"]);
    }
}
