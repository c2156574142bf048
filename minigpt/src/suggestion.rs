//! Chooses a model and a recipe that suit the data, the time and this machine.
//!
//! Only settings that neither a file nor an option names are filled in.

use crate::error::{Error, Result};
use crate::limit::product_rate;
use crate::model_place::ModelPlace;
use crate::recipe::{Asked, EPOCHS_BY_HEART, MOST_EPOCHS, Recipe, is_by_heart, most_rows};
use crate::run::{BaseFormat, RunError, check_memory};
use crate::run_config::{ExampleStyle, RunConfig};
use crate::run_plan::{self, MEASURING, RunPlan};
use crate::settings::layers::Layers;
use minigpt_chat::Format;
use minigpt_data::{CorpusKind, Glance, Role, Source, Turn};
use minigpt_formats::load_config;
use minigpt_model::Config;
use minigpt_model::parameters::Count;
use minigpt_train::TrainConfig;
use std::path::Path;
use std::time::Duration;
use toml::{Table, Value};

/// Default length of a run in minutes.
pub const MINUTES: f64 = 5.0;
/// Maximum length of a run in minutes: 190 years.
pub const MOST_MINUTES: f64 = 1e8;
/// Training speed as a share of the matrix product rate.
const EFFICIENCY: f64 = 0.6;
/// Share of the time spent on steps; the rest is for evaluations, samples and saving.
const STEPS: f64 = 0.92;

/// A configuration completed with suggestions.
#[derive(Debug, Clone)]
pub struct Suggestion {
    /// The complete configuration.
    pub config: RunConfig,
    /// Whether the model was suggested, not only the length of the run.
    pub model: bool,
    /// Planned duration in seconds, if the length was suggested.
    pub seconds: Option<f64>,
    /// Number of epochs after which the run stops although there is time left, if it does.
    pub enough: Option<u64>,
    /// What was suggested for fine-tuning, if this is fine-tuning.
    pub further: Option<Further>,
    /// Whether the model is to memorize all questions, so that none is held out.
    pub by_heart: bool,
}

/// Settings that were suggested for fine-tuning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Further {
    /// Whether the learning rate was suggested.
    pub learning_rate: bool,
    /// Whether the batch size was suggested.
    pub batch_size: bool,
}

impl Suggestion {
    /// Completes a configuration (the text of a file) and changes to it: without a `[model]`, chooses the model and how to
    /// train it, or how to fine-tune a model; and chooses how many steps fit into the given minutes. A number of steps among
    /// the changes is an upper limit.
    pub fn new(text: &str, changes: &[String], minutes: Option<f64>, from: Option<&Path>) -> Result<Self> {
        let layers = Layers::parse(text, changes)?;
        let open = layers.leaves_model_open();
        let config = if open { RunConfig::of_open(&layers)? } else { RunConfig::of(&layers)? };
        let says = |name: &str| layers.says(name);
        if !open && minutes.is_none() {
            return Ok(Self {
                config,
                model: false,
                seconds: None,
                enough: None,
                further: None,
                by_heart: false,
            });
        }
        let minutes_in_all = minutes.unwrap_or(MINUTES);
        check_minutes(minutes_in_all)?;
        let seconds = 60.0 * minutes_in_all;
        let source = run_plan::open(&config)?;
        let base =
            from.map(|from| Ok::<_, Error>(load_config(&ModelPlace::find(from)?.path)?)).transpose()?;
        let held_out = (says("data.val_fraction") && config.data.val_fraction > 0.0)
            || says("data.val_path")
            || matches!(source, Source::BuiltIn | Source::Parts { val: Some(_), .. });
        let (mut by_heart, mut rehearses) = (false, false);
        let suggested = match (&base, open) {
            (_, false) => Table::new(),
            (_, true) if matches!(source, Source::Random) => Table::new(),
            (Some(base), true) => {
                let glance = run_plan::glance(&config, &source)?;
                by_heart = is_by_heart(&glance, held_out);
                let known = from.filter(|_| glance.kind == CorpusKind::Qa).and_then(known_questions);
                rehearses = known.is_some();
                let prompt = from.and_then(|from| sample_prompt(from, &glance, config.data.format));
                further(base, &glance, by_heart, known, prompt)
            }
            (None, true) => {
                let glance = run_plan::glance(&config, &source)?;
                by_heart = is_by_heart(&glance, held_out);
                // Minutes replace the steps or epochs of a file.
                let length =
                    |name: &str| if minutes.is_some() { layers.is_changed(name) } else { says(name) };
                let asked =
                    Asked { timed: minutes.is_some(), held_out, ..asked(&config, glance.kind, says, length) };
                Recipe::choose(&glance, &asked, seconds * EFFICIENCY * product_rate(1024)?).to_table(&glance)
            }
        };
        let layers = layers.on_top_of(suggested);
        // A model to fine-tune has its own shape.
        let mut config = match base {
            Some(_) if open => RunConfig::of_open(&layers)?,
            _ => RunConfig::of(&layers)?,
        };
        let model = open && base.is_none();
        let further = (open && base.is_some()).then(|| Further {
            learning_rate: !says("train.learning_rate"),
            batch_size: !says("train.batch_size"),
        });
        if minutes.is_none() && (says("train.max_iters") || says("train.epochs")) {
            return Ok(Self { config, model, seconds: None, enough: None, further, by_heart });
        }
        let measured = RunConfig { model: base.unwrap_or(config.model.clone()), ..config.clone() };
        // Before a step is measured.
        check_memory(&measured, 1)?;
        // At most a fiftieth of the time.
        let span = MEASURING.min(Duration::from_secs_f64((seconds / 50.0).min(60.0)));
        let step = RunPlan::step_seconds(&measured, Some(&source), from.is_some(), span)?;
        let steps = (STEPS * seconds / step).max(1.0).round() as u64;
        // Steps or epochs given together with minutes are an upper limit; those of a file are replaced by the minutes.
        let asked = |name: &str| layers.is_changed(name);
        let (most, enough) = match config.train.epochs {
            _ if asked("train.max_iters") => (config.train.max_iters, None),
            Some(epochs) if asked("train.epochs") => (RunPlan::steps(&config, &source, epochs)?, None),
            // Each epoch makes the model forget more, however much time there is.
            _ if further.is_some() => {
                let epochs = match source.kind() {
                    CorpusKind::Qa if rehearses => FURTHER_EPOCHS_REHEARSED,
                    CorpusKind::Qa => FURTHER_EPOCHS,
                    CorpusKind::Text => FURTHER_EPOCHS_OF_TEXT,
                };
                let own = RunPlan::steps(&config, &source, epochs)?;
                (if rehearses { own.saturating_mul(2) } else { own }, Some(epochs))
            }
            // Memorizing everything is the aim, so all of the given time is used.
            _ if by_heart && minutes.is_some() => (u64::MAX, None),
            _ if by_heart => (RunPlan::steps(&config, &source, EPOCHS_BY_HEART)?, Some(EPOCHS_BY_HEART)),
            // More epochs would overfit.
            _ if model => (RunPlan::steps(&config, &source, MOST_EPOCHS)?, Some(MOST_EPOCHS)),
            _ => (u64::MAX, None),
        };
        config.train = schedule(&config.train, steps.min(most), says);
        config.train.validate()?;
        let enough = enough.filter(|_| most < steps);
        let seconds = seconds * (most as f64 / steps as f64).min(1.0);
        Ok(Self { config, model, seconds: Some(seconds), enough, further, by_heart })
    }
}

