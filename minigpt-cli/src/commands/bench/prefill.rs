//! The reading of a prompt.

use super::model::{ModelArgs, check_memory, fits, inference_bytes};
use super::report::{Report, Weights, Work};
use super::times::Times;
use super::{NOTES, random_prompts};
use crate::arguments::numbers;
use crate::dtype;
use crate::language::messages::bench as message;
use anyhow::Result;
use clap::Args;
use minigpt_generate::{GenerationConfig, Generator};
use minigpt_kernels::ElementType;
use minigpt_model::plan::{Plan, masked_flops};
use minigpt_model::{Config, Gpt};
use std::time::{Duration, Instant};

/// Processing a prompt, up to the first new token.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct PrefillArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Prompt length in tokens. Default: 512, or one less than a shorter context.
    #[arg(long, value_name = "N", value_parser = numbers::at_least::<u32>(1))]
    prompt_length: Option<u32>,
    /// Prompts to process at the same time.
    #[arg(long, alias = "batch", value_name = "N", default_value_t = 1, value_parser = numbers::at_least::<u32>(1))]
    batch_size: u32,
    /// Type of the weight matrices: fewer bits take less memory and time and are slightly less accurate. Default:
    /// quantized matrices as in the file, others in f32.
    #[arg(long, ignore_case = true, value_parser = dtype::among(dtype::TO_RUN))]
    dtype: Option<ElementType>,
    /// Number of measurements.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = numbers::within::<u32>(1, 1_000_000))]
    repeat: u32,
    /// Number of warm-up runs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = numbers::at_most::<u32>(1_000_000))]
    warm_up: u32,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &PrefillArgs) -> Result<()> {
    let config = args.model.config()?;
    let prompt = args.prompt_length.map_or((config.block_size - 1).clamp(1, 512), |n| n as usize);
    fits(prompt, &config, "--prompt-length")?;
    let rows = args.batch_size as usize;
    check_memory(inference_bytes(&config, rows, prompt, prompt + 1), message::SmallerBatchOrPrompt.text())?;
    let gpt = args.model.open_as(&config, args.dtype)?;
    let prompts = random_prompts(rows, prompt, config.vocab_size);
    let times = Times::of(args.warm_up, args.repeat, || read(&gpt, &prompts))?;
    let title = message::PrefillTitle { config: &args.model.title(&config), rows: &rows, prompt: &prompt }
        .to_string();
    let work = Work { weights: Some(Weights::of(&gpt)), ..work(&config, rows, prompt) };
    Report::new("prefill", config, work, &times)?.show(args.json, &title)
}

/// How long it takes from the prompts to the first token of each.
fn read(gpt: &Gpt, prompts: &[Vec<u32>]) -> Result<Duration> {
    let config = GenerationConfig { max_new_tokens: 1, ..GenerationConfig::default() };
    let start = Instant::now();
    for step in Generator::new(gpt, prompts, &config, None)? {
        step?;
    }
    Ok(start.elapsed())
}

/// Of a prompt only the last token leaves the last block and goes through the output head; of the others, that block
/// needs the keys and values alone.
fn work(config: &Config, rows: usize, prompt: usize) -> Work {
    let all = Plan::new(config, rows, prompt).forward_flops_per_token as f64;
    let [c, inner, v, t] = [config.n_embd, config.inner(), config.vocab_size, prompt].map(|n| n as f64);
    let spared = 2.0 * (c * c + 2.0 * c * inner + v * c) + 4.0 * c * t;
    let masked = masked_flops(config, config.n_layer - 1, prompt) as f64;
    let row = t * all - (t - 1.0) * spared - masked;
    Work { tokens: (rows * prompt) as u64, flops: rows as f64 * row, bytes_read: None, weights: None }
}
