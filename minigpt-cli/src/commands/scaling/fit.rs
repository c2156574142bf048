//! `minigpt scaling fit`: the law of a sweep, or of any table of runs.

use super::report::FitReport;
use super::runs::RunsArgs;
use crate::language::messages::scaling as message;
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub struct ScalingFitArgs {
    #[command(flatten)]
    runs: RunsArgs,
    /// Folder for loss.svg, isoflop.svg and residuals.svg. Default: the folder of a sweep; none for a CSV file.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &ScalingFitArgs) -> Result<()> {
    let runs = args.runs.read()?;
    let mut report = FitReport::new(&runs, &args.runs.options(), args.runs.repeated)?;
    if let Some(folder) = args.out.as_ref().or(runs.sweep.as_ref()) {
        std::fs::create_dir_all(folder)
            .with_context(|| message::CouldNotCreate { folder: &folder.display() }.to_string())?;
        report.draw(folder)?;
        report.keep(folder)?;
    }
    report.print(args.json)
}
