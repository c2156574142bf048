//! Steps of training, as `minigpt train` makes them, on random tokens.

use super::model::{ModelArgs, check_memory, fits};
use super::report::{Report, Work};
use super::times::Times;
use super::{NOTES, SEED};
use crate::arguments::numbers;
use crate::language::messages::bench as message;
use anyhow::Result;
use clap::{Args, ValueEnum};
use minigpt::StepTimer;
use minigpt_model::Config;
use minigpt_model::plan::{Plan, masked_flops};
use minigpt_train::{OptimizerKind, TrainConfig};

/// Training steps: forward, backward, clipping and optimizer.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct TrainArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Dropout everywhere, instead of the model's own.
    #[arg(long, value_name = "P", value_parser = numbers::number)]
    dropout: Option<f64>,
    /// Batch size in rows.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = numbers::at_least::<u32>(1))]
    batch_size: u32,
    /// Tokens per row. Default: the model's context, at most 256.
    #[arg(long, value_name = "N", value_parser = numbers::at_least::<u32>(1))]
    context: Option<u32>,
    /// Optimizer, with gradients clipped at 1 and a weight decay of 0.1.
    #[arg(long, value_enum, default_value = "adamw")]
    optimizer: OptimizerName,
    /// Number of steps to measure.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = numbers::within::<u32>(1, 1_000_000))]
    steps: u32,
    /// Number of warm-up steps.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = numbers::at_most::<u32>(1_000_000))]
    warm_up: u32,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum OptimizerName {
    Adamw,
    Muon,
}

/// Runs the command.
pub fn run(args: &TrainArgs) -> Result<()> {
    let config = config(args)?;
    let (rows, context) = (args.batch_size as usize, context(args, &config)?);
    let plan = Plan::new(&config, rows, context);
    check_memory(plan.train_bytes, message::SmallerBatchOrContext.text())?;
    let gpt = args.model.open(&config)?.with_dropout(&config)?;
    let mut timer = StepTimer::new(gpt, &train(args), context)?;
    let times = Times::of(args.warm_up, args.steps, || Ok(timer.step()?))?;
    let title = message::TrainTitle { config: &args.model.title(&config), rows: &rows, context: &context }
        .to_string();
    let masked = 3 * rows as u64 * masked_flops(&config, config.n_layer, context);
    let flops = plan.train_flops_per_step.saturating_sub(masked) as f64;
    let work = Work { tokens: (rows * context) as u64, flops, bytes_read: None, weights: None };
    Report::new("train", config, work, &times)?.show(args.json, &title)
}

fn config(args: &TrainArgs) -> Result<Config> {
    let config = args.model.config()?;
    let config = match args.dropout {
        Some(p) => config.with_dropout(p),
        None => config,
    };
    config.validate()?;
    Ok(config)
}

fn context(args: &TrainArgs, config: &Config) -> Result<usize> {
    let context = args.context.map_or(config.block_size.min(256), |n| n as usize);
    fits(context, config, "--context")?;
    Ok(context)
}

fn train(args: &TrainArgs) -> TrainConfig {
    let optimizer = match args.optimizer {
        OptimizerName::Adamw => OptimizerKind::AdamW,
        OptimizerName::Muon => OptimizerKind::Muon,
    };
    TrainConfig {
        batch_size: args.batch_size as usize,
        optimizer,
        grad_clip: 1.0,
        weight_decay: 0.1,
        seed: SEED,
        ..TrainConfig::default()
    }
}