/// Rejects a length that no run can have.
pub(crate) fn check_minutes(minutes: f64) -> Result<()> {
    if minutes > 0.0 && minutes <= MOST_MINUTES {
        return Ok(());
    }
    Err(RunError::Minutes(minutes).into())
}

/// Epochs of fine-tuning on questions.
const FURTHER_EPOCHS: u64 = 40;
/// Epochs of fine-tuning on questions with rehearsal: the demo's model answered 35 of 60 new questions after 40 passes and 55 after 80, and of its own 718
/// questions 608 and 598.
const FURTHER_EPOCHS_REHEARSED: u64 = 80;
/// Epochs of fine-tuning on text.
const FURTHER_EPOCHS_OF_TEXT: u64 = 4;

/// The run of a model, if its data is questions and answers that can still be read.
fn known_questions(model: &Path) -> Option<String> {
    let place = ModelPlace::find(model).ok()?.path;
    let run = place.parent()?;
    let config = RunConfig::read(&run.join("config.toml"), &[]).ok()?;
    let source = run_plan::open(&config).ok()?;
    let is_known = !matches!(source, Source::Random) && source.kind() == CorpusKind::Qa;
    is_known.then(|| run.to_str().map(str::to_owned)).flatten()
}

/// Prompt of the samples during fine-tuning: the beginning of the data, or its first question in the format of the model.
fn sample_prompt(model: &Path, glance: &Glance, style: Option<ExampleStyle>) -> Option<String> {
    if glance.kind == CorpusKind::Text {
        return Some(glance.beginning.clone());
    }
    let BaseFormat { tokenizer, template, .. } =
        BaseFormat::of(Some(&ModelPlace::find(model).ok()?.path)).ok()?;
    let tokenizer = tokenizer?;
    let template = template.filter(|_| style != Some(ExampleStyle::Questions));
    let question = Turn { role: Role::User, text: glance.beginning.clone() };
    Format::choose(template, Some(&tokenizer)).render(&tokenizer, &[question]).ok()
}

