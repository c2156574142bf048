//! Messages that arrive as they would be printed, in Chinese: notes, errors of libraries, what clap says.

use super::catalogue::{CATALOGUE, Found};
use super::{Language, chinese, current};
use std::borrow::Cow;

/// Messages inside messages are looked for so deep.
const DEEPEST: usize = 6;
/// In a longer text no message is looked for behind a name.
const LONGEST: usize = 1000;
/// Fixed bytes that an entry needs to be told from chance.
const FEWEST: usize = 6;
/// So many places are tried there.
const MOST_JOINTS: usize = 60;

/// Holes whose value is a word of ours, not a name.
const WORDS: [&str; 9] = ["what", "action", "doing", "unit", "kind", "stage", "rule", "found", "why"];

/// A message in the chosen language; one that the catalogue lacks stays as it is.
pub fn translated(message: &str) -> Cow<'_, str> {
    match current() {
        Language::En => message.into(),
        Language::Zh => in_chinese(message, DEEPEST).map_or(message.into(), Into::into),
    }
}

/// An error with all of its causes, in the chosen language.
pub fn error(error: &anyhow::Error) -> String {
    labeled_error(&causes(error))
}

/// The text of an error, marked as one in the chosen language.
pub fn labeled_error(text: &str) -> String {
    match current() {
        Language::En => format!("error: {text}"),
        Language::Zh => format!("错误：{text}"),
    }
}

/// The texts of an error and of its causes, in the chosen language.
pub fn causes(error: &anyhow::Error) -> String {
    match current() {
        Language::En => format!("{error:#}"),
        Language::Zh => {
            let causes = error.chain().map(|cause| {
                chinese::of_error(cause).unwrap_or_else(|| translated(&cause.to_string()).into_owned())
            });
            causes.collect::<Vec<_>>().join("：")
        }
    }
}

pub(super) fn in_chinese(message: &str, deep: usize) -> Option<String> {
    let deep = deep.checked_sub(1)?;
    let found = find(message);
    // `name: message` may fit a few common words as well, which say less of it.
    if let Some(found) = &found
        && let Some((name, behind)) = behind_a_colon(message)
        && behind.fixed > found.fixed
    {
        return Some(format!("{name}：{}", filled(behind, deep)));
    }
    let found = found.map(|found| filled(found, deep));
    found
        .or_else(|| lines(message, deep))
        .or_else(|| inside_spaces(message, deep))
        .or_else(|| behind_a_name(message, deep))
}

/// The catalogue's entry for a message. `{0} to {1}` fits nearly everything: an entry with so few fixed bytes counts only
/// where single words fill it.
fn find(message: &str) -> Option<Found<'_>> {
    CATALOGUE.find(message).filter(|found| {
        found.fixed >= FEWEST || found.values.iter().all(|(_, value)| !value.trim().contains(' '))
    })
}

/// `name: message` of a name without spaces.
fn behind_a_colon(message: &str) -> Option<(&str, Found<'_>)> {
    let (name, rest) = message.split_once(": ").filter(|(name, _)| !name.contains(' '))?;
    Some((name, find(rest)?))
}

/// The Chinese of a message, with that of the messages in its holes.
fn filled(Found { chinese, mut values, .. }: Found, deep: usize) -> String {
    for (name, value) in &mut values {
        let is_message = value.trim().contains(' ') || WORDS.contains(&name.as_str());
        if let Some(chinese) = is_message.then(|| in_chinese(value, deep)).flatten() {
            *value = chinese;
        }
    }
    chinese.fill(&values)
}

/// Some of its lines are messages.
fn lines(message: &str, deep: usize) -> Option<String> {
    if !message.contains('\n') {
        return None;
    }
    let mut known = false;
    let line = |line: &str| {
        let text = line.trim();
        let chinese = text.contains(' ').then(|| in_chinese(text, deep)).flatten();
        known |= chinese.is_some();
        chinese.map_or_else(|| line.to_owned(), |chinese| line.replacen(text, &chinese, 1))
    };
    let lines: Vec<String> = message.split('\n').map(line).collect();
    known.then(|| lines.join("\n"))
}

/// What stands between its spaces is.
fn inside_spaces(message: &str, deep: usize) -> Option<String> {
    let inside = message.trim();
    let chinese = (inside != message).then(|| in_chinese(inside, deep)).flatten()?;
    Some(message.replacen(inside, &chinese, 1))
}

/// `name: message` or `name message`, where the name is nobody's to translate, and what is added to a message. Of several
/// ways to part it, the one with the longest message is the surest.
fn behind_a_name(message: &str, deep: usize) -> Option<String> {
    if message.len() > LONGEST {
        return None;
    }
    let joints = message.match_indices([':', ';', ',', ' ', '.']).filter(|(at, _)| *at > 0).take(MOST_JOINTS);
    let parted = joints.filter_map(|(at, joint)| {
        let (between, rest) = match (joint, message[at..].strip_prefix(": ")) {
            (":", Some(rest)) => ("：", rest),
            (" " | ".", _) => (joint, &message[at + 1..]),
            _ => ("", &message[at..]),
        };
        if !rest.trim().contains(' ') {
            return None;
        }
        // What is added to a message may begin with its space.
        let added = message[at..].starts_with(' ').then(|| find(&message[at..])).flatten();
        match added {
            Some(found) => Some((at, "", found)),
            None => Some((at, between, find(rest)?)),
        }
    });
    let (at, between, found) = parted.max_by_key(|(at, _, found)| (found.fixed, std::cmp::Reverse(*at)))?;
    let name = &message[..at];
    let shown = name.contains(' ').then(|| in_chinese(name, deep)).flatten();
    let shown = shown.unwrap_or_else(|| name.to_owned());
    // Between Chinese words there is no space.
    let between = if between == " " && !shown.ends_with(|c: char| c.is_ascii()) { "" } else { between };
    Some(format!("{shown}{between}{}", filled(found, deep)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn chinese(message: &str) -> String {
        in_chinese(message, DEEPEST).unwrap_or_else(|| message.to_owned())
    }

    #[test]
    fn messages_are_found_in_each_other_and_behind_names() {
        assert_eq!(chinese("Permission denied (os error 13)"), "没有权限（系统错误 13）");
        assert_eq!(chinese("x.toml: trailing characters"), "x.toml：后面有多余的字符");
        assert_eq!(chinese("nobody has ever said this"), "nobody has ever said this");
        assert_eq!(chinese("a: b: {c} %s \u{1b}"), "a: b: {c} %s \u{1b}");
    }

    #[test]
    fn no_message_takes_long() {
        let start = Instant::now();
        for text in ["it is of a: ".repeat(80), "the , ; : ".repeat(10_000), "x\n".repeat(5000)] {
            chinese(&text);
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}
