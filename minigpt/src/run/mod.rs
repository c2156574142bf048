//! A training run from its configuration: opens the data, creates or loads the model, and takes the run's folder.
//!
//! `data` opens what is trained on, `model` what is trained, `base` checks settings against a model that is fine-tuned,
//! `broadcast` tells the other ranks, `eval_set` and `evaluation` score models.

use crate::error::Result;
use crate::model_place::ModelPlace;
use crate::run_config::RunConfig;
use minigpt_data::{BadLines, CorpusKind};
use minigpt_formats::{Loaded, load_config};
use minigpt_model::Device;
use minigpt_tokenizer::Tokenizer;
use minigpt_train::{Change, Exchange, RunFolder, SingleRank, Trainer, checkpoint};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod base;
mod base_format;
mod broadcast;
mod data;
mod error;
mod eval_set;
mod evaluation;
mod model;
mod note;

use broadcast::RunBroadcast;
use data::{OpenedData, check_settings_apply, open_run_data};

pub(crate) use base_format::BaseFormat;
pub(crate) use model::check_memory;

pub use base::decided_by_model;
pub use data::tokenizer_beside;
pub use error::RunError;
pub use eval_set::{EvalSet, Score, SetSource};
pub use evaluation::RunEvaluation;
pub use note::RunNote;

/// The configuration in a run's folder.
const SETTINGS: &str = "config.toml";

/// The paths of a new run.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The run's folder.
    pub out: &'a Path,
    /// A model to fine-tune, found by [`ModelPlace::find`].
    pub from: Option<&'a Path>,
    /// The file of the data if it is temporary. It is moved into the run's folder as `input.txt` (with its own extension),
    /// and the run's configuration names it there.
    pub input: Option<&'a Path>,
}

/// A run that is ready to train.
pub struct Run {
    /// The trainer.
    pub trainer: Trainer,
    /// The configuration.
    pub config: RunConfig,
    /// Settings that were changed when the run was resumed.
    pub changes: Vec<Change>,
    /// The tokenizer.
    pub tokenizer: Option<Tokenizer>,
    /// Lines of the data that were skipped.
    pub bad_lines: BadLines,
    /// Kind of the data.
    pub kind: CorpusKind,
    /// What a person should know about the data.
    pub notes: Vec<RunNote>,
    /// The model to fine-tune, or the run's own last one if it was resumed.
    base: Option<PathBuf>,
}

impl Run {
    /// Starts a new run: opens its data, its model and its folder. A model to fine-tune must agree with the changes on top of
    /// the configuration ([`RunConfig::asked`]).
    pub fn start(config: RunConfig, place: Place, device: &Device) -> Result<Self> {
        Self::start_on(SingleRank::exchange(), config, place, device)
    }

    /// The same on several ranks, as rank 0; the others [`join`](Self::join).
    pub fn start_on(
        exchange: Arc<dyn Exchange>,
        mut config: RunConfig,
        place: Place,
        device: &Device,
    ) -> Result<Self> {
        let Place { out, from, input } = place;
        let from = from.map(ModelPlace::find).transpose()?;
        let from = from.as_ref().map(|place| place.path.as_path());
        let asked = std::mem::take(&mut config.asked);
        from.map_or(Ok(()), |from| base::check(from, &asked))?;
        let context = from.map(|from| model::context(&config, from, &asked)).transpose()?;
        let format = BaseFormat::of(from)?;
        let OpenedData { data, bad_lines, kind, mut notes } = open_run_data(&config, from, &format, context)?;
        check_settings_apply(&config, &asked, kind)?;
        if format.tokenizer.is_some() {
            // The model's own is used instead.
            config.data.tokenizer = None;
        }
        config.model = model::shape(&config, &data, from, context, &asked)?;
        check_memory(&config, 1)?;
        // Opened last, so that a run that cannot be trained creates nothing.
        let run = match input {
            Some(input) => RunFolder::open_for_input(out, input)?,
            None => RunFolder::open(out)?,
        };
        let (tokenizer, settings) = (data.tokenizer.clone(), run.join(SETTINGS));
        let Loaded { gpt, mut extra } = model::model(&config, from, device)?;
        if let (Some(template), Some(tokenizer)) = (&data.template, &tokenizer)
            && format.template.as_ref().map(|own| &own.source) != Some(&template.source)
        {
            // Answers end as in the new template.
            extra.extend(template.config_keys(tokenizer));
        }
        if let Some(input) = input {
            // The other ranks open it there.
            let (kept, aside) = run.keep_input(input)?;
            let temporary = std::mem::replace(&mut config.data.path, path_text(&kept)?);
            notes.iter_mut().for_each(|note| note.rename(&temporary, &config.data.path));
            notes.extend(aside.map(|aside| RunNote::KeptAside { path: config.data.path.clone(), aside }));
        }
        RunBroadcast::new(&config, &format, None)?.send(&exchange)?;
        let judge = eval_set::judge(&config, &format, tokenizer.as_ref())?;
        let mut trainer = Trainer::new_on(exchange, gpt, data, config.train.clone(), run)?.with_extra(extra);
        if let Some(judge) = judge {
            trainer = trainer.with_judge(judge);
        }
        // Written last: a run that cannot start leaves the folder as it was.
        minigpt_files::write_file(&settings, config.to_toml()?.as_bytes())?;
        let base = from.map(Path::to_owned);
        Ok(Self { trainer, config, changes: Vec::new(), tokenizer, bad_lines, kind, notes, base })
    }

