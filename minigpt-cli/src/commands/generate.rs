//! `minigpt generate`: let a model go on with a text.

use crate::device::DeviceKind;
use crate::dtype;
use crate::input::{self, MOST_TEXT};
use crate::output;
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use minigpt::ModelFolder;
use minigpt_charts::Table;
use minigpt_generate::{
    Completion, ContextRule, FinishReason, GenerationConfig, Generator, Style, Token, generate,
};
use minigpt_kernels::ElementType;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Let a model go on with a text.
#[derive(Args)]
pub struct GenerateArgs {
    /// The model folder.
    #[arg(long, value_name = "FOLDER")]
    model: PathBuf,
    /// The text to go on with; standard input when there is no prompt at all.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["ids", "prompt_file"])]
    prompt: Option<String>,
    /// Token ids to go on with, for example 1,2,3; works without a tokenizer.
    #[arg(long, value_name = "IDS", value_delimiter = ',', num_args = 1, conflicts_with = "prompt_file")]
    ids: Option<Vec<u32>>,
    /// A file with the text to go on with; - for standard input.
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    /// How many tokens to write at most.
    #[arg(long, value_name = "N", default_value_t = 200)]
    max_new_tokens: usize,
    /// How many tokens to write before a stop token may come.
    #[arg(long, value_name = "N", default_value_t = 0)]
    min_new_tokens: usize,
    /// What the text is for: sets temperature and top-k.
    #[arg(long, value_enum)]
    style: Option<StyleName>,
    /// Below 1 likely tokens become likelier, above 1 all become more alike; 0 always takes the likeliest [default: 0.8]
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,
    /// Draw from the k likeliest tokens only; 0 for all [default: 200]
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Draw from the smallest set of tokens that has this probability.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f64,
    /// Draw from tokens with at least this part of the likeliest one's probability.
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_p: f64,
    /// Above 1, tokens that the text has already become less likely.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    repetition_penalty: f64,
    /// Search with so many beams for the likeliest text.
    #[arg(long, value_name = "N", default_value_t = 1)]
    num_beams: usize,
    /// With beams: above 0 favours long texts, below 0 short ones.
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_hyphen_values = true)]
    length_penalty: f64,
    /// How many texts to write.
    #[arg(long, value_name = "N", default_value_t = 1)]
    num_samples: usize,
    /// A string that ends the text and is not part of it; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// A token that ends the text, beside the model's own; may be given several times.
    #[arg(long, value_name = "ID")]
    stop_id: Vec<u32>,
    /// When the context is full: forget the first half and go on, or stop.
    #[arg(long, value_enum, default_value = "slide")]
    context: ContextName,
    /// The same seed, the same text.
    #[arg(long, value_name = "N", default_value_t = 1337)]
    seed: u64,
    /// Show for every token what else could have come.
    #[arg(long, conflicts_with_all = ["json", "num_beams", "num_samples"])]
    explain: bool,
    /// How the matrices are kept: in fewer bits they take less memory and time, and are a little less exact.
    #[arg(long, default_value = "f32", value_parser = dtype::among(dtype::TO_RUN))]
    dtype: ElementType,
    /// Where to compute.
    #[arg(long, value_enum, default_value = "cpu")]
    device: DeviceKind,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum StyleName {
    /// Surprising: temperature 0.9, the 40 likeliest tokens.
    Story,
    /// Careful: temperature 0.6, the 20 likeliest.
    Code,
    /// Sober: temperature 0.4, the 10 likeliest.
    Summary,
    /// The likeliest token, always.
    Exact,
}

#[derive(Clone, Copy, ValueEnum)]
enum ContextName {
    Slide,
    Stop,
}

#[derive(Serialize)]
struct Answer {
    prompt_ids: Vec<u32>,
    completions: Vec<Written>,
    tokens_per_second: f64,
}

#[derive(Serialize)]
struct Written {
    ids: Vec<u32>,
    text: Option<String>,
    finish_reason: Option<FinishReason>,
    logprob: f64,
}

/// Runs the command.
pub fn run(args: &GenerateArgs) -> Result<()> {
    let model = ModelFolder::open_as(&args.model, &args.device.open()?, dtype::quantized(args.dtype))?;
    let prompt_ids = prompt(args, &model)?;
    let config = config(args, &model);
    let started = Instant::now();
    let mut clock = Clock { started, first: None, tokens: 0 };
    if !args.json && config.num_beams == 1 && config.num_return_sequences == 1 {
        stream(args, &model, &prompt_ids, &config, &mut clock)?;
    } else {
        let prompts = std::slice::from_ref(&prompt_ids);
        let completions = generate(&model.gpt, prompts, &config, model.tokenizer.as_ref())?;
        clock.tokens = completions.iter().map(|completion| completion.ids.len()).sum();
        if args.json {
            let tokens_per_second = clock.rate();
            let completions = completions.into_iter().map(written).collect();
            return output::json(&Answer { prompt_ids, completions, tokens_per_second });
        }
        show_whole(&model, &prompt_ids, &completions)?;
    }
    output::note(&clock.summary());
    Ok(())
}

