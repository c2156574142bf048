//! Paths that are not what they should be: devices, pipes, folders, links to nowhere, in every option that takes a path.

use crate::Outcome;
use crate::fixtures::Fixtures;
use crate::random::Random;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// What reads or writes a path: `@` is where.
const COMMANDS: [&str; 22] = [
    "inspect --model @ --prompt the",
    "generate --model @ --prompt the --max-new-tokens 5",
    "generate --model MODEL --prompt-file @ --max-new-tokens 5",
    "eval --model @ --data TEXT",
    "eval --model MODEL --data @",
    "chat --model @",
    "import @ --out out",
    "import CKPT --tokenizer @ --out out",
    "import CKPT --out @",
    "export --model @ --to nanogpt --out out.pt",
    "export --model MODEL --to nanogpt --out @",
    "plan --model @",
    "plot @ --out out.svg",
    "plot RUN --out @",
    "data stats @",
    "data stats TEXT --svg @",
    "data stats TEXT --tokenizer @",
    "data split @ --out out",
    "data prepare --input @ --out out",
    "tokenizer train --input @ --vocab-size 300 --out out",
    "tokenizer encode --tokenizer @ --text the",
    "train --config @ --out run",
];

pub fn odd_input(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    let odd = place.join("odd");
    let mut writer = None;
    let path = match random.below(9) {
        0 => "/dev/zero",
        1 => "/dev/urandom",
        2 => "/dev/full",
        3 => "/dev/null",
        kind => {
            match kind {
                4 => fs::create_dir(&odd).unwrap(),
                #[cfg(unix)]
                5 => std::os::unix::fs::symlink("nowhere", &odd).unwrap(),
                #[cfg(unix)]
                6 => std::os::unix::fs::symlink("odd", &odd).unwrap(),
                7 => {
                    assert!(Command::new("mkfifo").arg(&odd).status().unwrap().success());
                    // Somebody who has something to say, and who listens.
                    let script = "exec 3<>odd; head -c 30000 /dev/urandom >odd; sleep 1";
                    writer = Command::new("sh")
                        .args(["-c", script])
                        .current_dir(place)
                        .stdout(Stdio::null())
                        .spawn()
                        .ok();
                }
                _ => fs::write(&odd, "").unwrap(),
            }
            odd.to_str().unwrap()
        }
    };
    let words = ["MODEL", "TEXT", "CKPT", "RUN"];
    let known = ["model", "text.txt", "ckpt.pt", "run"].map(|name| fixtures.text(name));
    let word = |word| match words.iter().position(|known| *known == word) {
        Some(i) => known[i].as_str(),
        None if word == "@" => path,
        None => word,
    };
    let args: Vec<&str> = random.pick(&COMMANDS).split(' ').map(word).collect();
    let ended = fixtures.program(&args).stdin("the cat\n").run(place);
    if let Some(mut writer) = writer {
        drop(writer.kill());
        writer.wait().unwrap();
    }
    ended.in_words()
}
