//! What was typed, as clap is to see it: numbers as people write them, older spellings of a command's input, settings of a
//! run as options of `train`, and what other programs have. What clap knows itself always wins.

mod effect;
mod inputs;
mod instead;
mod llama;
mod nanogpt;
mod numbers;
mod sample;
#[cfg(test)]
mod tests;

pub use numbers::{RANDOM, draw_seed};

use crate::Cli;
use crate::{examples, language};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches};
use minigpt::SETTINGS;
use minigpt::settings::misspelling;
use std::ffi::{OsStr, OsString};

/// The command line, understood.
pub struct Understood {
    pub cli: Cli,
    /// What a person should know about what was made of it.
    pub notes: Vec<String>,
}

/// Understands a command line, the program's name first.
pub fn parse(typed: impl IntoIterator<Item = OsString>) -> clap::error::Result<Understood> {
    let typed: Vec<OsString> = typed.into_iter().collect();
    let mut command = examples::with_examples(language::in_language(Cli::command()));
    // Options of every command are those of each one then.
    command.build();
    let Rewritten { words, notes } = rewrite(&command, &typed)?;
    let matches = command.try_get_matches_from_mut(words).or_else(|error| match error.kind() {
        // `minigpt --lang zh` asks for the same page as `minigpt`.
        ErrorKind::MissingSubcommand => {
            command.try_get_matches_from_mut(typed.iter().take_while(|word| is_value(word)))
        }
        _ => Err(numbers::in_words(error)),
    })?;
    effect::check(&command, &matches)?;
    Ok(Understood { cli: Cli::from_arg_matches(&matches)?, notes })
}

/// A mistake in what was typed.
fn wrong(kind: ErrorKind, message: &str) -> clap::Error {
    clap::Error::raw(kind, format!("{message}\n"))
}

struct Rewritten {
    words: Vec<OsString>,
    notes: Vec<String>,
}

fn rewrite(command: &Command, typed: &[OsString]) -> clap::error::Result<Rewritten> {
    let Found { command, path, words } = subcommand(command, typed)?;
    let mut rewriting = Rewriting {
        command,
        run: (path == "train").then(nanogpt::Habits::default),
        path,
        words: typed[..words].to_vec(),
        values: Vec::new(),
        named: Vec::new(),
        hub: None,
        positions: Vec::new(),
        notes: Vec::new(),
    };
    let mut rest = typed[words..].iter().peekable();
    while let Some(word) = rest.next() {
        if word == "--" {
            rewriting.positions.extend(rest.cloned());
            break;
        }
        match Typed::read(word) {
            None => rewriting.value(word)?,
            Some(option) => {
                let mut value = |accepts: &dyn Fn(&OsStr) -> bool| {
                    option.value.clone().or_else(|| rest.next_if(|word| accepts(word)).cloned())
                };
                rewriting.option(word, &option, &mut value)?;
            }
        }
    }
    rewriting.finish()
}

/// How a value follows an option: attached, or as the next word if that is accepted.
type Value<'a> = dyn FnMut(&dyn Fn(&OsStr) -> bool) -> Option<OsString> + 'a;

/// A command line on its way.
struct Rewriting<'a> {
    command: &'a Command,
    path: String,
    /// What `train` understands beside its own options.
    run: Option<nanogpt::Habits>,
    words: Vec<OsString>,
    /// Where among the words those are that belong to no option.
    values: Vec<usize>,
    /// The command's input, named by an option.
    named: Vec<OsString>,
    /// The model's name on the hub, which wins over a folder.
    hub: Option<OsString>,
    /// What is to stand behind all options.
    positions: Vec<OsString>,
    notes: Vec<String>,
}

