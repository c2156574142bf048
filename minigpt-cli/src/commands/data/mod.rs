//! `minigpt data`: what goes into a model.

mod download;
mod list;
mod prepare;
mod skipped;
mod split;
mod stats;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{Args, Subcommand};

/// Find, fetch, prepare, split and measure data.
#[derive(Args)]
pub struct DataArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the built-in set, and public sets that can be downloaded by name.
    List(list::ListArgs),
    /// Fetch a public set.
    Download(download::DownloadArgs),
    /// Turn text into files of tokens, for training on more than fits in memory.
    Prepare(prepare::PrepareArgs),
    /// Split question/answer lines into a training and a validation file.
    Split(split::SplitArgs),
    /// Measure text, question/answer lines, or prepared tokens.
    Stats(stats::StatsArgs),
}

/// Runs one of the subcommands.
pub fn run(args: &DataArgs) -> Result<()> {
    match &args.command {
        Command::List(args) => list::run(args),
        Command::Download(args) => download::run(args),
        Command::Prepare(args) => prepare::run(args),
        Command::Split(args) => split::run(args),
        Command::Stats(args) => stats::run(args),
    }
}

/// Options that make no sense together.
fn usage(message: &str) -> anyhow::Error {
    clap::Error::raw(ErrorKind::ArgumentConflict, format!("{message}\n")).into()
}
