//! Files that are not what they should be: they are refused in words, or used as what they now are.

use crate::Outcome;
use crate::files::{copy, mutate};
use crate::fixtures::Fixtures;
use crate::random::Random;
use std::path::Path;
use std::time::Duration;

/// A file or folder, and the commands that read it: `@` is where it is.
const READERS: [(&str, &[&str]); 7] = [
    (
        "model",
        &[
            "inspect --model @ --prompt the",
            "generate --model @ --prompt the --max-new-tokens 5",
            "eval --model @ --data text.txt",
            "export --model @ --to nanogpt --out out.pt",
            "import @ --out out",
            "plan --model @",
            "chat --model @",
        ],
    ),
    (
        "bpe",
        &[
            "generate --model @ --prompt the --max-new-tokens 5",
            "export --model @ --to gguf --out out.gguf",
            "tokenizer encode --model @ --text the",
            "chat --model @",
        ],
    ),
    (
        "model.gguf",
        &["import @ --out out", "generate --model @ --prompt the --max-new-tokens 5", "chat --model @"],
    ),
    ("ckpt.pt", &["import @ --out out"]),
    ("tokenizer", &["tokenizer encode --tokenizer @ --text the", "data stats text.txt --tokenizer @"]),
    ("qa.jsonl", &["data stats @", "data split @ --out out", "data prepare --input @ --out out"]),
    (
        "text.txt",
        &[
            "data stats @",
            "data prepare --input @ --out out",
            "tokenizer train --vocab-size 300 --input @ --out out",
        ],
    ),
];

pub fn mutation(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    let (name, commands) = random.pick(&READERS);
    let mutated = place.join(format!("mutated-{name}"));
    copy(&fixtures.path(name), &mutated);
    mutate(random, &mutated);
    let text = fixtures.text("text.txt");
    let word = |word| match word {
        "@" => mutated.to_str().unwrap(),
        "text.txt" => &text,
        word => word,
    };
    let words: Vec<&str> = random.pick(commands).split(' ').map(word).collect();
    fixtures.program(&words).stdin("the cat\n").run(place).in_words()
}

/// A run, its settings or its data. A mutated setting may well ask for more steps than anybody waits for.
pub fn mutated_run(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    let (run, config) = (place.join("run"), place.join("config.toml"));
    copy(&fixtures.path("config.toml"), &config);
    let config_text = config.to_str().unwrap();
    let mut words =
        vec!["train", "--quiet", "--config", config_text, "--out", "run", "--set", "train.max_iters=43"];
    let data;
    match random.below(4) {
        0 => mutate(random, &config),
        1 => {
            let prepared = place.join("prepared");
            copy(&fixtures.path("prepared"), &prepared);
            mutate(random, &prepared);
            data = format!("data.path={}", prepared.display());
            words.extend(["--set", &data]);
        }
        2 => {
            copy(&fixtures.path("run"), &run);
            mutate(random, &run);
            words.push("--resume");
        }
        _ => {
            copy(&fixtures.path("run"), &run);
            mutate(random, &run);
            words = vec!["plot", "run", "--out", "out.svg"];
        }
    }
    let ended = fixtures.program(&words).start(place).end(Duration::from_secs(5));
    if ended.timed_out() && words[0] == "train" { Ok(()) } else { ended.in_words() }
}
