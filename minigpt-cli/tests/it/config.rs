//! Configurations and settings as a person types them: built-in names, nanoGPT's habits, and mistakes.

use crate::support::{Place, Program, assert_contains, characters, failure, minigpt, shown, small};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// A place with a text, for a small run of `shakespeare-cpu`.
fn with_text() -> Place {
    let place = Place::new();
    place.write("text.txt", "to be or not to be, that is the question\n".repeat(300));
    place
}

fn train(place: &Place, more: &[&str]) -> Program {
    let small = ["--n_layer=1", "--n_embd=16", "--batch_size=2", "--block-size", "16"];
    let args =
        [&["train", "--config", "shakespeare-cpu", "--set", "path=text.txt"], &small[..], more].concat();
    minigpt(&args).within(&place.path(""))
}

/// Every file below a folder, with its bytes and its time.
fn files(folder: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let time = path.metadata().unwrap().modified().unwrap();
            found.insert(path.display().to_string(), (fs::read(&path).unwrap(), time));
        }
    }
    found
}

#[test]
fn a_built_in_configuration_and_nanogpts_options_make_a_run() {
    let place = with_text();
    let done = train(&place, &["--max_iters=2", "--seed", "random"]).run().success();
    let settings: toml::Table = place.read_text("runs/shakespeare-cpu/config.toml").parse().unwrap();
    assert_eq!(settings["train"]["max_iters"].as_integer(), Some(2));
    assert_eq!(settings["model"]["n_layer"].as_integer(), Some(1));
    let seed = settings["train"]["seed"].as_integer().unwrap();
    assert_contains(done.stderr(), &[&format!("random seed: {seed}")]);

    let before = files(&place.path("runs"));
    let measured =
        minigpt(&["train", "--config", "shakespeare-cpu", "--init_from=resume", "--eval_only=True"]);
    let measured = measured.within(&place.path("")).run().success();
    assert!(files(&place.path("runs")) == before, "--eval-only wrote something");
    let last = place.read_text("runs/shakespeare-cpu/metrics.jsonl");
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    let loss = format!("{:.4}", last["val_loss"].as_f64().unwrap());
    assert_contains(measured.stdout(), &["runs/shakespeare-cpu/best", "validation loss", &loss]);

    let resumed = ["train", "--config", "shakespeare-cpu", "--init_from=resume", "--max_iters=4"];
    minigpt(&resumed).within(&place.path("")).run().success();
    assert_eq!(place.read_json("runs/shakespeare-cpu/last/training.json")["step"], 4);
}

#[test]
fn a_model_that_was_never_trained_is_measured_too() {
    let place = with_text();
    let done = train(&place, &["--eval-only"]).run().success();
    assert_contains(done.stdout(), &["untrained", "validation loss"]);
    assert_eq!(place.names(""), ["text.txt"]);
}

/// A step of it was tried, and the machine with it.
#[test]
fn what_does_not_fit_is_not_measured() {
    let place = Place::new();
    place.write("text.txt", "to be or not to be. ".repeat(100));
    place.write("run.toml", "[data]\npath = \"text.txt\"\n");
    let large = "n_embd=131072";
    for args in
        [["plan", "--config", "run.toml", "--set", large], ["train", "text.txt", "--set", large, "--quiet"]]
    {
        let done = minigpt(&args).within(&place.path("")).run();
        assert!(done.failed());
        assert_contains(done.stderr(), &["training this model takes about"]);
    }
}

#[test]
fn a_run_is_planned_by_the_name_of_its_configuration() {
    let place = with_text();
    let args =
        ["plan", "--config", "shakespeare-cpu", "--set", "path=text.txt", "--set", "n_layer=1", "--json"];
    let plan = minigpt(&args).within(&place.path("")).run().success().json();
    assert_eq!(plan["steps"], 380);
}

#[test]
fn a_file_wins_over_a_built_in_configuration_and_it_is_said() {
    let place = with_text();
    let mine = shown(&["config", "show", "shakespeare-cpu"]).replace("max_iters = 380", "max_iters = 3");
    place.write("shakespeare-cpu.toml", mine);
    let done = train(&place, &["--eval-only"]).run().success();
    assert_contains(done.stderr(), &["./shakespeare-cpu.toml is used, not the built-in"]);
    fs::remove_file(place.path("shakespeare-cpu.toml")).unwrap();
    let done = train(&place, &["--eval-only"]).run().success();
    assert!(!done.stderr().contains("built-in"), "{}", done.stderr());
    assert_contains(
        &failure(&["train", "--config", "shakespear-cpu"], 1),
        &["did you mean shakespeare-cpu?", "minigpt config list"],
    );
    assert_contains(&failure(&["config", "show", "novel"], 1), &["minigpt config list"]);
}

