//! `minigpt generate`: let a model go on with a text, or with many, under one setting or several.

mod answer;
mod explain;
mod prompts;
mod settings;
mod show;

use crate::arguments::numbers;
use crate::ids::Ids;
use crate::models::{ContextArgs, LoadArgs, ModelArg};
use crate::output;
use crate::sampling::SamplingArgs;
use crate::structured::StructuredArgs;
use anyhow::Result;
use clap::{Args, ValueEnum};
use minigpt::ModelFolder;
use minigpt_generate::{Completion, generate_watched};
use prompts::Prompts;
use settings::{Setting, Variants};
use show::{ALTERNATIVES, Clock};
use std::path::PathBuf;

/// Generate text from a prompt.
#[derive(Args)]
pub struct GenerateArgs {
    #[command(flatten)]
    pub model: ModelArg,
    /// Prompt; same as --prompt.
    #[arg(value_name = "PROMPT", conflicts_with_all = ["prompt", "ids", "prompt_file", "prompts"])]
    words: Vec<String>,
    /// Prompt; repeat it for several prompts, each of which is completed on its own. Default: standard input.
    #[arg(short, long, value_name = "TEXT", conflicts_with_all = ["ids", "prompt_file", "prompts"])]
    pub prompt: Vec<String>,
    /// Prompt as token ids, such as 1,2,3; needs no tokenizer. Repeat it for several prompts.
    #[arg(long, value_name = "IDS", conflicts_with_all = ["prompt_file", "prompts"])]
    ids: Vec<Ids>,
    /// File with one prompt; - for standard input.
    #[arg(short = 'f', long, alias = "file", value_name = "FILE", conflicts_with = "prompts")]
    pub prompt_file: Option<PathBuf>,
    /// File with one prompt per line, or one {"prompt": …} or {"ids": […]} per line; - for standard input.
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Pass the prompt to the model as it is, without the model's question or chat format.
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    #[command(flatten)]
    structured: StructuredArgs,
    /// Minimum number of tokens before a stop token.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = numbers::whole::<usize>)]
    min_new_tokens: usize,
    /// Number of beams; above 1 searches for the most likely text.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = numbers::whole::<usize>)]
    num_beams: usize,
    /// With beams: above 0 favors long texts, below 0 short ones.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = numbers::number)]
    length_penalty: f64,
    /// Number of texts to generate per prompt.
    #[arg(long, alias = "num-return-sequences", value_name = "N", default_value_t = 1, value_parser = numbers::whole::<usize>)]
    num_samples: usize,
    /// Token id that ends the text, in addition to the model's own; can be repeated.
    #[arg(long, alias = "eos-token-id", value_name = "ID", value_parser = numbers::whole::<u32>)]
    stop_id: Vec<u32>,
    /// What to do when the context is full.
    #[arg(long, value_enum, default_value = "slide")]
    context: ContextName,
    /// Show the alternatives for every token, with their probabilities from the model and after temperature and filters.
    #[arg(long, conflicts_with = "num_beams")]
    explain: bool,
    /// Compare the same prompt under several settings: styles (story,exact,code) or changes (temperature=1.2,top_k=5). A
    /// change after a style applies to it; can be repeated.
    #[arg(long, value_name = "STYLE|NAME=VALUE,...", conflicts_with = "style")]
    compare: Vec<Variants>,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    window: ContextArgs,
    /// Print one JSON value: {prompt_ids, completions, tokens_per_second}; for several prompts or settings {results:
    /// [{prompt_ids, completions}], tokens_per_second}.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ContextName {
    /// Drop the first half of the window and continue (fast).
    Slide,
    /// Always keep the last tokens that fit, as nanoGPT does (each token recomputes the whole window).
    Crop,
    /// End the text.
    Stop,
}

/// What was written for one prompt under one setting.
struct Group<'a> {
    /// The number of the prompt, from 1.
    number: usize,
    prompt: &'a [u32],
    setting: &'a Setting,
    completions: &'a [Completion],
}

/// Runs the command.
pub fn run(args: &GenerateArgs) -> Result<()> {
    let model = args.window.apply(args.load.open(&args.model.model)?)?;
    let prompts = prompts::read(args, &model)?;
    let settings = settings::all(args, &model)?;
    let mut clock = Clock::start();
    match (&prompts.ids[..], &settings[..]) {
        ([prompt], [Setting { label: None, config }])
            if !args.json
                && config.num_beams == 1
                && config.num_return_sequences == 1
                && !prompts.several =>
        {
            show::stream(&model, prompt, config, args.explain, &mut clock)?;
        }
        _ => whole(args, &model, &prompts, &settings, &mut clock)?,
    }
    if !args.json {
        output::note(clock.summary());
    }
    Ok(())
}

/// All texts to their ends, then shown.
fn whole(
    args: &GenerateArgs,
    model: &ModelFolder,
    prompts: &Prompts,
    settings: &[Setting],
    clock: &mut Clock,
) -> Result<()> {
    let tokenizer = model.tokenizer.as_ref();
    let alternatives = args.explain.then_some(ALTERNATIVES);
    let mut write = |setting: &Setting| {
        clock.begin();
        let config = &setting.config;
        generate_watched(&model.gpt, &prompts.ids, config, tokenizer, alternatives, |new| clock.tick(new))
    };
    let written: Vec<Vec<Completion>> = settings.iter().map(&mut write).collect::<Result<_, _>>()?;
    clock.tokens = written.iter().flatten().map(|completion| completion.ids.len()).sum();
    // Texts come in the order of their prompts.
    let by_prompt: Vec<Vec<&[Completion]>> =
        written.iter().map(|texts| texts.chunk_by(|a, b| a.prompt == b.prompt).collect()).collect();
    let group = |(number, setting): (usize, usize)| Group {
        number: number + 1,
        prompt: &prompts.ids[number],
        setting: &settings[setting],
        completions: by_prompt[setting][number],
    };
    let pairs = (0..prompts.ids.len()).flat_map(|number| (0..settings.len()).map(move |s| (number, s)));
    let groups: Vec<Group> = pairs.map(group).collect();
    let compares = !args.compare.is_empty();
    if args.json {
        answer::print(model, &groups, prompts.several || compares, clock.rate())
    } else if compares && !args.explain {
        show::compared(model, &groups, settings.len())
    } else {
        show::one_by_one(model, &groups)
    }
}
