//! Parsers of numbers as people write them (`1e3`, `1_000`), and of seeds, which may be `random`.

use crate::language::messages::arguments as message;
use clap::ArgMatches;
use minigpt::settings;
use std::hash::{BuildHasher, RandomState};

/// The value of a seed that stands for any number.
pub const RANDOM: &str = "random";

/// A whole number.
pub fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let digits = settings::whole_number(text).ok_or_else(|| match text.strip_prefix('-') {
        Some(number) if number.parse::<f64>().is_ok() => message::Negative.to_string(),
        _ => message::NotWhole.to_string(),
    })?;
    let number = digits.parse::<u64>().ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| message::TooLarge.to_string())
}

/// A whole number that is not below `least`.
pub fn at_least<T: TryFrom<u64> + PartialOrd + Copy + Send + Sync + std::fmt::Display + 'static>(
    least: T,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| match whole(text)? {
        number if number < least => Err(message::BelowLeast { least }.to_string()),
        number => Ok(number),
    }
}

/// A whole number that is not above `most`.
pub fn at_most<T: TryFrom<u64> + PartialOrd + Copy + Send + Sync + std::fmt::Display + 'static>(
    most: T,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| match whole(text)? {
        number if number > most => Err(message::AboveMost { most }.to_string()),
        number => Ok(number),
    }
}

/// A whole number from `least` to `most`.
pub fn within<T: TryFrom<u64> + PartialOrd + Copy + Send + Sync + std::fmt::Display + 'static>(
    least: T,
    most: T,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| match whole(text)? {
        number if number < least || number > most => Err(message::Outside { least, most }.to_string()),
        number => Ok(number),
    }
}

/// A finite number.
pub fn number(text: &str) -> Result<f64, String> {
    match text.replace('_', "").parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) if text.contains(|c: char| c.is_ascii_digit()) => Err(message::TooLarge.to_string()),
        _ => Err(message::NotNumber.to_string()),
    }
}

/// A finite number above 0.
pub fn positive(text: &str) -> Result<f64, String> {
    match number(text) {
        Ok(number) if number <= 0.0 => Err(message::NotPositive.to_string()),
        result => result,
    }
}

/// A seed; `random` draws one.
pub fn seed(text: &str) -> Result<u64, String> {
    if text == RANDOM {
        Ok(draw_seed().into())
    } else {
        whole(text).map_err(|_| message::NotSeed.to_string())
    }
}

/// A change of a setting, `key=value`, in which `seed=random` draws a seed.
#[expect(clippy::unnecessary_wraps, reason = "the signature of a clap value parser")]
pub fn change(text: &str) -> Result<String, String> {
    Ok(match text.split_once('=') {
        Some((key, value)) if value.trim() == RANDOM && key.trim().trim_start_matches("train.") == "seed" => {
            format!("{key}={}", draw_seed())
        }
        _ => text.to_owned(),
    })
}

/// A random seed.
pub fn draw_seed() -> u32 {
    // Rust seeds its hash maps from the system.
    RandomState::new().hash_one(RANDOM) as u32
}

/// The seed that was drawn for an option, so that the same one can be typed.
pub(super) fn drawn(matches: &ArgMatches, option: &str) -> Option<String> {
    let typed = matches.try_get_raw(option).ok()??;
    let at = typed.into_iter().position(|typed| typed.to_string_lossy().ends_with(RANDOM))?;
    if let Ok(Some(mut changes)) = matches.try_get_many::<String>(option) {
        let (_, seed) = changes.nth(at)?.rsplit_once('=')?;
        return seed.parse::<u32>().ok().map(|seed| seed.to_string());
    }
    Some(matches.try_get_one::<u64>(option).ok()??.to_string())
}
