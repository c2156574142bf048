//! What can be wrong with a setting.

use minigpt_model::ModelConfigError;
use minigpt_settings::Allowed;

/// What is wrong with a setting, or with the way it was given.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum SettingError {
    #[error("unknown setting {name}{}", did_you_mean(near.as_ref()))]
    Unknown { name: String, near: Option<String> },
    #[error("unknown section [{0}]; the sections are [model], [data], [train] and [sample]")]
    UnknownSection(String),
    #[error("{0} is not a section")]
    NotASection(String),
    #[error("{0}: expected key=value, for example n_layer=2")]
    NoValue(String),
    #[error("{name} is {value}; it must be {allowed}")]
    NotAllowed { name: String, value: String, allowed: Allowed },
    /// The problem is the text of a parser.
    #[error("{name} is {value}: {problem}")]
    Malformed { name: String, value: String, problem: String },
    /// The text is that of the TOML parser.
    #[error("{0}")]
    Syntax(String),
    #[error("train.epochs and train.max_iters both set the length of the run; give only one of them")]
    TwoLengths,
    #[error("data.path is not set; it names the data to train on")]
    NoData,
    #[error("model.{0}")]
    Model(ModelConfigError),
}

impl SettingError {
    /// Names of the settings or the section that the error is about, the first one to change first.
    pub(super) fn settings(&self) -> Vec<String> {
        match self {
            Self::Unknown { name, .. } | Self::NotAllowed { name, .. } | Self::Malformed { name, .. } => {
                vec![name.clone()]
            }
            Self::UnknownSection(section) | Self::NotASection(section) => vec![section.clone()],
            Self::TwoLengths => vec!["train.epochs".to_owned(), "train.max_iters".to_owned()],
            Self::Model(error) => error.settings().iter().map(|key| format!("model.{key}")).collect(),
            Self::NoValue(_) | Self::Syntax(_) | Self::NoData => Vec::new(),
        }
    }
}

fn did_you_mean(near: Option<&String>) -> String {
    near.map_or_else(String::new, |near| format!("; did you mean {near}?"))
}
