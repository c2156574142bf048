//! `minigpt scaling`: what more data or a larger model would buy, from one's own runs.

mod fit;
mod plan;
mod predict;
mod report;
mod run;
mod runs;
mod words;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Fit a scaling law to your own runs: what more data or a larger model would bring.
#[derive(Args)]
#[command(arg_required_else_help = true)]
pub struct ScalingArgs {
    #[command(subcommand)]
    command: ScalingCommand,
}

#[derive(Subcommand)]
enum ScalingCommand {
    /// Show which sizes and how many tokens fit into a time or FLOP budget.
    Plan(plan::ScalingPlanArgs),
    /// Plan, train all sizes, fit the law and plot it: start here.
    Run(run::ScalingRunArgs),
    /// Fit the law to a sweep, or to any table of runs.
    Fit(fit::ScalingFitArgs),
    /// Predict the loss of a model size, or the best size for a budget.
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
