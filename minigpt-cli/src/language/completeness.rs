//! Every message has its Chinese: the sources are searched for messages, the command line is walked, and both are held
//! against the catalogue.

use super::catalogue::{FILES, entries};
use super::template::{Template, escaped, normal};
use crate::sources::{sources_of, strings};
use crate::{Cli, examples};
use clap::{Command, CommandFactory};
use std::collections::{BTreeMap, BTreeSet};

/// Folders and files whose texts are no messages, and why.
const NO_MESSAGES: [&str; 18] = [
    // Data, in both languages.
    "minigpt-data/src/builtin",
    // Every row has both languages; a test there holds them together.
    "minigpt/src/settings_table.rs",
    "minigpt-insight/src/walk/sentences.rs",
    // Pictures, which stay English.
    "minigpt-charts/src/svg.rs",
    "minigpt-charts/src/line_svg.rs",
    "minigpt-charts/src/bar_svg.rs",
    "minigpt-charts/src/xy_svg.rs",
    "minigpt-scaling/src/pictures.rs",
    "minigpt-cli/src/commands/inspect/roles_chart.rs",
    "minigpt-kernels/src/testing.rs",
    // Answers to programs, in English as their fields are; the page has its own Chinese (page/js/messages.js).
    "minigpt-serve",
    // Log lines, which programs read.
    "minigpt-cli/src/commands/serve/log.rs",
    // What is typed; the comments behind it are looked at below.
    "minigpt-cli/src/examples.rs",
    // The catalogue itself.
    "minigpt-cli/src/language",
    "minigpt-cli/src/cpu.rs",
    // Names of commands.
    "minigpt-cli/src/arguments/inputs.rs",
    // Tests.
    "minigpt-cli/src/docs.rs",
    "minigpt-cli/src/sources.rs",
];

/// How texts begin that look like messages and are none.
const NOT_SAID: &[&str] = &[
    // Looked for in what others say.
    "{name} is not",
    "invalid type",
    "invalid value",
    "unknown variant",
    " at line ",
    // In pictures, which stay English.
    "Loss of {}",
    "with points: validation",
    "no step recorded yet",
    "{steps} steps · ",
    " · best validation",
    "n = {} · mean",
    "max_length {max_length}: {whole",
    "Lines of {}",
    "Lengths in {}",
    // Pages that exist in both languages.
    "# Settings\n",
    "# 设置\n",
    "| setting |",
    // Said before anything runs on a CPU that may lack instructions.
    "error: this build of minigpt needs a CPU",
    "build it for any CPU",
    // The help is walked as a whole.
    "{HELP}; --model",
    // Names and formats.
    "Open MPI",
    "How many colors are in a rainbow?",
    "tokenizer encode",
    "{{msg}}",
    "chat template",
    "git SHA-1 {hash}",
    "required binary {name} (UTF8);",
    "message rows {{ {first} {second} }}",
    "{{{{ messages[-1]['content'] }}}}{separator}",
    "{{% for message in messages %}}{{{{ message['content'] }}}}{separator}{{% endfor %}}",
    "{{{{ messages[-1]['content'] }}}}{SEP}",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
];

/// Not translated yet.
const NOT_YET: &[&str] = &[];

/// Calls whose texts are for programmers.
const FOR_PROGRAMMERS: [&str; 9] = [
    "assert!(",
    "assert_eq!(",
    "assert_ne!(",
    "debug_assert!(",
    "debug_assert_eq!(",
    "panic!(",
    "unreachable!(",
    ".expect(",
    "candle_core::bail!(",
];

/// Calls whose text is a message even if it is a single word.
const MESSAGES: [&str; 4] = ["tr(", "t!(", "of_bytes(", "of_steps("];

/// A text of the sources, as a key.
struct Text {
    place: String,
    key: String,
    must: bool,
}

