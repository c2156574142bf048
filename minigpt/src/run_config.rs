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
    /// How examples are written for a model that is trained further: in its `own` chat template, or as question and answer with
    /// separators; its own when absent, where it has one.
    pub format: Option<ExampleStyle>,
    /// Questions and answers that a model knows already, of which half of each batch is made when it is trained further, so that
    /// it keeps them.
    pub rehearse_path: Option<String>,
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
            format: None,
            rehearse_path: None,
            order: None,
            limit: None,
        }
    }
}

/// How examples are written for a model that is trained further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExampleStyle {
    /// In the model's chat template.
    Own,
    /// `question <sep> answer <sep>`, with `<|endoftext|>` where the vocabulary lacks `<sep>`.
    Questions,
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
    /// The changes that were asked for one by one, with their sections (`model.n_layer=2`). They are part of the settings
    /// above, and no file has them: a model that is trained further must agree with them, not with a whole file.
    pub asked: Vec<String>,
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

    /// Reads the file that a run has written into its folder. Earlier versions wrote `max_iters` beside `epochs`, where it says
    /// nothing.
    pub(crate) fn of_run(path: &Path, changes: &[String]) -> Result<Self> {
        let text = minigpt_files::read_text(path, LARGEST)?;
        let parsed = parsed(&text).map(|mut table: Table| {
            if let Some(Value::Table(train)) = table.get_mut("train")
                && train.contains_key("epochs")
            {
                train.remove("max_iters");
            }
            table
        });
        let resolved = parsed.and_then(|table| located(&text, table, changes, Self::resolve));
        resolved.map_err(|source| Error::Config { path: path.to_owned(), source: Box::new(source) })
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
        located(text, parsed(text)?, changes, Self::resolve)
    }

    /// The same for a configuration that leaves the model open (no `[model]`, no preset): what it says is checked one by
    /// one, and not yet as the shape of a model, which [`Suggestion`](crate::Suggestion) completes.
    pub fn parse_open(text: &str, changes: &[String]) -> Result<Self> {
        let table = parsed(text)?;
        if leaves_model_open(&table, changes) {
            located(text, table, changes, Self::resolve_open)
        } else {
            located(text, table, changes, Self::resolve)
        }
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

    /// The configuration as a file, with every setting that has a meaning in it.
    pub fn to_toml(&self) -> Result<String> {
        let wrong = |error: toml::ser::Error| Error::Setting(error.to_string());
        let mut table = Table::try_from(self).map_err(wrong)?;
        if let (Some(_), Some(Value::Table(train))) = (self.train.epochs, table.get_mut("train")) {
            train.remove("max_iters");
        }
        toml::to_string(&table).map_err(wrong)
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
        count_once(&mut table, changes)?;
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
            train: settings::parse_section("train", section("train")?, &TrainConfig::default())?
                .with_one_length(),
            sample: settings::parse_section("sample", section("sample")?, &SampleConfig::default())?,
            asked: settings::with_sections(changes)?,
        };
        if config.data.path.is_empty() {
            return refuse("data.path is missing: what should it be trained on?".to_owned());
        }
        settings_table::check(&config)?;
        config.train.validate().map_err(|error| Error::Setting(format!("train.{error}")))?;
        Ok(config)
    }
}

/// The text of a file as a table.
fn parsed(text: &str) -> Result<Table> {
    text.parse().map_err(|error| setting_place::of_syntax(text, &error))
}

/// Resolves a file's table with changes. Only what is wrong without the changes, too, has a place in the file.
fn located(
    text: &str,
    table: Table,
    changes: &[String],
    resolve: impl Fn(Table, &[String]) -> Result<RunConfig>,
) -> Result<RunConfig> {
    resolve(table.clone(), changes).map_err(|error| {
        let is_of_the_file = changes.is_empty()
            || resolve(table, &[]).is_err_and(|alone| alone.to_string() == error.to_string());
        if is_of_the_file { setting_place::of_setting(text, error) } else { error }
    })
}

