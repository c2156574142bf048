//! Settings that may change when a run is resumed, and those that have changed.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// Settings of the length and monitoring of a run. Changing any other would make it another run. The data may have moved:
/// its fingerprint identifies it.
const CHANGEABLE: [&str; 16] = [
    "train.max_iters",
    "train.epochs",
    "train.lr_decay_iters",
    "train.eval_interval",
    "train.eval_iters",
    "train.log_interval",
    "train.save_interval",
    "train.save_seconds",
    "train.keep_checkpoints",
    "train.snapshots",
    "train.patience",
    "train.sample_interval",
    "train.max_minutes",
    "data.path",
    "data.val_path",
    "sample.prompt",
];

/// A setting that was changed when a run was resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// After which step.
    pub step: u64,
    /// Its section and name: `train.max_iters`.
    pub setting: String,
    /// The old value; null if it was not set.
    pub from: Value,
    /// The new value.
    pub to: Value,
}

impl Change {
    /// The settings of a section that differ.
    pub fn between<T: Serialize>(section: &str, then: &T, now: &T, step: u64) -> Vec<Self> {
        let (then, now) = (fields(then), fields(now));
        let changed = then.into_iter().filter_map(|(key, from)| {
            let to = now.get(&key).cloned().unwrap_or_default();
            (from != to).then(|| Self { step, setting: format!("{section}.{key}"), from, to })
        });
        changed.collect()
    }

    /// Returns an error for a change that would make it another run.
    pub fn check(&self) -> Result<()> {
        if CHANGEABLE.contains(&self.setting.as_str()) {
            return Ok(());
        }
        Err(Error::OtherRun(Box::new(self.clone())))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {} → {}", self.setting, shown(&self.from), shown(&self.to))
    }
}

fn fields(section: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(section) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// The value of a setting as it is written.
pub(crate) fn shown(value: &Value) -> String {
    if value.is_null() { "not set".to_owned() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrainConfig;

    #[test]
    fn what_differs_is_named_with_both_values() {
        let then = TrainConfig::default();
        let now = TrainConfig { max_iters: 9, epochs: Some(2), ..then };
        let changes = Change::between("train", &then, &now, 5);
        let shown: Vec<String> = changes.iter().map(Change::to_string).collect();
        assert_eq!(shown, ["train.max_iters: 2000 → 9", "train.epochs: not set → 2"]);
        assert!(changes.iter().all(|change| change.check().is_ok() && change.step == 5));
        assert_eq!(Change::between("train", &then, &then, 5), []);
    }

    /// Every setting there is was thought about: one that is added and not named here makes another run.
    #[test]
    fn what_may_change_exists() {
        let known = fields(&TrainConfig::default());
        let named = CHANGEABLE.iter().filter_map(|name| name.strip_prefix("train."));
        assert!(named.clone().count() > 0 && named.clone().all(|key| known.contains_key(key)));
        let seed = Change { step: 0, setting: "train.seed".into(), from: 1.into(), to: 2.into() };
        let error = seed.check().unwrap_err().to_string();
        assert!(error.contains("train.seed = 1") && error.contains('2'), "{error}");
    }
}
