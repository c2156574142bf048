//! Help in Chinese: clap's texts are English, from the doc comments; `messages/zh/help.txt` has the Chinese by key.
//!
//! | key | is the text of |
//! |---|---|
//! | `data show` | a command |
//! | `data show.row` | an argument of it, by its id |
//! | `train.device.cpu` | a possible value of an argument |
//! | `bench train:after` | what follows its options |
//! | `demo:example 2` | the comment behind its second example |
//!
//! `*` instead of the command is for all commands that have no key of their own.

use super::{Language, current};
use crate::screen;
use clap::builder::{Resettable, Str, StyledStr};
use clap::{Arg, Command};
use minigpt_charts::width;
use std::collections::HashMap;
use std::sync::LazyLock;

static TEXTS: LazyLock<HashMap<&'static str, String>> =
    LazyLock::new(|| entries(include_str!("../../messages/zh/help.txt")));

/// The entries `key = text`; an indented line continues the text of the one before.
fn entries(text: &'static str) -> HashMap<&'static str, String> {
    let mut entries: Vec<(&str, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if let (Some(more), Some((_, text))) = (line.strip_prefix("    "), entries.last_mut()) {
            *text = format!("{text}\n{more}");
        } else if let Some((key, text)) = line.split_once(" = ") {
            entries.push((key, text.to_owned()));
        }
    }
    entries.into_iter().collect()
}

/// The Chinese of `part` of a command (`.row`, `:after`, or nothing for the command itself), and its key.
fn text(path: &str, part: &str) -> Option<(&'static str, &'static str)> {
    let (key, text) = TEXTS
        .get_key_value(format!("{path}{part}").as_str())
        .or_else(|| TEXTS.get_key_value(format!("*{part}").as_str()))?;
    Some((*key, text))
}

/// The program, built, with its help in the chosen language.
pub fn in_language(program: Command) -> Command {
    match current() {
        Language::En => program,
        // Lines are broken afterwards: clap breaks at spaces, which Chinese has not.
        Language::Zh => in_chinese(program.term_width(usize::MAX), ""),
    }
}

/// The comment behind an example, in the chosen language.
pub fn example_comment(path: &str, number: usize, english: &'static str) -> &'static str {
    match current() {
        Language::En => english,
        Language::Zh => text(path, &format!(":example {number}")).map_or(english, |(_, text)| text),
    }
}

/// The heading of the examples.
pub fn examples_heading() -> &'static str {
    match current() {
        Language::En => "Examples:",
        Language::Zh => "示例：",
    }
}

fn in_chinese(command: Command, path: &str) -> Command {
    let about = text(if path.is_empty() { "minigpt" } else { path }, about_part(&command));
    let after = TEXTS.get(format!("{path}:after").as_str());
    let template = template(&command);
    let command = command.mut_args(|arg| argument(arg, path)).mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        in_chinese(sub, path.trim_start())
    });
    let command = command.help_template(template).term_width(usize::MAX);
    let command = match about {
        Some((_, about)) => command.about(about).long_about(Resettable::<StyledStr>::Reset),
        None => command,
    };
    match (after, command.get_after_help().map(ToString::to_string)) {
        // The examples stay below it.
        (Some(after), Some(help)) => {
            let examples = help.find(examples_heading()).map_or("", |at| &help[at..]).to_owned();
            command.after_help(format!("{after}\n\n{examples}"))
        }
        _ => command,
    }
}

/// clap adds a command `help` wherever there are others.
fn about_part(command: &Command) -> &'static str {
    if command.get_name() == "help" { ":help" } else { "" }
}

/// The page with Chinese headings.
fn template(command: &Command) -> String {
    let mut page = "{about-with-newline}\n用法：{usage}".to_owned();
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        page += "\n\n命令：\n{subcommands}";
    }
    if command.get_positionals().any(|arg| !arg.is_hide_set()) {
        page += "\n\n参数：\n{positionals}";
    }
    page + "\n\n选项：\n{options}{after-help}"
}

/// An argument with its help, and with its default and its possible values in Chinese.
fn argument(arg: Arg, path: &str) -> Arg {
    let part = format!(".{}", arg.get_id());
    let Some((_, help)) = text(path, &part).filter(|_| !arg.is_hide_set()) else { return arg };
    let mut notes = Vec::new();
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        notes.push(format!("[默认值：{}]", defaults.join(" ")));
    }
    let values = if arg.get_action().takes_values() { arg.get_possible_values() } else { Vec::new() };
    let names: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
    let aliases = arg.get_visible_aliases().unwrap_or_default();
    let aliases: Vec<String> = aliases.iter().map(|alias| format!("--{alias}")).collect();
    if !aliases.is_empty() {
        notes.push(format!("[别名：{}]", aliases.join("、")));
    }
    let with = |notes: &[String]| format!("{help} {}", notes.join(" ")).trim_end().to_owned();
    let listed = values.iter().filter_map(|value| {
        let (_, help) = text(path, &format!("{part}.{}", value.get_name()))?;
        Some(format!("\n- {}：{help}", value.get_name()))
    });
    let listed: String = listed.collect();
    let mut long = with(&notes);
    if !listed.is_empty() {
        long = format!("{long}\n\n可选值：{listed}");
    }
    if !names.is_empty() {
        notes.push(format!("[可选值：{}]", names.join("、")));
    }
    let short = with(&notes);
    let long = if listed.is_empty() { short.clone() } else { long };
    let all = arg.get_all_aliases().unwrap_or_default();
    let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
    arg.help(short)
        .long_help(long)
        .hide_default_value(true)
        .hide_possible_values(true)
        .alias(Resettable::<Str>::Reset)
        .aliases(all)
}