/// A run is as long as either `max_iters` or `epochs` says. A change of one goes before the other in a file; both in one place
/// would leave open which of them counts.
fn count_once(table: &mut Table, changes: &[String]) -> Result<()> {
    let lengths = ["max_iters", "epochs"];
    let changed = lengths.map(|key| says(&Table::new(), changes, &format!("train.{key}")));
    let Some(Value::Table(train)) = table.get_mut("train") else { return Ok(()) };
    match changed {
        [true, false] => drop(train.remove("epochs")),
        [false, true] => drop(train.remove("max_iters")),
        _ if lengths.iter().all(|key| train.contains_key(*key)) => {
            return refuse(
                "train.epochs and train.max_iters both say how long the run is: name one of them".to_owned(),
            );
        }
        _ => {}
    }
    Ok(())
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
        Some(Value::String(name)) => Config::preset(&name)
            .map_err(|error| Error::Setting(format!("model.preset = {name:?}: {error}")))?,
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
        let config = read(text, &["train.lr_decay_iters=1_000"]).unwrap();
        assert_eq!((config.train.eval_interval, config.train.epochs), (100, Some(2)));
        let config = read(text, &["max_iters=1e3", "train.lr_decay_iters=1_000"]).unwrap();
        assert_eq!((config.train.max_iters, config.train.lr_decay_iters), (1000, Some(1000)));
        for value in ["1.5", "1e300", "nan"] {
            let error = read(text, &[&format!("max_iters={value}")]).unwrap_err().to_string();
            assert!(error.starts_with("train.max_iters = ") && error.contains("a whole number"), "{error}");
        }
    }

    /// Regression: `--epochs=2 --max_iters=3` made 34 steps, and `max_iters` said nothing beside the epochs of a file.
    #[test]
    fn a_run_has_one_length() {
        let data = "[data]\npath = \"a\"\n[train]\n";
        let length = |text: &str, changes: &[&str]| {
            let train = read(&format!("{data}{text}"), changes)?.train;
            Ok::<_, Error>((train.epochs, train.max_iters))
        };
        let default = TrainConfig::default().max_iters;
        assert_eq!(length("max_iters = 9", &[]).unwrap(), (None, 9));
        assert_eq!(length("max_iters = 9", &["epochs=2"]).unwrap(), (Some(2), default));
        assert_eq!(length("epochs = 2", &["train.max-iters=9"]).unwrap(), (None, 9));
        assert_eq!(length("max_iters = 9\nepochs = 2", &["max_iters=7"]).unwrap(), (None, 7));
        for refused in [length("max_iters = 9\nepochs = 2", &[]), length("", &["epochs=2", "max_iters=3"])] {
            assert!(refused.unwrap_err().to_string().contains("name one of them"));
        }
        // What a run writes into its folder can be given to another run; older runs wrote both.
        let config = read(&format!("{data}epochs = 2"), &[]).unwrap();
        let written = config.to_toml().unwrap();
        assert!(!written.contains("max_iters"), "{written}");
        assert_eq!(read(&written, &[]).unwrap(), config);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, written.replace("epochs = 2", "epochs = 2\nmax_iters = 380")).unwrap();
        assert_eq!(RunConfig::of_run(&path, &[]).unwrap(), config);
        let longer = RunConfig::of_run(&path, &["train.max_iters=7".to_owned()]).unwrap().train;
        assert_eq!((longer.epochs, longer.max_iters), (None, 7));
    }

    /// Regression: of 354 learning rates 48 came back from JSON with another last digit, so that their runs could not be resumed.
    #[test]
    fn every_number_survives_the_files_of_a_run_to_the_bit() {
        use crate::settings_table::{Allowed, SETTINGS};
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let numbers: Vec<_> =
            SETTINGS.iter().filter(|setting| matches!(setting.allowed, Allowed::Number(..))).collect();
        assert!(numbers.len() > 10);
        for round in 0..300 {
            // Of any size below 1, and as people write them.
            let mut any = || match round % 2 {
                0 => f64::from_bits(next() >> 12 | 0x3ff0_0000_0000_0000) - 1.0,
                _ => f64::from_bits((next() >> 2) % 0x3fef_ffff_ffff_ffff),
            };
            let values: Vec<f64> = numbers.iter().map(|_| any()).collect();
            let changes: Vec<String> = numbers
                .iter()
                .zip(&values)
                .filter(|(_, value)| **value > 0.0)
                .map(|(setting, value)| format!("{}={value:?}", setting.name()))
                .collect();
            let text = "[model]\n[data]\npath = \"a\"\n";
            let config = RunConfig::parse(text, &changes).unwrap();
            let as_toml = RunConfig::parse(&config.to_toml().unwrap(), &[]).unwrap();
            let json = serde_json::to_string(&config.train).unwrap();
            let train: TrainConfig = serde_json::from_str(&json).unwrap();
            let json = serde_json::to_string(&config.model).unwrap();
            let model: Config = serde_json::from_str(&json).unwrap();
            let as_json = RunConfig { train, model, ..config.clone() };
            for read in [as_toml, as_json] {
                assert_eq!(config.changes(&read, 0), [], "{changes:?}");
            }
            for (setting, value) in numbers.iter().zip(values).filter(|(setting, value)| {
                *value > 0.0 && (setting.section, setting.key) != ("model", "dropout")
            }) {
                let held = serde_json::to_value(&config).unwrap();
                let held = held[setting.section][setting.key].as_f64();
                let is_dropout = setting.key.ends_with("pdrop");
                assert!(is_dropout || held.map(f64::to_bits) == Some(value.to_bits()), "{}", setting.name());
            }
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
