//! English or Chinese.
//!
//! - [`messages`]: the binary's own messages, keys with arguments.
//! - [`local`]: a library's message; English is its `Display`, Chinese a `match` in `chinese/`.
//! - `help`: help texts by the path of their command and argument.

mod chart;
mod chinese;
mod errors;
mod help;
pub mod messages;

pub use chart::chart_labels;
pub use chinese::clap_error;
pub use errors::{causes, error, labeled_error};
pub use help::{example_comment, examples_heading, in_language, page};

pub use chinese::Chinese;
use clap::ValueEnum;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicBool, Ordering};

/// A language that messages can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    // Without texts of their own: they would make every page of help a long one.
    En,
    Zh,
}

static CHINESE: AtomicBool = AtomicBool::new(false);

/// Chooses the language: what `--lang` says, or else the locale.
pub fn choose(typed: &[OsString]) {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(set);
    CHINESE.store(of(typed, locale) == Language::Zh, Ordering::Relaxed);
}

/// The language of this run.
pub fn current() -> Language {
    if CHINESE.load(Ordering::Relaxed) { Language::Zh } else { Language::En }
}

fn of(typed: &[OsString], locale: Option<OsString>) -> Language {
    asked(typed).unwrap_or_else(|| match locale.and_then(|value| value.into_string().ok()) {
        Some(value) if value.to_lowercase().starts_with("zh") => Language::Zh,
        _ => Language::En,
    })
}

/// What `--lang` asks for, which is looked for before anything is parsed: the parser speaks too.
fn asked(typed: &[OsString]) -> Option<Language> {
    let options = typed.iter().take_while(|word| *word != "--");
    let mut last = None;
    for (at, word) in options.enumerate() {
        let value = match word.to_str() {
            Some("--lang") => typed.get(at + 1).map(OsString::as_os_str),
            Some(word) => word.strip_prefix("--lang=").map(OsStr::new),
            None => None,
        };
        let value = value.and_then(OsStr::to_str).and_then(|value| Language::from_str(value, true).ok());
        last = value.or(last);
    }
    last
}

/// A time in the unit that fits; days and years have names, the rest has symbols.
pub fn duration(seconds: f64) -> String {
    duration_in(current(), seconds)
}

fn duration_in(language: Language, seconds: f64) -> String {
    match minigpt_charts::duration_parts(seconds) {
        Some((number, unit)) if language == Language::Zh => format!("{number} {}", unit.chinese()),
        _ => minigpt_charts::duration(seconds),
    }
}

/// A message of a library in the chosen language.
pub fn local(message: &(impl Chinese + ?Sized)) -> String {
    match current() {
        Language::En => message.to_string(),
        Language::Zh => message.chinese(),
    }
}

/// The purpose of a ready configuration in the chosen language.
pub fn purpose(config: &minigpt::ReadyConfig) -> String {
    let chinese = (current() == Language::Zh).then(|| chinese::ready_config(config)).flatten();
    chinese.map_or_else(|| config.about(), str::to_owned)
}

/// A large number, in short, for a unit to follow: `2.5 G`, or `25 亿`.
pub fn large(number: f64) -> String {
    large_in(current(), number)
}

fn large_in(language: Language, number: f64) -> String {
    const NAMES: [(f64, &str); 3] = [(1e12, "万亿"), (1e8, "亿"), (1e4, "万")];
    match NAMES.iter().find(|(size, _)| language == Language::Zh && number >= *size) {
        Some((size, name)) => {
            let number = format!("{:.1}", number / size);
            format!("{} {name}", number.strip_suffix(".0").unwrap_or(&number))
        }
        None => minigpt_charts::metric(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(Into::into).collect()
    }

    #[test]
    fn days_and_years_have_chinese_names_and_symbols_stay() {
        let chinese = |seconds: f64| duration_in(Language::Zh, seconds);
        assert_eq!([49.2 * 86_400.0, 3e9].map(chinese), ["49.2 天", "95 年"]);
        assert_eq!([0.25, 90.0, 3600.0].map(chinese), ["250.0 ms", "90 s", "60 min"]);
        assert_eq!(duration_in(Language::En, 49.2 * 86_400.0), "49.2 days");
    }

    #[test]
    fn large_numbers_are_counted_in_ten_thousands_in_chinese() {
        let chinese = |number: f64| large_in(Language::Zh, number);
        assert_eq!([2.5e9, 1e8, 3e12, 12_000.0].map(chinese), ["25 亿", "1 亿", "3 万亿", "1.2 万"]);
        assert_eq!(large_in(Language::En, 2.5e9), minigpt_charts::metric(2.5e9));
    }

    #[test]
    fn the_command_line_decides_then_the_locale() {
        let chosen = |line: &str, locale: Option<&str>| of(&words(line), locale.map(Into::into));
        assert_eq!(chosen("minigpt train --lang zh", Some("en_US.UTF-8")), Language::Zh);
        assert_eq!(chosen("minigpt --lang=en train", Some("zh_CN.UTF-8")), Language::En);
        assert_eq!(chosen("minigpt train", Some("zh_CN.UTF-8")), Language::Zh);
        assert_eq!(chosen("minigpt train", Some("zh_TW")), Language::Zh);
        assert_eq!(chosen("minigpt train", Some("C")), Language::En);
        assert_eq!(chosen("minigpt train --lang fr", None), Language::En);
        assert_eq!(chosen("minigpt tokenizer encode -- --lang zh", None), Language::En);
    }
}
