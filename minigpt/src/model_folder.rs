//! A model folder as a whole: the decoder and the tokenizer that belongs to it.

use crate::error::{Error, Result};
use minigpt_formats::{ExtraKeys, Loaded, OnDisk};
use minigpt_kernels::ElementType;
use minigpt_model::{Device, Gpt};
use minigpt_tokenizer::Tokenizer;
use std::path::{Path, PathBuf};

/// A model with its tokenizer, which a folder may lack.
#[derive(Debug, Clone)]
pub struct ModelFolder {
    /// Where it came from.
    pub path: PathBuf,
    /// The decoder.
    pub gpt: Gpt,
    /// What else its `config.json` says.
    pub extra: ExtraKeys,
    /// Its tokenizer, if the folder holds one.
    pub tokenizer: Option<Tokenizer>,
}

impl ModelFolder {
    /// Opens a folder (or a GGUF file, or nanoGPT's checkpoint), and makes sure that its tokenizer fits its model.
    pub fn open(path: &Path, device: &Device) -> Result<Self> {
        Self::open_as(path, device, None)
    }

    /// The same with matrices quantised to an element type, if one is given: less memory and more tokens a second, a little less exact.
    pub fn open_as(path: &Path, device: &Device, element_type: Option<ElementType>) -> Result<Self> {
        let files = OnDisk::open(path)?;
        let model = files.model()?;
        let tokenizer = files.tokenizer(None, model.config())?.map(|(tokenizer, _)| tokenizer.leaving_out());
        let Loaded { gpt, extra } = model.load_as(device, element_type)?;
        Ok(Self { path: path.to_owned(), gpt, extra, tokenizer })
    }

    /// The tokenizer, or an error that says that there is none.
    pub fn need_tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_ref().ok_or_else(|| Error::NoTokenizer(self.path.clone()))
    }

    /// The tokens that end a text: the one that the model's configuration names, and the separator behind an answer.
    pub fn stop_ids(&self) -> Vec<u32> {
        let named = self.extra.get("eos_token_id").and_then(serde_json::Value::as_u64);
        let separator =
            self.tokenizer.as_ref().and_then(|tokenizer| tokenizer.special_id(minigpt_tokenizer::SEP));
        let vocab_size = self.gpt.config().vocab_size;
        let known = named.and_then(|id| u32::try_from(id).ok()).into_iter().chain(separator);
        known.filter(|&id| (id as usize) < vocab_size).collect()
    }

    /// The ids of a text in which the names of special tokens mean those tokens.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.need_tokenizer()?.encode_with_special(text)?)
    }
}
