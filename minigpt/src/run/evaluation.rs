//! The validation loss of a run's model, or of the one that a run would begin with, without a step and without a trace.

use super::{
    Brought, OpenedData, Run, SETTINGS, base, check_memory, check_used, context, model, named_settings,
    open_run_data, shape,
};
use crate::error::{Error, Result};
use crate::model_place::ModelPlace;
use crate::run_config::RunConfig;
use crate::settings;
use minigpt_formats::load;
use minigpt_model::{Device, Gpt};
use minigpt_train::{BestBy, TrainingData, Workers, checkpoint, evaluate};
use std::path::{Path, PathBuf};

/// How well a model predicts the validation part of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvaluation {
    /// The model's folder; none for weights that were only drawn.
    pub model: Option<PathBuf>,
    /// The mean over tokens.
    pub loss: f64,
    /// The tokens that were predicted.
    pub tokens: u64,
    /// What a person should know about the data, as [`Run::notes`] says it.
    pub notes: Vec<String>,
}

impl Run {
    /// Whether a folder holds a run that could go on.
    pub fn is_at(out: &Path) -> bool {
        checkpoint::exists(&out.join("last")).unwrap_or(false)
    }

    /// The validation loss of the run in a folder: of its best model, or else of its last. Nothing is written.
    pub fn evaluate(out: &Path, changes: &[String], device: &Device) -> Result<RunEvaluation> {
        if !Self::is_at(out) {
            return Err(Error::NoRun(out.to_owned()));
        }
        let config = RunConfig::of_run(&out.join(SETTINGS), &settings::with_sections(changes)?)?;
        let best = out.join("best");
        let folder = if best.is_dir() { best } else { out.join("last") };
        let opened = open_run_data(&config, Some(&folder), &Brought::by(Some(&folder))?, None)?;
        let gpt = load(&folder, device)?.gpt;
        measure(&config, opened, &gpt, Some(folder))
    }

    /// The validation loss of the model that a new run would begin with. Nothing is written.
    pub fn evaluate_start(
        mut config: RunConfig,
        from: Option<&Path>,
        device: &Device,
    ) -> Result<RunEvaluation> {
        let from = from.map(ModelPlace::find).transpose()?;
        let from = from.as_ref().map(|place| place.path.as_path());
        let asked = std::mem::take(&mut config.asked);
        from.map_or(Ok(()), |from| base::check(from, &asked))?;
        let named = named_settings(&asked);
        let context = from.map(|from| context(&config, from, &named)).transpose()?;
        let opened = open_run_data(&config, from, &Brought::by(from)?, context)?;
        check_used(&config, &asked, opened.kind)?;
        config.model = shape(&config, &opened.data, from, context, &named)?;
        check_memory(&config, 1)?;
        let gpt = model(&config, from, device)?.gpt;
        measure(&config, opened, &gpt, from.map(Path::to_owned))
    }
}

fn measure(
    config: &RunConfig,
    opened: OpenedData,
    gpt: &Gpt,
    model: Option<PathBuf>,
) -> Result<RunEvaluation> {
    let nothing = || Error::Data(format!("{}: there is no validation part", config.data.path));
    let TrainingData { train, val, .. } = opened.data;
    // What is to be known by heart is judged by itself.
    let by_heart = (config.train.best_by == BestBy::Answers).then_some(train);
    let mut val = val.or(by_heart).ok_or_else(nothing)?;
    let batches = if config.train.eval_iters == 0 { u64::MAX } else { config.train.eval_iters };
    let workers = Workers::for_model(gpt).map_err(minigpt_train::Error::from)?;
    let evaluation = evaluate(gpt, &mut val, batches, &workers, |_| {})?;
    let loss = evaluation.loss().ok_or_else(nothing)?;
    Ok(RunEvaluation { model, loss, tokens: evaluation.tokens, notes: opened.notes })
}
