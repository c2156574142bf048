//! Checkpoints: a model folder with, beside the model, all that training needs to go on as if it had never stopped.

use crate::best::Best;
use crate::change::Change;
use crate::config::TrainConfig;
use crate::epoch::{EpochLoss, ExactNumber};
use crate::error::Result;
use crate::record::Warning;
use crate::run_folder::{RunFolder, TRAINING_FILES, io, model_files, step_of};
use candle_core::{Device, Tensor};
use minigpt_data::Position;
use minigpt_files::present_path;
use minigpt_formats::hugging_face::{self, SaveOptions};
use minigpt_formats::{ChatTemplate, ExtraKeys, Loaded};
use minigpt_model::Gpt;
use minigpt_tokenizer::Tokenizer;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

const STATE: &str = TRAINING_FILES[0];
const OPTIMIZER: &str = TRAINING_FILES[1];

/// No state is longer than this.
const LARGEST_STATE: u64 = 16 << 20;

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Steps made.
    pub step: u64,
    /// Targets learned from.
    pub tokens: u64,
    /// Seconds of training.
    pub seconds: f64,
    /// The batch that comes next.
    pub position: Position,
    /// The best validation so far.
    pub best: Option<Best>,
    /// The best validation loss among those that the schedule asked for. An evaluation because a start of the run is over is
    /// none of them: a run that is stopped and goes on has as much patience as one that never stopped.
    #[serde(default)]
    pub scheduled_best: Option<ExactNumber>,
    /// Scheduled evaluations since then.
    pub without_progress: u64,
    /// The epoch under way.
    #[serde(default)]
    pub epoch: EpochLoss,
    /// Which data this is.
    pub data: String,
    /// Which tokenizer made it.
    pub tokenizer: Option<String>,
    /// How it is trained.
    pub train: TrainConfig,
    /// Parts that a batch is split into, whose gradients are added: the last digits depend on it. 0 in a checkpoint of
    /// before it was kept.
    #[serde(default, alias = "workers")]
    pub parts: usize,
    /// What was changed when the run went on.
    #[serde(default)]
    pub changes: Vec<Change>,
}

/// A checkpoint, read.
#[derive(Debug)]
pub struct Checkpoint {
    /// The model.
    pub gpt: Gpt,
    /// What else its `config.json` says.
    pub extra: ExtraKeys,
    /// Where the run stood.
    pub state: State,
    /// What the optimiser remembered.
    pub optimizer: Moments,
}

/// What an optimiser remembers, by name.
pub type Moments = HashMap<String, Tensor>;

/// What a model folder holds.
#[derive(Clone, Copy)]
pub struct Model<'a> {
    /// The decoder.
    pub gpt: &'a Gpt,
    /// Further keys for its `config.json`.
    pub extra: &'a ExtraKeys,
    /// What makes its ids.
    pub tokenizer: Option<&'a Tokenizer>,
    /// How it is spoken to.
    pub template: Option<&'a ChatTemplate>,
}

/// Why a checkpoint could not be written or resumed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum CheckpointError {
    #[error("{}: there is a run in this folder; resume it, or choose another folder", .0.display())]
    RunExists(PathBuf),
    #[error("could not write {}: {problem}", path.display())]
    NotWritten { path: PathBuf, problem: String },
    #[error("{}not a training state: {problem}", path.as_ref().map_or_else(String::new, |path| format!("{}: ", path.display())))]
    BadState { path: Option<PathBuf>, problem: String },
    #[error("{}: not the state of an optimizer: {problem}", path.display())]
    BadOptimizer { path: PathBuf, problem: String },
    #[error("the optimizer's {0} is missing or has another shape")]
    BadMoment(String),
    #[error("the checkpoint says that a batch has {parts} parts; it must be from 1 to {most}")]
    Parts { parts: usize, most: usize },
}

/// Writes the model folder `name` of a run; with what its optimiser remembers, all that resuming needs. What stands there and
/// is not a model folder of a run is moved aside.
pub fn save(
    run: &mut RunFolder,
    name: &str,
    model: Model,
    resume: Option<(&State, &Moments)>,
) -> Result<Vec<Warning>> {
    run.replace(name, |target| write(target, model, resume))
}

