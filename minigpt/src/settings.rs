//! Settings by name: changes as `key=value`, sections of a file, and the nearest known name where one is wrong.

use crate::error::{Error, Result};
use minigpt_model::Config;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// nanoGPT's names for several switches at once.
const SHORTHANDS: [&str; 2] = ["bias", "dropout"];

/// The model with changes such as `n_layer=2`, `model.bias=false` or `activation_function=relu`.
pub fn change(config: Config, changes: &[String]) -> Result<Config> {
    changes.iter().try_fold(config, |config, change| {
        let (key, value) = split(change)?;
        set(config, key.strip_prefix("model.").unwrap_or(key), value)
    })
}

/// The two sides of `key=value`; the value is a number, a switch, or else a plain word.
pub fn split(change: &str) -> Result<(&str, Value)> {
    let Some((key, value)) = change.split_once('=') else {
        return refuse(format!("{change}: expected key=value, for example n_layer=2"));
    };
    let (key, value) = (key.trim(), value.trim());
    let parsed = format!("value = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    Ok((key, parsed.unwrap_or_else(|| value.into())))
}

/// The model with one setting changed.
pub fn set(config: Config, key: &str, value: Value) -> Result<Config> {
    match (key, &value) {
        ("bias", Value::Boolean(bias)) => return Ok(config.with_bias(*bias)),
        ("dropout", Value::Float(p)) => return Ok(config.with_dropout(*p)),
        ("dropout", Value::Integer(p)) => return Ok(config.with_dropout(*p as f64)),
        _ if SHORTHANDS.contains(&key) => {
            return refuse(format!("model.{key} = {value}: expected {}", shorthand(key)));
        }
        _ => {}
    }
    let mut section = table_of(&config)?;
    section.insert(key.to_owned(), value);
    parse_section("model", section, &config)
}

fn shorthand(key: &str) -> &'static str {
    if key == "bias" { "true or false" } else { "a number" }
}

/// A section of a configuration. What it does not say is as in `defaults`; what nobody knows is refused.
pub fn parse_section<T: Serialize + DeserializeOwned>(name: &str, section: Table, defaults: &T) -> Result<T> {
    let known = known_keys(name, defaults);
    if let Some(key) = section.keys().find(|key| !known.contains(key)) {
        let nearest = nearest(key, &known);
        return refuse(format!("there is no setting {name}.{key}; did you mean {name}.{nearest}?"));
    }
    let mut table = table_of(defaults)?;
    for (key, value) in section {
        let shown = value.to_string();
        table.insert(key.clone(), value);
        // One by one, so that the message can name the setting.
        if let Err(error) = table.clone().try_into::<T>() {
            return refuse(format!("{name}.{key} = {shown}: {}", error.message()));
        }
    }
    table.try_into().map_err(|error: toml::de::Error| Error::Setting(error.message().to_owned()))
}

/// A setting that can't be.
pub(crate) fn refuse<T>(message: String) -> Result<T> {
    Err(Error::Setting(message))
}

/// A section as a table.
fn table_of(section: &impl Serialize) -> Result<Table> {
    Table::try_from(section).map_err(|error| Error::Setting(error.to_string()))
}

fn known_keys(name: &str, defaults: &impl Serialize) -> Vec<String> {
    // As JSON, because TOML leaves out what is not set.
    let fields = serde_json::to_value(defaults).unwrap_or_default();
    let fields = fields.as_object().into_iter().flatten().map(|(key, _)| key.clone());
    let shorthands = SHORTHANDS.iter().filter(|_| name == "model").map(|&key| key.to_owned());
    fields.chain(shorthands).collect()
}

fn nearest<'a>(key: &str, known: &'a [String]) -> &'a str {
    let similar = |known: &&String| (1000.0 * strsim::jaro_winkler(key, known)) as u32;
    known.iter().max_by_key(similar).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_model::{Activation, NormPosition};

    fn changed(changes: &[&str]) -> Result<Config> {
        let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
        change(Config::default(), &changes)
    }

    #[test]
    fn numbers_switches_and_words_are_set() {
        let changes =
            ["n_layer=2", "model.n_inner = 100", "activation_function=relu", "norm_position=\"post\""];
        let config = changed(&changes).unwrap();
        assert_eq!((config.n_layer, config.n_inner), (2, Some(100)));
        assert_eq!(
            (config.activation_function, config.norm_position),
            (Activation::Relu, NormPosition::Post)
        );
    }

    #[test]
    fn one_word_switches_all_biases_or_all_dropout() {
        let config = changed(&["bias=false", "dropout=0"]).unwrap();
        assert_eq!(config, Config::default().with_bias(false).with_dropout(0.0));
    }

    #[test]
    fn mistakes_name_the_key_and_the_nearest_known_one() {
        let refused = |change| format!("{:#}", changed(&[change]).unwrap_err());
        assert_eq!(refused("n_layers=2"), "there is no setting model.n_layers; did you mean model.n_layer?");
        assert!(refused("n_layer=two").contains("n_layer = \"two\""), "{}", refused("n_layer=two"));
        assert!(refused("bias=7").contains("bias"), "{}", refused("bias=7"));
        assert!(refused("n_layer").contains("expected key=value"));
        assert!(refused("position_embedding=alibi").contains("rope"));
    }
}
