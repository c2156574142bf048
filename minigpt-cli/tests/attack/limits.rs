//! A system that gives less than is asked for: short files, little memory, few files and threads.

use crate::Outcome;
use crate::fixtures::Fixtures;
use crate::random::Random;
use std::path::Path;

pub fn limit(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    let [model, text, config] = ["model", "text.txt", "config.toml"].map(|name| fixtures.text(name));
    let commands: [&[&str]; 5] = [
        &["train", "--quiet", "--config", &config, "--out", "run"],
        &["export", "--model", &model, "--to", "nanogpt", "--out", "out.pt"],
        &["data", "prepare", "--input", &text, "--out", "out"],
        &["tokenizer", "train", "--input", &text, "--vocab-size", "300", "--out", "out"],
        &["generate", "--model", &model, "--prompt", "the", "--max-new-tokens", "5"],
    ];
    let command = *random.pick(&commands);
    let setup = match random.below(4) {
        // Not 0, which leaves no room for words: what it says goes to a file too.
        0 => format!("ulimit -f {}", 1 + random.below(40)),
        1 => format!("ulimit -v {}", 60_000 + random.below(400_000)),
        2 => format!("ulimit -n {}", 3 + random.below(20)),
        _ => format!("ulimit -u {}", 1 + random.below(20)),
    };
    let ended = fixtures.program(command).after(&setup).run(place);
    // The loader has too little to begin with; or an allocation failed, which ends a program in Rust with these words.
    let starved =
        ["error while loading shared libraries", "memory allocation of", "Cannot fork", "cannot create"];
    if starved.iter().any(|words| ended.stderr.contains(words)) { Ok(()) } else { ended.in_words() }
}
