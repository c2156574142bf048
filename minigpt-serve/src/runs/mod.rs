//! Runs over HTTP: what their folders tell, now and as they grow. Nothing here starts, stops or writes a run.

mod folder;

pub(crate) use folder::snapshot_folder;

use crate::app::App;
use crate::body::aside;
use crate::events::{self, Early};
use crate::inspect::Looking;
use crate::problem::{AccessErrors, ErrorAnswer, Problem};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use folder::{Growing, RunLine};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use utoipa::OpenApi;

/// How often folders are looked at while somebody watches.
const LOOK: Duration = Duration::from_millis(700);
/// After so many looks without news a sign of life is sent.
const ALIVE: u32 = 20;
/// Runs that one watcher may follow.
const MOST_WATCHED: usize = 16;
/// The largest picture.
const LARGEST_PICTURE: u64 = 8 << 20;

/// What these routes say about themselves.
#[derive(OpenApi)]
#[openapi(paths(list, one, picture, watch))]
struct Described;

pub(crate) fn described() -> utoipa::openapi::OpenApi {
    Described::openapi()
}

pub(crate) fn routes(looking: &Arc<Looking>) -> Router<Arc<App>> {
    Router::new()
        .route("/v1/runs", get(list))
        .route("/v1/runs/events", get(watch))
        .route("/v1/runs/{name}", get(one))
        .route("/v1/runs/{name}/pictures/{file}", get(picture))
        .layer(Extension(Arc::clone(looking)))
}

fn folder_of(looking: &Looking) -> Result<PathBuf, Problem> {
    let none =
        || Problem::new(StatusCode::NOT_FOUND, "this server has no folder of runs").with_code("no_runs");
    looking.runs.clone().ok_or_else(none)
}

/// All runs, the latest first.
#[utoipa::path(get, path = "/v1/runs", responses((status = 200, description = "`runs[] {name, running, step, loss, val_loss, spark, snapshots}`", body = Value), AccessErrors))]
async fn list(Extension(looking): Extension<Arc<Looking>>) -> Result<Json<Value>, Problem> {
    let Ok(runs) = folder_of(&looking) else { return Ok(Json(json!({ "runs": [] }))) };
    aside(move || Ok(Json(json!({ "runs": folder::lines(&runs, &mut Vec::new()) })))).await
}

/// One run: configuration, records, samples, snapshots.
#[utoipa::path(get, path = "/v1/runs/{name}", params(("name" = String, Path, description = "its folder")), responses((status = 200, description = "the run", body = Value), (status = 404, description = "there is none of this name", body = ErrorAnswer), AccessErrors))]
async fn one(
    Extension(looking): Extension<Arc<Looking>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let runs = folder_of(&looking)?;
    aside(move || {
        let whole = folder::whole(&runs, &name)?;
        serde_json::to_value(whole).map(Json).map_err(|error| Problem::internal(error.to_string()))
    })
    .await
}

/// A picture of a run, as it was drawn. Whatever it contains, it can't do anything.
#[utoipa::path(get, path = "/v1/runs/{name}/pictures/{file}", params(("name" = String, Path, description = "its folder"), ("file" = String, Path, description = "a file that ends with .svg")), responses((status = 200, description = "the picture", content_type = "image/svg+xml"), (status = 404, description = "there is none of this name", body = ErrorAnswer), AccessErrors))]
async fn picture(
    Extension(looking): Extension<Arc<Looking>>,
    Path((name, file)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let runs = folder_of(&looking)?;
    let bytes = aside(move || {
        let missing =
            || Problem::new(StatusCode::NOT_FOUND, format!("there is no picture {file:?} of {name:?}"));
        let whole = folder::whole(&runs, &name)?;
        if !whole.pictures.contains(&file) {
            return Err(missing());
        }
        minigpt_files::read_file(&folder::run_folder(&runs, &name)?.join(&file), LARGEST_PICTURE)
            .map_err(|_| missing())
    })
    .await?;
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("image/svg+xml"));
    let policy = "sandbox; default-src 'none'; style-src 'unsafe-inline'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    Ok(response)
}

