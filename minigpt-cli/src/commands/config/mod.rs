//! `minigpt config`: ready configurations, and every setting there is.

mod list;
mod settings;
mod show;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Show built-in configurations and all settings.
#[derive(Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the built-in configurations, for `train --config NAME`.
    List(list::ListArgs),
    /// Print a built-in configuration.
    Show(show::ShowArgs),
    /// List all settings: defaults, allowed values and meanings.
    Settings(settings::SettingsArgs),
}

/// Runs one of the subcommands.
pub fn run(args: &ConfigArgs) -> Result<()> {
    match &args.command {
        Command::List(args) => list::run(args),
        Command::Show(args) => show::run(args),
        Command::Settings(args) => settings::run(args),
    }
}
