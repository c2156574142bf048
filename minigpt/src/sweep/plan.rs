//! Which runs fit into a time or an amount of arithmetic: sizes × counts of tokens, both geometric.

use super::SweepError;
use super::sizes::{SweepSize, WIDTHS};
use super::speed::Speed;
use crate::error::Result;
use crate::recipe::{Asked, Recipe};
use crate::run_config::RunConfig;
use crate::run_plan::{self, TokenCount};
use crate::settings::layers::Layers;
use crate::suggestion::check_minutes;
use minigpt_data::{CorpusKind, Glance};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Counts of tokens, each twice the last.
const COUNTS: u32 = 4;
/// Sizes at most, and at least.
const MOST_SIZES: usize = 6;
const FEWEST_SIZES: usize = 4;
/// Tokens of a batch. Small ones, so that also the shortest run makes enough steps.
const BATCH: usize = 768;
/// Steps of the shortest run at least.
pub(super) const FEWEST_STEPS: u64 = 40;
/// Epochs past which the plain law does not hold (Muennighoff et al. 2023).
pub(super) const MOST_EPOCHS: f64 = 4.0;
/// The part of the time that is planned for; the rest is for the fit, and for a machine that is not alone.
const PLANNED: f64 = 0.85;
/// Seconds that a run takes in addition to its steps: opening, saving, drawing.
const OVERHEAD: f64 = 0.3;
/// An evaluation has no backward pass.
const FORWARD: f64 = 1.0 / 3.0;
/// Maximum ratio of validation tokens to those of the longest run: large texts have more than needed.
const VALIDATION: f64 = 0.25;

/// How much a sweep may cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// Minutes on this machine.
    Minutes(f64),
    /// Arithmetic, 6·N·D summed over all runs.
    Flops(f64),
}

/// What to plan for.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepOptions {
    /// How much it may cost.
    pub budget: Budget,
    /// Passes over the data that the longest runs make at most.
    pub epochs: f64,
    /// Whether the fit will have the term for repeated data.
    pub repeated: bool,
    /// Widths of the models. Default: as many as fit.
    pub widths: Option<Vec<usize>>,
    /// Tokens of the longest runs. Default: as many as fit.
    pub tokens: Option<u64>,
    /// Changes of settings for all runs, such as `train.batch_size=8`.
    pub changes: Vec<String>,
}

/// One run of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedRun {
    /// Its name, and that of its folder.
    pub name: String,
    /// Which of the sizes.
    pub size: usize,
    /// Steps.
    pub steps: u64,
    /// Tokens, about where examples differ in length.
    pub tokens: u64,
    /// Random seed.
    pub seed: u64,
    /// How long it takes by itself, in the mode of its size.
    pub seconds: f64,
}

/// A sweep before it is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPlan {
    /// Name of the data.
    pub title: String,
    /// The settings that all runs share, as a configuration file.
    pub config: String,
    /// The models.
    pub sizes: Vec<SweepSize>,
    /// Tokens of the runs, from few to many.
    pub tokens: Vec<u64>,
    /// Tokens of a step.
    pub tokens_per_step: u64,
    /// Different tokens that there are to learn from.
    pub unique_tokens: u64,
    /// Tokens that every run is judged by.
    pub validation_tokens: u64,
    /// Different tokens in the vocabulary.
    pub vocab_size: usize,
    /// The runs, the longest first.
    pub runs: Vec<PlannedRun>,
    /// Threads that it was planned for.
    pub threads: usize,
    /// How long all of it takes.
    pub seconds: f64,
    /// 6·N·D of all runs.
    pub flops: f64,
    /// The most memory that is used at once.
    pub bytes: u64,
    /// Passes over the data of the longest runs.
    pub epochs: f64,
    /// Whether the fit has the term for repeated data.
    pub repeated: bool,
}

impl SweepPlan {
    /// Plans a sweep on data, measuring how fast models train here.
    ///
    /// # Errors
    /// Data that can't be read or is too little, a budget that is too small, more than four epochs without the term for repeated
    /// data.
    pub fn new(data: &str, options: &SweepOptions) -> Result<Self> {
        check(options)?;
        let path = std::path::absolute(data).ok().filter(|path| path.exists());
        let data = path.as_deref().and_then(Path::to_str).unwrap_or(data);
        Planner::new(data, options)?.plan()
    }