/// Settings for fine-tuning a model: a low learning rate, so that it forgets less.
fn further(
    base: &Config,
    glance: &Glance,
    by_heart: bool,
    known: Option<String>,
    prompt: Option<String>,
) -> Table {
    let learning_rate = match Count::of(base).total {
        // The demo's model learned 59 of 60 new facts and answered 85 % instead of 98 % of its own questions after 150 steps
        // with rehearsal at 1e-3 (70 % at 2e-3). Without it, 80 steps taught it none at 3e-4, cost it 15 % of what it knew, and at 1e-3 60 %.
        ..5_000_000 if known.is_some() => 1e-3,
        ..5_000_000 => 3e-4,
        5_000_000..50_000_000 => 1e-4,
        _ => 2e-5,
    };
    let mut train = toml::toml! {
        min_lr = 0.0
        lr_decay = "linear"
        weight_decay = 0.1
        warmup_iters = 5
    };
    train.insert("learning_rate".to_owned(), learning_rate.into());
    // Half of a batch is rehearsed, where there is something to rehearse.
    let batches = if known.is_some() { 2 } else { 1 };
    let rows = (2048 / base.block_size.max(1)).clamp(1, 32).min(most_rows(glance, None, base.block_size));
    let rows = (batches * rows).min(32);
    train.insert("batch_size".to_owned(), Value::Integer(rows as i64));
    let mut data = Table::new();
    if let Some(run) = known {
        data.insert("rehearse_path".to_owned(), run.into());
    }
    if by_heart {
        train.insert("best_by".to_owned(), "answers".into());
        data.insert("val_fraction".to_owned(), Value::Float(0.0));
    }
    let mut table = Table::new();
    table.insert("train".to_owned(), Value::Table(train));
    table.insert("data".to_owned(), Value::Table(data));
    if let Some(prompt) = prompt.filter(|prompt| !prompt.is_empty()) {
        table.insert(
            "sample".to_owned(),
            Value::Table([("prompt".to_owned(), prompt.into())].into_iter().collect()),
        );
    }
    table
}

/// The settings that the recipe must respect. `says` tells which settings are given, `length` which settings of the run's
/// length.
fn asked(
    config: &RunConfig,
    kind: CorpusKind,
    says: impl Fn(&str) -> bool,
    length: impl Fn(&str) -> bool,
) -> Asked {
    let RunConfig { model, data, train, .. } = config;
    // Room for the longest example; its last token is only a target.
    let longest = (kind == CorpusKind::Qa && says("data.max_length")).then(|| data.max_length - 1);
    Asked {
        n_layer: says("model.n_layer").then_some(model.n_layer),
        n_head: says("model.n_head").then_some(model.n_head),
        n_embd: says("model.n_embd").then_some(model.n_embd),
        block_size: says("model.block_size").then_some(model.block_size).or(longest),
        batch_size: says("train.batch_size").then_some(train.batch_size),
        tokenizer: data.tokenizer.clone(),
        max_iters: length("train.max_iters").then_some(train.max_iters),
        epochs: train.epochs.filter(|_| length("train.epochs")),
        timed: false,
        held_out: false,
    }
}

/// Settings for `steps` steps, with intervals of evaluations and samples that suit them unless they are given.
fn schedule(config: &TrainConfig, steps: u64, says: impl Fn(&str) -> bool) -> TrainConfig {
    /// Times that it is evaluated.
    const EVALUATIONS: u64 = 8;
    /// The share of an evaluation in the time of a run.
    const SHARE: f64 = 0.01;
    let mut config = TrainConfig { max_iters: steps, epochs: None, ..config.clone() };
    let interval = steps.div_ceil(EVALUATIONS).max(1);
    if !says("train.eval_interval") {
        config.eval_interval = interval;
    }
    if !says("train.eval_iters") {
        // A batch takes a third of a step: there is no backward pass.
        config.eval_iters = ((3.0 * SHARE * steps as f64) as u64).max(4);
    }
    if !says("train.sample_interval") {
        config.sample_interval = 2 * interval;
    }
    if !says("train.warmup_iters") {
        config.warmup_iters = (steps / 20).clamp(1, 100);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: 200 questions with minutes to learn them were given up after 3.8 seconds.
    #[test]
    fn the_time_that_is_given_for_facts_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("facts.jsonl");
        let line =
            |i| format!("{{\"question\": \"Where is {i}?\", \"answer\": \"In box {}.\"}}\n", i * 7 % 10);
        std::fs::write(&data, (0..8).map(line).collect::<String>()).unwrap();
        let path = format!("data.path={}", Value::from(data.to_str().unwrap()));
        let small = ["model.n_layer=1", "model.n_head=1", "model.n_embd=8"].map(str::to_owned);
        let changes = [&[path], &small[..]].concat();
        let suggest = |minutes| Suggestion::new("", &changes, minutes, None).unwrap();
        let (left_to_it, given) = (suggest(None), suggest(Some(1e6)));
        assert!(left_to_it.by_heart && given.by_heart);
        assert_eq!((left_to_it.enough, given.enough), (Some(EPOCHS_BY_HEART), None));
        let [least, most] = [left_to_it, given].map(|suggestion| suggestion.config.train.max_iters);
        assert!(most > 100 * least, "{least} steps by heart, {most} in the time given");
    }
}
