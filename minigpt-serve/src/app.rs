//! What all handlers share: the models, once they are loaded, and how the server behaves.

use crate::access::Access;
use crate::backlog::Backlogs;
use crate::body::Room;
use crate::budget::Budgets;
use crate::config::ServeConfig;
use crate::error::{Error, Result};
use crate::large_answer;
use crate::problem::Problem;
use crate::record::{Account, Counters};
use crate::served_model::ServedModel;
use axum::http::StatusCode;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;

/// The server as its handlers see it.
#[derive(Debug)]
pub struct App {
    /// How it behaves.
    pub config: ServeConfig,
    pub(crate) access: Access,
    pub(crate) counters: Counters,
    pub(crate) room: Room,
    /// What completions may write.
    pub(crate) budgets: Arc<Budgets>,
    /// Bytes of other answers that have not been sent.
    pub(crate) unsent: Arc<Budgets>,
    /// Turns of large answers that are being made.
    pub(crate) large_answers: Arc<Semaphore>,
    pub(crate) backlogs: Arc<Backlogs>,
    models: OnceLock<Vec<Arc<ServedModel>>>,
    stopping: AtomicBool,
}

impl App {
    pub(crate) fn new(config: ServeConfig) -> Result<Self> {
        let access = Access::new(&config)?;
        let (models, counters) = (OnceLock::new(), Counters::default());
        Ok(Self {
            config,
            access,
            counters,
            room: Room::default(),
            budgets: Arc::default(),
            unsent: Arc::new(Budgets::of_answers()),
            large_answers: Arc::new(Semaphore::new(large_answer::AT_ONCE)),
            backlogs: Arc::default(),
            models,
            stopping: AtomicBool::new(false),
        })
    }

    /// Takes the models, which are served from now on. Another time nothing changes.
    pub(crate) fn serve(&self, models: Vec<ServedModel>) -> Result<()> {
        let mut names = HashSet::new();
        for name in models.iter().flat_map(ServedModel::names) {
            if !names.insert(name) {
                return Err(Error::SameName(name.to_owned()));
            }
        }
        let _ = self.models.set(models.into_iter().map(Arc::new).collect());
        Ok(())
    }

    /// All models; a problem while they are loaded, when the server is being stopped, or when one of them has failed.
    pub fn models(&self) -> Result<&[Arc<ServedModel>], Problem> {
        match self.models.get() {
            _ if self.is_stopping() => Err(Problem::unavailable("the server is being stopped")),
            Some(models) => match models.iter().find(|model| model.engine.failure().is_some()) {
                Some(model) => Err(Problem::engine_failed(&model.name)),
                None => Ok(models),
            },
            None => Err(Problem::unavailable("the model is being loaded")),
        }
    }

    /// The model of a name, or the first where none is named.
    pub fn model(&self, name: Option<&str>) -> Result<Arc<ServedModel>, Problem> {
        let models = self.models()?;
        let found = match name {
            None | Some("") => models.first(),
            Some(name) => models.iter().find(|model| model.names().any(|known| known == name)),
        };
        found.cloned().ok_or_else(|| {
            let known: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
            let asked: String = name.unwrap_or("").chars().take(100).collect();
            let message = format!("there is no model {asked:?} here; there is {}", known.join(", "));
            let problem = Problem::new(StatusCode::NOT_FOUND, message).with_code("model_not_found");
            Problem { param: Some("model".to_owned()), ..problem }
        })
    }

    /// The model that is to write. Where there is only one, it is meant whatever the client calls it (many clients name a model of
    /// OpenAI's), unless the server is strict.
    pub(crate) fn model_for(
        &self,
        name: Option<&str>,
        account: &Account,
    ) -> Result<Arc<ServedModel>, Problem> {
        match (self.model(name), self.models()?, name) {
            (Err(_), [only], Some(name)) if !self.config.strict_model => {
                let asked = name.chars().take(100).collect();
                account.note(|record| record.asked_model = Some(asked));
                Ok(Arc::clone(only))
            }
            (found, ..) => found,
        }
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the server has been told to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// The models for those who stop them.
    pub(crate) fn loaded(&self) -> &[Arc<ServedModel>] {
        self.models.get().map_or(&[], Vec::as_slice)
    }
}
