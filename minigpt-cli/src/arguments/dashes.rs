//! The one step before clap: words that begin with a dash and that clap would tear apart. Everything else it reads as typed.
//!
//! - A long option behind a single dash, as llama.cpp spells some (`-ngl 99`, `-cnv`), gets its second dash; clap would read
//!   the letters `-n`, `-g`, `-l`.
//! - A text that begins with a dash but is no option (`-->`, `-5x`, `"- a list"`) is attached to the option before it
//!   (`--prompt=-->`), or goes behind `--` with the words that follow it.

use super::option_of;
use clap::{ArgAction, Command};
use std::ffi::{OsStr, OsString};

/// The words of a command's line as clap reads them.
pub(super) fn told_apart(command: &Command, typed: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let (mut words, mut texts) = (Vec::new(), Vec::new());
    let mut typed = typed.into_iter().peekable();
    while let Some(word) = typed.next() {
        if word == "--" {
            texts.extend(typed);
            break;
        }
        if !is_option(&word) {
            let list = if begins_with_dash(&word) || !texts.is_empty() { &mut texts } else { &mut words };
            list.push(word);
            continue;
        }
        let mut word = with_second_dash(command, word);
        let arg = option_of(command, &word).filter(|_| !word.as_encoded_bytes().contains(&b'='));
        let takes = arg.is_some_and(|arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append));
        let value = typed.next_if(|next| takes && !is_option(next) && next != "--");
        match value {
            Some(value) if begins_with_dash(&value) => {
                word.push("=");
                word.push(value);
                words.push(word);
            }
            value => words.extend([Some(word), value].into_iter().flatten()),
        }
    }
    if !texts.is_empty() {
        words.push("--".into());
        words.append(&mut texts);
    }
    words
}

/// Whether a word is spelled as an option: a letter follows its dashes, and its name has no spaces.
pub(super) fn is_option(word: &OsStr) -> bool {
    let Some(word) = word.to_str() else { return false };
    let name = word.split('=').next().unwrap_or_default();
    let letters = name.trim_start_matches('-');
    name.len() > letters.len()
        && letters.starts_with(|c: char| c.is_ascii_alphabetic())
        && !name.contains(char::is_whitespace)
        && word.parse::<f64>().is_err()
}

/// Whether a word begins with a dash and is not standard input.
fn begins_with_dash(word: &OsStr) -> bool {
    word != "-" && word.as_encoded_bytes().starts_with(b"-")
}

/// `-ngl` as `--ngl`, if the command has that and not the letters one by one.
fn with_second_dash(command: &Command, word: OsString) -> OsString {
    let several = word.to_str().filter(|word| !word.starts_with("--") && word.chars().count() > 2);
    match several.map(|word| OsString::from(format!("-{word}"))) {
        Some(long) if option_of(command, &long).is_some() => long,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::program;

    #[test]
    fn texts_that_begin_with_a_dash_are_told_from_options() {
        for (typed, read) in [
            (&["run", "a", "-ngl", "99", "-p", "hi"][..], &["run", "a", "--ngl", "99", "-p", "hi"][..]),
            (&["run", "a", "-phello", "-n5"], &["run", "a", "-phello", "-n5"]),
            (&["run", "a", "---", "b", "-n", "5"], &["run", "a", "-n", "5", "--", "---", "b"]),
            (&["run", "a", "--prompt", "-5 degrees"], &["run", "a", "--prompt=-5 degrees"]),
            (&["run", "a", "--prompt", ""], &["run", "a", "--prompt", ""]),
            (&["run", "a", "--temp", "-1"], &["run", "a", "--temp=-1"]),
            (&["run", "a", "--prompt", "--seed"], &["run", "a", "--prompt", "--seed"]),
            (&["run", "-", "--", "-x"], &["run", "-", "--", "-x"]),
        ] {
            let program = program(&[]);
            let command = program.find_subcommand("run").unwrap();
            let words = told_apart(command, typed.iter().map(OsString::from));
            assert_eq!(words, read.iter().map(OsString::from).collect::<Vec<_>>());
        }
    }
}