    /// Resumes the run in a folder with its own settings, and `changes` such as `train.max_iters=960`. A change that would
    /// make it another run is an error.
    pub fn resume(out: &Path, changes: &[String], device: &Device) -> Result<Self> {
        Self::resume_on(SingleRank::exchange(), out, changes, device)
    }

    /// The same on several ranks, as rank 0; the others [`join`](Self::join). The number of ranks may differ from before.
    pub fn resume_on(
        exchange: Arc<dyn Exchange>,
        out: &Path,
        changes: &[String],
        device: &Device,
    ) -> Result<Self> {
        if !out.is_dir() {
            return Err(RunError::NoRun(out.to_owned()).into());
        }
        // Opened first, because that repairs what a killed process left.
        let run = RunFolder::open(out)?;
        let (last, settings) = (run.join("last"), run.join(SETTINGS));
        if !checkpoint::exists(&last)? {
            return Err(RunError::NoRun(out.to_owned()).into());
        }
        let state_text = checkpoint::state_text(&last)?;
        let state = checkpoint::state(&last)?;
        let written = RunConfig::of_run(&settings, &[])?;
        let then = RunConfig { model: load_config(&last)?, train: state.train.with_one_length(), ..written };
        let config = RunConfig::of_run(&settings, changes)?;
        if config.asked.iter().any(|change| change.name() == "model.preset") {
            return Err(RunError::PresetOfResumed.into());
        }
        let changes = then.changes(&config, state.step);
        changes.iter().try_for_each(Change::check)?;
        let format = BaseFormat::of(Some(&last))?;
        let OpenedData { data, bad_lines, kind, notes } = open_run_data(&config, Some(&last), &format, None)?;
        check_memory(&config, 1)?;
        let tokenizer = data.tokenizer.clone();
        let others = changes.iter().filter(|change| !change.setting.starts_with("train.")).cloned().collect();
        RunBroadcast::new(&config, &format, Some(state_text))?.send(&exchange)?;
        let judge = eval_set::judge(&config, &format, tokenizer.as_ref())?;
        let mut trainer =
            Trainer::resume_on(exchange, data, config.train.clone(), run, device)?.with_changes(others);
        if let Some(judge) = judge {
            trainer = trainer.with_judge(judge);
        }
        minigpt_files::write_file(&settings, config.to_toml()?.as_bytes())?;
        Ok(Self { trainer, config, changes, tokenizer, bad_lines, kind, notes, base: Some(last) })
    }

    /// The run's own data, to score its model on.
    pub fn own_set(&self) -> Result<EvalSet> {
        let format =
            BaseFormat { tokenizer: self.tokenizer.clone(), ..BaseFormat::of(self.base.as_deref())? };
        EvalSet::of_data(&self.config, &format, self.trainer.gpt())
    }
}

/// The path of a file as a setting.
fn path_text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    Ok(text.ok_or_else(|| RunError::NotUnicode(path.to_owned()))?)
}
