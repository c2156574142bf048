//! A call to the system that fails, placed at random by `strace`: what is written is the old or the new, and whole.

use crate::Outcome;
use crate::files::contents;
use crate::fixtures::Fixtures;
use crate::kills::{finishes_as_if_nothing_had_been, kill_somewhere, train};
use crate::program::Ended;
use crate::random::Random;
use std::path::Path;
use std::process::{Command, Stdio};

/// What fails, and up to which of its calls: those of the loader, which is not ours, come first.
const CALLS: [(&str, usize, usize); 8] = [
    ("write", 0, 200),
    ("rename,renameat,renameat2", 0, 40),
    ("fsync,fdatasync", 0, 60),
    ("openat", 12, 150),
    ("unlink,unlinkat,rmdir", 0, 60),
    ("mkdir,mkdirat", 0, 20),
    ("read,pread64", 8, 100),
    ("flock,ftruncate,fallocate,statx", 4, 100),
];

pub fn fault(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    let there = Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    let (calls, from, to) = *random.pick(&CALLS);
    let error = *random.pick(&["EIO", "ENOSPC", "EACCES"]);
    let (when, until) = (1 + from + random.small(to - from), *random.pick(&["", "+"]));
    let fault = format!("inject={calls}:error={error}:when={when}{until}");
    let wrapper = ["strace", "-f", "-qqq", "-o", "/dev/null", "-e", &fault].map(str::to_owned).to_vec();

    let path = |name: &str| fixtures.text(name);
    // What writes, and the same with something else, whose result is in its place before.
    let writers: [[Vec<String>; 2]; 6] = [
        ["model", "bpe"].map(|model| args(&["export", "--to", "nanogpt", "--model", &path(model)])),
        ["bpe", "model"].map(|model| args(&["export", "--to", "hf", "--model", &path(model)])),
        ["model.gguf", "ckpt.pt"].map(|model| args(&["import", &path(model)])),
        ["text.txt", "other.txt"].map(|text| args(&["data", "prepare", "--input", &path(text)])),
        ["0.8", "0.6"].map(|part| args(&["data", "split", &path("qa.jsonl"), "--ratio", part])),
        ["300", "280"]
            .map(|size| args(&["tokenizer", "train", "--input", &path("text.txt"), "--vocab-size", size])),
    ];
    match random.below(writers.len() + 3) {
        n if n < writers.len() => writes_old_or_new(fixtures, place, &writers[n], wrapper),
        _ => trains(random, fixtures, place, wrapper),
    }
}

fn args(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The loader could not open a library: nothing of ours ran.
fn never_started(ended: &Ended) -> bool {
    ended.stderr.contains("error while loading shared libraries") || ended.stderr.contains("strace: ")
}

fn writes_old_or_new(
    fixtures: &Fixtures,
    place: &Path,
    [new, old]: &[Vec<String>; 2],
    wrapper: Vec<String>,
) -> Outcome {
    let command = |args: &[String], out: &str| {
        let words: Vec<&str> = args.iter().map(String::as_str).chain(["--force", "--out", out]).collect();
        fixtures.program(&words)
    };
    for (args, out) in [(new, "new"), (old, "old"), (old, "target")] {
        if let Err(problem) = command(args, out).run(place).success() {
            return Err(format!("without any fault: {problem}"));
        }
    }
    let (new_files, old_files) = (contents(&place.join("new")), contents(&place.join("old")));
    let ended = command(new, "target").by(wrapper).run(place);
    if never_started(&ended) {
        return Ok(());
    }
    in_words_if_it_can(&ended)?;
    let now = contents(&place.join("target"));
    if now != new_files && (ended.succeeded() || now != old_files) {
        return ended.failed("what it was to write is neither as before nor as it should be");
    }
    command(new, "target").run(place).success()?;
    if contents(&place.join("target")) == new_files {
        Ok(())
    } else {
        ended.failed("a second attempt does not mend it")
    }
}

fn trains(random: &mut Random, fixtures: &Fixtures, place: &Path, wrapper: Vec<String>) -> Outcome {
    if random.one_in(2) {
        kill_somewhere(random, fixtures, place);
    }
    let ended = fixtures.program(&train(fixtures, place)).by(wrapper).run(place);
    if never_started(&ended) {
        return Ok(());
    }
    in_words_if_it_can(&ended)?;
    let finished = finishes_as_if_nothing_had_been(fixtures, place);
    finished.or_else(|problem| ended.failed(&format!("afterwards: {problem}")))
}

/// As every command ends; but words can't be had from one whose writes fail.
fn in_words_if_it_can(ended: &Ended) -> Outcome {
    let mute = ended.shown.contains("inject=write") && matches!(ended.code(), Some(1 | 2));
    if mute && !ended.stderr.contains("panicked") { Ok(()) } else { ended.in_words() }
}
