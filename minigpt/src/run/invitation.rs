//! How the other ranks learn what the first one is about to train: they open neither its configuration nor its folder.

use super::{Brought, OpenedData, Run, check_memory, open_data};
use crate::error::{Error, Result};
use crate::run_config::RunConfig;
use minigpt_formats::ChatTemplate;
use minigpt_model::{Device, Gpt};
use minigpt_tokenizer::Tokenizer;
use minigpt_train::{Exchange, Trainer, checkpoint};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// No file of a tokenizer is longer than this.
const LARGEST: u64 = 1 << 30;

/// All that a rank needs, but for the data and the weights.
#[derive(Serialize, Deserialize)]
pub(super) struct Invitation {
    /// The configuration as it was resolved, as TOML.
    config: String,
    /// The files of the tokenizer, by name, where the model that is trained further brings it.
    tokenizer: Option<Vec<(String, String)>>,
    /// Its chat template: the source, and its tokens by role.
    template: Option<(String, Vec<(String, String)>)>,
    /// The tokens that end an answer in it.
    ends: Vec<u32>,
    /// Where the run stands, as its checkpoint has it; none for a new one.
    state: Option<String>,
}

impl Invitation {
    pub fn new(config: &RunConfig, brought: &Brought, state: Option<String>) -> Result<Self> {
        let Brought { tokenizer, template, ends } = brought;
        let template = template.as_ref().map(|template| (template.source.clone(), template.tokens.clone()));
        let tokenizer = tokenizer.as_ref().map(packed).transpose()?;
        Ok(Self { config: config.to_toml()?, tokenizer, template, ends: ends.clone(), state })
    }

    /// Tells the other ranks, if there are any.
    pub fn send(&self, exchange: &Arc<dyn Exchange>) -> Result<()> {
        if exchange.ranks() > 1 {
            let mut bytes = serde_json::to_vec(self).map_err(|error| Error::Setting(error.to_string()))?;
            exchange.broadcast(&mut bytes)?;
        }
        Ok(())
    }

    fn receive(exchange: &Arc<dyn Exchange>) -> Result<Self> {
        let mut bytes = Vec::new();
        exchange.broadcast(&mut bytes)?;
        let wrong = |error| Error::Setting(format!("rank 0 sent a malformed message: {error}"));
        serde_json::from_slice(&bytes).map_err(wrong)
    }
}

impl Run {
    /// Takes part in a run that the first rank starts or goes on with. The data is opened here, at the same place; nothing
    /// else is read, and nothing is written.
    pub fn join(exchange: Arc<dyn Exchange>, device: &Device) -> Result<Self> {
        let Invitation { config, tokenizer, template, ends, state } = Invitation::receive(&exchange)?;
        let config = RunConfig::parse(&config, &[])?;
        let brought = Brought {
            tokenizer: tokenizer.map(unpacked).transpose()?.map(Tokenizer::leaving_out),
            template: template.map(|(source, tokens)| ChatTemplate { source, tokens }),
            ends,
        };
        let OpenedData { data, bad_lines, kind, notes } =
            open_data(&config, &brought, config.model.block_size)?;
        check_memory(&config, exchange.ranks())?;
        let tokenizer = data.tokenizer.clone();
        let gpt = Gpt::initialized(config.model.clone(), config.init, config.train.seed, device)?;
        let state = state.map(|text| checkpoint::parse_state(&text)).transpose()?;
        let trainer = Trainer::join(exchange, gpt, data, config.train.clone(), state)?;
        Ok(Self { trainer, config, changes: Vec::new(), tokenizer, bad_lines, kind, notes, base: None })
    }
}

/// A tokenizer as the files that it is kept in.
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
        // Only a name, wherever it came from.
        let name = std::path::Path::new(&name).file_name().unwrap_or_default().to_owned();
        std::fs::write(folder.path().join(name), text).map_err(Error::Scratch)?;
    }
    Ok(Tokenizer::open(folder.path())?)
}
