//! `minigpt scaling plan`: the runs of a sweep before they are made.

use crate::arguments::numbers;
use crate::language::duration;
use crate::language::local;
use crate::language::messages::scaling as message;
use crate::{output, screen};
use anyhow::Result;
use clap::Args;
use minigpt::RunConfig;
use minigpt::sweep::{Budget, SweepOptions, SweepPlan};
use minigpt_charts::{Table, bytes, count};

/// Minutes of a sweep for which nobody says how long.
const MINUTES: f64 = 15.0;

#[derive(Args)]
pub struct ScalingPlanArgs {
    /// Training data: text, a folder of texts, questions and answers, prepared tokens, or builtin.
    #[arg(value_name = "DATA")]
    data: String,
    #[command(flatten)]
    options: PlanOptions,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

/// What a sweep may cost and what it is made of.
#[derive(Args)]
pub struct PlanOptions {
    /// Time for the whole sweep in minutes. Default: 15.
    #[arg(long, value_name = "N", value_parser = numbers::positive)]
    minutes: Option<f64>,
    /// Compute budget of all runs together in FLOPs (6·N·D each), instead of a time.
    #[arg(long, value_name = "N", value_parser = numbers::positive, conflicts_with = "minutes")]
    flops: Option<f64>,
    /// Maximum number of epochs of the longest runs. Default: 1. More than 4 needs --repeated.
    #[arg(long, value_name = "N", value_parser = numbers::positive)]
    epochs: Option<f64>,
    /// Fit the law for repeated data (Muennighoff et al. 2023), in which repeated tokens are worth less.
    #[arg(long)]
    repeated: bool,
    /// Widths to train, from small to large, such as 16,24,40,56. Default: chosen for the budget.
    #[arg(long, value_name = "N,…", value_parser = widths)]
    widths: Option<Widths>,
    /// Tokens of the longest runs. Default: as many as fit into the budget.
    #[arg(long, value_name = "N", value_parser = numbers::positive)]
    tokens: Option<f64>,
    /// Change a setting of all runs, such as train.batch_size=8 or data.tokenizer=char.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", value_parser = numbers::change)]
    changes: Vec<String>,
}

/// Widths as they are typed: `16,24,40,56`.
#[derive(Clone)]
struct Widths(Vec<usize>);

fn widths(text: &str) -> Result<Widths, String> {
    let numbers = text.split(',').map(|number| number.trim().parse()).collect::<Result<_, _>>();
    numbers.map(Widths).map_err(|_| message::ExpectedWholeNumbers.text().to_owned())
}

impl PlanOptions {
    pub fn plan(&self, data: &str) -> Result<SweepPlan> {
        let minutes = self.minutes.unwrap_or(MINUTES);
        let options = SweepOptions {
            budget: self.flops.map_or(Budget::Minutes(minutes), Budget::Flops),
            epochs: self.epochs.unwrap_or(1.0),
            repeated: self.repeated,
            widths: self.widths.as_ref().map(|widths| widths.0.clone()),
            tokens: self.tokens.map(|tokens| tokens as u64),
            changes: self.changes.clone(),
        };
        let plan = SweepPlan::new(data, &options)?;
        let config = RunConfig::parse_open(&plan.config, &[])?;
        minigpt::damage(&config).iter().for_each(|damage| output::note(local(damage)));
        Ok(plan)
    }
}

/// Runs the command.
pub fn run(args: &ScalingPlanArgs) -> Result<()> {
    let plan = args.options.plan(&args.data)?;
    if args.json {
        return output::json(&plan);
    }
    warn(&plan);
    output::text(describe(&plan))
}

/// Says what a person should know before such a sweep.
pub fn warn(plan: &SweepPlan) {
    if plan.epochs > 1.001 && !plan.repeated {
        output::note(message::PastOneEpoch { epochs: &plan.epochs });
    }
}

/// The plan as people read it.
pub fn describe(plan: &SweepPlan) -> String {
    let mut sizes = Table::new(&[0, 1, 2, 3, 4, 5]);
    sizes.row([
        message::Width.text(),
        "N",
        message::AllParameters.text(),
        message::Rate.text(),
        message::TimePerStep.text(),
        message::Memory.text(),
        "",
    ]);
    for size in &plan.sizes {
        let mode = if size.side_by_side {
            message::ParallelRuns { threads: &count(plan.threads as u64) }.to_string()
        } else {
            message::OneRunAtATime.text().to_owned()
        };
        sizes.row([
            &count(size.n_embd as u64),
            &count(size.parameters),
            &count(size.parameters_total),
            &format!("{:.2e}", size.learning_rate),
            &duration(size.seconds_per_step),
            &bytes(size.train_bytes),
            &mode,
        ]);
    }
    let tokens: Vec<String> = plan.tokens.iter().map(|&tokens| count(tokens)).collect();
    let mut table = Table::default();
    table.row([
        message::Data.text(),
        &message::DataAndTokens { title: &plan.title, tokens: &count(plan.unique_tokens) }.to_string(),
    ]);
    table.row([message::TokensPerRun.text(), &tokens.join(", ")]);
    table.row([
        message::Runs.text(),
        &message::RunsAndRepeats { runs: &(count(plan.runs.len() as u64)) }.to_string(),
    ]);
    table.row([
        message::JudgedBy.text(),
        &message::AllValidationTokens { tokens: &count(plan.validation_tokens) }.to_string(),
    ]);
    table.row([message::Arithmetic.text(), &format!("{:.1e} FLOP", plan.flops)]);
    table.row([message::Memory.text(), &bytes(plan.bytes)]);
    table.row([message::Time.text(), &message::AboutTime { time: &duration(plan.seconds) }.to_string()]);
    let columns = screen::table_columns();
    format!(
        "{}\n{}\n{}\n",
        table.draw_within(columns),
        sizes.draw_within(columns),
        message::AboutNAndRates.text()
    )
}
