//! A model as a whole: the decoder, the tokenizer that belongs to it, and how it is spoken to.

use crate::error::{Error, Result};
use crate::model_place::ModelPlace;
use minigpt_chat::Format;
use minigpt_data::ExampleFormat;
use minigpt_formats::{ChatTemplate, ExtraKeys, Loaded, OnDisk};
use minigpt_kernels::{ElementType, QuantizedProduct};
use minigpt_model::{Config, Device, Gpt};
use minigpt_tokenizer::Tokenizer;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A model with its tokenizer, which a folder may lack.
#[derive(Debug, Clone)]
pub struct ModelFolder {
    /// The folder or file that was opened: of a run its `best` or `last`, of the hub its place in the cache.
    pub path: PathBuf,
    /// The decoder.
    pub gpt: Gpt,
    /// What else its `config.json` says.
    pub extra: ExtraKeys,
    /// Its tokenizer, if the folder holds one.
    pub tokenizer: Option<Tokenizer>,
    format: OnceLock<Format>,
}

impl ModelFolder {
    /// A model that is in memory already; `path` is where its chat template is looked for, and may be nowhere.
    pub fn new(path: impl Into<PathBuf>, gpt: Gpt, extra: ExtraKeys, tokenizer: Option<Tokenizer>) -> Self {
        Self { path: path.into(), gpt, extra, tokenizer, format: OnceLock::new() }
    }

    /// Opens a model on the CPU: a model folder, a run (its `best`, else its `last`), a GGUF file, nanoGPT's `ckpt.pt`, or
    /// `hf:owner/name` of the hub, which is fetched the first time. Matrices of 2 to 8 bits are multiplied with activations of
    /// 8 bits, as llama.cpp does; see [`Self::open_exact`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(path, &Device::Cpu)
    }

    /// The same on a device.
    pub fn open_on(path: impl AsRef<Path>, device: &Device) -> Result<Self> {
        Self::open_as(path, device, None)
    }

    /// The same with matrices quantised to an element type, if one is given: less memory, more tokens per second, slightly less exact.
    pub fn open_as(
        path: impl AsRef<Path>,
        device: &Device,
        element_type: Option<ElementType>,
    ) -> Result<Self> {
        let mut model = Self::open_exact(path, device, element_type)?;
        model.gpt = model.gpt.with_quantized_product(QuantizedProduct::EightBit)?;
        Ok(model)
    }

    /// The same, dequantizing quantized weights and multiplying in f32: slower, exact.
    pub fn open_exact(
        path: impl AsRef<Path>,
        device: &Device,
        element_type: Option<ElementType>,
    ) -> Result<Self> {
        let ModelPlace { path, .. } = ModelPlace::find(path)?;
        let files = OnDisk::open(&path)?;
        let model = files.model()?;
        let config = model.config().clone();
        let (tokenizer, loaded) =
            rayon::join(|| files.tokenizer(None, &config), || model.load_as(device, element_type));
        let tokenizer = tokenizer?.map(|(tokenizer, _)| tokenizer.leaving_out());
        let Loaded { gpt, extra } = loaded?;
        Ok(Self::new(path, gpt, extra, tokenizer))
    }

    /// Warnings about files that do not match each other; see [`tokenizer_mismatch`].
    pub fn warnings(&self) -> Vec<TokenizerMismatch> {
        let tokenizer = self.tokenizer.as_ref();
        tokenizer
            .and_then(|tokenizer| tokenizer_mismatch(&self.path, tokenizer, self.gpt.config()))
            .into_iter()
            .collect()
    }

    /// The tokenizer, or an error if there is none.
    pub fn need_tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_ref().ok_or_else(|| Error::NoTokenizer(self.path.clone()))
    }

    /// How the model expects to be spoken to; its files are looked at once.
    pub fn format(&self) -> Result<&Format> {
        match self.format.get() {
            Some(format) => Ok(format),
            None => {
                let template = if minigpt_files::is_there(&self.path)? {
                    ChatTemplate::of(&OnDisk::open(&self.path)?)?
                } else {
                    None
                };
                if template.is_none() {
                    self.need_tokenizer()?;
                }
                let format = Format::choose(template, self.tokenizer.as_ref());
                Ok(self.format.get_or_init(|| format))
            }
        }
    }

    /// The tokens that end a text: those that the model's configuration and its chat template name, and the separator behind
    /// an answer.
    pub fn stop_ids(&self) -> Vec<u32> {
        let template = match self.format() {
            Ok(Format::Template(template)) => Some(template),
            _ => None,
        };
        let tokenizer = self.tokenizer.as_ref();
        let separator = tokenizer.and_then(|tokenizer| tokenizer.special_id(minigpt_tokenizer::SEP));
        let vocab_size = self.gpt.config().vocab_size;
        let mut ids = ending_ids(&self.extra, template, tokenizer);
        ids.extend(separator);
        ids.retain(|&id| (id as usize) < vocab_size);
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// How the model learns from examples and is asked them: in its own chat template, where it has one. None for question,
    /// separator, answer, separator.
    pub fn example_format(&self) -> Result<Option<ExampleFormat>> {
        let Some(tokenizer) = &self.tokenizer else { return Ok(None) };
        Ok(match self.format()? {
            Format::Template(template) => {
                let ends = ending_ids(&self.extra, Some(template), Some(tokenizer));
                Format::of_examples(template, tokenizer, ends)
            }
            Format::Qa | Format::Plain => None,
        })
    }

    /// The ids of a text in which the names of special tokens mean those tokens.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.need_tokenizer()?.encode_with_special(text)?)
    }
}

/// Returns a warning if the tokenizer's vocabulary is larger than that of the model at `path`, or much smaller. Slightly smaller
/// is fine: vocabularies of models are often padded to a round number.
pub fn tokenizer_mismatch(path: &Path, tokenizer: &Tokenizer, config: &Config) -> Option<TokenizerMismatch> {
    let (tokens, model) = (tokenizer.vocab_size(), config.vocab_size);
    let mismatch = || TokenizerMismatch { path: path.to_owned(), tokens, model };
    (tokens > model || 10 * tokens < 9 * model).then(mismatch)
}

/// A tokenizer whose vocabulary does not fit its model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizerMismatch {
    /// Path of the model.
    pub path: PathBuf,
    /// Vocabulary size of the tokenizer.
    pub tokens: usize,
    /// Vocabulary size of the model.
    pub model: usize,
}

impl fmt::Display for TokenizerMismatch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { path, tokens, model } = self;
        let path = path.display();
        write!(
            f,
            "{path}: the tokenizer has {tokens} tokens, but the model {model}: it probably belongs to another model"
        )
    }
}

/// As the message.
impl Serialize for TokenizerMismatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The tokens that end a text, by a model's chat template and its configuration, in this order.
pub(crate) fn ending_ids(
    extra: &ExtraKeys,
    template: Option<&ChatTemplate>,
    tokenizer: Option<&Tokenizer>,
) -> Vec<u32> {
    let special = |name: &str| tokenizer?.special_id(name);
    let named = match extra.get("eos_token_id") {
        Some(Value::Array(ids)) => ids.iter().collect(),
        named => Vec::from_iter(named),
    };
    let named = named.into_iter().filter_map(|id| u32::try_from(id.as_u64()?).ok());
    template
        .and_then(|template| template.token("eos_token"))
        .and_then(special)
        .into_iter()
        .chain(named)
        .collect()
}
