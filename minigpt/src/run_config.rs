//! A run's configuration: `[model]`, `[data]`, `[train]` and `[sample]`, from defaults, a preset, a file and `--set`,
//! each overriding the one before.

use crate::error::{Error, Result};
use crate::settings::layers::Layers;
use crate::settings::{Assignment, ModelStart, SettingError, read, with_shorthands};
use minigpt_data::{Columns, CorpusKind, LossOn, Order, TextEncoding};
use minigpt_model::{Config, Initialization, ModelConfigError, Preset};
use minigpt_settings::{Section, settings};
use minigpt_train::{Change, TrainConfig};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};

/// No configuration is longer than this.
const LARGEST: u64 = 1 << 20;

settings! {
    /// What to train on.
    pub struct DataConfig in "data" {
        /// Training data: a text file, a file of examples, a folder of either, a prepared folder, `builtin` or `random`.
        #[zh = "训练数据：文本文件、样例文件、装有它们的文件夹、预处理好的文件夹、`builtin` 或 `random`。"]
        path: String = String::new();
        /// Validation data. Default: a split of the training data.
        #[zh = "验证数据；默认从训练数据中划出一部分。"]
        val_path: Option<String> = None;
        /// Kind of data: running text, or questions and answers. Default: detected.
        #[zh = "数据的类型：连续文本（`text`）或问答（`qa`）；默认自动判断。"]
        kind: Option<CorpusKind> = None;
        /// Columns or fields to read, for example `{ question = "Q", answer = "A" }`. Default: the usual names.
        #[zh = "读取哪些列或字段，例如 `{ question = \"Q\", answer = \"A\" }`；默认取常见名称。"]
        columns: Columns = Columns::default();
        /// Text encoding, for example `gbk`. Default: detected.
        #[zh = "文本编码，例如 `gbk`；默认自动判断。"]
        encoding: Option<TextEncoding> = None;
        /// Tokenizer: `char`, `bpe:2000` (trained on the data), `gpt2`, or a tokenizer file. Default: the data's own
        /// tokenizer, otherwise characters.
        #[zh = "分词器：`char`、`bpe:2000`（用数据训练）、`gpt2` 或分词器文件；默认用数据自带的，没有则按字符。"]
        tokenizer: Option<String> = None;
        /// Fraction of the data held out for validation.
        #[zh = "留作验证的比例。"]
        val_fraction: f64 = 0.1, 0.0..1.0;
        /// Maximum length of a question/answer example in tokens.
        #[zh = "问答样例的最大长度（词元数）。"]
        max_length: usize = 128, 2..=1 << 24;
        /// Tokens that count for the loss: all of an example, or only its answer.
        #[zh = "哪些词元计入损失：样例的全部，或只有回答。"]
        loss_on: LossOn = LossOn::All;
        /// Format of examples when fine-tuning: the model's `own` chat template, or `questions` with separators, which replaces
        /// the template. Default: the model's own template if it has one.
        #[zh = "微调时样例的格式：`own` 用模型自己的对话模板；`questions` 用问题、分隔符、回答的形式，并取代原来的模板。默认：模型有模板就用它的。"]
        format: Option<ExampleStyle> = None;
        /// Questions and answers that the model already knows, to rehearse when fine-tuning: half of each batch is drawn from
        /// them, so that the model does not forget them. Empty for none.
        #[zh = "微调时复习模型原本会的问答：每批有一半取自其中，以免遗忘；空为不复习。"]
        rehearse_path: Option<String> = None;
        /// Order of examples. Default: `random` windows for text, `shuffled` epochs for questions.
        #[zh = "样例的顺序；默认文本为 `random`（随机窗口），问答为 `shuffled`（每轮打乱）。"]
        order: Option<Order> = None;
        /// Maximum number of characters, tokens or examples to use.
        #[zh = "最多使用多少字符、词元或样例。"]
        limit: Option<u64> = None, 1_u64..;
    }
}

/// Format of examples when a model is fine-tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExampleStyle {
    /// In the model's chat template.
    Own,
    /// `question <sep> answer <sep>`, with `<|endoftext|>` where the vocabulary lacks `<sep>`.
    Questions,
}

