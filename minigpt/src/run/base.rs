//! A model that is fine-tuned decides its shape and tokenizer. A change that says otherwise is an error; in a configuration
//! file it is only reported.

use super::RunError;
use crate::error::Result;
use crate::model_place::ModelPlace;
use crate::settings::{self, Assignment, SettingError, known};
use minigpt_data::TokenizerChoice;
use minigpt_formats::{OnDisk, load_config};
use minigpt_model::Config;
use minigpt_tokenizer::Tokenizer;
use minigpt_train::Change;
use serde_json::{Map, Value};
use std::path::Path;
use toml::Table;

/// Settings of `[model]` that belong to the training rather than to the shape.
const OF_TRAINING: [&str; 6] = ["dropout", "embd_pdrop", "attn_pdrop", "resid_pdrop", "block_size", "init"];

/// Rejects changes of what the model in a folder decides, unless they say the same.
pub(super) fn check(base: &Path, changes: &[Assignment]) -> Result<()> {
    for change in changes {
        let (name, value) = (change.name(), &change.value);
        if change.setting.section == "model" {
            let model = load_config(base)?;
            if let Some((key, has, _)) = first_difference(&model, &with(&model, change)?) {
                let (value, has) = (settings::shown(value), has.to_string());
                return Err(RunError::OtherShape { name, value, base: base.to_owned(), key, has }.into());
            }
        } else if name == "data.tokenizer"
            && let Some(wanted) = value.as_str()
            && let Some(own) = OnDisk::open(base)?.own_tokenizer()?
            && !is_named(&own, wanted)?
        {
            let (wanted, base) = (wanted.to_owned(), base.to_owned());
            return Err(RunError::OtherTokenizer { wanted, base }.into());
        }
    }
    Ok(())
}

/// A model with one setting of its shape changed. Settings of the training change nothing.
fn with(model: &Config, change: &Assignment) -> Result<Config> {
    let key = change.setting.key;
    let is_shape = !OF_TRAINING.contains(&key);
    match change.value.as_str() {
        _ if !is_shape => Ok(model.clone()),
        Some(name) if key == "preset" => {
            let Config { vocab_size, block_size, .. } = *model;
            Ok(Config { vocab_size, block_size, ..Config::preset(name)? })
        }
        _ => Ok(settings::set(model.clone(), change)?),
    }
}

/// The first setting of two shapes that differs.
fn first_difference(model: &Config, other: &Config) -> Option<(String, Value, Value)> {
    let fields = |config: &Config| match serde_json::to_value(config) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let other = fields(other);
    let differs = |(key, then): (String, Value)| {
        let now = other.get(&key).cloned().unwrap_or_default();
        (then != now && !OF_TRAINING.contains(&key.as_str())).then_some((key, then, now))
    };
    fields(model).into_iter().find_map(differs)
}

/// Whether a tokenizer is the one that a setting names. For one that would be trained on the data, the same type and size are
/// enough.
fn is_named(own: &Tokenizer, name: &str) -> Result<bool> {
    let choice: TokenizerChoice = name.parse().unwrap_or(TokenizerChoice::Char);
    Ok(match (&choice, own) {
        (TokenizerChoice::Char, own) => matches!(own, Tokenizer::Char(_)),
        (TokenizerChoice::Bpe(size), own) => matches!(own, Tokenizer::Bpe(_)) && own.vocab_size() == *size,
        _ => choice.ready()?.is_some_and(|named| named.fingerprint() == own.fingerprint()),
    })
}

/// The settings in the text of a configuration that a model to fine-tune overrules, from the file's value to the model's. The
/// model is found by [`ModelPlace::find`].
///
/// # Errors
/// There is no such model, or the text is not a configuration.
pub fn decided_by_model(text: &str, from: &Path) -> Result<Vec<Change>> {
    let base = ModelPlace::find(from)?.path;
    let file: Table =
        text.parse().map_err(|error: toml::de::Error| SettingError::Syntax(error.to_string()))?;
    let section = |name: &str| file.get(name).and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let model = load_config(&base)?;
    let mut decided = Vec::new();
    for (key, value) in section("model") {
        let asked = with(&model, &Assignment { setting: known("model", &key)?, value })?;
        if let Some((key, then, now)) = first_difference(&model, &asked)
            && key != "vocab_size"
        {
            let setting = format!("model.{key}");
            decided.retain(|change: &Change| change.setting != setting);
            decided.push(Change { step: 0, setting, from: now, to: then });
        }
    }
    let wanted = section("data").remove("tokenizer");
    if let Some(wanted) = wanted.as_ref().and_then(toml::Value::as_str)
        && let Some(own) = OnDisk::open(&base)?.own_tokenizer()?
        && !is_named(&own, wanted)?
    {
        let setting = "data.tokenizer".to_owned();
        decided.push(Change { step: 0, setting, from: wanted.into(), to: "the model's own".into() });
    }
    Ok(decided)
}
