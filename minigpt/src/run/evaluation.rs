//! The validation loss of a run's model, or of the model that a run would start from. Nothing is trained or written.

use super::data::{OpenedData, check_settings_apply, open_run_data};
use super::{BaseFormat, Run, RunError, RunNote, SETTINGS, base, check_memory, model};
use crate::error::Result;
use crate::model_place::ModelPlace;
use crate::run_config::RunConfig;
use minigpt_formats::load;
use minigpt_model::{Device, Gpt};
use minigpt_train::{BestBy, TrainingData, Workers, checkpoint, evaluate};
use std::path::{Path, PathBuf};

/// Loss of a model on the validation part of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvaluation {
    /// The model's folder. `None` for newly initialized weights.
    pub model: Option<PathBuf>,
    /// Mean loss per token.
    pub loss: f64,
    /// Number of predicted tokens.
    pub tokens: u64,
    /// What a person should know about the data, as in [`Run::notes`].
    pub notes: Vec<RunNote>,
}

impl Run {
    /// Whether a folder holds a run that can be resumed.
    pub fn is_at(out: &Path) -> bool {
        checkpoint::exists(&out.join("last")).unwrap_or(false)
    }

    /// Measures the validation loss of the run in a folder: of its best model, or else of its last.
    pub fn evaluate(out: &Path, changes: &[String], device: &Device) -> Result<RunEvaluation> {
        if !Self::is_at(out) {
            return Err(RunError::NoRun(out.to_owned()).into());
        }
        let config = RunConfig::of_run(&out.join(SETTINGS), changes)?;
        let best = out.join("best");
        let folder = if best.is_dir() { best } else { out.join("last") };
        let opened = open_run_data(&config, Some(&folder), &BaseFormat::of(Some(&folder))?, None)?;
        let gpt = load(&folder, device)?.gpt;
        measure(&config, opened, &gpt, Some(folder))
    }

    /// Measures the validation loss of the model that a new run would start from.
    pub fn evaluate_start(
        mut config: RunConfig,
        from: Option<&Path>,
        device: &Device,
    ) -> Result<RunEvaluation> {
        let from = from.map(ModelPlace::find).transpose()?;
        let from = from.as_ref().map(|place| place.path.as_path());
        let asked = std::mem::take(&mut config.asked);
        from.map_or(Ok(()), |from| base::check(from, &asked))?;
        let context = from.map(|from| model::context(&config, from, &asked)).transpose()?;
        let opened = open_run_data(&config, from, &BaseFormat::of(from)?, context)?;
        check_settings_apply(&config, &asked, opened.kind)?;
        config.model = model::shape(&config, &opened.data, from, context, &asked)?;
        check_memory(&config, 1)?;
        let gpt = model::model(&config, from, device)?.gpt;
        measure(&config, opened, &gpt, from.map(Path::to_owned))
    }
}

fn measure(
    config: &RunConfig,
    opened: OpenedData,
    gpt: &Gpt,
    model: Option<PathBuf>,
) -> Result<RunEvaluation> {
    let nothing = || RunError::NoValidation(config.data.path.clone());
    let TrainingData { train, val, .. } = opened.data;
    // A model that is to memorize its data is scored on it.
    let by_heart = (config.train.best_by == BestBy::Answers).then_some(train);
    let mut val = val.or(by_heart).ok_or_else(nothing)?;
    let batches = if config.train.eval_iters == 0 { u64::MAX } else { config.train.eval_iters };
    let workers = Workers::for_model(gpt).map_err(minigpt_train::Error::from)?;
    let evaluation = evaluate(gpt, &mut val, batches, &workers, |_| {})?;
    let loss = evaluation.loss().ok_or_else(nothing)?;
    Ok(RunEvaluation { model, loss, tokens: evaluation.tokens, notes: opened.notes })
}
