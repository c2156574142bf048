//! Files, names and numbers that nobody means well with: devices, pipes, requests without end, commands for a terminal.
#![cfg(unix)]

use crate::support::{Place, Program, assert_contains, characters, minigpt, small};
use minigpt_model::{Config, PositionEmbedding};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

/// A small model with a tokenizer of its own, a run's configuration and two kinds of data.
fn place() -> Place {
    let place = Place::new();
    place.model("model", small(4), Some(&characters(&["<unk>"], "abc")));
    let text = place.write("text.txt", "abc ".repeat(500));
    let config = "[model]\nn_layer = 1\nn_head = 1\nn_embd = 8\nblock_size = 8\n[train]\nmax_iters = 2\n";
    place.write("config.toml", format!("{config}[data]\npath = {text:?}\n"));
    place
}

/// Ends within a time and a memory in which an endless input could not be read.
fn bounded(args: &[&str]) -> Program {
    minigpt(args).under_shell("ulimit -v 4000000; ulimit -t 20")
}

#[test]
fn devices_are_refused_wherever_a_file_is_read() {
    let place = place();
    let (model, config) = (place.text("model"), place.text("config.toml"));
    for device in ["/dev/zero", "/dev/urandom", "/dev/full"] {
        let link = place.path("link.txt");
        symlink(device, &link).unwrap();
        let link = link.to_str().unwrap();
        let path = format!("data.path={link}");
        let out = place.text("out");
        let commands: [&[&str]; 12] = [
            &["generate", "--model", &model, "--prompt-file", link],
            &["generate", "--model", link, "--prompt", "a"],
            &["inspect", "--model", link, "--prompt", "a"],
            &["eval", "--model", &model, "--data", link],
            &["train", "--config", link, "--out", &out],
            &["train", "--config", &config, "--set", &path, "--out", &out],
            &["train", "--config", &config, "--from", link, "--out", &out],
            &["data", "stats", link],
            &["data", "prepare", "--input", link, "--tokenizer", "char", "--out", &out],
            &["tokenizer", "train", "--input", link, "--out", &out],
            &["tokenizer", "encode", "--tokenizer", link, "--text", "a"],
            &["import", "--from", link, "--out", &out],
        ];
        for command in commands {
            let done = bounded(command).run();
            assert!(done.failed() && done.stderr().contains("error: "), "{command:?}: {}", done.stderr());
        }
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn a_device_inside_a_folder_is_refused_too() {
    let files = ["config.json", "model.safetensors", "tokenizer.json", "vocab.json", "chat_template.jinja"];
    for file in files.into_iter().chain(["tokenizer_config.json", "model.safetensors.index.json"]) {
        let place = place();
        let path = place.path("model").join(file);
        let _ = fs::remove_file(&path);
        symlink("/dev/zero", &path).unwrap();
        for args in [&["inspect", "--prompt", "a"][..], &["chat"]] {
            let done = bounded(&[args, &["--model", &place.text("model")]].concat()).stdin("a\n").run();
            assert!(
                !done.failed() || done.stderr().contains("error: "),
                "{file} {args:?}: {}",
                done.stderr()
            );
        }
    }
    let place = place();
    let run = ["train", "--config", &place.text("config.toml"), "--out", &place.text("run")];
    minigpt(&run).run().success();
    for file in ["last/training.json", "last/optimizer.safetensors", "config.toml"] {
        let (path, aside) = (place.path("run").join(file), place.path("aside"));
        fs::rename(&path, &aside).unwrap();
        symlink("/dev/zero", &path).unwrap();
        let done = bounded(&["train", "--resume", "--out", &place.text("run")]).run().code(1);
        assert_contains(done.stderr(), &["error: ", file.rsplit('/').next().unwrap()]);
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    // A log is not worth a run.
    let log = place.path("run/metrics.jsonl");
    fs::remove_file(&log).unwrap();
    symlink("/dev/zero", &log).unwrap();
    let resume =
        bounded(&["train", "--resume", "--out", &place.text("run"), "--max_iters=100"]).run().success();
    assert_contains(resume.stderr(), &["metrics.jsonl is not a regular file; the run continues without it"]);
    assert!(fs::symlink_metadata(&log).unwrap().is_file());
    assert_eq!(fs::read_link(place.path("run/metrics.jsonl.aside")).unwrap().to_str(), Some("/dev/zero"));
}

#[test]
fn pipes_are_read_where_text_is_and_refused_elsewhere() {
    let place = place();
    let pipe = place.text("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let fed = |args: &[&str]| {
        let feed = "(printf 'abc abc abc' > \"$PIPE\" &)";
        minigpt(args).under_shell(feed).env("PIPE", &pipe).run()
    };
    let model = place.text("model");
    fed(&["data", "stats", &pipe]).success();
    fed(&["generate", "--model", &model, "--max-new-tokens", "1", "--prompt-file", &pipe]).success();
    let refused = minigpt(&["train", "--config", &pipe]).run().code(1);
    assert_contains(refused.stderr(), &["is not a regular file"]);
}

#[test]
fn what_no_file_pays_for_is_refused_with_its_limit() {
    let place = place();
    let (model, config) = (place.text("model"), place.text("config.toml"));
    for position in [PositionEmbedding::Sinusoidal, PositionEmbedding::Rope, PositionEmbedding::None] {
        let name = format!("{position:?}");
        let folder = place.model(&name, Config { position_embedding: position, ..small(4) }, None);
        let path = place.path(&name).join("config.json");
        let mut keys: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        keys["n_positions"] = (1 << 24).into();
        fs::write(&path, keys.to_string()).unwrap();
        let done = bounded(&["inspect", "--model", &folder, "--ids", "1"]).run().code(1);
        assert_contains(done.stderr(), &["block_size is 16777216", "256 MiB"]);
    }
    let many = ["--prompt", "a", "--num-samples", "1000000000"];
    let done = bounded(&[&["generate", "--model", &model], &many[..]].concat()).run().code(1);
    assert_contains(done.stderr(), &["num_return_sequences", "from 1 to 65536"]);
    for (change, limit) in [
        ("train.gradient_accumulation_steps=1099511627776", "it must be a whole number, 1 to 65,536"),
        ("train.batch_size=1099511627776", "it must be a whole number, 1 to 65,536"),
        ("model.n_embd=200000", "of memory are free"),
    ] {
        let run = ["train", "--config", &config, "--out", &place.text("run"), "--set", change];
        assert_contains(bounded(&run).run().code(1).stderr(), &[limit]);
    }
    let long = place.write("long.txt", vec![b'a'; 17 << 20]);
    let done = bounded(&["generate", "--model", &model, "--prompt-file", &long]).run().code(1);
    assert_contains(done.stderr(), &["16777216 bytes"]);
    for command in [&["generate", "--prompt-file", "-", "--model", &model][..], &["chat", "--model", &model]]
    {
        let done = bounded(command).stdin(vec![b'a'; 17 << 20]).run().code(1);
        assert_contains(done.stderr(), &["more than 16.8 MB"]);
    }
}

/// A command for the terminal, in whatever a message repeats.
const BELL: &str = "\u{1b}]0;owned\u{7}";

#[test]
fn no_message_commands_the_terminal() {
    let place = place();
    let odd = place.path(&format!("no{BELL}such"));
    let odd = odd.to_str().unwrap();
    let keys = place.read_text("model/config.json");
    let keys = keys.replace("\"gelu_new\"", &serde_json::to_string(&format!("ge{BELL}lu")).unwrap());
    place.write("model/config.json", keys);
    let commands: [&[&str]; 6] = [
        &["inspect", "--model", odd, "--prompt", "a"],
        &["train", "--config", odd],
        &["data", "stats", odd],
        &["plot", odd],
        &["generate", "--model", &place.text("model"), "--prompt", "a"],
        &["train", "--config", &place.text("config.toml"), "--set", &format!("train.{BELL}=1")],
    ];
    for command in commands {
        let done = minigpt(command).run();
        assert!(
            done.failed() && done.stderr().contains("\\u{1b}]0;owned"),
            "{command:?}: {:?}",
            done.stderr()
        );
        assert!(!done.stderr().contains('\u{1b}') && !done.stderr().contains('\u{7}'), "{command:?}");
    }
}

/// A model whose every token is a command for the terminal, asked at a terminal and into a pipe.
#[test]
fn what_a_model_writes_is_made_harmless_for_a_terminal_only() {
    let place = Place::new();
    let model = place.model("model", small(2), Some(&characters(&[], "\u{1b}\u{9b}")));
    let args = ["generate", "--model", &model, "--ids", "0", "--max-new-tokens", "4"];
    let piped = minigpt(&args).run().success();
    assert!(piped.stdout().contains('\u{1b}'), "{:?}", piped.stdout());
    let typed = [&[env!("CARGO_BIN_EXE_minigpt")], &args[..]].concat().join(" ");
    let Ok(seen) = Command::new("script").args(["-qec", &typed, "/dev/null"]).output() else {
        return;
    };
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.contains("\\u{1b}") || seen.contains("\\u{9b}"), "{seen:?}");
    assert!(!seen.contains('\u{1b}') && !seen.contains('\u{9b}'), "{seen:?}");
}