#[test]
fn a_seed_may_be_random_in_a_file() {
    let place = with_text();
    let file = shown(&["config", "show", "shakespeare-cpu"]).replace("[train]", "[train]\nseed = \"random\"");
    let file = place.write("mine.toml", file);
    let args =
        ["train", "--config", &file, "--path=text.txt", "--n_layer=1", "--max_iters=1", "--eval_iters=1"];
    let done = minigpt(&args).within(&place.path("")).run().success();
    let settings: toml::Table = place.read_text("runs/mine/config.toml").parse().unwrap();
    let seed = settings["train"]["seed"].as_integer().unwrap();
    assert_contains(done.stderr(), &[&format!("random seed: {seed}")]);
}

#[test]
fn mistakes_in_a_file_have_their_place_and_a_guess_only_where_one_is_near() {
    let place = Place::new();
    let file = place.write("a.toml", "[data]\npath = \"a\"\n[train]\nwandb_log = true\n");
    let said = failure(&["train", "--config", &file], 1);
    assert_contains(
        &said,
        &["a.toml", "line 4, column 1: unknown setting train.wandb_log", "4 | wandb_log = true"],
    );
    assert_contains(&said, &["`minigpt config settings` lists every setting"]);
    assert!(!said.contains("did you mean"), "{said}");
    let file = place.write("a.toml", "[data]\npath = \"a\n");
    assert_contains(
        &failure(&["train", "--config", &file], 1),
        &["a.toml", "line 2, column ", "2 | path = \"a"],
    );
    let said = failure(&["train", "--config", "builtin", "--set", "max_iter=3"], 1);
    assert_contains(&said, &["did you mean train.max_iters?"]);
    assert!(!said.contains("config settings"), "{said}");
}

#[test]
fn a_number_that_cannot_be_is_refused_in_words() {
    let place = Place::new();
    let model = place.model("model", small(3), Some(&characters(&[], "abc")));
    let generate =
        |more: &[&str], code| failure(&[&["generate", &model, "--prompt", "a"], more].concat(), code);
    assert_contains(&generate(&["--temperature", "-1"], 1), &["temperature", "-1"]);
    assert_contains(&generate(&["--top-k", "-1"], 2), &["'-1' for '--top-k <K>': expected a whole number"]);
    assert_contains(
        &generate(&["--max-new-tokens", "1.5"], 2),
        &["'1.5' for '--max-new-tokens <N>': expected a whole number"],
    );
    let written =
        shown(&["generate", &model, "--ids", "1", "--max-new-tokens", "1e1", "--json", "--context", "stop"]);
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["completions"][0]["ids"].as_array().unwrap().len(), 10);
    let (drawn, again) = (["--seed", "random"], ["--seed", "random", "--json"]);
    assert_contains(
        minigpt(&[&["generate", &model, "--ids", "1"], &drawn[..]].concat()).run().success().stderr(),
        &["random seed"],
    );
    minigpt(&[&["generate", &model, "--ids", "1"], &again[..]].concat()).run().success().json();
}

#[test]
fn the_input_of_a_command_has_a_position_and_an_older_name() {
    let place = Place::new();
    let (text, out) = (place.write("a.txt", "abc abc abc abc\n".repeat(50)), place.text("out"));
    shown(&["data", "prepare", &text, "--out", &out]);
    shown(&["data", "prepare", "--input", &text, "--out", &out, "--force"]);
    shown(&["tokenizer", "train", &text, &text, "--vocab-size", "260", "--out", &place.text("bpe")]);
    let encoded = shown(&["tokenizer", "encode", "Hello, world"]);
    assert_eq!(encoded, shown(&["tokenizer", "encode", "--text", "Hello, world"]));
    assert_eq!(shown(&["tokenizer", "decode", "15496", "11"]), "Hello,");
    assert_eq!(shown(&["tokenizer", "decode", "--ids", "15496,11"]), "Hello,");
}

#[test]
fn settings_are_listed_for_people_and_programs() {
    assert_contains(
        &shown(&["config", "settings", "max-iters"]),
        &["[train]", "max_iters = 2000", "Total number of steps"],
    );
    assert_contains(&shown(&["config", "settings", "train", "--lang", "zh"]), &["总步数"]);
    let json: Value = serde_json::from_str(&shown(&["config", "settings", "--json"])).unwrap();
    assert!(json.as_array().unwrap().len() > 50);
    let list: Value = serde_json::from_str(&shown(&["config", "list", "--json"])).unwrap();
    assert!(list.as_array().unwrap().iter().any(|config| config["name"] == "shakespeare-cpu"));
    assert_contains(&failure(&["pull", "gpt2"], 2), &["minigpt import hf:owner/name --out models/name"]);
}
