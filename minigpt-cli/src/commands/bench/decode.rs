//! Tokens written one after another, as `minigpt generate` writes them.

use super::model::{ModelArgs, cache_bytes, check_memory, fits, inference_bytes};
use super::report::{Report, Weights, Work};
use super::times::Times;
use super::{NOTES, random_prompts};
use crate::arguments::numbers;
use crate::dtype;
use crate::language::messages::bench as message;
use anyhow::{Context, Result};
use clap::Args;
use minigpt_generate::{GenerationConfig, Generator};
use minigpt_kernels::ElementType;
use minigpt_model::plan::Plan;
use minigpt_model::{Config, Gpt};
use std::time::{Duration, Instant};

/// Generating tokens one after another, without the prompt.
#[derive(Args)]
#[command(after_help = NOTES)]
pub struct DecodeArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Prompt length in tokens. Default: 16, or half of a context shorter than 32.
    #[arg(long, value_name = "N", value_parser = numbers::at_least::<u32>(1))]
    prompt_length: Option<u32>,
    /// Tokens to generate. Default: 128, or as many as fit into the context.
    #[arg(long, value_name = "N", value_parser = numbers::at_least::<u32>(2))]
    max_new_tokens: Option<u32>,
    /// Texts to generate at the same time.
    #[arg(long, alias = "batch", value_name = "N", default_value_t = 1, value_parser = numbers::at_least::<u32>(1))]
    batch_size: u32,
    /// Type of the weight matrices: fewer bits take less memory and time and are slightly less accurate. Default:
    /// quantized matrices as in the file, others in f32.
    #[arg(long, ignore_case = true, value_parser = dtype::among(dtype::TO_RUN))]
    dtype: Option<ElementType>,
    /// Type of the key/value cache: f16 takes half the memory.
    #[arg(long, value_name = "TYPE", aliases = ["cache-type-k", "cache-type-v", "ctk", "ctv"], overrides_with = "cache_type", default_value = "f32", ignore_case = true, value_parser = dtype::among(dtype::TO_CACHE))]
    cache_type: ElementType,
    /// Number of measurements.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = numbers::within::<u32>(1, 1_000_000))]
    repeat: u32,
    /// Number of warm-up runs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = numbers::at_most::<u32>(1_000_000))]
    warm_up: u32,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

/// How long prompt and text are.
#[derive(Clone, Copy)]
struct Lengths {
    prompt: usize,
    new: usize,
}

/// Runs the command.
pub fn run(args: &DecodeArgs) -> Result<()> {
    let config = args.model.config()?;
    let (rows, lengths) = (args.batch_size as usize, lengths(args, &config)?);
    let needed = inference_bytes(&config, rows, lengths.prompt, lengths.prompt + lengths.new);
    check_memory(needed, message::SmallerBatchOrModel.text())?;
    let gpt = dtype::with_cache(args.model.open_as(&config, args.dtype)?, args.cache_type);
    let prompts = random_prompts(rows, lengths.prompt, config.vocab_size);
    let times = Times::of(args.warm_up, args.repeat, || write(&gpt, &prompts, lengths.new))?;
    let Lengths { prompt, new } = lengths;
    let title =
        message::DecodeTitle { config: &args.model.title(&config), rows: &rows, new: &new, prompt: &prompt }
            .to_string();
    let work = work(&gpt, rows, lengths, args);
    Report::new("decode", config, work, &times)?.show(args.json, &title)
}

fn lengths(args: &DecodeArgs, config: &Config) -> Result<Lengths> {
    let prompt = args.prompt_length.map_or((config.block_size / 2).clamp(1, 16), |n| n as usize);
    let room = config.block_size.saturating_sub(prompt);
    let new = args.max_new_tokens.map_or(room.clamp(2, 128), |n| n as usize);
    fits(prompt + new, config, message::PromptOrNewTokens.text())?;
    Ok(Lengths { prompt, new })
}

/// Writes the likeliest texts, and returns how long a token took on average. The first one is not counted: the prompt
/// is read for it.
fn write(gpt: &Gpt, prompts: &[Vec<u32>], max_new_tokens: usize) -> Result<Duration> {
    let config = GenerationConfig { max_new_tokens, ..GenerationConfig::default() };
    let mut generator = Generator::new(gpt, prompts, &config, None)?;
    generator.next().context(message::NothingGenerated)??;
    let start = Instant::now();
    let mut tokens = 0u32;
    for step in generator {
        step?;
        tokens += 1;
    }
    Ok(start.elapsed() / tokens.max(1))
}

/// What one step takes: all weights of matrices, once for all rows, and the keys and values of each row so far.
fn work(gpt: &Gpt, rows: usize, lengths: Lengths, args: &DecodeArgs) -> Work {
    let config = gpt.config();
    let seen = lengths.prompt + lengths.new / 2;
    let plan = Plan::new(config, rows, seen);
    let narrower = args.cache_type.bytes_an_element() / ElementType::F32.bytes_an_element();
    let cache = narrower * rows as f64 * cache_bytes(config, seen) as f64;
    Work {
        tokens: rows as u64,
        flops: rows as f64 * plan.forward_flops_per_token as f64,
        bytes_read: Some(gpt.bytes_per_step() as f64 + cache),
        weights: Some(Weights::of(gpt)),
    }
}
