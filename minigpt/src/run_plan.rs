//! How long a run will take here, and whether it fits, from a measured step.

use crate::error::Result;
use crate::machine;
use crate::run::check_memory;
use crate::run_config::{DataConfig, RunConfig};
use crate::step_time::step_time;
use minigpt_data::{CorpusKind, Glance, ReadOptions, Source};
use minigpt_model::Config;
use minigpt_model::plan::Plan;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// How long a step's time is measured.
pub(crate) const MEASURING: Duration = Duration::from_millis(1500);
/// An evaluation has no backward pass, which takes two thirds of a step.
const FORWARD: f64 = 1.0 / 3.0;

/// What a run takes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct RunPlan {
    /// Parameters of the model.
    pub parameters: u64,
    /// Tokens that it knows, as far as a glance at the data tells.
    pub vocab_size: usize,
    /// Steps in all.
    pub steps: u64,
    /// Tokens that a step learns from.
    pub tokens_per_step: u64,
    /// How often it goes through its data; unknown where there is none yet.
    pub epochs: Option<f64>,
    /// Measured here.
    pub seconds_per_step: f64,
    /// Times that it is evaluated.
    pub evaluations: u64,
    /// Guessed from a step.
    pub seconds_per_evaluation: f64,
    /// All of it.
    pub seconds: f64,
    /// Memory for training.
    pub train_bytes: u64,
    /// Memory that is free.
    pub free_bytes: Option<u64>,
}

impl RunPlan {
    /// Measures a step of a configuration. Data that is not there yet is not needed, unless the run is counted in epochs.
    ///
    /// # Errors
    /// Data that can't be read, a model that makes no sense or that this machine's memory can't hold.
    pub fn measure(config: &RunConfig) -> Result<Self> {
        let train = &config.train;
        let source = match open(config) {
            Ok(source) => Some(source),
            Err(error) if train.epochs.is_some() => return Err(error),
            Err(_) => None,
        };
        let Shape { model, row, tokens, rows } = Shape::of(config, source.as_ref())?;
        let a_step = (train.batch_size * train.gradient_accumulation_steps) as u64;
        let learned = rows.map(|rows| ((rows as f64 * (1.0 - config.data.val_fraction)) as u64).max(1));
        let steps = match (train.epochs, learned) {
            (Some(epochs), Some(rows)) => (epochs * rows).div_ceil(a_step),
            _ => train.max_iters,
        };
        // A step of what doesn't fit is not tried.
        check_memory(&RunConfig { model: model.clone(), ..config.clone() }, 1)?;
        let tokens_per_step = a_step * row as u64;
        let seconds_per_step = Self::step_seconds(config, source.as_ref(), false, MEASURING)?;
        let batches = rows.map_or(train.eval_iters, |rows| {
            let all = ((rows as f64 * config.data.val_fraction) as u64).div_ceil(train.batch_size as u64);
            if train.eval_iters == 0 { all } else { all.min(train.eval_iters) }
        });
        let evaluations =
            steps.checked_div(train.eval_interval).unwrap_or(0).max(1) + train.epochs.unwrap_or(0);
        let accumulated = train.gradient_accumulation_steps as f64;
        let seconds_per_evaluation = FORWARD * seconds_per_step * batches as f64 / accumulated;
        let plan = Plan::new(&model, train.batch_size, row);
        Ok(Self {
            parameters: plan.parameters.total,
            vocab_size: model.vocab_size,
            steps,
            tokens_per_step,
            epochs: tokens.map(|tokens| {
                (steps * tokens_per_step) as f64 / (tokens as f64 * (1.0 - config.data.val_fraction)).max(1.0)
            }),
            seconds_per_step,
            evaluations,
            seconds_per_evaluation,
            seconds: steps as f64 * seconds_per_step + evaluations as f64 * seconds_per_evaluation,
            train_bytes: plan.train_bytes,
            free_bytes: machine::available_memory(),
        })
    }

    /// Steps in so many passes over the data; as many as you like where there is no end to it.
    pub(crate) fn steps(config: &RunConfig, source: &Source, epochs: u64) -> Result<u64> {
        let (train, rows) = (&config.train, Shape::of(config, Some(source))?.rows);
        let a_step = (train.batch_size * train.gradient_accumulation_steps).max(1) as u64;
        let learned = |rows| ((rows as f64 * (1.0 - config.data.val_fraction)) as u64).max(1);
        Ok(rows.map_or(u64::MAX, |rows| (epochs * learned(rows)).div_ceil(a_step)))
    }

