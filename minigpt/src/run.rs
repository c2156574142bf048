//! A training run from its configuration: the data opened and split, the model made or loaded, the folder taken.

use crate::error::{Error, Result};
use crate::machine;
use crate::model_place::ModelPlace;
use crate::run_config::RunConfig;
use crate::settings;
use minigpt_data::{
    BadLines, Corpus, CorpusKind, CorpusOptions, CorpusParts, Padding, QaOptions, RandomRows, ReadOptions,
    Source, TokenizerChoice,
};
use minigpt_formats::nanogpt;
use minigpt_formats::{ExtraKeys, Loaded, OnDisk, load, load_config};
use minigpt_model::plan::Plan;
use minigpt_model::{Config, Device, Gpt};
use minigpt_tokenizer::{Tokenizer, UNK};
use minigpt_train::{Alone, Change, Exchange, RunFolder, Trainer, TrainingData, checkpoint};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod evaluation;
mod invitation;

use invitation::Invitation;

pub use evaluation::RunEvaluation;

/// The file in a run's folder that says how it is trained.
const SETTINGS: &str = "config.toml";

/// Where a new run happens, and what it begins with.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The run's folder.
    pub out: &'a Path,
    /// A model to start from: all that [`ModelPlace::find`] finds.
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
    /// Whether it learns from text or from questions and answers.
    pub kind: CorpusKind,
    /// What a person should know about the data: what it was read as, and what of it the vocabulary lacks.
    pub notes: Vec<String>,
}

impl Run {
    /// Opens all that a new run needs: its data, its model, its folder. `changes` are the settings that were asked for
    /// one by one (`model.n_layer=2`): a model that is there already must agree with them.
    pub fn start(config: RunConfig, changes: &[String], place: Place, device: &Device) -> Result<Self> {
        Self::start_on(Alone::exchange(), config, changes, place, device)
    }

    /// The same on several ranks, as the first of them; the others [`join`](Self::join).
    pub fn start_on(
        exchange: Arc<dyn Exchange>,
        mut config: RunConfig,
        changes: &[String],
        place: Place,
        device: &Device,
    ) -> Result<Self> {
        let Place { out, from } = place;
        let from = from.map(ModelPlace::find).transpose()?;
        let from = from.as_ref().map(|place| place.path.as_path());
        let changes = settings::with_sections(changes)?;
        let named = named_settings(&changes);
        let context = from.map(|from| context(&config, from, &named)).transpose()?;
        let OpenedData { data, bad_lines, kind, notes, brought } = open_run_data(&config, from, context)?;
        config.model = shape(&config, &data, from, context, &named)?;
        check_memory(&config, 1)?;
        // Opened last: nothing is made before it is certain that it can be trained.
        let run = RunFolder::open(out)?;
        let (tokenizer, settings) = (data.tokenizer.clone(), run.join(SETTINGS));
        let Loaded { gpt, extra } = model(&config, from, device)?;
        Invitation::new(&config, tokenizer.as_ref().filter(|_| brought), None)?.send(&exchange)?;
        let trainer = Trainer::new_on(exchange, gpt, data, config.train.clone(), run)?.with_extra(extra);
        // Only now is the run accepted; a refused one leaves the folder as it was.
        minigpt_files::write_file(&settings, config.to_toml()?.as_bytes())?;
        Ok(Self { trainer, config, changes: Vec::new(), tokenizer, bad_lines, kind, notes })
    }

    /// Goes on with the run in a folder, with its own settings but for `changes` such as `train.max_iters=960`. A
    /// change that would make it another run is refused.
    pub fn resume(out: &Path, changes: &[String], device: &Device) -> Result<Self> {
        Self::resume_on(Alone::exchange(), out, changes, device)
    }

