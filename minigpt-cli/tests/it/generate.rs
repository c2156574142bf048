//! `minigpt generate` as a person types it.

use minigpt_formats::hugging_face;
use minigpt_model::{Config, Device, Gpt};
use minigpt_tokenizer::{CharTokenizer, Tokenizer};
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A small model that reads and writes a few characters.
struct Model(tempfile::TempDir);

impl Model {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let characters =
            CharTokenizer::from_text(&["<pad>", "<unk>", "<sep>"], "你好吗我很abc de\n".chars()).unwrap();
        let tokenizer = Tokenizer::Char(characters);
        let config = Config {
            vocab_size: tokenizer.vocab_size(),
            block_size: 12,
            n_layer: 2,
            n_head: 2,
            n_embd: 16,
            initializer_range: 0.5,
            ..Config::default()
        };
        hugging_face::save(&Gpt::new(config, 1, &Device::Cpu).unwrap(), folder.path()).unwrap();
        tokenizer.save(folder.path()).unwrap();
        Self(folder)
    }

    fn run(&self, args: &[&str], stdin: &[u8]) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_minigpt"))
            .args(["generate", "--model"])
            .arg(self.0.path())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The program may refuse its arguments before it reads anything.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        child.wait_with_output().unwrap()
    }

    fn text(&self, args: &[&str]) -> String {
        let output = self.run(args, b"");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn answer(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.text(&[args, &["--json"]].concat())).unwrap()
    }

    fn refused(&self, args: &[&str], code: i32) -> String {
        let output = self.run(args, b"");
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(!error.contains("panicked"), "{error}");
        error
    }
}

#[test]
fn text_streams_behind_its_prompt_and_a_line_says_how_fast() {
    let output = Model::new().run(&["--prompt", "你好", "--max-new-tokens", "30"], b"");
    let (text, note) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(text.starts_with("你好") && text.ends_with('\n'), "{text}");
    assert!(note.contains("tokens/s") && note.contains("first after"), "{note}");
}

#[test]
fn the_json_holds_what_others_rely_on() {
    let model = Model::new();
    let answer = model.answer(&["--prompt", "你好", "--max-new-tokens", "9", "--num-samples", "2"]);
    assert_eq!(answer["prompt_ids"].as_array().unwrap().len(), 2);
    assert!(answer["tokens_per_second"].as_f64().unwrap() > 0.0);
    let completions = answer["completions"].as_array().unwrap();
    assert_eq!(completions.len(), 2);
    for completion in completions {
        let ids = completion["ids"].as_array().unwrap();
        let reason = completion["finish_reason"].as_str().unwrap();
        assert!(ids.len() <= 9 && (reason == "length") == (ids.len() == 9 && ids[8] != 2), "{completion}");
        assert!(completion["text"].is_string() && completion["logprob"].as_f64().unwrap() < 0.0);
    }
}

#[test]
fn the_same_seed_writes_the_same_text_and_greedy_needs_none() {
    let model = Model::new();
    let text = |more: &[&str]| model.text(&[&["--prompt", "abc", "--max-new-tokens", "40"], more].concat());
    assert_eq!(text(&["--seed", "5"]), text(&["--seed", "5"]));
    assert_ne!(text(&["--seed", "5"]), text(&["--seed", "6"]));
    assert_eq!(text(&["--temperature", "0", "--seed", "1"]), text(&["--style", "exact", "--seed", "2"]));
    assert_eq!(text(&["--top-k", "1"]), text(&["--temperature", "0"]));
}

#[test]
fn streamed_whole_and_piped_texts_are_the_same() {
    let model = Model::new();
    let options = ["--max-new-tokens", "20"];
    let streamed = model.text(&[&["--prompt", "你好"], &options[..]].concat());
    let whole = model.answer(&[&["--prompt", "你好"], &options[..]].concat());
    assert_eq!(streamed, format!("你好{}\n", whole["completions"][0]["text"].as_str().unwrap()));
    let piped = model.run(&options, "你好".as_bytes());
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), streamed);
}

#[test]
fn an_explanation_marks_what_was_chosen() {
    let text = Model::new().text(&["--prompt", "abc", "--max-new-tokens", "3", "--explain"]);
    assert!(text.contains("token 1, entropy") && text.contains("> ") && text.contains(" %"), "{text}");
}

#[test]
fn beams_find_one_text_and_ids_need_no_tokenizer() {
    let model = Model::new();
    model.text(&["--prompt", "abc", "--num-beams", "3", "--max-new-tokens", "5"]);
    let bare = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../minigpt-model/tests/fixtures/rope");
    let output = Command::new(env!("CARGO_BIN_EXE_minigpt"))
        .args(["generate", "--ids", "1,2,3", "--max-new-tokens", "4", "--json", "--model"])
        .arg(bare)
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["completions"][0]["ids"].as_array().unwrap().len(), 4);
    assert_eq!(answer["completions"][0]["text"], Value::Null);
}

#[test]
fn a_full_context_slides_or_stops_as_asked() {
    let model = Model::new();
    let long = ["--prompt", "abc", "--max-new-tokens", "50", "--seed", "3", "--json"];
    let stopped = model.answer(&[&long[..6], &["--context", "stop"]].concat());
    let ids = stopped["completions"][0]["ids"].as_array().unwrap().len();
    assert!(ids <= 10, "{ids}");
    let slid = model.answer(&long[..6]);
    assert!(slid["completions"][0]["ids"].as_array().unwrap().len() >= ids);
}

#[test]
fn bad_input_is_refused_in_words() {
    let model = Model::new();
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--prompt", ""], 1, "the prompt is empty"),
        (&["--ids", "99"], 1, "99"),
        (&["--prompt", "a", "--top-p", "0"], 1, "top_p"),
        (&["--prompt", "a", "--top-p", "1.5"], 1, "top_p"),
        (&["--prompt", "a", "--temperature=-1"], 1, "temperature"),
        (&["--prompt", "a", "--num-beams", "1000"], 1, "num_beams"),
        (&["--prompt", "a", "--ids", "1"], 2, "--ids"),
        (&["--prompt-file", "/no/such/file"], 1, "/no/such/file"),
    ];
    for (args, code, part) in cases {
        let error = model.refused(args, code);
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
    let output = model.run(&[], b"ab\xff");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("byte 2"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_minigpt"))
        .args(["generate", "--prompt", "abc", "--max-new-tokens", "2000", "--model"])
        .arg(Model::new().0.keep())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !error.contains("panicked"), "{error}");
}