    /// The settings of one run.
    pub(super) fn run_config(&self, run: &PlannedRun) -> Result<RunConfig> {
        let mut changes = self.sizes.get(run.size).map(SweepSize::changes).unwrap_or_default();
        changes.push(format!("train.max_iters={}", run.steps));
        changes.push(format!("train.warmup_iters={}", (run.steps / 20).clamp(1, 100)));
        changes.push(format!("train.seed={}", run.seed));
        changes.push(format!("train.log_interval={}", (run.steps / 100).max(1)));
        RunConfig::parse(&self.config, &changes)
    }
}

fn check(options: &SweepOptions) -> Result<()> {
    let refuse = |error: SweepError| Err(error.into());
    match options.budget {
        Budget::Minutes(minutes) => check_minutes(minutes)?,
        Budget::Flops(flops) if !(flops > 0.0 && flops.is_finite()) => {
            return refuse(SweepError::Flops(flops));
        }
        Budget::Flops(_) => {}
    }
    if !(options.epochs > 0.0 && options.epochs.is_finite()) {
        return refuse(SweepError::Epochs(options.epochs));
    }
    if let Some(widths) = &options.widths {
        let sizes = FEWEST_SIZES..=12;
        if !sizes.contains(&widths.len()) || widths.windows(2).any(|pair| pair[0] >= pair[1]) {
            return refuse(SweepError::Widths);
        }
        if let Some(width) =
            widths.iter().find(|width| !(8..=8192).contains(*width) || !width.is_multiple_of(8))
        {
            return refuse(SweepError::Width(*width));
        }
    }
    if options.epochs > MOST_EPOCHS && !options.repeated {
        return refuse(SweepError::TooManyEpochs(options.epochs));
    }
    Ok(())
}

/// The parts of a plan that do not depend on sizes and counts.
struct Planner<'a> {
    options: &'a SweepOptions,
    title: String,
    base: RunConfig,
    unique_tokens: u64,
    validation_tokens: u64,
    tokens_per_step: u64,
    threads: usize,
}

impl<'a> Planner<'a> {
    fn new(data: &str, options: &'a SweepOptions) -> Result<Self> {
        let path = format!("data.path={}", serde_json::Value::from(data));
        let mut changes = vec![path];
        changes.extend(options.changes.iter().cloned());
        let open = RunConfig::parse_open("", &changes)?;
        let source = run_plan::open(&open)?;
        let glance = Glance::of(&source)?;
        // A small share of the machine's arithmetic, for a context that suits small models.
        // Its runs are compared by their validation loss.
        let asked =
            Asked { tokenizer: tokenizer(&glance).map(str::to_owned), held_out: true, ..Asked::default() };
        let recipe = Recipe::choose(&glance, &asked, 1e12);
        let mut table = recipe.to_table(&glance);
        settle(&mut table);
        let layers = Layers::parse("", &changes)?.on_top_of(table);
        let mut base = RunConfig::of(&layers)?;
        let tokens = TokenCount::of(&glance, base.data.tokenizer.as_deref());
        base.model.vocab_size = tokens.vocab_size;
        let row = match glance.kind {
            CorpusKind::Text => base.model.block_size as u64,
            CorpusKind::Qa => {
                tokens.count.div_ceil(glance.examples.max(1)).clamp(2, base.model.block_size as u64)
            }
        };
        if !layers.is_changed("train.batch_size") {
            base.train.batch_size = (BATCH / row.max(1) as usize).clamp(4, 64);
        }
        let steps = base.train.batch_size * base.train.gradient_accumulation_steps;
        // The validation part need not be larger than a fraction of the longest run.
        let longest = options.tokens.unwrap_or(tokens.count).min(tokens.count) as f64;
        if !layers.is_changed("data.val_fraction") {
            let fraction = base.data.val_fraction.min(VALIDATION * longest / tokens.count.max(1) as f64);
            base.data.val_fraction = fraction.max(0.001);
        }
        let kept = tokens.count as f64 * (1.0 - base.data.val_fraction);
        Ok(Self {
            options,
            title: Path::new(data)
                .file_name()
                .map_or(data.to_owned(), |name| name.to_string_lossy().into_owned()),
            unique_tokens: kept as u64,
            validation_tokens: tokens.count - kept as u64,
            tokens_per_step: steps as u64 * row,
            threads: rayon::current_num_threads(),
            base,
        })
    }