    /// The same on several ranks, however many there were before, as the first of them; the others
    /// [`join`](Self::join).
    pub fn resume_on(
        exchange: Arc<dyn Exchange>,
        out: &Path,
        changes: &[String],
        device: &Device,
    ) -> Result<Self> {
        if !out.is_dir() {
            return Err(Error::NoRun(out.to_owned()));
        }
        let changes = &settings::with_sections(changes)?;
        // Opened first: that mends what a killed process left.
        let run = RunFolder::open(out)?;
        let (last, settings) = (run.join("last"), run.join(SETTINGS));
        if !checkpoint::exists(&last)? {
            return Err(Error::NoRun(out.to_owned()));
        }
        let state_text = checkpoint::state_text(&last)?;
        let state = checkpoint::state(&last)?;
        let written = RunConfig::read(&settings, &[])?;
        let then = RunConfig { model: load_config(&last)?, train: state.train, ..written };
        let config = RunConfig::read(&settings, changes)?;
        if changes.iter().any(|change| change.trim_start().starts_with("model.preset")) {
            return Err(Error::Setting("model.preset: a run that goes on keeps its model".to_owned()));
        }
        let changes = then.changes(&config, state.step);
        changes.iter().try_for_each(Change::check)?;
        let OpenedData { data, bad_lines, kind, notes, brought } = open_run_data(&config, Some(&last), None)?;
        check_memory(&config, 1)?;
        let tokenizer = data.tokenizer.clone();
        let others = changes.iter().filter(|change| !change.setting.starts_with("train.")).cloned().collect();
        Invitation::new(&config, tokenizer.as_ref().filter(|_| brought), Some(state_text))?
            .send(&exchange)?;
        let trainer =
            Trainer::resume_on(exchange, data, config.train.clone(), run, device)?.with_changes(others);
        minigpt_files::write_file(&settings, config.to_toml()?.as_bytes())?;
        Ok(Self { trainer, config, changes, tokenizer, bad_lines, kind, notes })
    }
}

/// The settings of the model that were asked for one by one.
fn named_settings(changes: &[String]) -> Vec<&str> {
    changes.iter().filter_map(|change| change.split_once('=')?.0.trim().strip_prefix("model.")).collect()
}

/// The context in which a model is trained further: its own, or a shorter one that was asked for by name.
fn context(config: &RunConfig, base: &Path, named: &[&str]) -> Result<usize> {
    let (most, wanted) = (load_config(base)?.block_size, config.model.block_size);
    if !named.contains(&"block_size") {
        return Ok(most);
    }
    if wanted == 0 || wanted > most {
        let message = format!(
            "model.block_size is {wanted}, but the model in {} has {most}: a context can be made shorter, not longer",
            base.display()
        );
        return Err(Error::Setting(message));
    }
    Ok(wanted)
}

/// The data of a run, ready to be drawn from.
struct OpenedData {
    data: TrainingData,
    bad_lines: BadLines,
    kind: CorpusKind,
    notes: Vec<String>,
    /// Whether the tokenizer is that of the model that is trained further.
    brought: bool,
}

/// Opens the data of a run; the model that it trains further brings its tokenizer and its context.
fn open_run_data(config: &RunConfig, base: Option<&Path>, context: Option<usize>) -> Result<OpenedData> {
    let tokenizer = match base {
        Some(base) => OnDisk::open(base)?.own_tokenizer()?,
        None => None,
    };
    let block_size = match (context, base) {
        (Some(context), _) => context,
        (None, Some(base)) => load_config(base)?.block_size,
        (None, None) => config.model.block_size,
    };
    open_data(config, tokenizer, block_size)
}