impl Rewriting<'_> {
    fn value(&mut self, word: &OsStr) -> clap::error::Result<()> {
        if self.run.is_some() {
            nanogpt::refuse_script(word)?;
        }
        // clap would take it for an option, and what follows is to stay behind it.
        if is_dashed(word) || !self.positions.is_empty() {
            self.positions.push(word.to_owned());
            return Ok(());
        }
        self.values.push(self.words.len());
        self.words.push(word.to_owned());
        Ok(())
    }

    fn option(&mut self, word: &OsStr, option: &Typed, value: &mut Value) -> clap::error::Result<()> {
        // The settings of a run have underscores, and Python's options; an option of the same name is meant.
        let dashed = option.name.replace('_', "-");
        let known = [option.name.as_str(), &dashed].into_iter().chain(llama::long_name(&option.name));
        if let Some((name, arg)) =
            known.filter_map(|name| Some((name, option_of(self.command, name)?))).next()
        {
            return self.known(arg, name, option, value);
        }
        if inputs::is_input(&self.path, &option.name) {
            self.named.extend(value(&|word| is_value(word) || self.path == "tokenizer encode"));
            return Ok(());
        }
        if self.path == "train"
            && option.name == "--dataset"
            && let Some(name) = value(&is_value)
        {
            let path = nanogpt::dataset(&name);
            self.notes.push(format!("dataset: the data is {path} (data.path)"));
            return self.value(path.as_ref());
        }
        if self.path == "generate"
            && let Some(meant) = sample::option(&option.name, value, &mut self.notes)?
        {
            match meant {
                sample::Meant::Words(words) => self.words.extend(words),
                sample::Meant::Model(model) => self.hub = Some(model),
            }
            return Ok(());
        }
        if let Some(run) = &mut self.run
            && let Some(words) = run.setting(&option.name, value)?
        {
            self.words.extend(words);
            return Ok(());
        }
        if let Some(note) = llama::without_effect(&self.path, &option.name, value) {
            self.notes.push(note);
            return Ok(());
        }
        if !self.path.is_empty() && !is_claps(self.command, word) {
            return Err(unknown(self.command, &self.path, &option.name));
        }
        self.words.push(word.to_owned());
        Ok(())
    }

    /// An option that clap has.
    fn known(&mut self, arg: &Arg, name: &str, option: &Typed, value: &mut Value) -> clap::error::Result<()> {
        if !takes_a_value(arg) {
            match (&self.run, option.value.as_deref()) {
                (_, None) => self.words.push(name.into()),
                (Some(_), Some(value)) if nanogpt::switch(value) == Some(true) => {
                    self.words.push(name.into());
                }
                (Some(_), Some(value)) if nanogpt::switch(value) == Some(false) => {}
                (_, Some(value)) => self.words.push(joined(name, value)),
            }
            return Ok(());
        }
        let Some(value) = value(&|word| arg.is_allow_hyphen_values_set() || is_value(word)) else {
            self.words.push(name.into());
            return Ok(());
        };
        if let Some(word) = sample::prompt_file(&option.name, &value) {
            self.words.push(word);
            return Ok(());
        }
        let value = numbers::plain(arg, name, value, &mut self.notes)?;
        let value = nanogpt::value_of(arg, value);
        self.words.push(joined(name, &value));
        Ok(())
    }

    fn finish(mut self) -> clap::error::Result<Rewritten> {
        match self.path.as_str() {
            "eval" => self.data_in_position(),
            "train" => self.check_one_input()?,
            _ => {}
        }
        self.notes.extend(self.run.into_iter().flat_map(|run| run.notes));
        if let Some(model) = self.hub.take() {
            if !self.named.is_empty() {
                self.notes.push("out_dir: init_from names the model, so no folder is read".to_owned());
            }
            self.named = vec![model];
        }
        if !self.named.is_empty() {
            // What the command is about stands before what else it is given.
            let (values, words) = std::mem::take(&mut self.words)
                .into_iter()
                .enumerate()
                .partition::<Vec<_>, _>(|(at, _)| self.values.contains(at));
            self.words = words.into_iter().map(|(_, word)| word).collect();
            self.named.extend(values.into_iter().map(|(_, value)| value));
            self.named.append(&mut self.positions);
            self.positions = self.named;
        }
        if !self.positions.is_empty() {
            self.words.push("--".into());
            self.words.append(&mut self.positions);
        }
        Ok(Rewritten { words: self.words, notes: self.notes })
    }

    /// `eval MODEL DATA` means `eval MODEL --data DATA`.
    fn data_in_position(&mut self) {
        let models = 1_usize.saturating_sub(self.named.len());
        let given =
            self.words.iter().any(|word| word.to_str().is_some_and(|word| word.starts_with("--data")));
        if let (false, &[.., at]) = (given, &self.values[..])
            && self.values.len() == models + 1
            && self.positions.is_empty()
        {
            self.values.pop();
            self.words[at] = joined("--data", &self.words[at]);
        }
    }

    /// Whoever names several files is told how they become one input.
    fn check_one_input(&self) -> clap::error::Result<()> {
        let values = self.values.iter().map(|&at| &self.words[at]).chain(&self.positions);
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        match &values[..] {
            [] | [_] => Ok(()),
            several => {
                let files = several.join(", ");
                let message =
                    format!("training takes one file or one folder: put {files} into a folder and name that");
                Err(wrong(ErrorKind::TooManyValues, &message))
            }
        }
    }
}

/// A word that is an option, with what stands behind its `=`.
struct Typed {
    name: String,
    value: Option<OsString>,
}

impl Typed {
    /// None for a value, which a negative number is too, and a text that begins with a dash: one with spaces, or one in which no
    /// letter of the alphabet follows the dashes, which no option could be.
    fn read(word: &OsStr) -> Option<Self> {
        let word = word.to_str()?;
        let begins_as_option = word.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic());
        if word != "--" && !(word.starts_with('-') && begins_as_option) || word.parse::<f64>().is_ok() {
            return None;
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.into())),
            None => (word, None),
        };
        (!name.contains(char::is_whitespace)).then(|| Self { name: name.to_owned(), value })
    }
}