/// A page of help as the terminal's width allows.
pub fn page(text: &str) -> String {
    match current() {
        Language::En => text.to_owned(),
        Language::Zh => text.split('\n').flat_map(broken).collect::<Vec<_>>().join("\n"),
    }
}

/// A line in as many as the terminal needs; what goes on stands below where the text began.
fn broken(line: &str) -> Vec<String> {
    let columns = screen::picture_columns().min(100);
    let begin = line.rfind("  ").map_or(0, |at| width(&line[..at + 2]));
    if width(line) <= columns || begin + 20 > columns {
        return vec![line.to_owned()];
    }
    let (mut lines, mut last, mut word) = (Vec::new(), String::new(), String::new());
    for c in line.chars() {
        // A word of Latin letters stays whole; between Chinese characters there may be a break anywhere.
        let wide = width(c.encode_utf8(&mut [0; 4])) == 2;
        if wide || c == ' ' {
            last.push_str(&std::mem::take(&mut word));
        }
        word.push(c);
        if "，。；：、）！？".contains(c) {
            // Never at the beginning of a line.
            last.push_str(&std::mem::take(&mut word));
        } else if width(&last) + width(&word) > columns && width(&last) > begin {
            lines.push(last.trim_end().to_owned());
            last = " ".repeat(begin);
            word = word.trim_start().to_owned();
        }
    }
    lines.push(last + &word);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;
    use std::collections::{BTreeMap, BTreeSet};

    /// Every English text of the help with its keys, the particular one first.
    fn english() -> Vec<([String; 2], String)> {
        fn walk(command: &Command, path: &str, all: &mut Vec<([String; 2], String)>) {
            let mut add = |part: &str, text: Option<String>| {
                let any = if part == ":after" { path } else { "*" };
                let keys = [format!("{path}{part}"), format!("{any}{part}")];
                all.extend(text.filter(|text| !text.is_empty()).map(|text| (keys, text)));
            };
            if path == "plan" {
                // The presets are a table of their own.
            } else if let Some(after) = command.get_after_help() {
                let after = after.to_string();
                let before = after.split("Examples:").next().unwrap_or_default();
                add(":after", Some(before.trim().to_owned()));
            }
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                assert!(
                    arg.get_id() == "help" || arg.get_long_help().is_none(),
                    "{path}.{}: more than one paragraph",
                    arg.get_id()
                );
                add(
                    &format!(".{}", arg.get_id()),
                    Some(arg.get_help().map(ToString::to_string).unwrap_or_default()),
                );
                for value in arg.get_possible_values() {
                    let help = value.get_help().map(ToString::to_string);
                    add(&format!(".{}.{}", arg.get_id(), value.get_name()), help);
                }
            }
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let key = if path.is_empty() { "minigpt" } else { path };
            let keys = if command.get_name() == "help" { "*:help" } else { key };
            all.push(([key.to_owned(), keys.to_owned()], about));
            for sub in command.get_subcommands().filter(|_| command.get_name() != "help") {
                walk(sub, format!("{path} {}", sub.get_name()).trim_start(), all);
            }
        }
        let program = crate::arguments::program(&[]);
        let mut all = Vec::new();
        walk(&program, "", &mut all);
        let comments = examples::comments();
        all.extend(comments.map(|(path, number, comment)| {
            let key = format!("{path}:example {number}");
            ([key.clone(), key], comment.to_owned())
        }));
        all
    }

    #[test]
    fn every_text_of_the_help_has_its_chinese_and_every_entry_is_used() {
        let (mut used, mut missing) = (BTreeSet::new(), Vec::new());
        let mut shared: BTreeMap<&str, String> = BTreeMap::new();
        for ([own, any], english) in english() {
            let found = TEXTS.get_key_value(own.as_str()).or_else(|| TEXTS.get_key_value(any.as_str()));
            let Some((key, _)) = found else {
                missing.push(format!("{own} = {english}"));
                continue;
            };
            used.insert(*key);
            if key.starts_with('*') && *key != "*.help" {
                let first = shared.entry(key).or_insert_with(|| english.clone());
                assert_eq!(*first, english, "{own} needs a key of its own beside {key}");
            }
        }
        let unused: Vec<_> = TEXTS.keys().filter(|key| !used.contains(*key)).collect();
        assert!(missing.is_empty(), "without Chinese:\n{}", missing.join("\n"));
        assert!(unused.is_empty(), "unused: {unused:?}");
    }

    #[test]
    fn long_lines_go_on_below_their_text() {
        let lines = broken(&format!("  --name  {}", "很长的说明 with words ".repeat(12)));
        assert!(lines.len() > 2 && lines.iter().all(|line| width(line) <= 102), "{lines:#?}");
        assert!(lines[1..].iter().all(|line| line.starts_with("          ")), "{lines:#?}");
    }
}
