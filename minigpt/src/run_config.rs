//! A run's configuration: `[model]`, `[data]`, `[train]` and `[sample]`, from defaults, a preset, a file and `--set`,
//! each overriding the one before.

use crate::error::{Error, Result};
use crate::settings::refuse;
use crate::{setting_place, settings, settings_table};
use minigpt_data::{Columns, CorpusKind, LossOn, Order, TextEncoding};
use minigpt_model::{Config, Initialization};
use minigpt_train::{Change, TrainConfig};
use serde::{Deserialize, Serialize, Serializer};
use std::path::Path;
use toml::{Table, Value};

/// No configuration is longer than this.
const LARGEST: u64 = 1 << 20;

/// What to train on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// A text, a file of examples, a folder of either, a prepared folder, `builtin` or `random`.
    pub path: String,
    /// Data to judge by; a part of the other when absent.
    pub val_path: Option<String>,
    /// What it is read as; the data tells when absent.
    pub kind: Option<CorpusKind>,
    /// Which columns or fields to read: `{ question = "Q", answer = "A" }`; those with the usual names when absent.
    pub columns: Columns,
    /// What the text is written in, for example `gbk`; found out when absent.
    pub encoding: Option<TextEncoding>,
    /// `char`, `bpe:2000` (learnt from the data), `gpt2`, or a tokenizer's file; the data's own, or characters, when absent.
    pub tokenizer: Option<String>,
    /// The part kept for validation.
    pub val_fraction: f64,
    /// The longest question/answer example, in tokens.
    pub max_length: usize,
    /// Which tokens of an example are learned.
    pub loss_on: LossOn,
    /// In which order examples come: `random` windows for text, `shuffled` epochs for questions when absent.
    pub order: Option<Order>,
    /// Only so much of the data.
    pub limit: Option<u64>,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            path: String::new(),
            val_path: None,
            kind: None,
            columns: Columns::default(),
            encoding: None,
            tokenizer: None,
            val_fraction: 0.1,
            max_length: 128,
            loss_on: LossOn::All,
            order: None,
            limit: None,
        }
    }
}

/// What to show of the model while it learns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SampleConfig {
    /// What each sample (see `train.sample_interval`) begins with.
    pub prompt: String,
}

impl Default for SampleConfig {
    fn default() -> Self {
        Self { prompt: "\n".to_owned() }
    }
}

/// Everything about a run. Checked once, then never changed.
#[derive(Debug, Clone, PartialEq)]
pub struct RunConfig {
    /// The model's shape; its vocabulary comes from the data's tokenizer.
    pub model: Config,
    /// How a new model's weights are drawn: `init` in `[model]`, and no part of what a model is.
    pub init: Initialization,
    /// What to train on.
    pub data: DataConfig,
    /// How to train.
    pub train: TrainConfig,
    /// What to show of it meanwhile.
    pub sample: SampleConfig,
}

/// The section `[model]` as it is written.
#[derive(Serialize)]
struct ModelSection<'a> {
    init: Initialization,
    #[serde(flatten)]
    shape: &'a Config,
}

impl Serialize for RunConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Sections<'a> {
            model: ModelSection<'a>,
            data: &'a DataConfig,
            train: &'a TrainConfig,
            sample: &'a SampleConfig,
        }
        let Self { data, train, sample, .. } = self;
        Sections { model: self.model_section(), data, train, sample }.serialize(serializer)
    }
}

impl RunConfig {
    /// Reads a file and applies changes such as `train.max_iters=100`.
    pub fn read(path: &Path, changes: &[String]) -> Result<Self> {
        let text = minigpt_files::read_text(path, LARGEST)?;
        Self::parse(&text, changes)
            .map_err(|source| Error::Config { path: path.to_owned(), source: Box::new(source) })
    }

    /// The text of a file that may leave the model open, as [`Suggestion::new`](crate::Suggestion::new) takes it, checked with
    /// these changes.
    pub fn read_open(path: &Path, changes: &[String]) -> Result<String> {
        let text = minigpt_files::read_text(path, LARGEST)?;
        match Self::parse_open(&text, changes) {
            Ok(_) => Ok(text),
            Err(source) => Err(Error::Config { path: path.to_owned(), source: Box::new(source) }),
        }
    }

