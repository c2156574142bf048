//! The chat template of a model, in the files of Hugging Face's tools or in a GGUF file.

use crate::OnDisk;
use crate::error::{Error, ModelFileProblem, Result};
use crate::gguf::{self, Contents, GgufProblem};
use crate::mapped_model::ExtraKeys;
use minigpt_tokenizer::{PAD, SEP, Tokenizer};
use serde_json::{Map, Value};
use std::path::Path;

/// A chat template and the special tokens that it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatTemplate {
    /// The Jinja source.
    pub source: String,
    /// The special tokens by role: `bos_token`, `eos_token`, …
    pub tokens: Vec<(String, String)>,
}

/// The most bytes that are read of a file.
const LARGEST: u64 = 16 << 20;

impl ChatTemplate {
    /// The template of a model folder or a GGUF file, if it has one.
    pub fn of(model: &OnDisk) -> Result<Option<Self>> {
        match model.gguf() {
            Some(bytes) => Self::of_gguf(bytes).map_err(|problem| Error::bad(&model.path, problem)),
            None if model.path.is_dir() => Self::of_folder(&model.path),
            None => Ok(None),
        }
    }

    /// The template of question/answer training, for a vocabulary with `<sep>`. Used for models without a template of their own.
    pub fn of_questions(tokenizer: &Tokenizer) -> Option<Self> {
        tokenizer.special_id(SEP)?;
        let named = [("eos_token", SEP), ("pad_token", PAD)].into_iter();
        let tokens = named.filter(|(_, token)| tokenizer.special_id(token).is_some());
        Some(Self {
            source: format!("{{{{ messages[-1]['content'] }}}}{SEP}"),
            tokens: tokens.map(|(role, token)| (role.to_owned(), token.to_owned())).collect(),
        })
    }

    /// The token in a role such as `eos_token`.
    pub fn token(&self, role: &str) -> Option<&str> {
        self.tokens.iter().find(|(known, _)| known == role).map(|(_, token)| token.as_str())
    }

    /// The keys of a `config.json` that say where texts begin and end, such as `eos_token_id`.
    pub fn config_keys(&self, tokenizer: &Tokenizer) -> ExtraKeys {
        let id = |role: &str| Some((format!("{role}_id"), tokenizer.special_id(self.token(role)?)?.into()));
        ["bos_token", "eos_token", "pad_token"].into_iter().filter_map(id).collect()
    }

    fn of_folder(folder: &Path) -> Result<Option<Self>> {
        let config = tokenizer_config(folder)?;
        let inside = config.get("chat_template").and_then(Value::as_str).map(str::to_owned);
        let Some(source) = read(&folder.join("chat_template.jinja"))?.or(inside) else { return Ok(None) };
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            other => other.get("content").and_then(Value::as_str).map(str::to_owned),
        };
        let tokens = config.iter().filter(|(name, _)| name.ends_with("_token"));
        let tokens = tokens.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect();
        Ok(Some(Self { source, tokens }))
    }

    fn of_gguf(bytes: &[u8]) -> Result<Option<Self>, GgufProblem> {
        let contents = Contents::read(bytes)?;
        let Some(source) = contents.text("tokenizer.chat_template") else { return Ok(None) };
        let name = |role: &str| {
            let id = match role {
                "eos" => contents.end()?,
                role => contents.id(&format!("tokenizer.ggml.{role}_token_id"))?,
            };
            let Some(gguf::Value::Strs(tokens)) = contents.value("tokenizer.ggml.tokens") else {
                return None;
            };
            Some((format!("{role}_token"), tokens.get(id as usize)?.clone()))
        };
        Ok(Some(Self {
            source: source.to_owned(),
            tokens: ["bos", "eos"].into_iter().filter_map(name).collect(),
        }))
    }

    /// Writes the template into a model folder, where Hugging Face's tools look for it.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let mut config = tokenizer_config(folder)?;
        for (role, token) in &self.tokens {
            config.insert(role.clone(), token.clone().into());
        }
        let config = serde_json::to_string_pretty(&config).unwrap_or_default() + "\n";
        minigpt_files::write_file(&folder.join("tokenizer_config.json"), config.as_bytes())?;
        Ok(minigpt_files::write_file(&folder.join("chat_template.jinja"), self.source.as_bytes())?)
    }
}

fn tokenizer_config(folder: &Path) -> Result<Map<String, Value>> {
    let path = folder.join("tokenizer_config.json");
    match read(&path)? {
        Some(text) => serde_json::from_str(&text)
            .map_err(|e| Error::bad(&path, ModelFileProblem::NotJson(e.to_string()))),
        None => Ok(Map::new()),
    }
}

/// The contents of a text file, if it exists.
fn read(path: &Path) -> Result<Option<String>> {
    match minigpt_files::read_text(path, LARGEST) {
        Err(error) if error.is_missing() => Ok(None),
        text => Ok(Some(text?)),
    }
}
