//! The models that are looked into: the served ones, and a few snapshots of runs, which are opened when somebody asks. What is
//! computed for the page takes turns, so that it never keeps more than one text's numbers in memory at a time.

use super::origin::Origin;
use super::question::InspectQuestion;
use super::tokens::name;
use crate::app::App;
use crate::body::aside;
use crate::problem::Problem;
use crate::runs::{self, RunLogs};
use crate::served_model::ServedModel;
use crate::settings::Defaults;
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
/// Characters of a vocabulary that are told; more than Unicode has in use.
const MOST_CHARACTERS: usize = 200_000;
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
pub(crate) struct PageState {
    /// The folder of runs.
    pub runs: Option<PathBuf>,
    /// Whether anybody may see rows of the data that a model was trained on.
    examples: bool,
    open: OpenSnapshot,
    served: Mutex<HashMap<String, Arc<InspectedModel>>>,
    snapshots: Mutex<VecDeque<Arc<InspectedModel>>>,
    turn: Arc<Semaphore>,
    /// What has been read of the logs of runs, for all clients.
    pub logs: Arc<tokio::sync::Mutex<RunLogs>>,
    /// Room for clients that watch runs.
    pub watchers: Arc<Semaphore>,
}

/// A model with what is known about it.
pub(crate) struct InspectedModel {
    pub id: String,
    pub gpt: Gpt,
    pub tokenizer: Option<Arc<Tokenizer>>,
    pub parameters: u64,
    context: usize,
    format: Format,
    /// The names of the tokens that end its texts.
    ends: Vec<String>,
    /// The run in `runs` that it came from.
    run: Option<String>,
    origin: Option<Origin>,
    roles: Mutex<Option<Value>>,
}

impl PageState {
    pub fn new(runs: Option<PathBuf>, open: OpenSnapshot, examples: bool) -> Self {
        let (served, snapshots) = (Mutex::default(), Mutex::default());
        let watchers = Arc::new(Semaphore::new(runs::MOST_WATCHERS));
        Self {
            runs,
            examples,
            open,
            served,
            snapshots,
            turn: Arc::new(Semaphore::new(1)),
            logs: Arc::default(),
            watchers,
        }
    }

    /// The origin of the model in a folder, and its run's name if that is one of `runs`.
    fn origin(&self, model: &Path, tokenizer: Option<&Tokenizer>) -> (Option<Origin>, Option<String>) {
        let Some(mut origin) = Origin::of(model) else { return (None, None) };
        if !self.examples {
            origin.examples.clear();
        }
        if let Some(tokenizer) = tokenizer {
            origin.begin_answers(tokenizer);
        }
        let same =
            |a: &Path, b: &Path| a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok() == Some(a));
        let listed = self.runs.as_deref().zip(origin.folder.parent()).is_some_and(|(a, b)| same(a, b));
        let name = origin.folder.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        (Some(origin), name.filter(|_| listed))
    }

    /// Answers a question on a thread of its own, one at a time.
    pub async fn compute<T: Send + 'static>(
        self: Arc<Self>,
        app: Arc<App>,
        question: InspectQuestion,
        work: impl FnOnce(&InspectedModel, &Subject, &InspectQuestion) -> Result<T, Problem> + Send + 'static,
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

    fn find(&self, app: &App, name: Option<&str>) -> Result<Arc<InspectedModel>, Problem> {
        match name.and_then(|name| name.strip_prefix("run:")) {
            Some(snapshot) => self.snapshot(snapshot),
            None => Ok(self.served(&*app.model(name)?)),
        }
    }

    /// A served model.
    pub fn served(&self, model: &ServedModel) -> Arc<InspectedModel> {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = served.entry(model.name.clone()).or_insert_with(|| {
            let (origin, run) = self.origin(&model.path, model.tokenizer.as_deref());
            Arc::new(InspectedModel {
                id: model.name.clone(),
                gpt: model.gpt.clone(),
                tokenizer: model.tokenizer.clone(),
                parameters: model.parameters,
                context: model.context,
                format: model.format.clone(),
                ends: token_names(model.tokenizer.as_deref(), &model.stop_ids),
                run,
                origin,
                roles: Mutex::new(None),
            })
        });
        Arc::clone(looked)
    }

    /// A snapshot of a run, `NAME/STEP`.
    fn snapshot(&self, name: &str) -> Result<Arc<InspectedModel>, Problem> {
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
        let special = |name: &str| tokenizer.as_ref().and_then(|tokenizer| tokenizer.special_id(name));
        let stop_ids: Vec<u32> = [SEP, END_OF_TEXT].into_iter().filter_map(special).collect();
        let ends = token_names(tokenizer.as_deref(), &stop_ids);
        let (origin, run) = self.origin(&folder, tokenizer.as_deref());
        let roles = Mutex::new(None);
        let looked = Arc::new(InspectedModel {
            id,
            gpt,
            tokenizer,
            parameters,
            context,
            format,
            ends,
            run,
            origin,
            roles,
        });
        snapshots.push_back(Arc::clone(&looked));
        if snapshots.len() > OPEN_SNAPSHOTS {
            snapshots.pop_front();
        }
        Ok(looked)
    }
}

impl InspectedModel {
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
        let kind = match self.format {
            Format::Qa => "questions",
            Format::Template(_) => "chat",
            Format::Plain => "plain",
        };
        let special = |name: &str| self.tokenizer.as_ref().and_then(|tokenizer| tokenizer.special_id(name));
        let Defaults { temperature, top_k, top_p, min_p, .. } = Defaults::chat(&self.format);
        json!({
            "id": self.id, "parameters": self.parameters, "context": self.context, "config": config, "inner": config.inner(),
            "tokenizer": self.tokenizer.is_some(), "separator": separator, "format": self.format.describe(), "kind": kind,
            "defaults": { "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p },
            "characters": self.characters(), "unk": special(UNK).is_some(), "ends": self.ends, "run": self.run, "origin": self.origin,
        })
    }

    /// All characters that a tokenizer of characters knows; none for one that knows every text.
    fn characters(&self) -> Option<String> {
        match self.tokenizer.as_deref()? {
            Tokenizer::Char(characters) => {
                let tokens = characters.tokens().iter();
                Some(
                    tokens
                        .filter(|token| token.chars().count() == 1)
                        .take(MOST_CHARACTERS)
                        .cloned()
                        .collect(),
                )
            }
            _ => None,
        }
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

/// What tokens are called; special ones by their names.
fn token_names(tokenizer: Option<&Tokenizer>, ids: &[u32]) -> Vec<String> {
    let Some(tokenizer) = tokenizer else { return Vec::new() };
    let special = |id: u32| tokenizer.special_names().find(|name| tokenizer.special_id(name) == Some(id));
    ids.iter().filter_map(|&id| special(id).map(str::to_owned).or_else(|| name(tokenizer, id))).collect()
}