/// Which runs to follow.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Watched {
    /// Names, separated by commas.
    watch: String,
    /// The last step that is known of each.
    from: String,
}

/// What is new, as events: `{"kind": "runs", "runs": […]}` whenever the list changes, `{"kind": "records", "run", "records", "samples"}`
/// of the runs that are followed, `{"kind": "alive"}` now and then.
#[utoipa::path(get, path = "/v1/runs/events", params(("watch" = Option<String>, Query, description = "names of runs, separated by commas"), ("from" = Option<String>, Query, description = "the last step that is known of each")), responses((status = 200, description = "events", content_type = "text/event-stream"), (status = 404, description = "there is no folder of runs", body = ErrorAnswer), AccessErrors))]
async fn watch(
    State(app): State<Arc<App>>,
    Extension(looking): Extension<Arc<Looking>>,
    Query(watched): Query<Watched>,
) -> Result<Response, Problem> {
    let runs = folder_of(&looking)?;
    let steps: Vec<u64> = watched.from.split(',').map(|step| step.parse().unwrap_or(0)).collect();
    let names = watched.watch.split(',').filter(|name| !name.is_empty()).take(MOST_WATCHED);
    let followed = names
        .enumerate()
        .map(|(at, name)| Followed::new(name, steps.get(at).copied().unwrap_or(0)))
        .collect();
    let mut watcher = Watcher { runs, list: Vec::new(), sent: None, followed };
    Ok(events::answer(move |events| async move {
        let mut quiet = 0;
        while !app.is_stopping() {
            let news;
            (watcher, news) = aside(move || Ok(watcher.look())).await.map_err(Early::Problem)?;
            quiet = if news.is_empty() { quiet + 1 } else { 0 };
            for event in &news {
                events.send(event).await?;
            }
            if quiet >= ALIVE {
                quiet = 0;
                events.send(&json!({ "kind": "alive" })).await?;
            }
            sleep(LOOK).await;
        }
        Ok(())
    }))
}

/// What one watcher has been told.
struct Watcher {
    runs: PathBuf,
    list: Vec<RunLine>,
    sent: Option<Vec<RunLine>>,
    followed: Vec<Followed>,
}

/// A run that is followed: how far its files have been read.
struct Followed {
    name: String,
    /// Records up to this step are known already.
    known: u64,
    begun: bool,
    metrics: Growing,
    samples: Growing,
}

impl Followed {
    fn new(name: &str, known: u64) -> Self {
        Self {
            name: name.to_owned(),
            known,
            begun: false,
            metrics: Growing::default(),
            samples: Growing::default(),
        }
    }

    fn look(&mut self, runs: &std::path::Path) -> Option<Value> {
        let folder = folder::run_folder(runs, &self.name).ok()?;
        let (mut records, anew) = self.metrics.read(&folder.join("metrics.jsonl")).ok()?;
        let (mut samples, _) = self.samples.read(&folder.join("samples.jsonl")).ok()?;
        if !self.begun {
            // The first look finds all that was there; what the page has already is left out.
            self.begun = true;
            for values in [&mut records, &mut samples] {
                values.retain(|value| value["step"].as_u64().is_some_and(|step| step > self.known));
            }
        }
        let news = anew || !records.is_empty() || !samples.is_empty();
        news.then(|| json!({ "kind": "records", "run": self.name, "anew": anew, "records": records, "samples": samples }))
    }
}

impl Watcher {
    /// What is new since the last look.
    fn look(mut self) -> (Self, Vec<Value>) {
        let lines = folder::lines(&self.runs, &mut self.list);
        let mut news = Vec::new();
        if self.sent.as_ref() != Some(&lines) {
            news.push(json!({ "kind": "runs", "runs": lines }));
            self.sent = Some(lines);
        }
        let Self { runs, followed, .. } = &mut self;
        news.extend(followed.iter_mut().filter_map(|run| run.look(runs)));
        (self, news)
    }
}
