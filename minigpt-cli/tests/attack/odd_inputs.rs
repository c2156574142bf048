//! Paths that are not what they should be: devices, pipes, folders, links to nowhere, in every option that takes a path.

use crate::Outcome;
use crate::fixtures::Fixtures;
use crate::random::Random;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// What reads a path: `@` is where.
const READERS: [&str; 18] = [
    "inspect --model @ --prompt the",
    "generate --model @ --prompt the --max-new-tokens 5",
    "generate --model MODEL --prompt-file @ --max-new-tokens 5",
    "eval --model @ --data TEXT",
    "eval --model MODEL --data @",
    "chat --model @",
    "import @ --out out",
    "import CKPT --tokenizer @ --out out",
    "export --model @ --to nanogpt --out out.pt",
    "plan --model @",
    "plot @ --out out.svg",
    "data stats @",
    "data stats TEXT --tokenizer @",
    "data split @ --out out",
    "data prepare --input @ --out out",
    "tokenizer train --input @ --vocab-size 300 --out out",
    "tokenizer encode --tokenizer @ --text the",
    "train --config @ --out run",
];

/// What writes to a path. These never get a device: who runs this as root would lose it to a bug.
const WRITERS: [&str; 6] = [
    "import CKPT --out @",
    "import CKPT --force --out @",
    "export --model MODEL --to nanogpt --out @",
    "export --model MODEL --to nanogpt --force --out @",
    "plot RUN --out @",
    "data stats TEXT --svg @",
];

const DEVICES: [&str; 4] = ["/dev/zero", "/dev/urandom", "/dev/full", "/dev/null"];

pub fn odd_input(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    let odd = place.join("odd");
    let (writes, kind) = (random.one_in(4), random.below(9));
    let path = match kind {
        0..4 if !writes => DEVICES[kind],
        _ => odd.to_str().unwrap(),
    };
    let mut talker = None;
    match kind {
        0..4 if !writes => {}
        4 => fs::create_dir(&odd).unwrap(),
        #[cfg(unix)]
        5 => std::os::unix::fs::symlink("nowhere", &odd).unwrap(),
        #[cfg(unix)]
        6 => std::os::unix::fs::symlink("odd", &odd).unwrap(),
        0..4 | 7 => {
            assert!(Command::new("mkfifo").arg(&odd).status().unwrap().success());
            // Somebody who has something to say, and who listens.
            let script = "exec 3<>odd; head -c 30000 /dev/urandom >odd; sleep 1";
            let shell =
                Command::new("sh").args(["-c", script]).current_dir(place).stdout(Stdio::null()).spawn();
            talker = Some(shell.unwrap());
        }
        _ => fs::write(&odd, "").unwrap(),
    }
    let words = ["MODEL", "TEXT", "CKPT", "RUN"];
    let known = ["model", "text.txt", "ckpt.pt", "run"].map(|name| fixtures.text(name));
    let word = |word| match words.iter().position(|known| *known == word) {
        Some(i) => known[i].as_str(),
        None if word == "@" => path,
        None => word,
    };
    let commands: &[&str] = if writes { &WRITERS } else { &READERS };
    let args: Vec<&str> = random.pick(commands).split(' ').map(word).collect();
    let ended = fixtures.program(&args).stdin("the cat\n").run(place);
    let Some(mut talker) = talker else { return ended.in_words() };
    talker.kill().unwrap();
    talker.wait().unwrap();
    ended.in_words()?;
    if fs::symlink_metadata(&odd).is_ok_and(|about| !about.is_file() && !about.is_dir()) {
        Ok(())
    } else {
        ended.failed("what was a pipe is one no more")
    }
}
