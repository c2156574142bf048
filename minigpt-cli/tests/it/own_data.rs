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
        &["novel.txt: text", "layers", "width", "steps, about", "it writes:", "guessing among all"],
    );
    assert_contains(&said, &["runs/novel", "minigpt generate", "minigpt inspect", "minigpt plot runs/novel"]);
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
    assert_contains(done.success().stdout(), &["step 2: all steps made"]);
    // With both, whichever is over first.
    assert_contains(
        &train(&place, &["novel.txt", "--max_iters=2"]),
        &["2 steps, about", "step 2: all steps made"],
    );
    // And a configuration that names the data alone gets the same small model.
    place.write("run.toml", "[data]\npath = \"novel.txt\"\n");
    let done = minigpt(&["train", "--config", "run.toml", "--max_iters=2"]).within(&place.path("")).run();
    assert_contains(done.success().stderr(), &["chosen for it"]);
    assert_contains(&place.read_text("runs/run/config.toml"), &["n_embd = 64\n"]);
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
    assert_contains(&train(&place, &["书"]), &["2 files of text", "one token a character", "runs/书"]);
    let prepare = ["data", "prepare", "书", "--out", "tokens"];
    minigpt(&prepare).within(&place.path("")).run().success();
    assert_contains(&train(&place, &["tokens"]), &["prepared tokens", "runs/tokens"]);
    assert_contains(&train(&place, &["tokens/train.bin"]), &["runs/tokens-2"]);
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

#[test]
fn a_model_is_trained_further_on_a_text_of_ones_own() {
    let place = Place::new();
    place.write("novel.txt", TEXT.repeat(100));
    place.write("other.txt", TEXT.to_uppercase().repeat(50) + &TEXT.repeat(50));
    train(&place, &["novel.txt"]);
    let said = train(&place, &["other.txt", "--from", "runs/novel"]);
    assert_contains(&said, &["runs/other", "steps, about"]);
    assert!(!said.contains("chosen for it"), "{said}");
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
    assert_contains(&refused(&["train", "novel.txt", "--minutes", "0"]), &["--minutes 0"]);
    assert_contains(&refused(&["train", "novel.txt", "--minutes", "-1"]), &["--minutes -1"]);
    assert_contains(&refused(&["train", "novel.txt", "--minutes", "nan"]), &["--minutes"]);
}