/// What to say of an option that a command does not have; `train` has all settings of a run too.
fn unknown(command: &Command, path: &str, typed: &str) -> clap::Error {
    let is_run = path == "train";
    let name = typed.trim_start_matches('-');
    let (key, dashed) = (name.replace('-', "_"), name.replace('_', "-"));
    let settings = SETTINGS.iter().filter(|_| is_run).map(|setting| (&key, setting.key));
    let options = command.get_arguments().flat_map(|arg| {
        let others = arg.get_visible_aliases().unwrap_or_default();
        arg.get_long().into_iter().chain(others).filter(move |_| !arg.is_hide_set())
    });
    let near = settings.chain(options.map(|option| (&dashed, option)));
    let guess = match near.filter_map(|(typed, known)| Some((misspelling(typed, known)?, known))).min() {
        Some((_, near)) => format!("did you mean --{near}?"),
        None if ["greedy", "do-sample"].contains(&dashed.as_str())
            && option_of(command, "--temperature").is_some() =>
        {
            "--temperature 0 always takes the likeliest token, any other draws".to_owned()
        }
        None if is_run => {
            "`minigpt train --help` shows the options, `minigpt config settings` the settings".to_owned()
        }
        None => format!("all of them: `minigpt {path} --help`"),
    };
    let message = if is_run {
        format!("there is no option or setting --{name}; {guess}")
    } else {
        format!("`minigpt {path}` has no option {typed}; {guess}")
    };
    wrong(ErrorKind::UnknownArgument, &message)
}

/// Whether clap understands a word that is none of a command's long options: help, or letters of short ones. A number is not
/// read out of letters, so that `-ngl` is not `-n gl`.
fn is_claps(command: &Command, word: &OsStr) -> bool {
    let Some(word) = word.to_str() else { return true };
    if word.starts_with("--") {
        return word == "--help";
    }
    let mut letters = word.trim_start_matches('-').chars();
    let Some(first) = letters.next() else { return true };
    let arg = command.get_arguments().find(|arg| arg.get_short() == Some(first));
    match arg {
        _ if "hV".contains(first) => true,
        None => false,
        Some(arg) if takes_a_value(arg) && numbers::is_number(arg) => {
            letters.as_str().trim_start_matches('=').parse::<f64>().is_ok()
        }
        Some(_) => true,
    }
}

/// Whether a word is no option.
fn is_value(word: &OsStr) -> bool {
    Typed::read(word).is_none()
}

/// Whether a value begins with a dash and is neither standard input nor a number.
fn is_dashed(word: &OsStr) -> bool {
    word.to_str().is_some_and(|word| word.starts_with('-') && word != "-" && word.parse::<f64>().is_err())
}

fn joined(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(format!("{name}="));
    word.push(value);
    word
}

fn takes_a_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// The option of a command that has this name, with its dashes.
fn option_of<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let mut options = command.get_arguments().filter(|arg| !arg.is_positional());
    match name.strip_prefix("--") {
        Some(long) => options.find(|arg| {
            arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|names| names.contains(&long))
        }),
        None => options.find(|arg| arg.get_short().is_some_and(|short| name == format!("-{short}"))),
    }
}

struct Found<'a> {
    command: &'a Command,
    /// Its name: `data prepare`.
    path: String,
    /// How many words it took to say so, with the program's name.
    words: usize,
}

/// The command that is called; a name that other programs have is answered with ours.
fn subcommand<'a>(program: &'a Command, typed: &[OsString]) -> clap::error::Result<Found<'a>> {
    let mut found = Found { command: program, path: String::new(), words: 1.min(typed.len()) };
    let mut stray = None;
    for (at, word) in typed.iter().enumerate().skip(1) {
        let Some(next) = word.to_str().and_then(|name| found.command.find_subcommand(name)) else {
            // Options of the program itself, and their values, may stand before the command.
            let is_option = |word: &OsString| Typed::read(word).is_some();
            if found.path.is_empty() && (is_option(word) || is_option(&typed[at - 1])) {
                continue;
            }
            stray = (!is_option(word)).then_some(word);
            break;
        };
        let space = if found.path.is_empty() { "" } else { " " };
        found =
            Found { command: next, path: format!("{}{space}{}", found.path, next.get_name()), words: at + 1 };
    }
    match stray.and_then(|word| word.to_str()) {
        Some(word) if found.command.has_subcommands() => {
            let known = instead::of(word).filter(|_| found.path.is_empty());
            let answer = known.unwrap_or_else(|| no_command(found.command, &found.path, word));
            Err(wrong(ErrorKind::InvalidSubcommand, &answer))
        }
        _ => Ok(found),
    }
}

/// What to say of a command that nobody has.
fn no_command(command: &Command, path: &str, word: &str) -> String {
    let names = command.get_subcommands().map(Command::get_name);
    let near = names.filter_map(|name| Some((misspelling(word, name)?, name))).min();
    let [whole, help] = [word, "--help"].map(|last| [path, last].join(" ").trim_start().to_owned());
    match near {
        Some((_, near)) => format!("there is no command {whole}; did you mean {near}?"),
        None => format!("there is no command {whole}; `minigpt {help}` lists them"),
    }
}