    /// The same from the text of a file.
    pub fn parse(text: &str, changes: &[String]) -> Result<Self> {
        let table: Table = text.parse().map_err(|error| setting_place::of_syntax(text, &error))?;
        Self::resolve(table.clone(), changes).map_err(|error| {
            // Where the file alone is fine, a change is to blame, which has no place in it.
            let of_the_file = changes.is_empty() || Self::resolve(table, &[]).is_err();
            if of_the_file { setting_place::of_setting(text, error) } else { error }
        })
    }

    /// The same for a configuration that leaves the model open (no `[model]`, no preset): what it says is checked one by
    /// one, and not yet as the shape of a model, which [`Suggestion`](crate::Suggestion) completes.
    pub fn parse_open(text: &str, changes: &[String]) -> Result<Self> {
        let table: Table = text.parse().map_err(|error| setting_place::of_syntax(text, &error))?;
        if !leaves_model_open(&table, changes) {
            return Self::parse(text, changes);
        }
        Self::resolve_open(table, changes).map_err(|error| setting_place::of_setting(text, error))
    }

    /// What is different in another configuration for the same run, after a step.
    pub fn changes(&self, now: &Self, step: u64) -> Vec<Change> {
        [
            Change::between("model", &self.model_section(), &now.model_section(), step),
            Change::between("data", &self.data, &now.data, step),
            Change::between("train", &self.train, &now.train, step),
            Change::between("sample", &self.sample, &now.sample, step),
        ]
        .concat()
    }

    fn model_section(&self) -> ModelSection<'_> {
        ModelSection { init: self.init, shape: &self.model }
    }

    /// The configuration as a file.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::Setting(error.to_string()))
    }

    /// The same from a table, which is no text that somebody wrote: errors name no place in it.
    pub(crate) fn resolve(table: Table, changes: &[String]) -> Result<Self> {
        let config = Self::resolve_open(table, changes)?;
        config.model.validate().map_err(|error| Error::Setting(format!("model.{error}")))?;
        Ok(config)
    }

    /// All of it but whether the model makes sense as a whole.
    pub(crate) fn resolve_open(mut table: Table, changes: &[String]) -> Result<Self> {
        for change in changes {
            let (key, value) = settings::split(change)?;
            let (section, key) = settings::named(key)?;
            let entry = table.entry(section.clone()).or_insert_with(|| Value::Table(Table::new()));
            let Value::Table(entry) = entry else { return refuse(format!("{section} is not a section")) };
            entry.insert(key, value);
        }
        if let Some(section) =
            table.keys().find(|key| !["model", "data", "train", "sample"].contains(&key.as_str()))
        {
            return refuse(format!(
                "there is no section [{section}]; there are [model], [data], [train] and [sample]"
            ));
        }
        let mut section = |name: &str| match table.remove(name) {
            None => Ok(Table::new()),
            Some(Value::Table(section)) => {
                section.keys().try_for_each(|key| settings::check_name(name, key))?;
                Ok(section)
            }
            Some(_) => refuse(format!("{name} is not a section")),
        };
        let (model, init) = model(section("model")?)?;
        let config = Self {
            model,
            init,
            data: settings::parse_section("data", section("data")?, &DataConfig::default())?,
            train: settings::parse_section("train", section("train")?, &TrainConfig::default())?,
            sample: settings::parse_section("sample", section("sample")?, &SampleConfig::default())?,
        };
        if config.data.path.is_empty() {
            return refuse("data.path is missing: what should it be trained on?".to_owned());
        }
        settings_table::check(&config)?;
        config.train.validate().map_err(|error| Error::Setting(format!("train.{error}")))?;
        Ok(config)
    }
}

/// Whether neither a file nor a change says which model to begin with.
pub(crate) fn leaves_model_open(file: &Table, changes: &[String]) -> bool {
    !file.contains_key("model") && !says(file, changes, "model.preset")
}

/// Whether a file or a change names a setting.
pub(crate) fn says(file: &Table, changes: &[String], setting: &str) -> bool {
    let (section, key) = setting.split_once('.').unwrap_or(("", setting));
    let in_file = file.get(section).and_then(Value::as_table).is_some_and(|table| table.contains_key(key));
    let name = |change: &String| change.split('=').next().unwrap_or_default().trim().replace('-', "_");
    in_file || changes.iter().map(name).any(|name| name == setting || name == key)
}

