//! Models on disk, of any kind, before they are in memory: what they are, and which tokenizer belongs to them.

use crate::error::{Error, Result};
use crate::folder::{Kind, ModelFiles, StoredModel};
use crate::gguf_tokens::gguf_tokenizer;
use crate::nanogpt_meta::read_meta;
use minigpt_model::{Config, Source};
use minigpt_tokenizer::Tokenizer;
use std::path::{Path, PathBuf};

/// A model folder, a checkpoint of nanoGPT's or a GGUF file.
pub struct OnDisk {
    /// Where it is.
    pub path: PathBuf,
    files: ModelFiles,
}

/// GPT-2's tokens; nanoGPT rounds their number up.
const GPT2_TOKENS: [usize; 2] = [50_257, 50_304];

impl OnDisk {
    /// Finds the files of a model.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { path: path.to_owned(), files: ModelFiles::open(path)? })
    }

    /// Who writes such files.
    pub fn kind(&self) -> Kind {
        self.files.kind()
    }

    /// The model, checked and not yet in memory.
    pub fn model(&self) -> Result<StoredModel<'_>> {
        Ok(self.files.model()?)
    }

    /// The bytes of a GGUF file, if it is one.
    pub fn gguf(&self) -> Option<&[u8]> {
        self.files.gguf()
    }

    /// The tokenizer that is named (`gpt2`, a file, a folder, nanoGPT's `meta.pkl`), or the one that lies with the model,
    /// and where it came from.
    ///
    /// # Errors
    /// It has more tokens than the model.
    pub fn tokenizer(&self, named: Option<&str>, config: &Config) -> Result<Option<(Tokenizer, String)>> {
        let found = match named {
            Some(name) => Some((by_name(name)?, name.to_owned())),
            None => self.beside(config)?,
        };
        if let Some((tokenizer, name)) = &found {
            let (tokens, vocab_size) = (tokenizer.vocab_size(), config.vocab_size);
            if tokens > vocab_size {
                let message = format!(
                    "{name}: the tokenizer has {tokens} tokens, but the model was made for {vocab_size}: these two do \
                     not belong together"
                );
                return Err(Error::bad(&self.path, message));
            }
        }
        Ok(found)
    }

    /// The tokenizer that lies with the model, if there is one.
    pub fn own_tokenizer(&self) -> Result<Option<Tokenizer>> {
        Ok(self.tokenizer(None, self.model()?.config())?.map(|(tokenizer, _)| tokenizer))
    }

    /// The tokenizer in a folder or a GGUF file, the vocabulary beside a checkpoint, or GPT-2's if the number of tokens is
    /// its.
    fn beside(&self, config: &Config) -> Result<Option<(Tokenizer, String)>> {
        if let Some(bytes) = self.gguf() {
            let tokenizer = gguf_tokenizer(bytes, &self.path)?;
            return Ok(tokenizer.map(|tokenizer| (tokenizer, "from the GGUF file".to_owned())));
        }
        if self.path.is_dir() {
            let held = ["tokenizer.json", "vocab.json"].iter().find(|name| self.path.join(name).exists());
            let Some(name) = held else { return Ok(None) };
            let tokenizer = Tokenizer::open(&self.path)?;
            return Ok(Some((tokenizer, (*name).to_owned())));
        }
        let meta = self.path.with_file_name("meta.pkl");
        if meta.exists() {
            return Ok(Some((read_meta(&meta)?, "meta.pkl".to_owned())));
        }
        let is_gpt2 = GPT2_TOKENS.contains(&config.vocab_size);
        Ok(is_gpt2.then(|| (Tokenizer::gpt2(), "gpt2, by its number of tokens".to_owned())))
    }
}

fn by_name(name: &str) -> Result<Tokenizer> {
    let path = Path::new(name);
    if path.extension().is_some_and(|end| end == "pkl") {
        return read_meta(path);
    }
    match name {
        "gpt2" => Ok(Tokenizer::gpt2()),
        _ => Ok(Tokenizer::open(path)?),
    }
}

/// The largest difference between the logits of two models for a fixed prompt, and the largest logit. A layer of each
/// is in memory at a time.
pub fn compare_logits(one: Source, other: Source) -> Result<(f32, f32)> {
    let length = one.config.block_size.min(32);
    let ids: Vec<u32> = (0..length).map(|i| ((i * 7919 + 11) % one.config.vocab_size) as u32).collect();
    if one.config.vocab_size != other.config.vocab_size || one.config.block_size != other.config.block_size {
        return Err(Error::Different("the two models have different shapes".to_owned()));
    }
    let logits = |model: Source| -> Result<Vec<f32>> { Ok(model.logits(&ids)?.flatten_all()?.to_vec1()?) };
    let (one, other) = (logits(one)?, logits(other)?);
    let difference = one.iter().zip(&other).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
    Ok((difference, one.iter().fold(0f32, |most, a| most.max(a.abs()))))
}
