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

use crate::arguments;
use anyhow::Result;
use clap::error::ErrorKind;
use clap::{Args, Subcommand};
use std::fmt::Display;

/// Find, download, prepare, split and measure data.
#[derive(Args)]
pub struct DataArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the built-in data set and the public ones that can be downloaded.
    List(list::ListArgs),
    /// Download a public data set.
    Download(download::DownloadArgs),
    /// Turn text into token files, for data larger than memory.
    Prepare(prepare::PrepareArgs),
    /// Split data into a training and a validation file.
    Split(split::SplitArgs),
    /// Show examples: as written, or one as the model sees it.
    Show(show::ShowArgs),
    /// Write the built-in data set to files.
    Export(export::ExportArgs),
    /// Show statistics of text, questions and answers, or prepared tokens.
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
fn usage(message: impl Display) -> anyhow::Error {
    arguments::wrong(ErrorKind::ArgumentConflict, message.to_string()).into()
}
