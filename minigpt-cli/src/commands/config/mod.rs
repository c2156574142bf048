//! `minigpt config`: ready configurations, and every setting there is.

mod list;
mod settings;
mod show;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Show ready configurations, and every setting there is.
#[derive(Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the configurations that are built in: `train --config NAME` uses one anywhere.
    List(list::ListArgs),
    /// Print a configuration that is built in, for example to change it.
    Show(show::ShowArgs),
    /// Show every setting: its default, what it may be, and what it means.
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
