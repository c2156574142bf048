//! What rank 0 broadcasts to the other ranks, which read neither its configuration nor its folder.

use super::data::{OpenedData, open_data};
use super::{BaseFormat, Run, RunError, check_memory};
use crate::error::{Error, Result};
use crate::run_config::RunConfig;
use minigpt_formats::ChatTemplate;
use minigpt_model::{Device, Gpt};
use minigpt_tokenizer::Tokenizer;
use minigpt_train::{Exchange, Trainer, checkpoint};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Maximum length in bytes of a tokenizer's file.
const LARGEST: u64 = 1 << 30;

/// Everything that a rank needs except the data and the weights.
#[derive(Serialize, Deserialize)]
pub(super) struct RunBroadcast {
    /// The configuration as TOML.
    config: String,
    /// The files of the tokenizer by name, if it is that of a model to fine-tune.
    tokenizer: Option<Vec<(String, String)>>,
    /// Its chat template: the source, and its tokens by role.
    template: Option<(String, Vec<(String, String)>)>,
    /// The tokens that end an answer.
    ends: Vec<u32>,
    /// State of the checkpoint, if the run is resumed.
    state: Option<String>,
}

impl RunBroadcast {
    pub fn new(config: &RunConfig, format: &BaseFormat, state: Option<String>) -> Result<Self> {
        let BaseFormat { tokenizer, template, ends } = format;
        let template = template.as_ref().map(|template| (template.source.clone(), template.tokens.clone()));
        let tokenizer = tokenizer.as_ref().map(packed).transpose()?;
        Ok(Self { config: config.to_toml()?, tokenizer, template, ends: ends.clone(), state })
    }

    /// Sends it to the other ranks, if there are any.
    pub fn send(&self, exchange: &Arc<dyn Exchange>) -> Result<()> {
        if exchange.ranks() > 1 {
            let mut bytes = serde_json::to_vec(self).map_err(RunError::Message)?;
            exchange.broadcast(&mut bytes)?;
        }
        Ok(())
    }

    fn receive(exchange: &Arc<dyn Exchange>) -> Result<Self> {
        let mut bytes = Vec::new();
        exchange.broadcast(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes).map_err(RunError::Message)?)
    }
}

impl Run {
    /// Joins a run that rank 0 starts or resumes. This rank opens the data, at the same path, and reads or writes nothing else.
    pub fn join(exchange: Arc<dyn Exchange>, device: &Device) -> Result<Self> {
        let RunBroadcast { config, tokenizer, template, ends, state } = RunBroadcast::receive(&exchange)?;
        let config = RunConfig::parse(&config, &[])?;
        let format = BaseFormat {
            tokenizer: tokenizer.map(unpacked).transpose()?.map(Tokenizer::leaving_out),
            template: template.map(|(source, tokens)| ChatTemplate { source, tokens }),
            ends,
        };
        let OpenedData { data, bad_lines, kind, notes } =
            open_data(&config, &format, config.model.block_size)?;
        check_memory(&config, exchange.ranks())?;
        let tokenizer = data.tokenizer.clone();
        let gpt = Gpt::initialized(config.model.clone(), config.init, config.train.seed, device)?;
        let state = state.map(|text| checkpoint::parse_state(&text)).transpose()?;
        let trainer = Trainer::join(exchange, gpt, data, config.train.clone(), state)?;
        Ok(Self { trainer, config, changes: Vec::new(), tokenizer, bad_lines, kind, notes, base: None })
    }
}

/// The files of a tokenizer.
fn packed(tokenizer: &Tokenizer) -> Result<Vec<(String, String)>> {
    let folder = tempfile::tempdir().map_err(Error::Scratch)?;
    tokenizer.save(folder.path())?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder.path()).map_err(Error::Scratch)? {
        let path = entry.map_err(Error::Scratch)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((name, minigpt_files::read_text(&path, LARGEST)?));
    }
    Ok(files)
}

fn unpacked(files: Vec<(String, String)>) -> Result<Tokenizer> {
    let folder = tempfile::tempdir().map_err(Error::Scratch)?;
    for (name, text) in files {
        // The name comes from another process: no folders.
        let name = std::path::Path::new(&name).file_name().unwrap_or_default().to_owned();
        std::fs::write(folder.path().join(name), text).map_err(Error::Scratch)?;
    }
    Ok(Tokenizer::open(folder.path())?)
}