settings! {
    /// Samples shown during training.
    pub struct SampleConfig in "sample" {
        /// Prompt of each sample (see `train.sample_interval`).
        #[zh = "每段样例的提示词（见 `train.sample_interval`）。"]
        prompt: String = "\n".to_owned();
    }
}

/// Everything about a run. Checked once, then never changed.
#[derive(Debug, Clone, PartialEq)]
pub struct RunConfig {
    /// The model's shape; its vocabulary comes from the data's tokenizer.
    pub model: Config,
    /// Initialization of a new model's weights: `init` in `[model]`.
    pub init: Initialization,
    /// What to train on.
    pub data: DataConfig,
    /// How to train.
    pub train: TrainConfig,
    /// What to show of it meanwhile.
    pub sample: SampleConfig,
    /// The changes on top of the file, which are part of the settings above: a model that is fine-tuned must agree with
    /// them, but not with the whole file.
    pub asked: Vec<Assignment>,
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
        Self::parse(&text, changes).map_err(|error| in_file(path, error))
    }

    /// Reads the file that a run has written into its folder.
    pub(crate) fn of_run(path: &Path, changes: &[String]) -> Result<Self> {
        let text = minigpt_files::read_text(path, LARGEST)?;
        let config = Layers::parse(&text, changes).and_then(|layers| Self::of(&layers.with_one_length()));
        config.map_err(|error| in_file(path, error))
    }

    /// Reads the text of a file that may leave the model open, as [`Suggestion::new`](crate::Suggestion::new) takes it, and
    /// checks it with these changes.
    pub fn read_open(path: &Path, changes: &[String]) -> Result<String> {
        let text = minigpt_files::read_text(path, LARGEST)?;
        Self::parse_open(&text, changes).map_err(|error| in_file(path, error))?;
        Ok(text)
    }

    /// Parses the text of a file and applies changes.
    pub fn parse(text: &str, changes: &[String]) -> Result<Self> {
        Self::of(&Layers::parse(text, changes)?)
    }

    /// Parses a configuration that may leave the model open (no `[model]` and no preset). Its settings are checked one by
    /// one, but not yet as the shape of a model, which [`Suggestion`](crate::Suggestion) completes.
    pub fn parse_open(text: &str, changes: &[String]) -> Result<Self> {
        let layers = Layers::parse(text, changes)?;
        if layers.leaves_model_open() { Self::of_open(&layers) } else { Self::of(&layers) }
    }

    /// A configuration from a file and changes.
    pub(crate) fn of(layers: &Layers) -> Result<Self> {
        let config = Self::of_open(layers)?;
        match config.model.validate() {
            Ok(()) => Ok(config),
            Err(minigpt_model::Error::Config(error)) => Err(layers.locate(SettingError::Model(error))),
            Err(error) => Err(error.into()),
        }
    }

    /// The same without checking the shape of the model.
    pub(crate) fn of_open(layers: &Layers) -> Result<Self> {
        let sections = layers.merged().map_err(|error| layers.locate(error))?;
        Self::of_sections(sections, layers.changes().to_vec()).map_err(|error| layers.locate(error))
    }

    fn of_sections(
        mut sections: BTreeMap<String, Table>,
        asked: Vec<Assignment>,
    ) -> Result<Self, SettingError> {
        let mut given = |name: &str| sections.remove(name).unwrap_or_default();
        let (model, init) = read_model(given(Config::NAME))?;
        let data = read(&given(DataConfig::NAME), &DataConfig::default())?;
        if data.path.is_empty() {
            return Err(SettingError::NoData);
        }
        let train = read(&given(TrainConfig::NAME), &TrainConfig::default())?.with_one_length();
        let sample = read(&given(SampleConfig::NAME), &SampleConfig::default())?;
        Ok(Self { model, init, data, train, sample, asked })
    }

    /// Settings that differ in another configuration of the same run, after a step.
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

    /// The configuration as a file with every setting that applies.
    pub fn to_toml(&self) -> Result<String> {
        let wrong = |error: toml::ser::Error| SettingError::Syntax(error.to_string());
        let mut table = Table::try_from(self).map_err(wrong)?;
        if let (Some(_), Some(Value::Table(train))) = (self.train.epochs, table.get_mut("train")) {
            train.remove("max_iters");
        }
        Ok(toml::to_string(&table).map_err(wrong)?)
    }
}