/// Writes the checkpoint of a step under its number, which is refused where something else stands there.
pub fn save_numbered(run: &RunFolder, model: Model, state: &State, moments: &Moments) -> Result<()> {
    let name = format!("step-{:08}", state.step);
    run.replace_own(&name, |target| write(target, model, Some((state, moments))))
}

fn write(target: &Path, model: Model, resume: Option<(&State, &Moments)>) -> Result<()> {
    let Model { gpt, extra, tokenizer, template } = model;
    let mut extra = extra.clone();
    if let (Some(template), Some(tokenizer)) = (template, tokenizer) {
        for (key, id) in template.config_keys(tokenizer) {
            // A key that says null says nothing.
            let known = extra.entry(key).or_insert(serde_json::Value::Null);
            if known.is_null() {
                *known = id;
            }
        }
    }
    hugging_face::save_as(gpt.view(), &extra, target, SaveOptions::default(), &mut |_, _| {})?;
    if let Some(tokenizer) = tokenizer {
        tokenizer.save(target)?;
    }
    if let Some(template) = template {
        template.save(target)?;
    }
    if let Some((state, moments)) = resume {
        let path = target.join(OPTIMIZER);
        candle_core::safetensors::save(moments, &path)
            .map_err(|e| CheckpointError::NotWritten { path: present_path(&path), problem: e.to_string() })?;
        let path = target.join(STATE);
        let text = serde_json::to_string_pretty(state)
            .map_err(|e| CheckpointError::NotWritten { path: present_path(&path), problem: e.to_string() })?;
        std::fs::write(&path, text + "\n").map_err(|e| io(&path, e))?;
    }
    Ok(())
}

/// Whether there is something to resume.
///
/// # Errors
/// The system does not say: a run that is taken for none would be overwritten.
pub fn exists(folder: &Path) -> Result<bool> {
    Ok(minigpt_files::is_there(&folder.join(STATE))?)
}

/// Reads where the run of a checkpoint stood.
pub fn state(folder: &Path) -> Result<State> {
    let path = folder.join(STATE);
    serde_json::from_str(&state_text(folder)?)
        .map_err(|e| CheckpointError::BadState { path: Some(path), problem: e.to_string() }.into())
}

/// The same from the file's text.
pub fn parse_state(text: &str) -> Result<State> {
    serde_json::from_str(text)
        .map_err(|e| CheckpointError::BadState { path: None, problem: e.to_string() }.into())
}

/// The text of the file that says where the run of a checkpoint stood.
pub fn state_text(folder: &Path) -> Result<String> {
    Ok(minigpt_files::read_text(&folder.join(STATE), LARGEST_STATE)?)
}

/// Reads a checkpoint.
pub fn load(folder: &Path, device: &Device) -> Result<Checkpoint> {
    let state = state(folder)?;
    let Loaded { gpt, extra } = minigpt_formats::load(folder, device)?;
    let gpt = gpt.into_trainable()?;
    let path = folder.join(OPTIMIZER);
    let bytes = minigpt_files::Mapped::open(&path)?;
    let optimizer = candle_core::safetensors::load_buffer(bytes.bytes(), device)
        .map_err(|e| CheckpointError::BadOptimizer { path, problem: e.to_string() })?;
    Ok(Checkpoint { gpt, extra, state, optimizer })
}

/// Removes the numbered checkpoints of a run but the newest `keep`. A folder that is not one, by its name and by every file in
/// it, is left alone.
pub fn rotate(run: &RunFolder, keep: usize) -> Result<()> {
    let folder = run.entry_path();
    let entries = std::fs::read_dir(&folder).map_err(|e| io(&folder, e))?;
    let mut numbered: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((step_of(&entry.file_name().to_string_lossy())?, entry.path()))
        })
        .filter(|(step, path)| is_checkpoint_of(*step, path))
        .collect();
    numbered.sort();
    let old = numbered.len().saturating_sub(keep);
    for (_, path) in &numbered[..old] {
        minigpt_files::remove_folder(path)?;
    }
    Ok(())
}

/// Whether a folder is the checkpoint of a step, and nothing else is in it.
fn is_checkpoint_of(step: u64, folder: &Path) -> bool {
    !minigpt_files::is_link(folder)
        && matches!(minigpt_files::foreign_entry(folder, &model_files()), Ok(None))
        && state(folder).is_ok_and(|state| state.step == step)
}
