//! The model of a run: its shape, its weights, and whether it fits into memory.

use super::RunError;
use crate::error::Result;
use crate::machine;
use crate::run_config::RunConfig;
use crate::settings::Assignment;
use minigpt_formats::{ExtraKeys, Loaded, load, load_config};
use minigpt_model::plan::Plan;
use minigpt_model::{Config, Device, Gpt};
use minigpt_tokenizer::Tokenizer;
use minigpt_train::TrainingData;
use std::path::Path;

fn names(asked: &[Assignment], name: &str) -> bool {
    asked.iter().any(|change| change.name() == name)
}

/// Context length for fine-tuning: the model's own, or a shorter one if a change asks for it.
pub(super) fn context(config: &RunConfig, base: &Path, asked: &[Assignment]) -> Result<usize> {
    let (most, wanted) = (load_config(base)?.block_size, config.model.block_size);
    if !names(asked, "model.block_size") {
        return Ok(most);
    }
    if wanted == 0 || wanted > most {
        return Err(RunError::LongerContext { wanted, base: base.to_owned(), most }.into());
    }
    Ok(wanted)
}

/// Shape of the model: that of the model to fine-tune, or else the configured one with the vocabulary of the data.
pub(super) fn shape(
    config: &RunConfig,
    data: &TrainingData,
    base: Option<&Path>,
    context: Option<usize>,
    asked: &[Assignment],
) -> Result<Config> {
    let tokens = data.tokenizer.as_ref().map(Tokenizer::vocab_size);
    let Some(base) = base else {
        let vocab_size = tokens.unwrap_or(config.model.vocab_size);
        let model = Config { vocab_size, ..config.model.clone() };
        model.validate()?;
        return Ok(model);
    };
    if names(asked, "model.init") {
        return Err(RunError::HasWeights(base.to_owned()).into());
    }
    let model = load_config(base)?;
    let model = Config { block_size: context.unwrap_or(model.block_size), ..model };
    if let Some(tokens) = tokens.filter(|&tokens| tokens > model.vocab_size) {
        return Err(RunError::SmallVocabulary { tokens, model: model.vocab_size }.into());
    }
    // Dropout is a setting of the training, not of the model.
    let Config { embd_pdrop, attn_pdrop, resid_pdrop, .. } = config.model;
    Ok(Config { embd_pdrop, attn_pdrop, resid_pdrop, ..model })
}

/// The model to train: a new one, or the one to fine-tune with everything that its `config.json` says.
pub(super) fn model(config: &RunConfig, from: Option<&Path>, device: &Device) -> Result<Loaded> {
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

/// Rejects a run that does not fit into free memory, before anything is allocated. Each of `ranks` holds a share of the
/// optimizer's moments.
pub(crate) fn check_memory(config: &RunConfig, ranks: usize) -> Result<()> {
    let Some(available) = machine::available_memory() else { return Ok(()) };
    let plan = Plan::new(&config.model, config.train.batch_size, config.model.block_size);
    let moments = plan.train_memory.moments;
    let needed = plan.train_bytes - moments + moments / ranks.max(1) as u64;
    if needed > available { Err(RunError::Memory { needed, available }.into()) } else { Ok(()) }
}
