//! Which model is measured: a preset with another shape, or a model folder. What doesn't fit the memory is refused
//! before it is asked for.

use crate::arguments::numbers;
use crate::language::messages::{bench as message, counts};
use crate::models;
use anyhow::{Context, Result, ensure};
use clap::Args;
use minigpt::{ModelPlace, machine, settings};
use minigpt_charts::{bytes, count};
use minigpt_formats::{OnDisk, load, load_config};
use minigpt_kernels::{ElementType, QuantizedProduct};
use minigpt_model::parameters::Count;
use minigpt_model::plan::Plan;
use minigpt_model::{Config, Device, Gpt, Preset};
use std::path::{Path, PathBuf};

/// A preset and changes to it, or a model folder.
#[derive(Args)]
pub struct ModelArgs {
    /// Preset or model to measure. Default: gpt2.
    #[arg(value_name = "PRESET|MODEL", conflicts_with_all = ["preset", "model"])]
    name: Option<String>,
    /// Preset to measure; `minigpt plan --help` lists them.
    #[arg(long, value_name = "NAME", default_value = "gpt2", conflicts_with = "model")]
    preset: String,
    #[arg(short, long, value_name = models::NAME, help = models::HELP, conflicts_with_all = ["n_layer", "n_head", "n_embd", "vocab_size", "block_size", "changes"])]
    model: Option<PathBuf>,
    /// Number of blocks, instead of the preset's.
    #[arg(long, value_name = "N", value_parser = numbers::at_least::<u32>(1))]
    n_layer: Option<u32>,
    /// Number of attention heads per block.
    #[arg(long, value_name = "N", value_parser = numbers::at_least::<u32>(1))]
    n_head: Option<u32>,
    /// Width of the residual stream.
    #[arg(long, value_name = "N", value_parser = numbers::at_least::<u32>(1))]
    n_embd: Option<u32>,
    /// Vocabulary size.
    #[arg(long, value_name = "N", value_parser = numbers::at_least::<u32>(1))]
    vocab_size: Option<u32>,
    /// Context length.
    #[arg(long, value_name = "N", value_parser = numbers::at_least::<u32>(1))]
    block_size: Option<u32>,
    /// Change another setting of the model, such as bias=false.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
}

impl ModelArgs {
    /// The model folder, if it is one.
    fn folder(&self) -> Option<&Path> {
        let is_preset = |name: &str| Preset::named(name).is_some();
        let named = self.name.as_deref().filter(|name| !is_preset(name)).map(Path::new);
        self.model.as_deref().or(named.filter(|name| models::is_named(name)))
    }

    fn preset(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.preset)
    }

    /// The model's shape, checked.
    pub fn config(&self) -> Result<Config> {
        if let Some(model) = self.folder() {
            let changed = [self.n_layer, self.n_head, self.n_embd, self.vocab_size, self.block_size];
            ensure!(
                changed.iter().all(Option::is_none) && self.changes.is_empty(),
                "{}",
                message::ModelNotChangeable { model: &model.display() }
            );
            return load_config(&models::find(model)?).context(message::ConfigurationUnreadable);
        }
        let config = settings::change(Config::preset(self.preset())?, &self.changes)?;
        let or = |changed: Option<u32>, size: usize| changed.map_or(size, |n| n as usize);
        let config = Config {
            n_layer: or(self.n_layer, config.n_layer),
            n_head: or(self.n_head, config.n_head),
            n_embd: or(self.n_embd, config.n_embd),
            vocab_size: or(self.vocab_size, config.vocab_size),
            block_size: or(self.block_size, config.block_size),
            ..config
        };
        config.validate()?;
        Ok(config)
    }

    /// The model: random weights, or those of the folder.
    pub fn open(&self, config: &Config) -> Result<Gpt> {
        match self.folder() {
            Some(model) => {
                let place = ModelPlace::find(model)?;
                Ok(load(&place.path, &Device::Cpu).context(message::ModelUnreadable)?.gpt)
            }
            None => Ok(Gpt::new(config.clone(), super::SEED, &Device::Cpu)?),
        }
    }

    /// The model as commands run it, with its matrices in fewer bits.
    pub fn open_as(&self, config: &Config, dtype: Option<ElementType>) -> Result<Gpt> {
        let gpt = match (self.folder(), dtype) {
            (Some(model), Some(dtype)) => {
                let files = OnDisk::open(&ModelPlace::find(model)?.path)?;
                files.model()?.load_as(&Device::Cpu, Some(dtype))?.gpt
            }
            (Some(_), None) => self.open(config)?,
            (None, Some(dtype)) => self.open(config)?.quantized(dtype)?,
            // As those of a model from a file are laid out.
            (None, None) => self.open(config)?.packed()?,
        };
        Ok(gpt.with_quantized_product(QuantizedProduct::EightBit)?)
    }

    /// What to call it.
    pub fn title(&self, config: &Config) -> String {
        let name = self.folder().map_or(self.preset().to_owned(), |model| model.display().to_string());
        message::Configuration {
            name: &name,
            n_layer: &(counts::Layers { n: config.n_layer as u64 }.to_string()),
            n_head: &(counts::Heads { n: config.n_head as u64 }.to_string()),
            n_embd: &config.n_embd,
            vocab_size: &count(config.vocab_size as u64),
            parameters: &count(Count::of(config).total),
        }
        .to_string()
    }
}

/// Refuses what this machine's memory can't hold; `try_instead` says what to make smaller.
pub fn check_memory(needed: u64, try_instead: &str) -> Result<()> {
    let Some(available) = machine::available_memory() else { return Ok(()) };
    ensure!(
        needed <= available,
        "{}",
        message::TooLittleMemory { needed: &bytes(needed), available: &bytes(available), hint: &try_instead }
    );
    Ok(())
}

/// Refuses more tokens than the model's context has room for; `option` says what asked for them.
pub fn fits(tokens: usize, config: &Config, option: &str) -> Result<()> {
    ensure!(
        tokens <= config.block_size,
        "{}",
        message::BeyondContext { tokens: &tokens, block_size: &config.block_size, option: &option }
    );
    Ok(())
}

/// What running a model takes: its weights, the keys and values of `tokens` in each row, and what reading prompts of
/// `prompt` tokens leaves behind on the way.
pub fn inference_bytes(config: &Config, rows: usize, prompt: usize, tokens: usize) -> u64 {
    let plan = Plan::new(config, rows, prompt);
    plan.train_memory
        .weights
        .saturating_add(cache_bytes(config, tokens).saturating_mul(rows as u64))
        .saturating_add(plan.train_memory.activations)
}

/// The keys and values of one row of so many tokens.
pub fn cache_bytes(config: &Config, tokens: usize) -> u64 {
    Plan::new(&Config { block_size: tokens, ..config.clone() }, 1, 1).cache_bytes
}