fn prompt(args: &GenerateArgs, model: &ModelFolder) -> Result<Vec<u32>> {
    let ids = match (&args.ids, &args.prompt, &args.prompt_file) {
        (Some(ids), _, _) => return Ok(ids.clone()),
        (None, Some(text), _) => model.encode(text),
        (None, None, Some(path)) if path.as_os_str() != "-" => {
            model.encode(&minigpt_files::read_text_or_pipe(path, MOST_TEXT)?)
        }
        _ => model.encode(&input::text("prompt", MOST_TEXT)?),
    };
    let ids = ids.context("the prompt can't be encoded")?;
    ensure!(!ids.is_empty(), "the prompt is empty: give at least one token to go on with");
    Ok(ids)
}

fn config(args: &GenerateArgs, model: &ModelFolder) -> GenerationConfig {
    let mut config = GenerationConfig {
        max_new_tokens: args.max_new_tokens,
        min_new_tokens: args.min_new_tokens,
        do_sample: true,
        temperature: 0.8,
        top_k: 200,
        top_p: args.top_p,
        min_p: args.min_p,
        repetition_penalty: args.repetition_penalty,
        num_beams: args.num_beams,
        length_penalty: args.length_penalty,
        num_return_sequences: args.num_samples,
        stop_strings: args.stop.clone(),
        eos_token_id: args.stop_id.iter().copied().chain(model.stop_ids()).collect(),
        seed: args.seed,
        context: match args.context {
            ContextName::Slide => ContextRule::Slide,
            ContextName::Stop => ContextRule::Stop,
        },
        ..GenerationConfig::default()
    };
    let style = args.style.map(|style| match style {
        StyleName::Story => Style::Story,
        StyleName::Code => Style::Code,
        StyleName::Summary => Style::Summary,
        StyleName::Exact => Style::Exact,
    });
    if let Some(style) = style {
        style.apply(&mut config);
    }
    if let Some(temperature) = args.temperature {
        (config.do_sample, config.temperature) = (true, temperature);
    }
    config.top_k = args.top_k.unwrap_or(config.top_k);
    // A beam search looks for the likeliest text; it does not draw.
    config.do_sample &= config.num_beams == 1;
    config
}

fn written(completion: Completion) -> Written {
    Written {
        logprob: completion.logprob(),
        ids: completion.ids,
        text: completion.text,
        finish_reason: completion.finish_reason,
    }
}

/// Whole texts, one after the other.
fn show_whole(model: &ModelFolder, prompt: &[u32], completions: &[Completion]) -> Result<()> {
    let several = completions.len() > 1;
    for (i, completion) in completions.iter().enumerate() {
        if several {
            output::text(&format!("--- {} ---\n", i + 1))?;
        }
        let text = match (&model.tokenizer, &completion.text) {
            (Some(tokenizer), Some(text)) => tokenizer.decode(prompt)? + text,
            _ => format!("{:?}", completion.ids),
        };
        output::written(&(text + "\n"))?;
    }
    Ok(())
}

/// One text as it comes: prompt first, whole characters only.
fn stream(
    args: &GenerateArgs,
    model: &ModelFolder,
    prompt: &[u32],
    config: &GenerationConfig,
    clock: &mut Clock,
) -> Result<()> {
    let mut generator = Generator::new(&model.gpt, &[prompt.to_vec()], config, model.tokenizer.as_ref())?;
    if args.explain {
        generator = generator.with_alternatives(5);
    } else if let Some(tokenizer) = &model.tokenizer {
        output::written(&tokenizer.decode(prompt)?)?;
    }
    for token in generator.by_ref().flat_map(split_step) {
        let token = token?;
        clock.tick();
        match (&token.explanation, &model.tokenizer) {
            (Some(_), _) => output::written(&explained(model, clock.tokens, &token))?,
            (None, Some(_)) => output::written(&token.text)?,
            (None, None) => output::written(&format!("{} ", token.id))?,
        }
    }
    if args.explain {
        let completion = generator.into_completions().pop().context("nothing was written")?;
        return show_whole(model, prompt, &[completion]);
    }
    output::written("\n")
}

/// A step's tokens, or its error.
fn split_step(step: minigpt_generate::Result<Vec<Token>>) -> Vec<minigpt_generate::Result<Token>> {
    match step {
        Ok(tokens) => tokens.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }
}

fn explained(model: &ModelFolder, number: usize, token: &Token) -> String {
    let Some(explanation) = &token.explanation else { return String::new() };
    let name = |id: u32| match &model.tokenizer {
        Some(tokenizer) => tokenizer.token(id).map_or_else(String::new, |token| output::visible(&token)),
        None => id.to_string(),
    };
    let mut table = Table::new(&[2]);
    for alternative in &explanation.alternatives {
        let mark = if alternative.chosen { ">" } else { "" };
        let percent = format!("{:.1} %", 100.0 * alternative.probability);
        table.row([mark, &name(alternative.id), &percent, &output::bar(alternative.probability)]);
    }
    format!("token {number}, entropy {:.2} bits\n{}", explanation.entropy, table.draw())
}

/// How fast it goes.
struct Clock {
    started: Instant,
    first: Option<Duration>,
    tokens: usize,
}

impl Clock {
    fn tick(&mut self) {
        self.first.get_or_insert(self.started.elapsed());
        self.tokens += 1;
    }

    fn rate(&self) -> f64 {
        self.tokens as f64 / self.started.elapsed().as_secs_f64().max(1e-9)
    }

    fn summary(&self) -> String {
        let first = self
            .first
            .map_or_else(String::new, |first| format!(", first after {:.0} ms", first.as_secs_f64() * 1e3));
        format!("{} tokens, {:.0} tokens/s{first}", self.tokens, self.rate())
    }
}