    /// How long a step of a configuration takes here. A model that is there already keeps its vocabulary.
    pub(crate) fn step_seconds(
        config: &RunConfig,
        source: Option<&Source>,
        further: bool,
        span: Duration,
    ) -> Result<f64> {
        let Shape { mut model, row, .. } = Shape::of(config, source)?;
        if further {
            model.vocab_size = config.model.vocab_size;
        }
        let step = step_time(&model, &config.train, row, span)?;
        Ok(step.as_secs_f64() * config.train.gradient_accumulation_steps as f64)
    }
}

/// Opens the data of a configuration.
pub(crate) fn open(config: &RunConfig) -> Result<Source> {
    let data = &config.data;
    let options = ReadOptions { encoding: data.encoding, columns: data.columns.clone() };
    Ok(Source::open(Path::new(&data.path), data.kind, &options)?)
}

/// What is damaged in the data of a configuration; nothing where it can't be opened, which a run says
/// when it starts.
pub fn damage(config: &RunConfig) -> Vec<minigpt_data::Damage> {
    let of = |path: &str| {
        let data = DataConfig { path: path.to_owned(), ..config.data.clone() };
        let source = open(&RunConfig { data, ..config.clone() }).ok()?;
        source.damage(Path::new(path)).ok().flatten()
    };
    let data = &config.data;
    [Some(&data.path), data.val_path.as_ref()].into_iter().flatten().filter_map(|path| of(path)).collect()
}

/// A first look at the data of a configuration, at no more of it than is trained on.
pub(crate) fn glance(config: &RunConfig, source: &Source) -> Result<Glance> {
    let glance = Glance::of(source)?;
    Ok(config.data.limit.map_or(glance.clone(), |limit| glance.limited(limit)))
}

/// What a step works on, as far as a glance at the data tells.
struct Shape {
    model: Config,
    /// Tokens in a row, on average.
    row: usize,
    /// Tokens in all.
    tokens: Option<u64>,
    /// Rows in all: examples, or windows of a text.
    rows: Option<u64>,
}

impl Shape {
    fn of(config: &RunConfig, source: Option<&Source>) -> Result<Self> {
        let (mut model, context) = (config.model.clone(), config.model.block_size);
        let glance = match source {
            None | Some(Source::Random) => return Ok(Self { model, row: context, tokens: None, rows: None }),
            Some(source) => glance(config, source)?,
        };
        let tokens = TokenCount::of(&glance, config.data.tokenizer.as_deref());
        model.vocab_size = tokens.vocab_size;
        let (row, rows) = match glance.kind {
            CorpusKind::Qa => {
                (context.min(tokens.count.div_ceil(glance.examples.max(1)) as usize).max(2), glance.examples)
            }
            CorpusKind::Text => (context, tokens.count / context.max(1) as u64),
        };
        Ok(Self { model, row, tokens: Some(tokens.count), rows: Some(rows) })
    }
}

/// How a tokenizer cuts the data, as far as a glance tells.
pub(crate) struct TokenCount {
    /// Tokens in all.
    pub count: u64,
    /// How many different ones there are.
    pub vocab_size: usize,
}

impl TokenCount {
    pub fn of(glance: &Glance, tokenizer: Option<&str>) -> Self {
        if let Some(count) = glance.tokens {
            return Self { count, vocab_size: glance.distinct.max(2) };
        }
        let extra = 3 * usize::from(glance.kind == CorpusKind::Qa);
        let separators = 2 * glance.examples;
        let (vocab_size, letters) = match tokenizer {
            None | Some("char") => (glance.distinct + extra, 1.0),
            Some("gpt2") => (50_257, if glance.unspaced { 0.6 } else { 3.5 }),
            Some(name) => {
                let size = name.rsplit(':').next().and_then(|size| size.parse().ok()).unwrap_or(8000);
                (size, letters_a_token(size, glance.unspaced))
            }
        };
        let count = (glance.characters as f64 / letters) as u64 + separators;
        Self { count, vocab_size: vocab_size.max(2) }
    }
}

/// Characters that a token of a vocabulary of its own covers: measured on Shakespeare and on Chinese questions.
fn letters_a_token(vocab_size: usize, unspaced: bool) -> f64 {
    let doublings = (vocab_size as f64 / 1000.0).max(0.25).log2();
    if unspaced { 1.0 + 0.2 * doublings.max(0.0) } else { 2.6 + 0.35 * doublings }
}
