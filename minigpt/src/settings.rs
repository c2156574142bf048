//! Settings by name: changes as `key=value`, sections of a file, and the nearest known name where one is wrong.

use crate::error::{Error, Result};
use crate::settings_table::{SETTINGS, SettingInfo};
use minigpt_model::Config;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// nanoGPT's names for several switches at once.
const SHORTHANDS: [&str; 2] = ["bias", "dropout"];

/// What people call settings elsewhere, for guesses only.
const ELSEWHERE: [(&str, &str); 14] = [
    ("lr", "learning_rate"),
    ("steps", "max_iters"),
    ("iters", "max_iters"),
    ("max_steps", "max_iters"),
    ("num_epochs", "epochs"),
    ("num_train_epochs", "epochs"),
    ("layers", "n_layer"),
    ("heads", "n_head"),
    ("d_model", "n_embd"),
    ("hidden_size", "n_embd"),
    ("context", "block_size"),
    ("context_length", "block_size"),
    ("n_positions", "block_size"),
    ("max_grad_norm", "grad_clip"),
];

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

/// The section and the key of a setting that was named, with its section or without: `max_iters` is `train.max_iters`.
/// Dashes count as underscores.
pub fn named(name: &str) -> Result<(String, String)> {
    if let Some((section, key)) = name.split_once('.') {
        return Ok((section.to_owned(), key.replace('-', "_")));
    }
    let key = name.replace('-', "_");
    let found: Vec<&SettingInfo> = SETTINGS.iter().filter(|setting| setting.key == key).collect();
    match &found[..] {
        [one] => Ok((one.section.to_owned(), key)),
        [] => Err(Error::NoSetting { name: name.to_owned(), near: near(None, &key) }),
        several => {
            let names: Vec<String> = several.iter().map(|setting| setting.name()).collect();
            refuse(format!("{name} may be {}: name the section too", names.join(" or ")))
        }
    }
}

/// Changes such as `max_iters=10` with their sections: `train.max_iters=10`.
pub fn with_sections(changes: &[String]) -> Result<Vec<String>> {
    let full = |change: &String| {
        let Some((name, value)) = change.split_once('=') else { return Ok(change.clone()) };
        let (section, key) = named(name.trim())?;
        Ok(format!("{section}.{key}={value}"))
    };
    changes.iter().map(full).collect()
}

/// Refuses a setting that no run has.
pub(crate) fn check_name(section: &str, key: &str) -> Result<()> {
    if SETTINGS.iter().any(|setting| setting.section == section && setting.key == key) {
        return Ok(());
    }
    Err(Error::NoSetting { name: format!("{section}.{key}"), near: near(Some(section), key) })
}

/// The setting that a wrong name may mean: the same in another section, what it is called elsewhere, or one that is spelled
/// nearly so.
pub fn near(section: Option<&str>, key: &str) -> Option<String> {
    let key = ELSEWHERE.iter().find(|(other, _)| *other == key).map_or(key, |(_, ours)| ours);
    let others = |setting: &&SettingInfo| section.is_some_and(|section| section != setting.section);
    let misspelled = |setting: &&SettingInfo| Some((misspelling(key, setting.key)?, others(setting)));
    let near = SETTINGS.iter().filter(|setting| misspelled(setting).is_some());
    near.min_by_key(misspelled).map(SettingInfo::name)
}

/// How many letters of a name are wrong, where it is still likely that it means `known`: at most a third of them.
pub fn misspelling(name: &str, known: &str) -> Option<usize> {
    let wrong = strsim::osa_distance(name, known);
    (3 * wrong <= name.chars().count().max(known.chars().count())).then_some(wrong)
}

/// The model with one setting changed.
pub fn set(config: Config, key: &str, value: Value) -> Result<Config> {
    match (key, &value) {
        ("bias", Value::Boolean(bias)) => return Ok(config.with_bias(*bias)),
        ("dropout", Value::Float(p)) => return with_dropout(config, *p),
        ("dropout", Value::Integer(p)) => return with_dropout(config, *p as f64),
        _ if SHORTHANDS.contains(&key) => {
            return refuse(wrong_value("model", key, &value.to_string(), "invalid type"));
        }
        _ => {}
    }
    let mut section = table_of(&config)?;
    section.insert(key.to_owned(), value);
    parse_section("model", section, &config)
}

fn with_dropout(config: Config, p: f64) -> Result<Config> {
    if (0.0..1.0).contains(&p) {
        Ok(config.with_dropout(p))
    } else {
        refuse(format!("model.dropout is {p:?}; it must be 0 to below 1"))
    }
}

/// A section of a configuration. What it does not say is as in `defaults`; what nobody knows is refused.
pub fn parse_section<T: Serialize + DeserializeOwned>(name: &str, section: Table, defaults: &T) -> Result<T> {
    let known = known_keys(name, defaults);
    if let Some(key) = section.keys().find(|key| !known.contains(key)) {
        // Only of this section: there may be no others here.
        let near = near(Some(name), key).filter(|near| near.starts_with(&format!("{name}.")));
        return Err(Error::NoSetting { name: format!("{name}.{key}"), near });
    }
    let mut table = table_of(defaults)?;
    for (key, value) in section {
        let (shown, whole) = (shown(&value), whole(&value));
        table.insert(key.clone(), value);
        // One by one, so that the message can name the setting.
        let Err(error) = table.clone().try_into::<T>() else { continue };
        let Some(whole) = whole else {
            return refuse(wrong_value(name, &key, &shown, error.message()));
        };
        table.insert(key.clone(), Value::Integer(whole.unwrap_or_default()));
        match (whole, table.clone().try_into::<T>()) {
            (Some(_), Ok(_)) => {}
            (None, Ok(_)) => return refuse(format!("{name}.{key} = {shown}: a whole number is needed")),
            (_, Err(_)) => return refuse(wrong_value(name, &key, &shown, error.message())),
        }
    }
    table.try_into().map_err(|error: toml::de::Error| Error::Setting(error.message().to_owned()))
}

