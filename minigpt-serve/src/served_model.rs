//! A model as it is served: with its engine, and under its names.

use crate::error::Result;
use crate::problem::Problem;
use crate::structured::Grammars;
use minigpt_chat::{Format, ToolForm};
use minigpt_generate::{Engine, EngineConfig, EngineThread};
use minigpt_model::Gpt;
use minigpt_model::parameters::Count;
use minigpt_tokenizer::{END_OF_TEXT, Tokenizer};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a model is made of. Whoever opens models hands these over, so that this crate needs no files.
#[derive(Debug)]
pub struct ModelParts {
    /// What clients call it.
    pub name: String,
    /// What they may call it too.
    pub aliases: Vec<String>,
    /// Where it came from, to be shown.
    pub path: PathBuf,
    /// The decoder. It is wholly in memory from here on: its files may be replaced.
    pub gpt: Gpt,
    /// Its tokenizer; without one only ids can be asked for.
    pub tokenizer: Option<Tokenizer>,
    /// How it is spoken to.
    pub format: Format,
    /// The tokens that end a text.
    pub stop_ids: Vec<u32>,
    /// What its matrices are kept in, to be shown: `f32`, `q8_0`.
    pub dtype: String,
    /// The bytes of its weights.
    pub bytes: u64,
}

/// A model that is being served.
#[derive(Debug)]
pub struct ServedModel {
    /// What clients call it.
    pub name: String,
    /// What they may call it too.
    pub aliases: Vec<String>,
    /// Where it came from.
    pub path: PathBuf,
    /// The decoder.
    pub gpt: Gpt,
    /// Its tokenizer.
    pub tokenizer: Option<Arc<Tokenizer>>,
    /// How it is spoken to.
    pub format: Format,
    /// The names that its chat template mentions.
    pub(crate) template_names: HashSet<String>,
    /// How it writes that it calls a tool, if its template has tools.
    pub(crate) tool_form: Option<ToolForm>,
    /// The tokens that end a text.
    pub stop_ids: Vec<u32>,
    /// What its matrices are kept in.
    pub dtype: String,
    /// The bytes of its weights.
    pub bytes: u64,
    /// Its parameters.
    pub parameters: u64,
    /// Tokens that a text may have with its prompt.
    pub context: usize,
    /// Texts that are written at once.
    pub slots: usize,
    /// Since when it is served, in seconds since 1970.
    pub created: u64,
    /// What writes.
    pub engine: EngineThread,
    pub(crate) grammars: Grammars,
}

impl ServedModel {
    /// Starts the engine of a model.
    pub fn start(parts: ModelParts, config: &EngineConfig) -> Result<Self> {
        let ModelParts { name, aliases, path, gpt, tokenizer, format, stop_ids, dtype, bytes } = parts;
        gpt.read_into_memory();
        let tokenizer = tokenizer.map(Arc::new);
        let (context, slots) = (config.context.min(gpt.config().block_size), config.slots);
        let engine = EngineThread::start(Engine::new(gpt.clone(), tokenizer.clone(), config)?);
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let parameters = Count::of(gpt.config()).total;
        let (template_names, tool_form) = (format.names(), format.tool_form());
        Ok(Self {
            template_names,
            tool_form,
            name,
            aliases,
            path,
            gpt,
            tokenizer,
            format,
            stop_ids,
            dtype,
            bytes,
            parameters,
            context,
            slots,
            created,
            engine,
            grammars: Grammars::default(),
        })
    }

    /// All its names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }

    /// The tokenizer, for routes that can't do without.
    pub fn need_tokenizer(&self) -> Result<&Arc<Tokenizer>, Problem> {
        let none = || Problem::bad("this model has no tokenizer: give token ids, and take ids back");
        self.tokenizer.as_ref().ok_or_else(none)
    }

    /// Whether the model's chat template mentions a name: only what it mentions can change the prompt.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.template_names.contains(name)
    }

    /// The token that a text begins with where there is no prompt.
    pub(crate) fn first_token(&self) -> Option<u32> {
        let named = self.tokenizer.as_ref().and_then(|tokenizer| tokenizer.special_id(END_OF_TEXT));
        named.or_else(|| self.stop_ids.first().copied())
    }

    /// A token by its name: its text, or for a part of a character its bytes, `bytes:\xe4\xbd`. Different tokens of one
    /// vocabulary so have different names, but for special ones that are spelt like others.
    pub(crate) fn token_name(&self, id: u32) -> String {
        let Some(bytes) = self.token_bytes(id) else { return format!("<{id}>") };
        match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                let hex: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
                format!("bytes:{hex}")
            }
        }
    }

    /// The bytes of a token, if the tokenizer knows it.
    pub(crate) fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.tokenizer.as_ref()?.token_bytes(id)
    }
}
