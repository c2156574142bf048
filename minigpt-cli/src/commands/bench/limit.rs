//! What the machine can do, without a model.

use crate::output;
use anyhow::Result;
use clap::Args;
use minigpt::limit::Limit;

/// The limits of this machine.
#[derive(Args)]
pub struct LimitArgs {
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &LimitArgs) -> Result<()> {
    let limit = Limit::measure()?;
    if args.json { output::json(&limit) } else { output::text(super::report::limits(&limit, None)) }
}
