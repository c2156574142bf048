//! `minigpt generate`: let a model go on with a text, or with many, under one setting or several.

mod answer;
mod explain;
mod prompts;
mod settings;
mod show;

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

/// Let a model go on with a text.
#[derive(Args)]
pub struct GenerateArgs {
    #[command(flatten)]
    model: ModelArg,
    /// The text to go on with; --prompt says the same.
    #[arg(value_name = "PROMPT", conflicts_with_all = ["prompt", "ids", "prompt_file", "prompts"])]
    words: Vec<String>,
    /// The text to go on with; given several times, several prompts, each of which ends by itself. Standard input when there
    /// is no prompt at all.
    #[arg(short, long, alias = "start", value_name = "TEXT", conflicts_with_all = ["ids", "prompt_file", "prompts"])]
    prompt: Vec<String>,
    /// Token ids to go on with, for example 1,2,3; works without a tokenizer. Given several times, several prompts.
    #[arg(long, value_name = "IDS", conflicts_with_all = ["prompt_file", "prompts"])]
    ids: Vec<Ids>,
    /// A file with the text to go on with, all of it one prompt; - for standard input.
    #[arg(short = 'f', long, alias = "file", value_name = "FILE", conflicts_with = "prompts")]
    prompt_file: Option<PathBuf>,
    /// A file with several prompts, one a line, or {"prompt": …} or {"ids": […]} a line where the first line is such an object;
    /// - for standard input.
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Give the model the prompt as it is, also where it knows questions or a chat and would be given the prompt in its format.
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    structured: StructuredArgs,
    /// How many tokens to write before a stop token may come.
    #[arg(long, value_name = "N", default_value_t = 0)]
    min_new_tokens: usize,
    /// Search with so many beams for the likeliest text.
    #[arg(long, value_name = "N", default_value_t = 1)]
    num_beams: usize,
    /// With beams: above 0 favours long texts, below 0 short ones.
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_hyphen_values = true)]
    length_penalty: f64,
    /// How many texts to write.
    #[arg(long, alias = "num-return-sequences", value_name = "N", default_value_t = 1)]
    num_samples: usize,
    /// A token that ends the text, beside the model's own; may be given several times.
    #[arg(long, alias = "eos-token-id", value_name = "ID")]
    stop_id: Vec<u32>,
    /// What happens when the context is full.
    #[arg(long, value_enum, default_value = "slide")]
    context: ContextName,
    /// Show for every token what else could have come: with which probability it was drawn, after temperature and filters,
    /// and which one the model itself gave it.
    #[arg(long, conflicts_with = "num_beams")]
    explain: bool,
    /// The same prompt under several settings, side by side: styles (story,exact,code) or changes (temperature=1.2,top_k=5). A
    /// change behind a style belongs to it; given several times, there are more.
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
    /// Forget the first half of the window and go on: as fast as before.
    Slide,
    /// See the last tokens that fit, always, as nanoGPT does: each further token costs a pass over the whole window.
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
        output::note(&clock.summary());
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
