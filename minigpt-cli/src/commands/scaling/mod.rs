//! `minigpt scaling`: what more data or a larger model would buy, from one's own runs.

mod fit;
mod plan;
mod predict;
mod report;
mod run;
mod runs;
mod words;

use crate::language::messages::scaling as message;
use anyhow::Result;
use clap::{Args, Subcommand};

/// Find out what more text or a larger model would buy: a scaling law from your own runs.
#[derive(Args)]
#[command(arg_required_else_help = true)]
pub struct ScalingArgs {
    #[command(subcommand)]
    command: ScalingCommand,
}

#[derive(Subcommand)]
enum ScalingCommand {
    /// Show which sizes and how many tokens fit into a time or a number of FLOPs.
    Plan(plan::ScalingPlanArgs),
    /// Plan, train all sizes, fit the law and draw it: start here.
    Run(run::ScalingRunArgs),
    /// Fit the law to a sweep, or to any table of runs.
    Fit(fit::ScalingFitArgs),
    /// Say what loss a size would reach, or which size is best for a budget.
    Predict(predict::ScalingPredictArgs),
}

/// Runs the command.
pub fn run(args: &ScalingArgs) -> Result<()> {
    match &args.command {
        ScalingCommand::Plan(args) => plan::run(args),
        ScalingCommand::Run(args) => run::run(args),
        ScalingCommand::Fit(args) => fit::run(args),
        ScalingCommand::Predict(args) => predict::run(args),
    }
}

/// Reads a number above zero.
fn positive(text: &str) -> Result<f64, String> {
    match text.replace('_', "").parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err(message::ExpectedPositiveNumber.text().to_owned()),
    }
}