    /// Steps of the longest runs at most.
    fn most_steps(&self) -> Result<u64> {
        let epoch = self.unique_tokens / self.tokens_per_step;
        // The last batch of an epoch is dropped where it is not full.
        let most = (epoch as f64 * self.options.epochs) as u64;
        match self.options.tokens {
            Some(tokens) if tokens / self.tokens_per_step > most => {
                let (title, most) = (self.title.clone(), most * self.tokens_per_step);
                Err(SweepError::TooManyTokens { title, tokens, most, epochs: self.options.epochs }.into())
            }
            Some(tokens) => Ok(tokens / self.tokens_per_step),
            None => Ok(most),
        }
    }

    fn plan(&self) -> Result<SweepPlan> {
        let most = self.most_steps()?;
        if most >> (COUNTS - 1) < FEWEST_STEPS {
            let (title, tokens, tokens_per_step) =
                (self.title.clone(), self.unique_tokens, self.tokens_per_step);
            return Err(SweepError::TooLittleData { title, tokens, tokens_per_step }.into());
        }
        let mut measured: Vec<SweepSize> = Vec::new();
        if let Some(widths) = &self.options.widths {
            for &width in widths {
                measured.push(self.size(width)?);
            }
            return self.of(measured, most);
        }
        // The largest models that still see a token a parameter; then fewer tokens; then fewer sizes.
        let mut widths: Vec<usize> = WIDTHS.to_vec();
        let sees = |width: usize| {
            SweepSize::new(width, &self.base.model, 1).parameters <= most * self.tokens_per_step
        };
        while widths.len() > FEWEST_SIZES && !widths.last().is_none_or(|&width| sees(width)) {
            widths.pop();
        }
        for (i, &width) in widths.iter().enumerate() {
            measured.push(self.size(width)?);
            // Larger models are not measured if this one is far too slow.
            let shortest = self.of(measured[i..].to_vec(), (FEWEST_STEPS << (COUNTS - 1)).min(most))?;
            if i + 1 > FEWEST_SIZES && !self.fits(&shortest) {
                measured.pop();
                break;
            }
        }
        for count in (FEWEST_SIZES..=MOST_SIZES.min(measured.len())).rev() {
            for end in (count..=measured.len()).rev() {
                let sizes = &measured[end - count..end];
                let mut steps = most;
                while steps >> (COUNTS - 1) >= FEWEST_STEPS {
                    let enough =
                        sizes.last().is_none_or(|size| size.parameters <= steps * self.tokens_per_step);
                    let plan = self.of(sizes.to_vec(), steps)?;
                    if self.fits(&plan) && (enough || end == count) {
                        return Ok(plan);
                    }
                    steps /= 2;
                }
            }
        }
        let least = self.of(measured[..FEWEST_SIZES].to_vec(), FEWEST_STEPS << (COUNTS - 1))?;
        Err(match self.options.budget {
            Budget::Minutes(minutes) => {
                SweepError::TooFewMinutes { minutes, least: least.seconds / 60.0 / PLANNED }
            }
            Budget::Flops(flops) => SweepError::TooFewFlops { flops, least: least.flops },
        }
        .into())
    }

    fn size(&self, width: usize) -> Result<SweepSize> {
        let size = SweepSize::new(width, &self.base.model, self.base.train.batch_size);
        let model = size.config(&self.base.model);
        let Speed { side_by_side, step } =
            Speed::measure(&model, &self.base.train, self.threads, size.train_bytes)?;
        Ok(SweepSize { side_by_side, seconds_per_step: step, ..size })
    }

