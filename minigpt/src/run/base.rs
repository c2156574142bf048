//! A model that is trained further decides its own shape and tokenizer. Settings that say otherwise are refused where they were
//! asked for by name, and reported where a configuration file has them.

use crate::error::{Error, Result};
use crate::model_place::ModelPlace;
use crate::settings;
use minigpt_data::TokenizerChoice;
use minigpt_formats::{OnDisk, load_config};
use minigpt_model::Config;
use minigpt_tokenizer::Tokenizer;
use minigpt_train::Change;
use serde_json::{Map, Value};
use std::path::Path;
use toml::Table;

/// What is not a part of a model's shape: it may be another for every training.
const OF_TRAINING: [&str; 6] = ["dropout", "embd_pdrop", "attn_pdrop", "resid_pdrop", "block_size", "init"];

/// Refuses changes (with their sections) of what the model in a folder decides, unless they say the same.
pub(super) fn check(base: &Path, changes: &[String]) -> Result<()> {
    for change in changes {
        let (name, value) = settings::split(change)?;
        if let Some(key) = name.strip_prefix("model.") {
            let model = load_config(base)?;
            if let Some((other, then, _)) = first_difference(&model, &with(&model, key, value.clone())?) {
                let (shown, base) = (settings::shown(&value), base.display());
                let message = format!(
                    "{name} is {shown}, but the model in {base} has model.{other} = {then}: it keeps its shape when it is trained further"
                );
                return Err(Error::Setting(message));
            }
        } else if name == "data.tokenizer"
            && let Some(wanted) = value.as_str()
            && let Some(own) = OnDisk::open(base)?.own_tokenizer()?
            && !is_named(&own, wanted)?
        {
            let base = base.display();
            let message = format!(
                "data.tokenizer is {wanted}, but the model in {base} has a tokenizer of its own, with which it goes on: leave data.tokenizer out"
            );
            return Err(Error::Setting(message));
        }
    }
    Ok(())
}

/// A model with another setting of its shape. What belongs to training changes nothing.
fn with(model: &Config, key: &str, value: toml::Value) -> Result<Config> {
    let is_shape = !OF_TRAINING.contains(&key);
    match value.as_str() {
        _ if !is_shape => Ok(model.clone()),
        Some(name) if key == "preset" => {
            let Config { vocab_size, block_size, .. } = *model;
            Ok(Config { vocab_size, block_size, ..Config::preset(name)? })
        }
        _ => settings::set(model.clone(), key, value),
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

/// Whether a tokenizer is the one that a setting names. One that would be learned from the data is taken for it if it is of the
/// same kind and size.
fn is_named(own: &Tokenizer, name: &str) -> Result<bool> {
    let choice: TokenizerChoice = name.parse().unwrap_or(TokenizerChoice::Char);
    Ok(match (&choice, own) {
        (TokenizerChoice::Char, own) => matches!(own, Tokenizer::Char(_)),
        (TokenizerChoice::Bpe(size), own) => matches!(own, Tokenizer::Bpe(_)) && own.vocab_size() == *size,
        _ => choice.ready()?.is_some_and(|named| named.fingerprint() == own.fingerprint()),
    })
}

/// The settings in the text of a configuration that a model which is trained further decides otherwise: what the file says, and
/// what holds. The model is found as [`ModelPlace::find`] finds it.
///
/// # Errors
/// There is no such model, or the text is not a configuration.
pub fn decided_by_model(text: &str, from: &Path) -> Result<Vec<Change>> {
    let base = ModelPlace::find(from)?.path;
    let file: Table = text.parse().map_err(|error: toml::de::Error| Error::Setting(error.to_string()))?;
    let section = |name: &str| file.get(name).and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let model = load_config(&base)?;
    let mut decided = Vec::new();
    for (key, value) in section("model") {
        let asked = with(&model, &key, value)?;
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
