//! The READMEs and the pages of `docs/` keep their promises: what they tell people to type is understood, and both
//! READMEs say the same.

use crate::arguments;

const READMES: [(&str, &str); 2] =
    [("README.md", include_str!("../../README.md")), ("README.zh.md", include_str!("../../README.zh.md"))];

const PAGES: [(&str, &str); 10] = [
    ("docs/cluster.md", include_str!("../../docs/cluster.md")),
    ("docs/cluster.zh.md", include_str!("../../docs/cluster.zh.md")),
    ("docs/data.md", include_str!("../../docs/data.md")),
    ("docs/inside.md", include_str!("../../docs/inside.md")),
    ("docs/inside.zh.md", include_str!("../../docs/inside.zh.md")),
    ("docs/models.md", include_str!("../../docs/models.md")),
    ("docs/scaling.md", include_str!("../../docs/scaling.md")),
    ("docs/scaling.zh.md", include_str!("../../docs/scaling.zh.md")),
    ("docs/serve.md", include_str!("../../docs/serve.md")),
    ("docs/training.md", include_str!("../../docs/training.md")),
];

/// The lines of `sh` blocks that call the program, without what runs it.
fn commands(readme: &str) -> Vec<Vec<String>> {
    let blocks = readme.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).map(|line| line.split(" #").next().unwrap_or(line).trim());
    lines.flat_map(commands_of).collect()
}

/// The calls of the program in a line, which may be a pipe.
pub fn commands_of(line: &str) -> Vec<Vec<String>> {
    let line = line.split(" #").next().unwrap_or(line);
    let calls = line.split('|').map(str::trim).filter_map(|call| {
        call.strip_prefix("cargo run --release -- ").or_else(|| call.strip_prefix("minigpt "))
    });
    calls.map(|call| words(call.split(['<', '>']).next().unwrap_or_default())).collect()
}

/// Splits at spaces, but not between quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec!["minigpt".to_owned()], None);
    let mut word: Option<String> = None;
    for c in line.chars() {
        match (c, quote) {
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(open)) if c == open => quote = None,
            (' ', None) => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn every_command_in_the_readmes_and_pages_is_understood() {
    for (name, page) in READMES.into_iter().chain(PAGES) {
        let commands = commands(page);
        assert!(commands.len() >= 3, "{name} shows {} commands", commands.len());
        for command in commands {
            if let Err(error) = arguments::parse(command.iter().map(Into::into)) {
                assert!(!error.use_stderr(), "{name}: {}: {error}", command.join(" "));
            }
        }
    }
}

#[test]
fn both_readmes_show_the_same_commands() {
    let [english, chinese] = READMES.map(|(_, readme)| {
        commands(readme)
            .into_iter()
            .map(|command| command[..2.min(command.len())].join(" "))
            .collect::<Vec<_>>()
    });
    assert_eq!(english, chinese);
}