fn in_file(path: &Path, source: Error) -> Error {
    Error::Config { path: path.to_owned(), source: Box::new(source) }
}

/// Reads `[model]`: the preset first, then nanoGPT's settings for several at once, then the settings one by one.
fn read_model(section: Table) -> Result<(Config, Initialization), SettingError> {
    let starts = ModelStart::settings();
    let (start, shape) =
        section.into_iter().partition(|(key, _)| starts.iter().any(|start| start.key == key));
    let start: ModelStart = read(&start, &ModelStart::default())?;
    let preset = match &start.preset {
        None => Config::default(),
        Some(name) => {
            let unknown = || ModelConfigError::UnknownPreset { name: name.clone() };
            Preset::named(name).ok_or_else(unknown).map_err(SettingError::Model)?.config()
        }
    };
    let init = start.init;
    Ok((read(&shape, &with_shorthands(preset, &start))?, init))
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_formats::ExtraKeys;
    use minigpt_formats::hugging_face::save_config;
    use minigpt_formats::load_config;
    use minigpt_kernels::ElementType;

    fn read(text: &str, changes: &[&str]) -> Result<RunConfig> {
        let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
        RunConfig::parse(text, &changes)
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
            assert!(error.starts_with("train.max_iters is ") && error.contains("a whole number"), "{error}");
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
            assert!(refused.unwrap_err().to_string().contains("give only one of them"));
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
        use crate::settings::SETTINGS;
        use minigpt_settings::Allowed;
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
    fn a_number_is_the_same_to_the_bit_in_toml_and_in_config_json() {
        // Many digits, halfway between two floats, subnormal, and as f32 prints them.
        let texts = [
            "1e-5",
            "1.0000000000000002e-5",
            "9.999999747378752e-06",
            "0.1",
            "0.10000000000000000555",
            "1.00000001e-05",
            "0.3333333333333333148296162562473909929394721984863281250",
            "2.2250738585072011e-308",
            "5e-324",
            "0.020000000000000003",
        ];
        for text in texts {
            let toml = format!(
                "data.path = \"a\"\n[model]\nlayer_norm_epsilon = {text}\ninitializer_range = {text}"
            );
            let from_toml = read(&toml, &[]).unwrap().model;
            let changes = [format!("layer_norm_epsilon={text}"), format!("initializer_range={text}")];
            let changed = read("data.path = \"a\"", &changes.each_ref().map(String::as_str)).unwrap().model;
            let json = format!("{{\"layer_norm_epsilon\": {text}, \"initializer_range\": {text}}}");
            let from_json: Config = serde_json::from_str(&json).unwrap();
            let folder = tempfile::tempdir().unwrap();
            save_config(&from_toml, &ExtraKeys::new(), folder.path(), ElementType::F32).unwrap();
            let from_folder = load_config(folder.path()).unwrap();
            let bits = |model: &Config| [model.layer_norm_epsilon, model.initializer_range].map(f64::to_bits);
            let want = [text.parse::<f64>().unwrap().to_bits(); 2];
            for model in [from_toml, changed, from_json, from_folder] {
                assert_eq!(bits(&model), want, "{text}");
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
        let unknown = refused(&format!("{data}[train]\nmax_iter = 3"), &[]);
        assert!(
            unknown.contains("unknown setting train.max_iter; did you mean train.max_iters?"),
            "{unknown}"
        );
        assert!(refused(&format!("{data}[training]"), &[]).contains("unknown section [training]"));
        assert!(refused("", &[]).contains("data.path is not set"));
        let unknown = refused(&format!("{data}[train]\nwandb_log = true"), &[]);
        assert!(unknown.contains("unknown setting train.wandb_log\n"), "{unknown}");
        assert!(refused(data, &["max_iter=3"]).ends_with("did you mean train.max_iters?"));
        assert!(refused(data, &["train.n_layer=3"]).ends_with("did you mean model.n_layer?"));
        assert!(refused(data, &["train.max_iters=many"]).contains("train.max_iters is \"many\""));
        assert!(refused(data, &["train.optimizer=sgd"]).contains("muon"));
        assert!(refused(data, &["model.init=xavier"]).contains("model.init is \"xavier\""));
        assert!(refused(data, &["model.init=xavier"]).contains("pytorch"));
    }
}