/// Opens the data of a configuration; a model that is trained further brings its tokenizer.
fn open_data(config: &RunConfig, tokenizer: Option<Tokenizer>, block_size: usize) -> Result<OpenedData> {
    let data = &config.data;
    if !(0.0..1.0).contains(&data.val_fraction) {
        let fraction = data.val_fraction;
        let message = format!("data.val_fraction is {fraction}; it must be at least 0 and less than 1");
        return Err(Error::Setting(message));
    }
    let path = Path::new(&data.path);
    let brought = tokenizer.is_some();
    let choice = match (tokenizer, &data.tokenizer) {
        // What a model lacks a token for is left out, and said.
        (Some(tokenizer), _) => Some(TokenizerChoice::Ready(tokenizer.leaving_out())),
        (None, Some(name)) => Some(name.parse().unwrap_or(TokenizerChoice::Char)),
        (None, None) => tokenizer_beside(path)?.map(TokenizerChoice::Ready),
    };
    let options = CorpusOptions {
        kind: data.kind,
        tokenizer: choice,
        val_fraction: data.val_fraction,
        seed: config.train.seed,
        val_path: data.val_path.as_ref().map(PathBuf::from),
        read: ReadOptions { encoding: data.encoding, columns: data.columns.clone() },
        random: RandomRows {
            length: data.max_length.min(block_size + 1),
            vocab_size: config.model.vocab_size,
            ..RandomRows::default()
        },
        limit: data.limit,
        qa: QaOptions {
            // One token of a sequence is only a target, so a context of T holds T + 1 of them.
            max_length: data.max_length.min(block_size + 1),
            loss_on: data.loss_on,
            padding: Padding::Longest,
        },
    };
    let corpus = Corpus::open(path, &options)?;
    let kind = match &corpus.parts {
        CorpusParts::Qa { .. } => CorpusKind::Qa,
        CorpusParts::Text { .. } => CorpusKind::Text,
    };
    let mut notes = vec![format!("{}: {}", data.path, corpus.read_as)];
    if let Some(tokenizer) = &corpus.tokenizer {
        notes.extend(corpus.unknown.in_words(tokenizer));
        if matches!(tokenizer, Tokenizer::Char(_)) && tokenizer.special_id(UNK).is_none() {
            let size = tokenizer.vocab_size();
            notes.push(format!(
                "its {size} characters are the vocabulary; of other texts the rest is left out"
            ));
        }
    }
    let bad_lines = match &corpus.parts {
        CorpusParts::Qa { bad, .. } => bad.clone(),
        CorpusParts::Text { .. } => BadLines::default(),
    };
    let model = Config { block_size, ..config.model.clone() };
    let data = TrainingData::new(corpus, &model, &config.train, data.order)?;
    Ok(OpenedData { data, bad_lines, kind, notes, brought })
}

/// nanoGPT's vocabulary of characters beside tokens that say nothing of theirs.
pub fn tokenizer_beside(path: &Path) -> Result<Option<Tokenizer>> {
    let is_file = path.extension().is_some_and(|ending| ending == "bin");
    if !path.is_dir() && !is_file {
        return Ok(None);
    }
    let Ok(Source::Tokens(folder)) = Source::open(path, None, &ReadOptions::default()) else {
        return Ok(None);
    };
    let (vocabulary, own) = (folder.join("meta.pkl"), folder.join("tokenizer.json"));
    match vocabulary.is_file() && !own.is_file() {
        true => Ok(Some(nanogpt::read_meta(&vocabulary)?)),
        false => Ok(None),
    }
}

/// The model's shape: the base's where there is one (in its context), otherwise the configuration's with the data's
/// vocabulary.
fn shape(
    config: &RunConfig,
    data: &TrainingData,
    base: Option<&Path>,
    context: Option<usize>,
    named: &[&str],
) -> Result<Config> {
    let tokens = data.tokenizer.as_ref().map(Tokenizer::vocab_size);
    let Some(base) = base else {
        let vocab_size = tokens.unwrap_or(config.model.vocab_size);
        let model = Config { vocab_size, ..config.model.clone() };
        model.validate()?;
        return Ok(model);
    };
    if named.contains(&"init") {
        let message = format!("model.init: the model in {} has its weights already", base.display());
        return Err(Error::Setting(message));
    }
    let model = load_config(base)?;
    let model = Config { block_size: context.unwrap_or(model.block_size), ..model };
    let as_json = |config| serde_json::to_value(config).unwrap_or_default();
    let (then, now) = (as_json(&model), as_json(&config.model));
    if let Some(key) = named.iter().find(|&&key| then.get(key) != now.get(key)) {
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
            let gpt = gpt.with_dropout(&config.model)?.cropped(config.model.block_size)?;
            Ok(Loaded { gpt, extra })
        }
        None => {
            let gpt = Gpt::initialized(config.model.clone(), config.init, config.train.seed, device)?;
            Ok(Loaded { gpt, extra: ExtraKeys::new() })
        }
    }
}

/// Refuses what this machine's memory can't hold, before it is asked for: the moments of one of so many owners.
pub(crate) fn check_memory(config: &RunConfig, ranks: usize) -> Result<()> {
    let Some(available) = machine::available_memory() else { return Ok(()) };
    let plan = Plan::new(&config.model, config.train.batch_size, config.model.block_size);
    // Among several ranks each remembers the moments of what it owns; the first needs all of them when it saves.
    let moments = plan.train_memory.moments;
    let needed = plan.train_bytes - moments + moments / ranks.max(1) as u64;
    if needed > available { Err(Error::Memory { needed, available }) } else { Ok(()) }
}
