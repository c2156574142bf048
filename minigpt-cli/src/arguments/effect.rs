//! Options that have an effect only together with others, and are refused without them.

use super::wrong;
use crate::language::messages::arguments as message;
use clap::error::{ErrorKind, Result};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// An option of a command that needs one of several sets of other options. `!x` means that `x` is not given. An option may be
/// listed more than once.
struct Effect {
    command: &'static str,
    option: &'static str,
    needs: &'static [&'static [&'static str]],
}

const fn only(
    command: &'static str,
    option: &'static str,
    needs: &'static [&'static [&'static str]],
) -> Effect {
    Effect { command, option, needs }
}

const A_TEXT: &[&[&str]] = &[&["prompt"], &["ids"]];
/// The tables of snapshots have no room for these; their JSON has.
const ONE_MODEL_OR_JSON: &[&[&str]] = &[&["!snapshots"], &["json"]];
const A_MODEL: &[&[&str]] = &[&["!tensors", "!example"]];

const EFFECTS: &[Effect] = &[
    only("inspect", "model", &[&["!example"]]),
    only("inspect", "top", A_TEXT),
    only("inspect", "top", ONE_MODEL_OR_JSON),
    only("inspect", "full", A_TEXT),
    only("inspect", "full", &[&["json"]]),
    only("inspect", "attention", A_TEXT),
    only("inspect", "attention", ONE_MODEL_OR_JSON),
    only("inspect", "walk", A_TEXT),
    only("inspect", "walk", ONE_MODEL_OR_JSON),
    // With --json, --attention has all layers and heads.
    only("inspect", "layer", &[&["walk"], &["html"], &["attention", "!json"]]),
    only("inspect", "head", &[&["walk"], &["html"], &["attention", "!json"]]),
    only("inspect", "position", &[&["walk"], &["lens"], &["attribution"], &["html"]]),
    only("inspect", "lens", A_TEXT),
    only("inspect", "lens", ONE_MODEL_OR_JSON),
    only("inspect", "attribution", A_TEXT),
    only("inspect", "attribution", ONE_MODEL_OR_JSON),
    only("inspect", "token", &[&["attribution"], &["patch"], &["patch_ids"], &["html"]]),
    only("inspect", "distance", &[&["heads"]]),
    only("inspect", "ablate", A_TEXT),
    only("inspect", "ablate", ONE_MODEL_OR_JSON),
    only("inspect", "mean", &[&["ablate"]]),
    only("inspect", "reference", &[&["mean"]]),
    only("inspect", "patch", A_TEXT),
    only("inspect", "patch", ONE_MODEL_OR_JSON),
    only("inspect", "patch_ids", A_TEXT),
    only("inspect", "patch_ids", ONE_MODEL_OR_JSON),
    only("inspect", "other_token", &[&["patch"], &["patch_ids"]]),
    only("inspect", "boundaries", A_TEXT),
    only("inspect", "boundaries", ONE_MODEL_OR_JSON),
    only("inspect", "relations", ONE_MODEL_OR_JSON),
    only("inspect", "svg", &[&["snapshots", "heads"]]),
    only("inspect", "temperature", &[&["walk"], &["html"]]),
    only("inspect", "top_k", &[&["walk"], &["html"]]),
    only("inspect", "top_p", &[&["walk"], &["html"]]),
    only("inspect", "seed", &[&["heads"], &["boundaries"], &["walk"], &["html"]]),
    only("inspect", "html", A_TEXT),
    only("inspect", "device", A_MODEL),
    only("inspect", "exact", A_MODEL),
    // Snapshots are not quantised.
    only("inspect", "exact", &[&["!snapshots"]]),
    only("generate", "raw", &[&["!ids"]]),
    // One row is shown whole; rows as they are written are not made into tokens.
    only("data/show", "count", &[&["!row"]]),
    only("data/show", "start", &[&["!row"]]),
    only("data/show", "tokenizer", &[&["row"]]),
    only("data/show", "max_length", &[&["row"]]),
    only("data/show", "loss_on", &[&["row"]]),
    only("plan", "network", &[&["machines"]]),
    only("plan", "batch_size", &[&["!tensors"]]),
    only("plan", "block_size", &[&["!tensors"]]),
    only("plan", "tokens", &[&["!tensors"]]),
    only("plan", "flops_per_second", &[&["!tensors"]]),
    only("eval", "val_fraction", &[&["part"]]),
    only("eval", "seed", &[&["part"]]),
    only("scaling/predict", "repeated", &[&["parameters"]]),
    only("serve", "open", &[&["!no_page"]]),
    // Named widths are trained, however long that takes.
    only("scaling/plan", "minutes", &[&["!widths"]]),
    only("scaling/plan", "flops", &[&["!widths"]]),
    // A sweep that goes on has its plan.
    only("scaling/run", "minutes", &[&["!resume", "!widths"]]),
    only("scaling/run", "flops", &[&["!resume", "!widths"]]),
    only("scaling/run", "epochs", &[&["!resume"]]),
    only("scaling/run", "repeated", &[&["!resume"]]),
    only("scaling/run", "widths", &[&["!resume"]]),
    only("scaling/run", "tokens", &[&["!resume"]]),
    only("scaling/run", "changes", &[&["!resume"]]),
];

/// Returns an error if an option that was typed would have no effect.
pub(super) fn check(program: &Command, matches: &ArgMatches) -> Result<()> {
    let (mut command, mut matches, mut path) = (program, matches, Vec::new());
    while let Some((name, inner)) = matches.subcommand() {
        let Some(next) = command.find_subcommand(name) else { break };
        (command, matches) = (next, inner);
        path.push(name);
    }
    let path = path.join("/");
    let given = |option: &str| matches.value_source(option) == Some(ValueSource::CommandLine);
    let holds = |name: &&str| name.strip_prefix('!').map_or_else(|| given(name), |name| !given(name));
    for Effect { option, needs, .. } in EFFECTS.iter().filter(|effect| effect.command == path) {
        if given(option) && !needs.iter().any(|set| set.iter().all(holds)) {
            let option = spelled(command, option);
            let needs: Vec<String> = needs.iter().map(|set| described(command, set)).collect();
            let needs = needs.join(&message::Or.to_string());
            return Err(wrong(ErrorKind::ArgumentConflict, message::NoEffect { option, needs }.to_string()));
        }
    }
    Ok(())
}

/// An option as it is typed.
fn spelled(command: &Command, option: &str) -> String {
    let arg = command.get_arguments().find(|arg| arg.get_id() == option);
    match arg.and_then(clap::Arg::get_long) {
        Some(long) => format!("--{long}"),
        None => option.to_uppercase(),
    }
}

fn described(command: &Command, set: &[&str]) -> String {
    let (without, with): (Vec<&&str>, Vec<&&str>) = set.iter().partition(|name| name.starts_with('!'));
    let list = |names: &[&&str]| {
        let names = names.iter().map(|name| spelled(command, name.trim_start_matches('!')));
        names.collect::<Vec<_>>().join(&message::And.to_string())
    };
    match (&with[..], &without[..]) {
        (with, []) => message::With { options: list(with) }.to_string(),
        ([], without) => message::Without { options: list(without) }.to_string(),
        (with, without) => message::WithAndWithout { with: list(with), without: list(without) }.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_name_in_the_table_is_an_option_of_its_command() {
        for Effect { command, option, needs } in EFFECTS {
            let found = command
                .split('/')
                .fold(Cli::command(), |found, name| found.find_subcommand(name).unwrap().clone());
            let known = |name: &str| found.get_arguments().any(|arg| arg.get_id() == name);
            let named = needs.iter().copied().flatten().map(|name| name.trim_start_matches('!'));
            for name in named.chain([*option]) {
                assert!(known(name), "minigpt {command} has no {name}");
            }
        }
    }
}