/// What to say of a value that a setting can't have. A parser knows types, and a person what may be.
pub(crate) fn wrong_value(section: &str, key: &str, shown: &str, parser: &str) -> String {
    let of_a_type = ["invalid type", "invalid value", "unknown variant"];
    let setting = SETTINGS.iter().find(|setting| setting.section == section && setting.key == key);
    match setting.filter(|_| of_a_type.iter().any(|start| parser.starts_with(start))) {
        Some(setting) => format!("{section}.{key} = {shown}: it must be {}", setting.allowed.rule()),
        None => format!("{section}.{key} = {shown}: {parser}"),
    }
}

/// A value as a person would write it: `1e308`, and not with all of its digits.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Float(number) => format!("{number:?}"),
        value => value.to_string(),
    }
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

/// The digits of a whole number as people write it: `1e3`, `1_000`, `3.0`. Nothing if it is no whole number, or negative.
pub fn whole_number(text: &str) -> Option<String> {
    let digits = text.replace('_', "");
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(digits);
    }
    let number: f64 = digits.parse().ok()?;
    // Up to here every whole number is a float of its own.
    (number >= 0.0 && number.fract() == 0.0 && number <= (1_u64 << 53) as f64).then(|| format!("{number:.0}"))
}

/// The whole number that a number with an exponent is, `1e3`; within, none where it has a fraction or is too large.
fn whole(value: &Value) -> Option<Option<i64>> {
    let Value::Float(number) = value else { return None };
    // Up to here every whole number is a float of its own.
    const MOST: f64 = (1_u64 << 53) as f64;
    Some((number.fract() == 0.0 && number.abs() <= MOST).then_some(*number as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_model::{Activation, NormPosition};

    #[test]
    fn whole_numbers_have_many_spellings() {
        let digits = ["7", "1e3", "1E3", "1_000", "2.5e2", "3.0", "007"].map(whole_number);
        let want = ["7", "1000", "1000", "1000", "250", "3", "007"];
        assert_eq!(digits, want.map(|digits| Some(digits.to_owned())));
        let none = ["1.5", "-1", "1e400", "inf", "nan", "", "ten", "1e-3"];
        assert!(none.iter().all(|text| whole_number(text).is_none()));
    }

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
    fn only_what_is_near_is_guessed() {
        let guess = |name| near(Some("train"), name);
        for name in ["wandb_log", "compile", "backend", "foo", "x", "top_k"] {
            assert_eq!(guess(name), None, "{name}");
        }
        for (name, meant) in [
            ("max_iter", "train.max_iters"),
            ("learning_rat", "train.learning_rate"),
            ("lr", "train.learning_rate"),
            ("layers", "model.n_layer"),
            ("n_embed", "model.n_embd"),
            ("drop_out", "model.dropout"),
            ("batchsize", "train.batch_size"),
        ] {
            assert_eq!(guess(name).as_deref(), Some(meant), "{name}");
        }
    }

    #[test]
    fn mistakes_name_the_key_and_the_nearest_known_one() {
        let refused = |change| format!("{:#}", changed(&[change]).unwrap_err());
        assert_eq!(refused("n_layers=2"), "there is no setting model.n_layers; did you mean model.n_layer?");
        assert_eq!(refused("wandb_log=2"), "there is no setting model.wandb_log");
        assert_eq!(refused("max_iter=2"), "there is no setting model.max_iter");
        assert!(refused("n_layer=two").contains("n_layer = \"two\""), "{}", refused("n_layer=two"));
        assert_eq!(refused("bias=7"), "model.bias = 7: it must be true, false");
        assert!(refused("n_layer").contains("expected key=value"));
        assert!(refused("position_embedding=alibi").contains("rope"));
    }

    /// They were told of "usize", "f64", "a boolean" and "unit variant".
    #[test]
    fn a_value_of_another_kind_is_told_what_may_be() {
        let refused = |change| changed(&[change]).unwrap_err().to_string();
        assert_eq!(refused("n_embd=abc"), "model.n_embd = \"abc\": it must be a whole number, 1 to 262,144");
        assert_eq!(refused("n_embd=-3"), "model.n_embd = -3: it must be a whole number, 1 to 262,144");
        assert_eq!(refused("dropout=x"), "model.dropout = \"x\": it must be a number, 0 to below 1");
        assert_eq!(refused("qkv_bias=maybe"), "model.qkv_bias = \"maybe\": it must be true, false");
        assert_eq!(refused("n_embd=1e308"), "model.n_embd = 1e308: a whole number is needed");
        assert_eq!(refused("dropout=1e308"), "model.dropout is 1e308; it must be 0 to below 1");
        assert_eq!(refused("norm_position=3"), "model.norm_position = 3: it must be one of these: pre, post");
    }
}
