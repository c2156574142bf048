//! nanoGPT's and transformers' options: every setting of a run is a hidden option of `train` (`--max_iters=100`), under their
//! names too, and `generate` takes those of `sample.py`.

use super::conflict;
use super::numbers;
use crate::commands::generate::GenerateArgs;
use crate::commands::train::TrainArgs;
use crate::language::messages::arguments as message;
use clap::error::Result;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use minigpt::SETTINGS;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Settings as transformers' `Trainer` calls them, and their names here.
const TRAINERS: &[(&str, &str)] = &[
    ("num_train_epochs", "epochs"),
    ("max_steps", "max_iters"),
    ("per_device_train_batch_size", "batch_size"),
    ("lr", "learning_rate"),
    ("warmup_steps", "warmup_iters"),
    ("max_grad_norm", "grad_clip"),
    ("adam_beta1", "beta1"),
    ("adam_beta2", "beta2"),
    ("adam_epsilon", "eps"),
    ("logging_steps", "log_interval"),
    ("eval_steps", "eval_interval"),
    ("save_steps", "save_interval"),
];

/// Where a model starts: nanoGPT's `init_from`.
#[derive(Debug, Clone, PartialEq)]
enum InitFrom {
    Resume,
    Scratch,
    /// A model of the hub.
    Hub(PathBuf),
}

/// The hidden options of a command.
pub(super) fn add_to(command: Command, path: &str) -> Command {
    let init_from = Arg::new("init_from").long("init_from").hide(true).value_parser(init_from);
    match path {
        "train" => {
            let taken = |name: &str| {
                let dashed = name.replace('_', "-");
                command.get_arguments().any(|arg| arg.get_long() == Some(&dashed))
            };
            let own = SETTINGS.iter().map(|setting| (setting.key, setting.key));
            let settings: BTreeMap<&str, &str> =
                own.chain(TRAINERS.iter().copied()).filter(|(name, _)| !taken(name)).collect();
            let option = |(name, key): (&'static str, &'static str)| {
                let arg = Arg::new(id(name)).long(name).hide(true).value_name("VALUE");
                arg.action(ArgAction::Append).value_parser(move |value: &str| setting(key, value))
            };
            command
                .args(settings.into_iter().map(option))
                .arg(init_from.conflicts_with("from"))
                .arg(
                    Arg::new("dataset")
                        .long("dataset")
                        .hide(true)
                        .conflicts_with("data")
                        .value_parser(dataset),
                )
                .arg(is_on("decay_lr"))
        }
        "generate" => {
            let others = ["words", "prompt", "ids", "prompt_file", "prompts"];
            let start = Arg::new("start").long("start").hide(true).conflicts_with_all(others);
            command.arg(init_from).arg(is_on("do_sample")).arg(start)
        }
        _ => command,
    }
}

/// A hidden switch that may have Python's `True` or `False` as its value.
fn is_on(name: &'static str) -> Arg {
    let arg = Arg::new(name).long(name).hide(true).num_args(0..=1);
    arg.action(ArgAction::Set).default_missing_value("True").value_parser(switch)
}

fn id(setting: &str) -> String {
    format!("setting.{setting}")
}

/// `True` or `False`, as Python or TOML writes it.
pub(super) fn switch(value: &str) -> std::result::Result<bool, String> {
    match value {
        "true" | "True" => Ok(true),
        "false" | "False" => Ok(false),
        _ => Err(message::NotSwitch.to_string()),
    }
}

/// The change `key=value`, of a value as Python writes it.
fn setting(key: &str, value: &str) -> std::result::Result<String, String> {
    let quoted = ['\'', '"'].iter().find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote));
    let value = match switch(value) {
        Ok(is_on) => is_on.to_string(),
        Err(_) => quoted.unwrap_or(value).to_owned(),
    };
    numbers::change(&format!("{key}={value}"))
}

/// The data that `--dataset` names: a folder of nanoGPT's `data/`, or else a path.
#[expect(clippy::unnecessary_wraps, reason = "the signature of a clap value parser")]
fn dataset(name: &str) -> std::result::Result<PathBuf, String> {
    let folder = Path::new("data").join(name);
    Ok(if folder.exists() || !Path::new(name).exists() { folder } else { name.into() })
}

