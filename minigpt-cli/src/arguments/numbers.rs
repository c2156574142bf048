//! Numbers as people write them: `1e3` and `1_000` where a whole number is taken, and a seed that is `random`.

use super::wrong;
use crate::language::{t, tr};
use clap::Arg;
use clap::error::{ContextKind, ErrorKind, Result};
use minigpt::settings;
use std::any::TypeId;
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::num::ParseFloatError;

/// A seed's value for "any".
pub const RANDOM: &str = "random";

/// Whether the value of an option is a number.
pub(super) fn is_number(arg: &Arg) -> bool {
    let kind = arg.get_value_parser().type_id();
    let numbers = [
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<f64>(),
    ];
    numbers.iter().any(|number| kind == *number)
}

/// The value of an option in digits; notes say which seed was drawn.
pub(super) fn plain(arg: &Arg, name: &str, value: OsString, notes: &mut Vec<String>) -> Result<OsString> {
    let Some(text) = value.to_str() else { return Ok(value) };
    let kind = arg.get_value_parser().type_id();
    let is_seed = arg.get_id() == "seed";
    if is_seed && text == RANDOM {
        return Ok(drawn(notes).into());
    }
    if arg.get_id() == "changes" {
        return Ok(change(text, notes).into());
    }
    let needed = |what: &'static str| {
        Err(wrong(ErrorKind::InvalidValue, &t!("{name} is {text}: {what}", what = tr(what))))
    };
    if is_number(arg) && text.trim().is_empty() {
        return needed("a number is needed");
    }
    if kind == TypeId::of::<f64>()
        && text.replace('_', "").parse().is_ok_and(|number: f64| !number.is_finite())
    {
        let digits = text.bytes().any(|byte| byte.is_ascii_digit());
        return needed(if digits { "that number is too large" } else { "a number is needed" });
    }
    if is_number(arg) && kind != TypeId::of::<f64>() {
        return match settings::whole_number(text) {
            Some(digits) => Ok(digits.into()),
            None if is_seed => needed("a whole number is needed, or the word random"),
            None if text.starts_with('-') => needed("a whole number is needed, 0 or more"),
            None => needed("a whole number is needed"),
        };
    }
    Ok(value)
}

/// What is wrong with a number, where Rust's words for it ("invalid float literal") would be shown.
pub(super) fn in_words(error: clap::Error) -> clap::Error {
    let is_rusts = std::error::Error::source(&error).is_some_and(|source| source.is::<ParseFloatError>());
    let told = |kind| error.get(kind).map(ToString::to_string);
    match (told(ContextKind::InvalidArg), told(ContextKind::InvalidValue)) {
        (Some(option), Some(text)) if is_rusts => {
            let name = option.split(' ').next().unwrap_or_default();
            let what = tr("a number is needed");
            wrong(ErrorKind::InvalidValue, &t!("{name} is {text}: {what}"))
        }
        _ => error,
    }
}

/// `key=random` of a seed with a number instead.
pub(super) fn change(change: &str, notes: &mut Vec<String>) -> String {
    match change.split_once('=') {
        Some((key, value)) if value.trim() == RANDOM && key.trim().trim_start_matches("train.") == "seed" => {
            format!("{key}={}", drawn(notes))
        }
        _ => change.to_owned(),
    }
}

/// A seed that nobody chose, and what to say of it, so that the same can be had again.
pub fn draw_seed() -> (u32, String) {
    // Rust seeds its hash maps from the system.
    let seed = RandomState::new().hash_one(RANDOM) as u32;
    (seed, format!("the seed that was drawn: {seed}"))
}

fn drawn(notes: &mut Vec<String>) -> String {
    let (seed, note) = draw_seed();
    notes.push(note);
    seed.to_string()
}
