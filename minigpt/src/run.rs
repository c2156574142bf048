//! A training run from its configuration: the data opened and split, the model made or loaded, the folder taken.

use crate::error::{Error, Result};
use crate::machine;
use crate::run_config::RunConfig;
use minigpt_data::{BadLines, Corpus, CorpusOptions, CorpusParts, Padding, QaOptions, TokenizerChoice};
use minigpt_formats::{ExtraKeys, Loaded, OnDisk, load, load_config};
use minigpt_model::plan::Plan;
use minigpt_model::{Config, Device, Gpt};
use minigpt_tokenizer::Tokenizer;
use minigpt_train::{Change, RunFolder, Trainer, TrainingData, checkpoint};
use std::path::Path;

/// The file in a run's folder that says how it is trained.
const SETTINGS: &str = "config.toml";

/// Where a new run happens, and what it begins with.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The run's folder.
    pub out: &'a Path,
    /// A model to start from.
    pub from: Option<&'a Path>,
}

/// A run that is ready for its first step, or its next.
pub struct Run {
    /// What trains.
    pub trainer: Trainer,
    /// The configuration as it was resolved.
    pub config: RunConfig,
    /// What this start changed in the settings of the run that it goes on with.
    pub changes: Vec<Change>,
    /// What made the ids.
    pub tokenizer: Option<Tokenizer>,
    /// Lines of the data that could not be used.
    pub bad_lines: BadLines,
}

impl Run {
    /// Opens all that a new run needs: its data, its model, its folder. `changes` are the settings that were asked for
    /// one by one (`model.n_layer=2`): a model that is there already must agree with them.
    pub fn start(mut config: RunConfig, changes: &[String], place: Place, device: &Device) -> Result<Self> {
        let Place { out, from } = place;
        let (data, bad_lines) = open_run_data(&config, from)?;
        config.model = shape(&config, &data, from, changes)?;
        check_memory(&config)?;
        // Opened last: nothing is made before it is certain that it can be trained.
        let run = RunFolder::open(out)?;
        let (tokenizer, settings) = (data.tokenizer.clone(), run.join(SETTINGS));
        let Loaded { gpt, extra } = model(&config, from, device)?;
        let trainer = Trainer::new(gpt, data, config.train.clone(), run)?.with_extra(extra);
        // Only now is the run accepted; a refused one leaves the folder as it was.
        minigpt_files::write_file(&settings, config.to_toml()?.as_bytes())?;
        Ok(Self { trainer, config, changes: Vec::new(), tokenizer, bad_lines })
    }

    /// Goes on with the run in a folder, with its own settings but for `changes` such as `train.max_iters=960`. A
    /// change that would make it another run is refused.
    pub fn resume(out: &Path, changes: &[String], device: &Device) -> Result<Self> {
        if !out.is_dir() {
            return Err(Error::NoRun(out.to_owned()));
        }
        // Opened first: that mends what a killed process left.
        let run = RunFolder::open(out)?;
        let (last, settings) = (run.join("last"), run.join(SETTINGS));
        if !checkpoint::exists(&last) {
            return Err(Error::NoRun(out.to_owned()));
        }
        let state = checkpoint::state(&last)?;
        let written = RunConfig::read(&settings, &[])?;
        let then = RunConfig { model: load_config(&last)?, train: state.train, ..written };
        let config = RunConfig::read(&settings, changes)?;
        if changes.iter().any(|change| change.trim_start().starts_with("model.preset")) {
            return Err(Error::Setting("model.preset: a run that goes on keeps its model".to_owned()));
        }
        let changes = then.changes(&config, state.step);
        changes.iter().try_for_each(Change::check)?;
        let (data, bad_lines) = open_run_data(&config, Some(&last))?;
        check_memory(&config)?;
        let tokenizer = data.tokenizer.clone();
        let others = changes.iter().filter(|change| !change.setting.starts_with("train.")).cloned().collect();
        let trainer = Trainer::resume(data, config.train.clone(), run, device)?.with_changes(others);
        minigpt_files::write_file(&settings, config.to_toml()?.as_bytes())?;
        Ok(Self { trainer, config, changes, tokenizer, bad_lines })
    }
}