/// The texts of all crates.
fn texts() -> Vec<Text> {
    let mut texts = Vec::new();
    for (place, source) in sources_of("minigpt") {
        let source = without_calls(&source);
        for (at, string) in strings(&source) {
            let before = source[..at].trim_end();
            if before.ends_with("reason =") || before.ends_with("doc =") {
                continue;
            }
            let text = unquoted(string);
            let line = 1 + source[..at].matches('\n').count();
            let counted = is_counted(before);
            let called = MESSAGES.iter().any(|call| calls(before, call));
            let skipped = NO_MESSAGES.iter().any(|file| place.starts_with(file))
                || NOT_SAID.iter().any(|begin| text.starts_with(begin));
            let must = !skipped && (called || is_message(&text));
            let key = if calls(before, "tr(") { escaped(&text) } else { normal(&text) };
            if counted {
                texts.push(Text { place: place.clone(), key: format!("{{n}} {text}"), must: !skipped });
            }
            texts.push(Text { place: format!("{place}:{line}"), key, must: must && !counted });
        }
    }
    assert!(texts.len() > 3000, "only {} texts were found", texts.len());
    texts
}

/// Whether a text is the second argument of `counted`.
fn is_counted(before: &str) -> bool {
    let inside = before.strip_suffix(',').and_then(|before| before.rsplit_once("counted("));
    inside.is_some_and(|(_, inside)| {
        let mut open = 1;
        inside.chars().all(|c| {
            open += i32::from(c == '(') - i32::from(c == ')');
            open > 0
        })
    })
}

/// Whether a text follows a call of this function, and not of one whose name only ends so.
fn calls(before: &str, call: &str) -> bool {
    let is_name = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    before.strip_suffix(call).is_some_and(|before| !is_name(before))
}

/// A source without the calls that speak to programmers.
fn without_calls(source: &str) -> String {
    let mut source = source.to_owned();
    for call in FOR_PROGRAMMERS {
        let mut from = 0;
        while let Some(at) = source[from..].find(call).map(|at| from + at) {
            let (mut open, mut end) = (0, source.len());
            let texts: Vec<(usize, usize)> = strings(&source[at..])
                .into_iter()
                .map(|(i, s)| (at + i, at + i + s.len()))
                .take(40)
                .collect();
            for (i, c) in source[at..].char_indices().map(|(i, c)| (at + i, c)) {
                if texts.iter().any(|&(from, to)| (from..to).contains(&i)) {
                    continue;
                }
                open += i32::from(c == '(') - i32::from(c == ')');
                if open == 0 && c == ')' {
                    end = i + 1;
                    break;
                }
            }
            let lines = "\n".repeat(source[at..end].matches('\n').count());
            source.replace_range(at..end, &lines);
            from = at;
        }
    }
    source
}

/// Whether a person could read it: two words or more, and nothing to be typed.
fn is_message(text: &str) -> bool {
    let outside: String = Template::parse(&normal(text)).fill(&[]);
    let words = outside.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 1).count();
    words > 1 && outside.trim().contains(' ') && !text.starts_with("minigpt ")
}

/// A string as the program sees it.
fn unquoted(string: &str) -> String {
    if let Some(raw) = string.strip_prefix('r') {
        return raw.trim_matches('#').trim_matches('"').to_owned();
    }
    let inside = &string[1..string.len() - 1];
    let (mut text, mut characters) = (String::new(), inside.chars().peekable());
    while let Some(c) = characters.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match characters.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('\n') => while characters.next_if(|c| c.is_whitespace()).is_some() {},
            Some('u') => {
                let code: String = characters.by_ref().skip(1).take_while(|&c| c != '}').collect();
                text.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
            }
            Some(other) => text.push(other),
            None => {}
        }
    }
    text
}

/// The texts of the help.
fn help() -> Vec<Text> {
    fn walk(command: &Command, path: &str, texts: &mut Vec<Text>) {
        let path = format!("{path} {}", command.get_name());
        let mut add = |of: &str, text: Option<String>| {
            let text = text.filter(|text| !text.is_empty());
            texts.extend(text.map(|text| Text {
                place: format!("help of{path} {of}"),
                key: escaped(&text),
                must: true,
            }));
        };
        add("", command.get_about().map(ToString::to_string));
        add("", command.get_long_about().map(ToString::to_string));
        // The presets are a table of their own.
        let after = command.get_after_help().map(ToString::to_string);
        add("", after.filter(|text| !text.starts_with("Presets:")));
        for arg in command.get_arguments() {
            let name = arg.get_id().as_str();
            add(name, arg.get_help().map(ToString::to_string));
            add(name, arg.get_long_help().map(ToString::to_string));
            for value in arg.get_possible_values() {
                add(name, value.get_help().map(ToString::to_string));
            }
        }
        command.get_subcommands().for_each(|sub| walk(sub, &path, texts));
    }
    let mut command = Cli::command();
    command.build();
    let mut texts = Vec::new();
    walk(&command, "", &mut texts);
    let comment =
        |comment: &'static str| Text { place: "examples".to_owned(), key: escaped(comment), must: true };
    texts.extend(examples::comments().map(comment));
    texts
}

