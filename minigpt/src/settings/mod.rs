//! Settings of a run by name: what there is ([`SETTINGS`]), changes such as `max_iters=100`, and how files and changes
//! combine.
//!
//! A section is declared once, where its struct is ([`Config`], `TrainConfig`, `DataConfig`, `SampleConfig`). In reading
//! order: `assignment` parses `key=value`, `layers` puts changes on top of a file and finds the line of an error, `section`
//! checks each value against its declaration.

mod assignment;
mod error;
pub(crate) mod layers;
mod position;
mod section;

pub use assignment::Assignment;
pub use error::SettingError;
pub(crate) use section::{known, read, shown};

use crate::error::Result;
use crate::run_config::{DataConfig, SampleConfig};
use minigpt_model::{Config, Initialization};
use minigpt_settings::{Section, SettingInfo, settings};
use minigpt_train::TrainConfig;
use std::sync::LazyLock;

settings! {
    /// Settings of `[model]` that set others, or that are not part of a model's shape.
    pub(crate) struct ModelStart in "model" {
        /// Predefined shape to start from (`gpt2`, `shakespeare-cpu`, `qa`, …); the other settings change it.
        #[zh = "以某个预设结构为起点（`gpt2`、`shakespeare-cpu`、`qa` 等），其余设置在其上修改。"]
        preset: Option<String> = None;
        /// Initialization of new weights: as in GPT-2, with the same standard deviation everywhere (`plain`), or as PyTorch's
        /// layers do by default.
        #[zh = "新权重的初始化方式：按 GPT-2、处处相同的标准差（`plain`），或按 PyTorch 各层的默认方式。"]
        init: Initialization = Initialization::default();
        /// nanoGPT's switch for all biases of linear layers and norms: sets `qkv_bias`, `attn_out_bias`, `mlp_bias` and
        /// `norm_bias`.
        #[zh = "nanoGPT 的偏置总开关：同时设置 `qkv_bias`、`attn_out_bias`、`mlp_bias` 和 `norm_bias`。"]
        bias: Option<bool> = None;
        /// nanoGPT's dropout everywhere: sets `embd_pdrop`, `attn_pdrop` and `resid_pdrop`.
        #[zh = "nanoGPT 的 dropout 总设置：同时设置 `embd_pdrop`、`attn_pdrop` 和 `resid_pdrop`。"]
        dropout: Option<f64> = None, 0.0..1.0;
    }
}

/// Sections in the order of a file, with their subject in English and in Chinese.
pub const SECTIONS: [(&str, &str, &str); 4] = [
    ("model", "shape of the model", "模型的结构"),
    ("data", "training data", "训练数据"),
    ("train", "training", "训练方法"),
    ("sample", "samples shown during training", "训练途中展示的样例"),
];

/// Every setting of a run, section by section.
pub static SETTINGS: LazyLock<Vec<SettingInfo>> = LazyLock::new(|| {
    [
        ModelStart::settings(),
        Config::settings(),
        DataConfig::settings(),
        TrainConfig::settings(),
        SampleConfig::settings(),
    ]
    .concat()
});

/// Names of settings in other programs, for suggestions only.
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

/// The setting with this section and key.
pub(crate) fn find(section: &str, key: &str) -> Option<&'static SettingInfo> {
    SETTINGS.iter().find(|setting| setting.section == section && setting.key == key)
}

/// A model with changes to its shape such as `n_layer=2`, `model.bias=false` or `activation_function=relu`.
///
/// # Errors
/// A setting that a model does not have, or a value that it does not accept.
pub fn change(config: Config, changes: &[String]) -> Result<Config> {
    changes.iter().try_fold(config, |config, change| Ok(set(config, &Assignment::of_model(change)?)?))
}

/// A model with one setting of its shape changed.
pub(crate) fn set(
    config: Config,
    Assignment { setting, value }: &Assignment,
) -> Result<Config, SettingError> {
    let given = [(setting.key.to_owned(), value.clone())].into_iter().collect();
    match setting.key {
        "bias" | "dropout" => Ok(with_shorthands(config, &read(&given, &ModelStart::default())?)),
        _ => read(&given, &config),
    }
}

/// A model with nanoGPT's settings that set several of its own.
pub(crate) fn with_shorthands(config: Config, start: &ModelStart) -> Config {
    let config = start.bias.into_iter().fold(config, Config::with_bias);
    start.dropout.into_iter().fold(config, Config::with_dropout)
}

/// The setting that an unknown name probably means: the same key in another section, its name in another program, or a key
/// that is spelled almost the same. Settings of `section` are preferred.
pub fn near(section: Option<&str>, key: &str) -> Option<String> {
    let key = ELSEWHERE.iter().find(|(other, _)| *other == key).map_or(key, |(_, ours)| ours);
    let is_elsewhere = |setting: &SettingInfo| section.is_some_and(|section| section != setting.section);
    let guesses = SETTINGS
        .iter()
        .filter_map(|setting| Some((misspelling(key, setting.key)?, is_elsewhere(setting), setting)));
    guesses.min_by_key(|&(wrong, elsewhere, _)| (wrong, elsewhere)).map(|(.., setting)| setting.name())
}

/// The number of misspelled letters if `name` probably means `known`: at most a third of them may be wrong.
pub fn misspelling(name: &str, known: &str) -> Option<usize> {
    let wrong = strsim::osa_distance(name, known);
    (3 * wrong <= name.chars().count().max(known.chars().count())).then_some(wrong)
}

/// The digits of a whole number in any of its usual spellings: `1e3`, `1_000`, `3.0`. `None` if it is negative or not a
/// whole number.
pub fn whole_number(text: &str) -> Option<String> {
    let digits = text.replace('_', "");
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(digits);
    }
    let number: f64 = digits.parse().ok()?;
    // Every whole number up to 2^53 is exact as a float.
    (number >= 0.0 && number.fract() == 0.0 && number <= (1_u64 << 53) as f64).then(|| format!("{number:.0}"))
}

#[cfg(test)]
mod tests;
