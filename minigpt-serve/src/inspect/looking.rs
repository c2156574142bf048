//! The models that are looked into: the served ones, and a few snapshots of runs, which are opened when somebody asks. What is
//! computed for the page takes turns, so that it never keeps more than one text's numbers in memory at a time.

use super::question::InspectQuestion;
use super::tokens::name;
use crate::app::App;
use crate::body::aside;
use crate::problem::Problem;
use crate::runs;
use crate::served_model::ServedModel;
use axum::http::StatusCode;
use minigpt_chat::Format;
use minigpt_insight::{RepeatOptions, Subject, head_roles};
use minigpt_model::Gpt;
use minigpt_model::parameters::Count;
use minigpt_tokenizer::{END_OF_TEXT, PAD, SEP, Tokenizer, UNK};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Opens the model in a folder, or says in words why not. Whoever opens models hands this over, so that this crate needs no
/// format of files.
pub type OpenSnapshot = Arc<dyn Fn(&Path) -> Result<OpenedModel, String> + Send + Sync>;

/// Snapshots that stay open.
const OPEN_SNAPSHOTS: usize = 24;
/// What draws the random tokens on which roles are measured.
const SEED: u64 = 1337;

/// A model that is only looked into.
#[derive(Debug)]
pub struct OpenedModel {
    /// The decoder.
    pub gpt: Gpt,
    /// Its tokenizer, if it has one.
    pub tokenizer: Option<Tokenizer>,
    /// How it is spoken to.
    pub format: Format,
}

/// All that is looked into.
pub(crate) struct Looking {
    /// The folder of runs.
    pub runs: Option<PathBuf>,
    open: OpenSnapshot,
    served: Mutex<HashMap<String, Arc<Looked>>>,
    snapshots: Mutex<VecDeque<Arc<Looked>>>,
    turn: Arc<Semaphore>,
}

/// A model with what is known about it.
pub(crate) struct Looked {
    pub id: String,
    pub gpt: Gpt,
    pub tokenizer: Option<Arc<Tokenizer>>,
    pub parameters: u64,
    context: usize,
    format: Format,
    roles: Mutex<Option<Value>>,
}

impl Looking {
    pub fn new(runs: Option<PathBuf>, open: OpenSnapshot) -> Self {
        let (served, snapshots) = (Mutex::default(), Mutex::default());
        Self { runs, open, served, snapshots, turn: Arc::new(Semaphore::new(1)) }
    }

    /// Answers a question on a thread of its own, one at a time.
    pub async fn compute<T: Send + 'static>(
        self: Arc<Self>,
        app: Arc<App>,
        question: InspectQuestion,
        work: impl FnOnce(&Looked, &Subject, &InspectQuestion) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let stopped = |_| Problem::unavailable("the server is being stopped");
        let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(stopped)?;
        aside(move || {
            let _turn = turn;
            let looked = self.find(&app, question.model.as_deref())?;
            looked.with_subject(|subject| work(&looked, subject, &question))
        })
        .await
    }

    fn find(&self, app: &App, name: Option<&str>) -> Result<Arc<Looked>, Problem> {
        match name.and_then(|name| name.strip_prefix("run:")) {
            Some(snapshot) => self.snapshot(snapshot),
            None => Ok(self.served(&*app.model(name)?)),
        }
    }

    /// A served model.
    pub fn served(&self, model: &ServedModel) -> Arc<Looked> {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = served.entry(model.name.clone()).or_insert_with(|| {
            Arc::new(Looked {
                id: model.name.clone(),
                gpt: model.gpt.clone(),
                tokenizer: model.tokenizer.clone(),
                parameters: model.parameters,
                context: model.context,
                format: model.format.clone(),
                roles: Mutex::new(None),
            })
        });
        Arc::clone(looked)
    }

    /// A snapshot of a run, `NAME/STEP`.
    fn snapshot(&self, name: &str) -> Result<Arc<Looked>, Problem> {
        let id = format!("run:{name}");
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(looked) = snapshots.iter().find(|looked| looked.id == id) {
            return Ok(Arc::clone(looked));
        }
        let missing = || {
            Problem::new(StatusCode::NOT_FOUND, format!("there is no snapshot {name:?}"))
                .with_code("model_not_found")
        };
        let folder =
            self.runs.as_deref().and_then(|runs| runs::snapshot_folder(runs, name)).ok_or_else(missing)?;
        let OpenedModel { gpt, tokenizer, format } =
            (self.open)(&folder).map_err(|why| Problem::bad(format!("{name}: {why}")))?;
        let (parameters, context) = (Count::of(gpt.config()).total, gpt.config().block_size);
        let tokenizer = tokenizer.map(Arc::new);
        let looked =
            Arc::new(Looked { id, gpt, tokenizer, parameters, context, format, roles: Mutex::new(None) });
        snapshots.push_back(Arc::clone(&looked));
        if snapshots.len() > OPEN_SNAPSHOTS {
            snapshots.pop_front();
        }
        Ok(looked)
    }
}

impl Looked {
    /// The model as minigpt-insight sees it, with names for its tokens.
    fn with_subject<T>(&self, work: impl FnOnce(&Subject) -> Result<T, Problem>) -> Result<T, Problem> {
        let subject = Subject::new(&self.gpt);
        let Some(tokenizer) = &self.tokenizer else { return work(&subject) };
        let words = |ids: &[u32]| match ids {
            [id] => name(tokenizer, *id),
            ids => tokenizer.decode(ids).ok(),
        };
        work(&subject.with_words(&words))
    }

    /// What the page needs to know before it asks.
    pub fn about(&self) -> Value {
        let config = self.gpt.config();
        let separator = (self.format == Format::Qa).then_some(SEP);
        json!({
            "id": self.id, "parameters": self.parameters, "context": self.context, "config": config, "inner": config.inner(),
            "tokenizer": self.tokenizer.is_some(), "separator": separator, "format": self.format.describe(),
        })
    }

    /// What the heads do, measured once.
    pub fn roles(&self, subject: &Subject) -> Result<Value, Problem> {
        let mut known = self.roles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(roles) = &*known {
            return Ok(roles.clone());
        }
        let special = |name: &str| self.tokenizer.as_ref().and_then(|tokenizer| tokenizer.special_id(name));
        let never: Vec<u32> = [PAD, UNK, SEP, END_OF_TEXT].iter().filter_map(|name| special(name)).collect();
        let broken = |error: serde_json::Error| Problem::internal(error.to_string());
        let options = RepeatOptions { never: &never, distance: None, seed: SEED };
        let mut roles = serde_json::to_value(head_roles(subject, options)?).map_err(broken)?;
        // The tokens themselves are many, and nobody looks at them on a page.
        roles.as_object_mut().map(|roles| roles.remove("repeated"));
        *known = Some(roles.clone());
        Ok(roles)
    }
}
