//! `minigpt import` as a person types it, on files that other tools wrote.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn minigpt(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_minigpt")).args(args).output().unwrap()
}

fn answer(args: &[&str]) -> Value {
    let output = minigpt(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = minigpt(args);
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../minigpt-model/tests/files").join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_checkpoint_of_nanogpt_becomes_a_model_that_writes_text() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("model");
    let found = answer(&["import", text(&file("ckpt.pt")), "--out", text(&out), "--json"]);
    assert_eq!((&found["kind"], &found["tokenizer"]), (&"nanoGPT checkpoint".into(), &"meta.pkl".into()));
    assert_eq!(found["largest_difference"], 0.0);
    let written =
        answer(&["generate", "--model", text(&out), "--prompt", "你好ab", "--json", "--max-new-tokens", "3"]);
    assert_eq!(written["prompt_ids"], serde_json::json!([34, 35, 7, 8]));
    assert_eq!(written["completions"][0]["ids"].as_array().unwrap().len(), 3);
}

#[test]
fn folders_of_every_kind_become_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let logits = |source: &str| {
        let out = folder.path().join(source);
        answer(&["import", text(&file(source)), "--out", text(&out), "--json"]);
        answer(&["inspect", "--model", text(&out), "--ids", "1,2,3", "--json", "--full"])["logits"].clone()
    };
    assert_eq!(logits("bin"), logits("shards"));
}

#[test]
fn what_is_in_the_way_is_replaced_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("model");
    let import = ["import", text(&file("bin")).to_owned().leak(), "--out", text(&out)];
    let shown = minigpt(&import);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("Hugging Face folder") && shown.contains("none found") && shown.contains("checked"),
        "{shown}"
    );
    assert!(refused(&import).contains("--force"), "{}", refused(&import));
    assert!(minigpt(&[&import[..], &["--force"]].concat()).status.success());
}

#[test]
fn what_can_not_be_imported_is_refused_in_words_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("model");
    let strange = folder.path().join("strange.pt");
    fs::write(&strange, "no checkpoint").unwrap();
    let import =
        |source: &str, more: &[&str]| refused(&[&["import", source, "--out", text(&out)][..], more].concat());
    assert!(import("nowhere", &[]).contains("there is no such file or folder"));
    assert!(import(text(&strange), &[]).contains("not a zip archive"));
    assert!(import(text(&file("bin")), &["--tokenizer", "gpt2"]).contains("do not belong together"));
    assert!(import(text(&file("bin")), &["--tokenizer", "char"]).contains("trained with"));
    assert!(import(text(&file("ckpt.pt")), &["--tokenizer", text(&strange)]).contains("strange.pt"));
    assert!(!out.exists());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
}