/// The model: its preset first, then what the section says; and how its weights begin.
fn model(mut section: Table) -> Result<(Config, Initialization)> {
    let init = match section.remove("init") {
        None => Initialization::default(),
        Some(value) => {
            let shown = value.to_string();
            let wrong = |e: toml::de::Error| settings::wrong_value("model", "init", &shown, e.message());
            value.try_into().map_err(|error| Error::Setting(wrong(error)))?
        }
    };
    let preset = match section.remove("preset") {
        None => Config::default(),
        Some(Value::String(name)) => Config::preset(&name)?,
        Some(other) => return refuse(format!("model.preset = {other}: expected a name")),
    };
    let shape =
        section.into_iter().try_fold(preset, |config, (key, value)| settings::set(config, &key, value))?;
    Ok((shape, init))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, changes: &[&str]) -> Result<RunConfig> {
        let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
        RunConfig::resolve(text.parse().unwrap(), &changes)
    }

    #[test]
    fn every_ready_configuration_is_valid() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 7, "{files:?}");
        for file in files {
            let config = RunConfig::read(&file, &[]).unwrap_or_else(|e| panic!("{}: {e:#}", file.display()));
            config.model.validate().unwrap();
        }
    }

    #[test]
    fn defaults_are_overridden_by_the_preset_then_the_file_then_the_command_line() {
        let text = "[model]\npreset = \"shakespeare-cpu\"\nn_layer = 3\n[data]\npath = \"a\"";
        let config = read(text, &["model.n_head=2", "train.max_iters=7", "data.path=b.txt"]).unwrap();
        assert_eq!((config.model.n_embd, config.model.n_layer, config.model.n_head), (128, 3, 2));
        assert_eq!((config.train.max_iters, config.data.path.as_str()), (7, "b.txt"));
        assert_eq!(config.train.batch_size, TrainConfig::default().batch_size);
    }

    #[test]
    fn the_section_of_a_change_is_found_and_dashes_are_underscores() {
        let text = "[data]\npath = \"a\"";
        let config = read(text, &["max-iters=7", "n_layer=3", "n-head=2", "train.batch-size=5"]).unwrap();
        assert_eq!((config.train.max_iters, config.train.batch_size), (7, 5));
        assert_eq!((config.model.n_layer, config.model.n_head), (3, 2));
    }

    #[test]
    fn a_whole_number_may_have_an_exponent_but_no_fraction() {
        let text = "[data]\npath = \"a\"\n[train]\neval_interval = 1e2\nepochs = 2.0";
        let config = read(text, &["max_iters=1e3", "train.lr_decay_iters=1_000"]).unwrap();
        assert_eq!((config.train.max_iters, config.train.lr_decay_iters), (1000, Some(1000)));
        assert_eq!((config.train.eval_interval, config.train.epochs), (100, Some(2)));
        for value in ["1.5", "1e300", "nan"] {
            let error = read(text, &[&format!("max_iters={value}")]).unwrap_err().to_string();
            assert!(error.starts_with("train.max_iters = ") && error.contains("a whole number"), "{error}");
        }
    }

    #[test]
    fn what_is_written_before_the_first_step_can_be_read_again() {
        let text = "[model]\npreset = \"textbook\"\ninit = \"pytorch\"\n[data]\npath = \"a\"\nlimit = 9";
        let config = read(text, &[]).unwrap();
        assert_eq!(config.init, Initialization::Pytorch);
        assert_eq!(read(&toml::to_string(&config).unwrap(), &[]).unwrap(), config);
    }

    #[test]
    fn mistakes_name_the_section_and_the_nearest_key() {
        let refused = |text: &str, changes: &[&str]| read(text, changes).unwrap_err().to_string();
        let data = "[data]\npath = \"a\"\n";
        assert_eq!(
            refused(&format!("{data}[train]\nmax_iter = 3"), &[]),
            "there is no setting train.max_iter; did you mean train.max_iters?"
        );
        assert!(refused(&format!("{data}[training]"), &[]).contains("there is no section [training]"));
        assert!(refused("", &[]).contains("data.path is missing"));
        assert_eq!(
            refused(&format!("{data}[train]\nwandb_log = true"), &[]),
            "there is no setting train.wandb_log"
        );
        assert!(refused(data, &["max_iter=3"]).ends_with("did you mean train.max_iters?"));
        assert!(refused(data, &["train.n_layer=3"]).ends_with("did you mean model.n_layer?"));
        assert!(refused(data, &["train.max_iters=many"]).contains("train.max_iters = \"many\""));
        assert!(refused(data, &["train.optimizer=sgd"]).contains("muon"));
        assert!(refused(data, &["model.init=xavier"]).contains("model.init = \"xavier\""));
        assert!(refused(data, &["model.init=xavier"]).contains("pytorch"));
    }
}
