//! The command line. clap parses it; this adds to clap's own data what people type by habit: underscores for dashes, options of
//! nanoGPT, transformers and llama.cpp ([`nanogpt`], [`without_effect`]), the input of a command by an option's name ([`INPUTS`]),
//! and tips for what does not exist here. The words themselves are touched once, in [`dashes`].

mod dashes;
mod effect;
pub mod nanogpt;
pub mod numbers;
mod other_commands;
#[cfg(test)]
mod tests;
mod without_effect;

use crate::language::messages::arguments as message;
use crate::{Cli, Command as Chosen, examples, language};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind, Result};
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};
use std::ffi::{OsStr, OsString};

/// A command line, parsed.
pub struct Parsed {
    pub cli: Cli,
    /// What was made of other programs' options, and seeds that were drawn.
    pub notes: Vec<String>,
}

/// Inputs that commands take by position, and the options that may name them instead: command, argument, options.
const INPUTS: &[(&str, &str, &[&str])] = &[
    ("data prepare", "input", &["--input"]),
    ("tokenizer train", "input", &["--input"]),
    ("tokenizer encode", "text", &["--text"]),
    ("tokenizer decode", "ids", &["--ids"]),
    ("eval", "model", &["--model", "-m"]),
    // `--out_dir` is nanoGPT's, where `--init_from` may name the model instead.
    ("generate", "model", &["--model", "-m", "--out_dir", "--init_from"]),
    ("chat", "model", &["--model", "-m"]),
    ("run", "model", &["--model", "-m"]),
    ("inspect", "model", &["--model", "-m"]),
    ("export", "model", &["--model", "-m"]),
];

/// Parses a command line, the program's name first.
pub fn parse(typed: impl IntoIterator<Item = OsString>) -> Result<Parsed> {
    let Matched { path, matches } = matched(&typed.into_iter().collect::<Vec<_>>())?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let inner = of_command(&matches);
    let mut notes: Vec<String> = without_effect::notes(&path, inner).collect();
    notes.extend(["seed", "changes"].iter().filter_map(|option| seed_note(inner, option)));
    match &mut cli.command {
        Chosen::Train(args) => nanogpt::apply_to_train(args, inner, &mut notes)?,
        Chosen::Generate(args) => nanogpt::apply_to_generate(args, inner, &mut notes)?,
        _ => {}
    }
    Ok(Parsed { cli, notes })
}

/// A command line as clap has matched it.
struct Matched {
    /// The command: `data show`.
    path: String,
    matches: ArgMatches,
}

fn matched(typed: &[OsString]) -> Result<Matched> {
    let mut program = program(typed);
    let (command, path, words) = subcommand(&program, typed);
    let (command, path) = (command.clone(), path.join(" "));
    let (before, after) = typed.split_at(words);
    let words: Vec<OsString> =
        before.iter().cloned().chain(dashes::told_apart(&command, after.iter().cloned())).collect();
    let matches = program.try_get_matches_from_mut(&words).or_else(|error| match error.kind() {
        // `minigpt --lang zh` asks for the same page as `minigpt`.
        ErrorKind::MissingSubcommand => {
            program.try_get_matches_from_mut(words.iter().take_while(|word| !dashes::is_option(word)))
        }
        _ => Err(with_tip(error, &command, &path, typed)),
    })?;
    effect::check(&program, &matches)?;
    Ok(Matched { path, matches })
}

/// The matches of the innermost command.
fn of_command(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| of_command(inner))
}

/// The program, with everything that clap should know to parse what was typed.
pub fn program(typed: &[OsString]) -> Command {
    let mut program = examples::with_examples(with_habits(Cli::command(), "", typed));
    program.build();
    language::in_language(program)
}

fn with_habits(command: Command, path: &str, typed: &[OsString]) -> Command {
    let command = command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        with_habits(sub, path.trim_start(), typed)
    });
    let command = without_effect::add_to(nanogpt::add_to(command, path), path);
    command.mut_args(|arg| {
        let input = INPUTS.iter().find(|(command, id, _)| *command == path && arg.get_id() == id);
        let arg = match input {
            Some((.., options)) if options.iter().any(|option| is_typed(option, typed)) => {
                by_name(arg, options)
            }
            _ => arg,
        };
        let switched =
            arg.get_long().filter(|_| path == "train").map(|long| format!("--{long}=").replace('-', "_"));
        let typed_with_value = switched.is_some_and(|switched| {
            typed.iter().any(|word| word.to_string_lossy().replace('-', "_").starts_with(&switched))
        });
        underscores(if typed_with_value { with_python_value(arg) } else { arg })
    })
}

/// Whether an option is among the words, possibly with its value attached.
fn is_typed(option: &str, typed: &[OsString]) -> bool {
    let words = typed.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str());
    let mut words =
        words.map(|word| if word.starts_with("--") { word.replace('-', "_") } else { word.to_owned() });
    let (option, is_long) = (option.replace("--", "__"), option.starts_with("--"));
    words.any(|word| match word.strip_prefix(&option) {
        Some(rest) => !is_long || rest.is_empty() || rest.starts_with('='),
        None => false,
    })
}

