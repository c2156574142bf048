//! One setting by name and its value: `max_iters=100`.

use super::{SettingError, find, near};
use crate::settings::SETTINGS;
use minigpt_settings::{Allowed, SettingInfo};
use toml::Value;

/// A setting with the value that it is to have, not yet checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The setting.
    pub setting: &'static SettingInfo,
    /// Its value.
    pub value: Value,
}

impl Assignment {
    /// Parses `key=value` or `section.key=value`.
    ///
    /// # Errors
    /// There is no `=`, or no such setting.
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        let (name, value) = split(text)?;
        let setting = named(name)?;
        Ok(Self { setting, value: parse_value(setting, value) })
    }

    /// The same for a setting of a model's shape; other settings are unknown.
    pub(super) fn of_model(text: &str) -> Result<Self, SettingError> {
        let (name, value) = split(text)?;
        let key = name.strip_prefix("model.").unwrap_or(name).replace('-', "_");
        let is_shape = |setting: &&SettingInfo| !["preset", "init"].contains(&setting.key);
        let setting = find("model", &key).filter(is_shape).ok_or_else(|| SettingError::Unknown {
            name: format!("model.{key}"),
            near: near(Some("model"), &key).filter(|near| near.starts_with("model.")),
        })?;
        Ok(Self { setting, value: parse_value(setting, value) })
    }

    /// Section and key of the setting.
    pub fn name(&self) -> String {
        self.setting.name()
    }
}

fn split(text: &str) -> Result<(&str, &str), SettingError> {
    let (name, value) = text.split_once('=').ok_or_else(|| SettingError::NoValue(text.to_owned()))?;
    Ok((name.trim(), value.trim()))
}

/// The setting with this name, with its section or without.
pub(super) fn named(name: &str) -> Result<&'static SettingInfo, SettingError> {
    let (section, key) = match name.split_once('.') {
        Some((section, key)) => (Some(section), key.replace('-', "_")),
        None => (None, name.replace('-', "_")),
    };
    let found = match section {
        Some(section) => find(section, &key),
        None => SETTINGS.iter().find(|setting| setting.key == key),
    };
    found.ok_or_else(|| SettingError::Unknown { name: name.to_owned(), near: near(section, &key) })
}

/// A number, switch, table or quoted text as in a file; anything else is text. A setting that takes any text takes it as it is.
fn parse_value(setting: &SettingInfo, text: &str) -> Value {
    let parsed = text.parse::<Value>().ok();
    let parsed = parsed.filter(|value| setting.allowed != Allowed::Text || value.is_str());
    parsed.unwrap_or_else(|| text.into())
}
