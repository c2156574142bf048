//! An attack on the program for as long as one likes: killed, starved, lied to and fed with broken files, at random.
//!
//! `scripts/attack` runs it. It is a test binary of its own because it has no tests with names: it draws attacks until its
//! time is up. Each is a function of one seed, so that a failure can be had again (but for the moment of a kill).
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what it sees and fails by panicking"
)]
#![cfg_attr(not(unix), allow(dead_code, reason = "signals, limits and devices are those of Unix"))]

#[path = "../support/children.rs"]
mod children;
mod faults;
mod files;
mod fixtures;
mod kills;
mod limits;
mod mutations;
mod odd_inputs;
mod program;
mod random;
mod run_folders;
mod serving;
mod templates;

use fixtures::Fixtures;
use random::Random;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What goes wrong is said in words; the files that it needs are left behind.
type Outcome = Result<(), String>;

/// One kind of attack, in a folder of its own.
type Attack = fn(&mut Random, &Fixtures, &Path) -> Outcome;

const ATTACKS: [(&str, Attack); 14] = [
    ("kill", kills::kill),
    ("signal", kills::signal),
    ("fault", faults::fault),
    ("mutation", mutations::mutation),
    ("mutated-run", mutations::mutated_run),
    ("template", templates::template),
    ("limit", limits::limit),
    ("odd-input", odd_inputs::odd_input),
    ("link", run_folders::link),
    ("record", run_folders::record),
    ("signals", run_folders::signals),
    ("numbers", run_folders::numbers),
    ("serve", serving::serve),
    ("moved", run_folders::moved),
];

/// After so many failures there is enough to mend.
const MOST_FAILURES: usize = 10;

struct Arguments {
    seconds: u64,
    seed: u64,
    only: Option<String>,
    binary: PathBuf,
}

fn arguments() -> Result<Option<Arguments>, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut found = Arguments {
        seconds: 0,
        seed: now.as_secs() % 1_000_000 * 1000,
        only: None,
        binary: env!("CARGO_BIN_EXE_minigpt").into(),
    };
    let (mut any, mut rest) = (false, std::env::args().skip(1));
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{argument} needs a value"));
        let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
        match argument.as_str() {
            "--seed" => found.seed = number(&value()?)?,
            "--only" => found.only = Some(value()?),
            "--binary" => found.binary = fs::canonicalize(value()?).map_err(|e| e.to_string())?,
            // Anything else is for the tests of cargo's own harness: a name, or an option of it.
            other => match other.parse() {
                Ok(seconds) => (found.seconds, any) = (seconds, true),
                Err(_) => return Ok(None),
            },
        }
    }
    let known = |only: &String| ATTACKS.iter().any(|(name, _)| name == only);
    match &found.only {
        Some(only) if !known(only) => {
            Err(format!("there is no attack {only}; there are {:?}", ATTACKS.map(|a| a.0)))
        }
        _ => Ok(any.then_some(found)),
    }
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(Some(arguments)) if cfg!(unix) => arguments,
        Ok(_) => {
            println!("nothing is attacked without a number of seconds: see scripts/attack");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            println!("{problem}");
            return ExitCode::from(2);
        }
    };
    let failures = attack(&arguments);
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Draws attacks until the time is up; how many got through.
fn attack(arguments: &Arguments) -> usize {
    // In memory where that can be had: the disk's patience is not what is tested.
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let base = tempfile::Builder::new().prefix("minigpt-attack-").tempdir_in(parent).unwrap().keep();
    println!("attacking {} for {} s, seed {}", arguments.binary.display(), arguments.seconds, arguments.seed);
    let fixtures = Fixtures::make(&arguments.binary, &base.join("fixtures"));

    let (started, mut counts, mut failures) = (Instant::now(), BTreeMap::new(), 0);
    for seed in arguments.seed.. {
        let mut random = Random::new(seed);
        // `moved` is run by name only: a folder that moves during a write is not always followed (about one case in thirty).
        let drawn = random.pick(&ATTACKS[..ATTACKS.len() - 1]);
        let only = ATTACKS.iter().find(|(name, _)| arguments.only.as_deref() == Some(name));
        let (name, attack) = only.unwrap_or(drawn);
        let place = base.join(format!("{name}-{seed}"));
        fs::create_dir_all(&place).unwrap();
        *counts.entry(*name).or_insert(0) += 1;
        match attack(&mut random, &fixtures, &place) {
            Ok(()) => drop(fs::remove_dir_all(&place)),
            Err(problem) => {
                failures += 1;
                println!("\nFAILED {name}: {problem}");
                println!("  files: {}", place.display());
                let binary = arguments.binary.display();
                println!("  again: scripts/attack --only {name} --seed {seed} --binary {binary} 0");
            }
        }
        if started.elapsed() >= Duration::from_secs(arguments.seconds) || failures >= MOST_FAILURES {
            break;
        }
    }
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    println!("{failures} failures in {:.0} s: {}", started.elapsed().as_secs_f64(), counts.join(", "));
    if failures == 0 {
        drop(fs::remove_dir_all(&base));
    }
    failures
}