    fn fits(&self, plan: &SweepPlan) -> bool {
        match self.options.budget {
            Budget::Minutes(minutes) => plan.seconds <= PLANNED * 60.0 * minutes,
            Budget::Flops(flops) => plan.flops <= flops,
        }
    }

    /// The plan for these sizes and so many steps of the longest runs.
    fn of(&self, sizes: Vec<SweepSize>, steps: u64) -> Result<SweepPlan> {
        let steps: Vec<u64> = (0..COUNTS).rev().map(|halvings| steps >> halvings).collect();
        let tokens: Vec<u64> = steps.iter().map(|steps| steps * self.tokens_per_step).collect();
        let seed = self.base.train.seed;
        let mut runs = Vec::new();
        for (i, size) in sizes.iter().enumerate() {
            for (j, &steps) in steps.iter().enumerate() {
                let judging = FORWARD * (self.validation_tokens / self.tokens_per_step.max(1)) as f64;
                let seconds = OVERHEAD + (steps as f64 + judging) * size.seconds_per_step;
                let tokens = steps * self.tokens_per_step;
                // The smallest model once more with another seed, for the shortest and the longest run: that shows the noise.
                let corner = i == 0 && (j == 0 || j + 1 == COUNTS as usize);
                for again in 0..=u64::from(corner) {
                    let mark = if again > 0 { "-again" } else { "" };
                    let name = format!("width-{}-tokens-{tokens}{mark}", size.n_embd);
                    runs.push(PlannedRun { name, size: i, steps, tokens, seed: seed + again, seconds });
                }
            }
        }
        runs.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let longest = tokens.last().copied().unwrap_or(0);
        let side = |run: &&PlannedRun| sizes[run.size].side_by_side;
        let (beside, alone): (Vec<_>, Vec<_>) = runs.iter().partition(side);
        let total = |runs: &[&PlannedRun]| runs.iter().map(|run| run.seconds).sum::<f64>();
        let longest_beside = beside.first().map_or(0.0, |run| run.seconds);
        // A machine full of runs ends with some that are alone: half of the longest on average.
        let beside_seconds = total(&beside) / self.threads as f64 + 0.5 * longest_beside;
        let flops =
            |run: &PlannedRun| minigpt_scaling::flops(sizes[run.size].parameters as f64, run.tokens as f64);
        let most = |at_once: usize, of: &[&PlannedRun]| {
            let largest = of.iter().map(|run| sizes[run.size].train_bytes).max();
            largest.unwrap_or(0).saturating_mul(at_once as u64)
        };
        Ok(SweepPlan {
            title: self.title.clone(),
            config: self.base.to_toml()?,
            seconds: beside_seconds + total(&alone),
            flops: runs.iter().map(flops).sum(),
            bytes: most(self.threads, &beside).max(most(1, &alone)),
            tokens,
            tokens_per_step: self.tokens_per_step,
            unique_tokens: self.unique_tokens,
            validation_tokens: self.validation_tokens,
            vocab_size: self.base.model.vocab_size,
            threads: self.threads,
            epochs: longest as f64 / self.unique_tokens.max(1) as f64,
            repeated: self.options.repeated,
            sizes,
            runs,
        })
    }
}

/// Characters for small texts: runs of one epoch need many tokens, and a text has most of them as characters.
fn tokenizer(glance: &Glance) -> Option<&'static str> {
    match (glance.tokens, glance.characters) {
        (Some(_), _) => None,
        (None, ..2_000_000) => Some("char"),
        (None, _) => Some("bpe:4000"),
    }
}

/// Settings that all runs of a sweep share, in addition to the recipe for the data.
fn settle(table: &mut toml::Table) {
    let mut set = |section: &str, key: &str, value: toml::Value| {
        if let Some(toml::Value::Table(section)) = table.get_mut(section) {
            section.insert(key.to_owned(), value);
        }
    };
    // Dropout would be another law; one epoch needs none.
    set("model", "dropout", 0.0.into());
    // One evaluation, at the end, of all there is.
    set("train", "eval_interval", 0.into());
    set("train", "eval_iters", 0.into());
    set("train", "sample_interval", 0.into());
}
