//! Options of other programs that need no counterpart here. They are accepted, and a note says what happens instead.

use super::nanogpt::switch;
use crate::language::messages::arguments as message;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// Commands that run a model.
const RUN_A_MODEL: &[&str] = &["run", "chat", "generate", "serve"];

/// Whether an option takes a value.
#[derive(PartialEq)]
enum Takes {
    Nothing,
    Value,
    /// `True` or `False`, or nothing.
    Switch,
}

/// An option without effect, under all of its names; one letter is a short option.
struct Ignored {
    commands: &'static [&'static str],
    names: &'static [&'static str],
    takes: Takes,
    /// The value that asks for what happens anyway, so that no note is needed.
    silent: &'static str,
    note: fn() -> String,
}

const fn llama(names: &'static [&'static str], takes: Takes, note: fn() -> String) -> Ignored {
    Ignored { commands: RUN_A_MODEL, names, takes, silent: "", note }
}

const fn nanogpt(name: &'static [&'static str], takes: Takes, note: fn() -> String) -> Ignored {
    Ignored { commands: &["train"], names: name, takes, silent: "False", note }
}

const OPTIONS: &[Ignored] = &[
    llama(&["n-gpu-layers", "ngl", "gpu-layers"], Takes::Value, || message::GpuLayers.to_string()),
    llama(&["conversation", "cnv", "interactive", "i"], Takes::Nothing, || message::Conversation.to_string()),
    llama(&["no-conversation", "no-cnv"], Takes::Nothing, || message::NoConversation.to_string()),
    llama(&["mlock", "no-mmap"], Takes::Nothing, || message::Mapped.to_string()),
    llama(&["verbose", "v"], Takes::Nothing, || message::Verbose.to_string()),
    Ignored {
        commands: &["generate"],
        ..nanogpt(&["compile"], Takes::Switch, || message::Compile.to_string())
    },
    nanogpt(&["compile"], Takes::Switch, || message::Compile.to_string()),
    nanogpt(&["wandb_log"], Takes::Switch, || message::WandbLog.to_string()),
    nanogpt(&["wandb_project"], Takes::Value, || message::WandbProject.to_string()),
    nanogpt(&["wandb_run_name"], Takes::Value, || message::WandbRunName.to_string()),
    Ignored { silent: "float32", ..nanogpt(&["dtype"], Takes::Value, || message::TrainingDtype.to_string()) },
    nanogpt(&["backend"], Takes::Value, || message::Backend.to_string()),
    Ignored {
        silent: "",
        ..nanogpt(&["always_save_checkpoint"], Takes::Switch, || message::AlwaysSave.to_string())
    },
];

/// Adds them to a command, hidden from its help.
pub(super) fn add_to(command: Command, path: &str) -> Command {
    let of_command = OPTIONS.iter().filter(|option| option.commands.contains(&path));
    command.args(of_command.map(|option| {
        let arg = Arg::new(id(option)).hide(true).long(option.names[0]);
        let arg = option.names[1..].iter().fold(arg, |arg, name| match name.chars().next() {
            Some(letter) if name.len() == 1 => arg.short(letter),
            _ => arg.alias(*name),
        });
        match option.takes {
            Takes::Nothing => arg.action(ArgAction::SetTrue),
            Takes::Value => arg.action(ArgAction::Set).value_name("VALUE"),
            Takes::Switch => {
                arg.action(ArgAction::Set).num_args(0..=1).default_missing_value("True").value_parser(switch)
            }
        }
    }))
}

/// What happens instead of what the given ones ask for.
pub(super) fn notes(path: &str, matches: &ArgMatches) -> impl Iterator<Item = String> {
    let given = OPTIONS.iter().filter(move |option| {
        let silent = |value: &std::ffi::OsStr| value.eq_ignore_ascii_case(option.silent);
        option.commands.contains(&path)
            && match option.takes {
                Takes::Nothing => matches.get_flag(&id(option)),
                _ => matches.get_raw(&id(option)).is_some_and(|mut values| !values.all(silent)),
            }
    });
    given.map(|option| format!("--{}: {}", option.names[0], (option.note)()))
}

fn id(option: &Ignored) -> String {
    format!("without-effect.{}", option.names[0])
}
