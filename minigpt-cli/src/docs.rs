//! The READMEs keep their promises: what they tell people to type is understood, and both say the same.

use crate::Cli;
use clap::Parser;

const READMES: [(&str, &str); 2] =
    [("README.md", include_str!("../../README.md")), ("README.zh.md", include_str!("../../README.zh.md"))];

/// The lines of `sh` blocks that call the program, without what runs it.
fn commands(readme: &str) -> Vec<Vec<String>> {
    let blocks = readme.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).map(|line| line.split(" #").next().unwrap_or(line).trim());
    lines
        .filter_map(|line| {
            line.strip_prefix("cargo run --release -- ").or_else(|| line.strip_prefix("minigpt "))
        })
        .map(|arguments| words(arguments.split(['|', '<', '>']).next().unwrap_or_default()))
        .collect()
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
fn every_command_in_the_readmes_is_understood() {
    for (name, readme) in READMES {
        let commands = commands(readme);
        assert!(commands.len() >= 5, "{name} shows {} commands", commands.len());
        for command in commands {
            if let Err(error) = Cli::try_parse_from(&command) {
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
