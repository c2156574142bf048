//! A model's configuration from the command line: a preset, and changes to it as `key=value`.

use anyhow::{Result, bail};
use minigpt_model::Config;
use toml::{Table, Value};

/// nanoGPT's names for several switches at once.
const SHORTHANDS: [&str; 2] = ["bias", "dropout"];

/// The configuration with changes such as `n_layer=2`, `model.bias=false` or `activation_function=relu`.
pub fn change(config: Config, changes: &[String]) -> Result<Config> {
    changes.iter().try_fold(config, |config, change| {
        let Some((key, value)) = change.split_once('=') else {
            bail!("--set {change}: expected key=value, for example n_layer=2");
        };
        let key = key.trim();
        set(config, key.strip_prefix("model.").unwrap_or(key), parse(value.trim()))
    })
}

/// A number, a switch, or else a plain word.
fn parse(value: &str) -> Value {
    match format!("value = {value}").parse::<Table>() {
        Ok(mut table) => table.remove("value").unwrap_or_else(|| value.into()),
        Err(_) => value.into(),
    }
}

fn set(config: Config, key: &str, value: Value) -> Result<Config> {
    match (key, &value) {
        ("bias", Value::Boolean(bias)) => return Ok(config.with_bias(*bias)),
        ("dropout", Value::Float(p)) => return Ok(config.with_dropout(*p)),
        ("dropout", Value::Integer(p)) => return Ok(config.with_dropout(*p as f64)),
        _ => {}
    }
    let known = known_keys()?;
    if !known.iter().any(|known| known == key) {
        bail!("there is no model setting {key:?}; did you mean {}?", nearest(key, &known));
    }
    let mut table = Table::try_from(config)?;
    let shown = value.to_string();
    table.insert(key.to_owned(), value);
    match table.try_into() {
        Ok(config) => Ok(config),
        Err(error) => bail!("{key} = {shown}: {}", error.message()),
    }
}

fn known_keys() -> Result<Vec<String>> {
    // n_inner only shows when it is set.
    let table = Table::try_from(Config { n_inner: Some(1), ..Config::default() })?;
    Ok(table.keys().cloned().chain(SHORTHANDS.map(str::to_owned)).collect())
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
        assert_eq!(refused("n_layers=2"), "there is no model setting \"n_layers\"; did you mean n_layer?");
        assert!(refused("n_layer=two").contains("n_layer = \"two\""), "{}", refused("n_layer=two"));
        assert!(refused("bias=7").contains("bias"), "{}", refused("bias=7"));
        assert!(refused("n_layer").contains("expected key=value"));
        assert!(refused("position_embedding=alibi").contains("rope"));
    }
}