/// Tables of the libraries that are shown.
fn tables() -> Vec<Text> {
    let presets = minigpt_model::PRESETS.iter().map(|(_, about)| (*about).to_owned());
    let sets = minigpt_data::PUBLIC_SETS.iter().map(|set| set.about.to_owned());
    let ready = minigpt::READY_CONFIGS.iter().map(minigpt::ReadyConfig::about);
    let text =
        |text: String| Text { place: "a table of a library".to_owned(), key: escaped(&text), must: true };
    presets.chain(sets).chain(ready).map(text).collect()
}

fn all() -> Vec<Text> {
    texts().into_iter().chain(help()).chain(tables()).collect()
}

fn catalogue() -> Vec<(&'static str, String, String)> {
    let entry = |(file, text): (&'static str, &str)| {
        entries(text).into_iter().map(move |(english, chinese)| (file, english, chinese)).collect::<Vec<_>>()
    };
    FILES.into_iter().flat_map(entry).collect()
}

#[test]
fn every_message_has_its_chinese() {
    let known: BTreeSet<String> = catalogue().into_iter().map(|(_, english, _)| english).collect();
    let is_due = |text: &Text| text.must && !NOT_YET.iter().any(|place| text.place.starts_with(place));
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    for text in all().into_iter().filter(|text| is_due(text) && !known.contains(&text.key)) {
        missing.entry(text.key).or_insert(text.place);
    }
    let shown = missing.iter().map(|(key, place)| format!("{place}: msgid {key:?}\n"));
    assert!(missing.is_empty(), "{} without Chinese:\n{}", missing.len(), shown.collect::<String>());
}

#[test]
fn every_entry_is_used_once_and_has_the_holes_of_its_message() {
    let used: BTreeSet<String> = all().into_iter().map(|text| text.key).collect();
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for (file, english, chinese) in catalogue() {
        let [of, to] = [&english, &chinese].map(|text| Template::parse(text).holes());
        // Where one ends and the next begins is not known of those that stand side by side.
        let together = |beside: &String| to.iter().any(|other| other.contains(beside));
        let names = |holes: &[String]| {
            holes.iter().flat_map(|holes| holes.split('+')).map(str::to_owned).collect::<BTreeSet<_>>()
        };
        if names(&of) != names(&to) || !of.iter().all(together) {
            wrong.push(format!("{file}: other holes: {english:?} {chinese:?}"));
        }
        // `\n` in the file is a line end, `\\n` is the two characters.
        if chinese.contains('\n') && !english.contains('\n') {
            wrong.push(format!("{file}: a line end that the English has not: {english:?} {chinese:?}"));
        }
        if chinese.is_empty() || (chinese == english && file != "others") {
            wrong.push(format!("{file}: not Chinese: {english:?} {chinese:?}"));
        }
        if file != "others" && !used.contains(&english) {
            wrong.push(format!("{file}: nobody says {english:?}"));
        }
        if !seen.insert(english.clone()) {
            wrong.push(format!("{file}: twice: {english:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn messages_are_told_from_what_is_typed_and_from_asserts() {
    assert!(is_message("could not {action} {}") && is_message("no text: {x}"));
    assert!(
        !is_message("minigpt train --config x") && !is_message("{path}: {problem}") && !is_message("train")
    );
    let code = "assert!(a.b(\"(\"), \"two words\"); bail!(\"kept words\")";
    assert_eq!(without_calls(code), "; bail!(\"kept words\")");
    assert_eq!(unquoted("\"a \\\n   b\\n\\u{20}\\\"\""), "a b\n \"");
}
