//! What can go wrong with a model, a run or a conversation. Each subject has an enum of its own next to the code that
//! raises it.

use crate::chat_settings::ChatSettingError;
use crate::cluster::UnknownNetwork;
use crate::conversation::ConversationError;
use crate::hub_error::HubError;
use crate::model_place::NoModel;
use crate::run::RunError;
use crate::settings::SettingError;
use crate::sweep::SweepError;
use std::path::PathBuf;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A setting is wrong in the text of a configuration.
    #[error("line {line}, column {column}: {cause}\n{shown}")]
    Place {
        /// Line, from 1.
        line: usize,
        /// Character in the line, from 1.
        column: usize,
        /// The line itself, with a mark below the character.
        shown: String,
        /// What is wrong. This error's text includes it.
        cause: Box<SettingError>,
    },
    /// A configuration file is wrong.
    #[error("{}: not a valid configuration", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<Error>,
    },
    /// A run cannot be started, resumed or evaluated.
    #[error(transparent)]
    Run(#[from] RunError),
    /// There is no model at a path.
    #[error(transparent)]
    NoModel(#[from] NoModel),
    /// A model has no tokenizer.
    #[error("{} has no tokenizer (tokenizer.json)", .0.display())]
    NoTokenizer(PathBuf),
    /// A conversation cannot go on.
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    /// A setting of a chat is wrong.
    #[error(transparent)]
    ChatSetting(#[from] ChatSettingError),
    /// A model of the hub cannot be used.
    #[error(transparent)]
    Hub(Box<HubError>),
    /// A sweep cannot be planned or run.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// A network that is not known.
    #[error(transparent)]
    Network(#[from] UnknownNetwork),
    /// A temporary folder could not be created.
    #[error("could not create a temporary folder")]
    Scratch(#[source] std::io::Error),
    /// A message cannot be formatted for the model.
    #[error(transparent)]
    Chat(#[from] minigpt_chat::Error),
    /// Data could not be opened or downloaded.
    #[error(transparent)]
    Dataset(#[from] minigpt_data::Error),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] minigpt_files::Error),
    /// The files of a model are wrong.
    #[error(transparent)]
    Format(#[from] minigpt_formats::Error),
    /// The model failed.
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
    /// Generation failed.
    #[error(transparent)]
    Generate(#[from] minigpt_generate::Error),
    /// Looking inside the model failed.
    #[error(transparent)]
    Insight(#[from] minigpt_insight::Error),
    /// The tokenizer failed.
    #[error(transparent)]
    Tokenizer(#[from] minigpt_tokenizer::Error),
    /// A scaling law could not be fitted.
    #[error(transparent)]
    Scaling(#[from] minigpt_scaling::Error),
    /// Training failed.
    #[error(transparent)]
    Train(#[from] minigpt_train::Error),
}

impl From<HubError> for Error {
    fn from(error: HubError) -> Self {
        Self::Hub(Box::new(error))
    }
}