/// Opens the data of a run; the model that it trains further brings its tokenizer and its context.
fn open_run_data(config: &RunConfig, base: Option<&Path>) -> Result<(TrainingData, BadLines)> {
    let (tokenizer, block_size) = match base {
        Some(base) => (OnDisk::open(base)?.own_tokenizer()?, load_config(base)?.block_size),
        None => (None, config.model.block_size),
    };
    open_data(config, tokenizer, block_size)
}

/// Opens the data of a configuration; a model that is trained further brings its tokenizer.
fn open_data(
    config: &RunConfig,
    tokenizer: Option<Tokenizer>,
    block_size: usize,
) -> Result<(TrainingData, BadLines)> {
    let data = &config.data;
    if !(0.0..1.0).contains(&data.val_fraction) {
        let fraction = data.val_fraction;
        let message = format!("data.val_fraction is {fraction}; it must be at least 0 and less than 1");
        return Err(Error::Setting(message));
    }
    let choice = match (tokenizer, &data.tokenizer) {
        (Some(tokenizer), _) => Some(TokenizerChoice::Ready(tokenizer)),
        (None, Some(name)) => Some(name.parse().unwrap_or(TokenizerChoice::Char)),
        (None, None) => None,
    };
    let options = CorpusOptions {
        kind: data.kind,
        tokenizer: choice,
        val_fraction: data.val_fraction,
        seed: config.train.seed,
        limit: data.limit,
        qa: QaOptions {
            // One token of a sequence is only a target, so a context of T holds T + 1 of them.
            max_length: data.max_length.min(block_size + 1),
            loss_on: data.loss_on,
            padding: Padding::Longest,
        },
    };
    let corpus = Corpus::open(Path::new(&data.path), &options)?;
    let bad_lines = match &corpus.parts {
        CorpusParts::Qa { bad, .. } => bad.clone(),
        CorpusParts::Text { .. } => BadLines::default(),
    };
    let model = Config { block_size, ..config.model.clone() };
    Ok((TrainingData::new(corpus, &model, &config.train, data.order)?, bad_lines))
}

/// The model's shape: the base's where there is one, otherwise the configuration's with the data's vocabulary.
fn shape(config: &RunConfig, data: &TrainingData, base: Option<&Path>, changes: &[String]) -> Result<Config> {
    let tokens = data.tokenizer.as_ref().map(Tokenizer::vocab_size);
    let Some(base) = base else {
        let vocab_size = tokens.unwrap_or(config.model.vocab_size);
        let model = Config { vocab_size, ..config.model.clone() };
        model.validate()?;
        return Ok(model);
    };
    let model = load_config(base)?;
    let as_json = |config| serde_json::to_value(config).unwrap_or_default();
    let (then, now) = (as_json(&model), as_json(&config.model));
    let mut named =
        changes.iter().filter_map(|change| change.split_once('=')?.0.trim().strip_prefix("model."));
    if let Some(key) = named.find(|key| then.get(key) != now.get(key)) {
        let (then, now) = (&then[key], &now[key]);
        let message = format!("model.{key} is {now}, but the model in {} has {then}", base.display());
        return Err(Error::Setting(message));
    }
    if let Some(tokens) = tokens.filter(|&tokens| tokens > model.vocab_size) {
        let message = format!("the tokenizer has {tokens} tokens, the model {}", model.vocab_size);
        return Err(Error::Data(message));
    }
    // Dropout is how one trains, not what a model is.
    let Config { embd_pdrop, attn_pdrop, resid_pdrop, .. } = config.model;
    Ok(Config { embd_pdrop, attn_pdrop, resid_pdrop, ..model })
}

/// The model to train: a new one, or that of a folder with all that its `config.json` says.
fn model(config: &RunConfig, from: Option<&Path>, device: &Device) -> Result<Loaded> {
    match from {
        Some(from) => {
            let Loaded { gpt, extra } = load(from, device)?;
            Ok(Loaded { gpt: gpt.with_dropout(&config.model)?, extra })
        }
        None => {
            let gpt = Gpt::new(config.model.clone(), config.train.seed, device)?;
            Ok(Loaded { gpt, extra: ExtraKeys::new() })
        }
    }
}

/// Refuses what this machine's memory can't hold, before it is asked for.
fn check_memory(config: &RunConfig) -> Result<()> {
    let Some(available) = machine::available_memory() else { return Ok(()) };
    let needed = Plan::new(&config.model, config.train.batch_size, config.model.block_size).train_bytes;
    if needed > available { Err(Error::Memory { needed, available }) } else { Ok(()) }
}
