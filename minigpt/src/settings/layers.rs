//! A configuration file with changes on top of it, and where in the file an error is.

use super::{Assignment, SECTIONS, SettingError, known, position};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Settings of which at most one can be given.
const LENGTHS: [&str; 2] = ["max_iters", "epochs"];

/// The settings of a file with changes on top, not yet checked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers {
    /// Text of the file, empty if the settings come from elsewhere.
    text: String,
    file: Table,
    /// Offsets in the text of sections (`train`) and settings (`train.max_iters`).
    positions: BTreeMap<String, usize>,
    changes: Vec<Assignment>,
}

impl Layers {
    /// Parses the text of a file, and changes such as `train.max_iters=100`.
    pub fn parse(text: &str, changes: &[String]) -> Result<Self> {
        let file = text.parse().map_err(|error| position::of_syntax(text, &error))?;
        let changes = changes.iter().map(|change| Assignment::parse(change)).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), file, positions: position::of_settings(text), changes })
    }

    /// The same settings on top of suggested ones.
    pub fn on_top_of(&self, mut suggested: Table) -> Self {
        for (section, value) in self.file.clone() {
            match (suggested.get_mut(&section), value) {
                (Some(Value::Table(into)), Value::Table(from)) => into.extend(from),
                (_, value) => drop(suggested.insert(section, value)),
            }
        }
        Self { file: suggested, ..self.clone() }
    }

    /// Without `max_iters` of the file if it has `epochs` as well: earlier versions wrote both into run folders.
    pub fn with_one_length(mut self) -> Self {
        if let Some(Value::Table(train)) = self.file.get_mut("train")
            && train.contains_key("epochs")
        {
            train.remove("max_iters");
        }
        self
    }

    /// The changes.
    pub fn changes(&self) -> &[Assignment] {
        &self.changes
    }

    /// Whether a change names this setting, for example `train.epochs`.
    pub fn is_changed(&self, name: &str) -> bool {
        self.changes.iter().any(|change| change.name() == name)
    }

    /// Whether the file or a change names this setting.
    pub fn says(&self, name: &str) -> bool {
        let in_file = name.split_once('.').is_some_and(|(section, key)| {
            self.file.get(section).and_then(Value::as_table).is_some_and(|section| section.contains_key(key))
        });
        in_file || self.is_changed(name)
    }

    /// Whether neither the file nor a change says which model to start from.
    pub fn leaves_model_open(&self) -> bool {
        !self.file.contains_key("model") && !self.says("model.preset")
    }

    /// All settings by section, each known.
    pub fn merged(&self) -> Result<BTreeMap<String, Table>, SettingError> {
        self.check_length()?;
        let mut sections = BTreeMap::new();
        for (name, _, _) in SECTIONS {
            sections.insert(name.to_owned(), Table::new());
        }
        let unknown = self.file.keys().find(|name| !sections.contains_key(*name));
        if let Some(name) = unknown {
            return Err(SettingError::UnknownSection(name.clone()));
        }
        for (name, section) in &self.file {
            let Value::Table(section) = section else { return Err(SettingError::NotASection(name.clone())) };
            section.keys().try_for_each(|key| known(name, key).map(drop))?;
            sections.insert(name.clone(), section.clone());
        }
        for Assignment { setting, value } in &self.changes {
            let section = sections.entry(setting.section.to_owned()).or_default();
            for replaced in replaced_by(setting.key) {
                section.remove(*replaced);
            }
            section.insert(setting.key.to_owned(), value.clone());
        }
        Ok(sections)
    }

    /// The length of a run is given once: in the file or, on top of that, in the changes.
    fn check_length(&self) -> Result<(), SettingError> {
        let in_file = |key: &&str| {
            let train = self.file.get("train").and_then(Value::as_table);
            train.is_some_and(|train| train.contains_key(*key))
        };
        let changed = LENGTHS.map(|key| self.is_changed(&format!("train.{key}")));
        match changed {
            [true, true] => Err(SettingError::TwoLengths),
            [false, false] if LENGTHS.iter().all(in_file) => Err(SettingError::TwoLengths),
            _ => Ok(()),
        }
    }

    /// The error with its place in the file, if that is where the setting comes from.
    pub fn locate(&self, error: SettingError) -> Error {
        let names = error.settings();
        if names.iter().any(|name| self.is_changed(name)) {
            return error.into();
        }
        match names.iter().find_map(|name| self.positions.get(name)) {
            Some(&offset) => position::place(&self.text, offset, error),
            None => error.into(),
        }
    }
}

/// Settings that a change of another one replaces.
fn replaced_by(key: &str) -> &'static [&'static str] {
    match key {
        "bias" => &["qkv_bias", "attn_out_bias", "mlp_bias", "norm_bias"],
        "dropout" => &["embd_pdrop", "attn_pdrop", "resid_pdrop"],
        "epochs" => &["max_iters"],
        "max_iters" => &["epochs"],
        _ => &[],
    }
}
