//! Runs over HTTP: what their folders tell, now and as they grow. Nothing here starts, stops or writes a run.

mod folder;
mod growing;
mod lines;
mod log;

pub(crate) use folder::snapshot_folder;
pub(crate) use log::RunLogs;

use crate::app::App;
use crate::body::aside;
use crate::events::{self, Early, Events};
use crate::inspect::PageState;
use crate::problem::{AccessErrors, ErrorAnswer, Problem};
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use lines::{Position, list};
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
/// Clients that may watch at the same time.
pub(crate) const MOST_WATCHERS: usize = 64;

/// What these routes say about themselves.
#[derive(OpenApi)]
#[openapi(paths(list_runs, one, picture, watch))]
struct Described;

pub(crate) fn described() -> utoipa::openapi::OpenApi {
    Described::openapi()
}

pub(crate) fn routes(state: &Arc<PageState>) -> Router<Arc<App>> {
    Router::new()
        .route("/v1/runs", get(list_runs))
        .route("/v1/runs/events", get(watch))
        .route("/v1/runs/{name}", get(one))
        .route("/v1/runs/{name}/pictures/{file}", get(picture))
        .layer(Extension(Arc::clone(state)))
}

fn folder_of(state: &PageState) -> Result<PathBuf, Problem> {
    let none =
        || Problem::new(StatusCode::NOT_FOUND, "this server has no folder of runs").with_code("no_runs");
    state.runs.clone().ok_or_else(none)
}

/// Reads logs on a thread of its own, for one client at a time: what one has read is there for the next.
async fn with_logs<T: Send + 'static>(
    state: &Arc<PageState>,
    work: impl FnOnce(&mut RunLogs, &std::path::Path) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let runs = folder_of(state)?;
    let mut logs = Arc::clone(&state.logs).lock_owned().await;
    aside(move || work(&mut logs, &runs)).await
}

fn json_answer(json: Bytes) -> Response {
    let mut response = json.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// All runs, the latest first.
#[utoipa::path(get, path = "/v1/runs", responses((status = 200, description = "`runs[] {name, running, step, loss, val_loss, spark, snapshots}`", body = Value), AccessErrors))]
async fn list_runs(Extension(state): Extension<Arc<PageState>>) -> Result<Response, Problem> {
    if state.runs.is_none() {
        return Ok(Json(json!({ "runs": [] })).into_response());
    }
    let listed = with_logs(&state, |logs, runs| Ok(logs.list(runs, Duration::ZERO))).await?;
    Ok(json_answer(listed.answer))
}

/// One run: configuration, records, samples, snapshots.
#[utoipa::path(get, path = "/v1/runs/{name}", params(("name" = String, Path, description = "its folder")), responses((status = 200, description = "the run", body = Value), (status = 404, description = "there is none of this name", body = ErrorAnswer), AccessErrors))]
async fn one(
    Extension(state): Extension<Arc<PageState>>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let answer = with_logs(&state, move |logs, runs| {
        let folder = folder::run_folder(runs, &name)?;
        let about = folder::about(&name, &folder)?;
        Ok(logs.of(&name, &folder)?.answer(about))
    });
    Ok(json_answer(answer.await?))
}

/// A picture of a run, as it was drawn. Whatever it contains, it can't do anything.
#[utoipa::path(get, path = "/v1/runs/{name}/pictures/{file}", params(("name" = String, Path, description = "its folder"), ("file" = String, Path, description = "a file that ends with .svg")), responses((status = 200, description = "the picture", content_type = "image/svg+xml"), (status = 404, description = "there is none of this name", body = ErrorAnswer), AccessErrors))]
async fn picture(
    Extension(state): Extension<Arc<PageState>>,
    Path((name, file)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let runs = folder_of(&state)?;
    let bytes = aside(move || {
        let missing =
            || Problem::new(StatusCode::NOT_FOUND, format!("there is no picture {file:?} of {name:?}"));
        let folder = folder::run_folder(&runs, &name)?;
        if !folder::pictures(&folder).contains(&file) {
            return Err(missing());
        }
        minigpt_files::read_file(&folder.join(&file), LARGEST_PICTURE).map_err(|_| missing())
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
    Extension(state): Extension<Arc<PageState>>,
    Query(watched): Query<Watched>,
) -> Result<Response, Problem> {
    folder_of(&state)?;
    let many = |_| {
        let message = format!("{MOST_WATCHERS} clients watch already, which is the limit: try again later");
        Problem::new(StatusCode::TOO_MANY_REQUESTS, message).with_code("too_many_watchers")
    };
    let watches = Arc::clone(&state.watchers).try_acquire_owned().map_err(many)?;
    let steps: Vec<u64> = watched.from.split(',').map(|step| step.parse().unwrap_or(0)).collect();
    let names = watched.watch.split(',').filter(|name| !name.is_empty()).take(MOST_WATCHED);
    let followed = names
        .enumerate()
        .map(|(at, name)| Followed::new(name, steps.get(at).copied().unwrap_or(0)))
        .collect();
    let mut watcher = Watcher { state, sent: 0, followed };
    Ok(events::answer(move |events| async move {
        let _watches = watches;
        let mut quiet = 0;
        while !app.is_stopping() {
            quiet = if watcher.look(&events).await? { 0 } else { quiet + 1 };
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
    state: Arc<PageState>,
    /// The version of the list that was sent.
    sent: u64,
    followed: Vec<Followed>,
}

/// A run that is followed, and how far.
#[derive(Clone)]
struct Followed {
    name: String,
    records: Position,
    samples: Position,
}

impl Followed {
    fn new(name: &str, known: u64) -> Self {
        Self { name: name.to_owned(), records: Position::behind(known), samples: Position::behind(known) }
    }

    /// What is new, as far as it fits an event. With `grown` the logs are read first.
    fn news(&mut self, logs: &mut RunLogs, runs: &std::path::Path, grown: bool) -> Option<String> {
        let logs = if grown {
            logs.of(&self.name, &folder::run_folder(runs, &self.name).ok()?).ok()?
        } else {
            logs.known(&self.name)?
        };
        let (records, anew) = logs.records.next(&mut self.records);
        let (samples, _) = logs.samples.next(&mut self.samples);
        if !anew && records.is_empty() && samples.is_empty() {
            return None;
        }
        let lists = [records, samples].map(|lines| list(lines.iter().map(|line| &**line)));
        let [records, samples] = lists;
        let run = Value::from(self.name.as_str());
        Some(format!(
            "{{\"kind\":\"records\",\"run\":{run},\"anew\":{anew},\"records\":{records},\"samples\":{samples}}}"
        ))
    }
}

impl Watcher {
    /// Sends what is new since the last look; whether there was anything. No more than one event is in memory at a time.
    async fn look(&mut self, events: &Events) -> Result<bool, Early> {
        let listed = with_logs(&self.state, |logs, runs| Ok(logs.list(runs, LOOK / 2))).await?;
        let mut any = listed.version != self.sent;
        if any {
            self.sent = listed.version;
            events.raw(listed.event).await?;
        }
        for followed in &mut self.followed {
            let mut grown = true;
            loop {
                let mut moved = followed.clone();
                let (position, news) = with_logs(&self.state, move |logs, runs| {
                    let news = moved.news(logs, runs, grown);
                    Ok((moved, news))
                })
                .await?;
                *followed = position;
                let Some(news) = news else { break };
                events.text(&news).await?;
                (any, grown) = (true, false);
            }
        }
        Ok(any)
    }
}
