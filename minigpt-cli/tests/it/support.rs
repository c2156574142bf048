//! The program as a person types it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub fn minigpt(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_minigpt")).args(args).output().unwrap()
}

/// What a command that must succeed answers with `--json`.
pub fn answer(args: &[&str]) -> Value {
    let output = minigpt(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a command that must fail says.
pub fn refused(args: &[&str]) -> String {
    let output = minigpt(args);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// A file that another tool wrote.
pub fn foreign(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../minigpt-formats/tests/files").join(name)
}
