//! `minigpt data`: what goes into a model.

mod download;
mod export;
mod list;
mod prepare;
pub mod reading;
mod show;
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
    /// Split questions and answers, or a text, into a training and a validation file.
    Split(split::SplitArgs),
    /// Look at examples: as they are written, or one as the model gets it.
    Show(show::ShowArgs),
    /// Write the built-in set to files.
    Export(export::ExportArgs),
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
        Command::Show(args) => show::run(args),
        Command::Export(args) => export::run(args),
        Command::Stats(args) => stats::run(args),
    }
}

/// Options that make no sense together.
fn usage(message: &str) -> anyhow::Error {
    clap::Error::raw(ErrorKind::ArgumentConflict, format!("{message}\n")).into()
}