fn init_from(name: &str) -> std::result::Result<InitFrom, String> {
    match name {
        "resume" => Ok(InitFrom::Resume),
        "scratch" => Ok(InitFrom::Scratch),
        "gpt2" | "gpt2-medium" | "gpt2-large" | "gpt2-xl" => {
            Ok(InitFrom::Hub(format!("hf:openai-community/{name}").into()))
        }
        _ => Err(message::InitFrom.to_string()),
    }
}

/// The data of a run, which is not one of nanoGPT's configurations in Python.
pub fn data(path: &str) -> std::result::Result<PathBuf, String> {
    if !path.ends_with(".py") {
        return Ok(path.into());
    }
    let config = match path {
        _ if path.contains("finetune") => "gpt2-finetune",
        _ if path.contains("gpt2") => "gpt2",
        _ => "shakespeare-nanogpt",
    };
    Err(message::PythonConfig { config }.to_string())
}

/// Applies the hidden options of `train` to its own.
pub(super) fn apply_to_train(
    args: &mut TrainArgs,
    matches: &ArgMatches,
    notes: &mut Vec<String>,
) -> Result<()> {
    // In the order in which they were typed: the last change of a setting wins.
    let changes = |id: &str| {
        let indices = matches.indices_of(id).into_iter().flatten();
        let values = matches.get_many::<String>(id).into_iter().flatten().cloned();
        indices.zip(values).collect::<Vec<_>>()
    };
    let own = SETTINGS.iter().map(|setting| setting.key).chain(TRAINERS.iter().map(|(name, _)| *name));
    let own = own.filter(|name| matches!(matches.try_contains_id(&id(name)), Ok(true)));
    let own: std::collections::BTreeSet<&str> = own.collect();
    let mut all = changes("changes");
    for name in &own {
        all.extend(changes(&id(name)));
        if let Some((name, ours)) = TRAINERS.iter().find(|(theirs, _)| theirs == name) {
            notes.push(message::CalledHere { name, ours }.to_string());
        }
        notes.extend(super::seed_note(matches, &id(name)));
    }
    all.sort();
    args.changes = all.into_iter().map(|(_, change)| change).collect();
    if let Some(data) = matches.get_one::<PathBuf>("dataset") {
        notes.push(message::Dataset { path: data.display() }.to_string());
        args.data = Some(data.clone());
    }
    if matches.get_one("decay_lr") == Some(&false) {
        notes.push(message::DecayLr.to_string());
        args.changes.extend(["train.lr_decay=constant", "train.warmup_iters=0"].map(str::to_owned));
    }
    match matches.get_one::<InitFrom>("init_from") {
        Some(InitFrom::Resume) if args.minutes.is_some() => {
            return Err(conflict("--init_from=resume", "--minutes"));
        }
        Some(InitFrom::Resume) => args.resume = true,
        Some(InitFrom::Hub(_)) if args.resume => return Err(conflict("--init_from", "--resume")),
        Some(InitFrom::Hub(model)) => args.from = Some(model.clone()),
        Some(InitFrom::Scratch) | None => {}
    }
    Ok(())
}

/// Applies the hidden options of `generate` to its own.
pub(super) fn apply_to_generate(
    args: &mut GenerateArgs,
    matches: &ArgMatches,
    notes: &mut Vec<String>,
) -> Result<()> {
    let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    match matches.get_one::<InitFrom>("init_from") {
        Some(InitFrom::Hub(model)) => {
            if given("model") {
                notes.push(message::OutDirUnused.to_string());
            }
            args.model.model.clone_from(model);
        }
        Some(InitFrom::Scratch) => {
            return Err(super::wrong(
                clap::error::ErrorKind::InvalidValue,
                message::NothingFromScratch.to_string(),
            ));
        }
        Some(InitFrom::Resume) | None => {}
    }
    if let Some(start) = matches.get_one::<String>("start") {
        match start.strip_prefix("FILE:") {
            Some(file) => args.prompt_file = Some(file.into()),
            None => args.prompt = vec![start.clone()],
        }
    }
    if matches.get_one("do_sample") == Some(&false) {
        if given("temperature") {
            return Err(conflict("--do_sample=False", "--temperature"));
        }
        args.sampling.always_likeliest();
    }
    Ok(())
}
