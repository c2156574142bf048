//! Values checked against their declarations.

use super::{SettingError, find, near};
use minigpt_settings::{Allowed, Section, SettingInfo};
use toml::{Table, Value};

/// Reads the settings of a section; those that are not given are as in `base`.
///
/// # Errors
/// An unknown setting, or a value that a setting does not accept.
pub(crate) fn read<T: Section>(given: &Table, base: &T) -> Result<T, SettingError> {
    let parser = |error: toml::de::Error| SettingError::Syntax(error.message().to_owned());
    let mut table = Table::try_from(base).map_err(|error| SettingError::Syntax(error.to_string()))?;
    for (key, value) in given {
        let setting = known(T::NAME, key)?;
        let value = accepted(setting, value)?;
        let alone: Table = [(key.clone(), value.clone())].into_iter().collect();
        // Only the type knows what is allowed in a text or in a table of names.
        alone.try_into::<T>().map_err(|error| SettingError::Malformed {
            name: setting.name(),
            value: shown(&value),
            problem: error.message().to_owned(),
        })?;
        table.insert(key.clone(), value);
    }
    table.try_into().map_err(parser)
}

/// The declaration of a setting.
pub(crate) fn known(section: &str, key: &str) -> Result<&'static SettingInfo, SettingError> {
    find(section, key).ok_or_else(|| SettingError::Unknown {
        name: format!("{section}.{key}"),
        near: near(Some(section), key),
    })
}

/// The value in the type of its setting: `1e3` is a whole number, too, and `1` a number.
fn accepted(setting: &SettingInfo, value: &Value) -> Result<Value, SettingError> {
    let allowed = setting.allowed;
    let accepted = match (allowed, value) {
        (Allowed::Whole(..), Value::Float(number)) => whole(*number).map(Value::Integer),
        (Allowed::Number(..), Value::Integer(number)) => Some(Value::Float(*number as f64)),
        (Allowed::Whole(..), Value::Integer(_))
        | (Allowed::Number(..), Value::Float(_))
        | (Allowed::Switch, Value::Boolean(_))
        | (Allowed::Text | Allowed::Word(_), Value::String(_))
        | (Allowed::Names, Value::Table(_)) => Some(value.clone()),
        _ => None,
    };
    let accepted = accepted.filter(|value| match value {
        Value::Integer(number) => u64::try_from(*number).is_ok_and(|number| allowed.holds_whole(number)),
        Value::Float(number) => allowed.holds_number(*number),
        Value::String(text) => !matches!(allowed, Allowed::Word(words) if !words.contains(&text.as_str())),
        _ => true,
    });
    let refused = || SettingError::NotAllowed { name: setting.name(), value: shown(value), allowed };
    accepted.ok_or_else(refused)
}

/// A float as a whole number, if it is one that floats hold exactly.
fn whole(number: f64) -> Option<i64> {
    const LARGEST: f64 = (1_u64 << 53) as f64;
    (number.fract() == 0.0 && number.abs() <= LARGEST).then_some(number as i64)
}

/// A value as a person would write it: `1e308`, without all of its digits.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Float(number) => format!("{number:?}"),
        value => value.to_string(),
    }
}