/// An input as an option instead of by position.
fn by_name(arg: Arg, options: &'static [&'static str]) -> Arg {
    let long = options.iter().filter_map(|name| name.strip_prefix("--")).filter(|name| *name != "init_from");
    let mut names = long.collect::<Vec<_>>().into_iter();
    let arg = arg.long(names.next()).aliases(names).hide(true);
    let arg = if options.contains(&"-m") { arg.short('m') } else { arg };
    match arg.get_id().as_str() {
        "text" => arg.allow_hyphen_values(true),
        // nanoGPT's sample.py looks into this folder.
        _ if options.contains(&"--init_from") => arg.required(false).default_value("out"),
        _ => arg,
    }
}

/// A flag that was typed with Python's `=True` or `=False`.
fn with_python_value(arg: Arg) -> Arg {
    if arg.get_action().takes_values() {
        return arg;
    }
    let arg = arg.action(clap::ArgAction::Set).num_args(0..=1).require_equals(true);
    arg.default_missing_value("True").default_value("False").value_parser(nanogpt::switch)
}

/// An option that may be typed with underscores for its dashes, and the other way round.
fn underscores(arg: Arg) -> Arg {
    let aliases = arg.get_all_aliases().unwrap_or_default();
    let names: Vec<String> = arg.get_long().into_iter().chain(aliases).map(str::to_owned).collect();
    let others = names.iter().flat_map(|name| [name.replace('-', "_"), name.replace('_', "-")]);
    let others: Vec<String> = others.filter(|other| !names.contains(other)).collect();
    arg.aliases(others)
}

/// What to note of a seed that was drawn.
fn seed_note(matches: &ArgMatches, option: &str) -> Option<String> {
    Some(message::SeedDrawn { seed: numbers::drawn(matches, option)? }.to_string())
}

/// The command that is called, its name, and the number of words up to there, with the program's name.
fn subcommand<'a>(program: &'a Command, typed: &'a [OsString]) -> (&'a Command, Vec<&'a str>, usize) {
    let (mut command, mut path, mut words) = (program, Vec::new(), typed.len().min(1));
    for (at, word) in typed.iter().enumerate().skip(1) {
        if let Some(next) = word.to_str().and_then(|name| command.find_subcommand(name)) {
            path.push(next.get_name());
            (command, words) = (next, at + 1);
        } else if !(path.is_empty() && (dashes::is_option(word) || dashes::is_option(&typed[at - 1]))) {
            break;
        }
    }
    (command, path, words)
}

/// The option of a command that has this name, with its dashes.
fn option_of<'a>(command: &'a Command, word: &OsStr) -> Option<&'a Arg> {
    let name = word.to_str()?.split('=').next()?;
    let mut options = command.get_arguments().filter(|arg| !arg.is_positional());
    match name.strip_prefix("--") {
        Some(long) => options.find(|arg| {
            arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|names| names.contains(&long))
        }),
        None => options.find(|arg| arg.get_short().is_some_and(|short| name == format!("-{short}"))),
    }
}

/// Incorrect usage, with a message in the chosen language.
pub fn wrong(kind: ErrorKind, message: String) -> clap::Error {
    let mut error = clap::Error::raw(kind, format!("{message}\n"));
    error.insert(ContextKind::Custom, ContextValue::String(message));
    error
}

fn conflict(one: &str, other: &str) -> clap::Error {
    wrong(ErrorKind::ArgumentConflict, message::Conflict { one, other }.to_string())
}

/// clap's error with what to type instead, where people are known to expect something else.
fn with_tip(mut error: clap::Error, command: &Command, path: &str, words: &[OsString]) -> clap::Error {
    let said = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            said(ContextKind::InvalidSubcommand).filter(|_| path.is_empty()).and_then(other_commands::tip)
        }
        ErrorKind::UnknownArgument => {
            said(ContextKind::InvalidArg).and_then(|option| unknown_option_tip(option, command, path))
        }
        ErrorKind::ValueValidation => {
            // `-sys`, read as `-s ys`, was meant as an option of its own.
            let (option, value) = (said(ContextKind::InvalidArg), said(ContextKind::InvalidValue));
            let arg = option.and_then(|option| command.get_arguments().find(|arg| arg.to_string() == option));
            let letters =
                arg.and_then(Arg::get_short).zip(value).map(|(short, value)| format!("-{short}{value}"));
            let letters = letters.filter(|letters| words.iter().any(|word| *word == letters.as_str()));
            if let Some(option) = letters {
                let message = message::NoOption { path, option }.to_string();
                return wrong(ErrorKind::UnknownArgument, message);
            }
            None
        }
        _ => None,
    };
    if let Some(tip) = tip {
        error.insert(ContextKind::Custom, ContextValue::String(tip.clone()));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

fn unknown_option_tip(option: &str, command: &Command, path: &str) -> Option<String> {
    match option.trim_start_matches('-').replace('-', "_").as_str() {
        "max_length" if path == "generate" => Some(message::CountsPrompt.to_string()),
        "greedy" | "do_sample" if option_of(command, OsStr::new("--temperature")).is_some() => {
            Some(message::Greedy.to_string())
        }
        _ if path == "train" && !option.starts_with('-') => Some(message::OneInput.to_string()),
        _ => None,
    }
}
