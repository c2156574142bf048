//! The body of a request: JSON of a limited size, read in a limited time.

use crate::app::App;
use crate::problem::Problem;
use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// A body from this size on waits for memory, and is parsed where it keeps nobody waiting.
const LARGE: usize = 64 << 10;
/// Bytes that all large bodies have together; more wait for their turn.
const ALL_LARGE: usize = 128 << 20;
/// Large bodies that are parsed at once: what they mean may take twenty times their bytes.
const PARSED: usize = 2;

/// The memory of large bodies, which all requests share.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: Semaphore,
    parsing: Semaphore,
}

impl Default for Room {
    fn default() -> Self {
        Self { bytes: Semaphore::new(ALL_LARGE), parsing: Semaphore::new(PARSED) }
    }
}

/// What a request has in its body. A field that is `null` is absent, one that nobody knows is ignored.
#[derive(Debug)]
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<App>> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !is_json(content_type.unwrap_or("")) {
            let message = "the body must be JSON: send it with \"Content-Type: application/json\"";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let (body, limit) = (request.into_body(), app.config.body_limit);
        let size = body.size_hint().upper().map_or(limit, |size| usize::try_from(size).unwrap_or(limit));
        let reading = async {
            let share = size.min(limit).min(ALL_LARGE) as u32;
            let room = match size {
                0..LARGE => None,
                _ => app.room.bytes.acquire_many(share).await.ok(),
            };
            Ok::<_, Problem>((read(body, limit).await?, room))
        };
        let Ok(read) = timeout(app.config.request_timeout, reading).await else {
            let message = "the body of the request did not come in time";
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, message));
        };
        let (bytes, _room): (Vec<u8>, _) = read?;
        if bytes.len() < LARGE {
            return parse(&bytes).map(Self);
        }
        let _turn = app.room.parsing.acquire().await;
        aside(move || parse(&bytes)).await.map(Self)
    }
}

/// Work that would keep others waiting, on a thread of its own.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let broken = |_| Problem::internal("this request broke something here; others go on");
    tokio::task::spawn_blocking(work).await.map_err(broken)?
}

fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// All bytes of a body. One that is too large is read for a while and thrown away, because most clients look for an answer
/// only when all is sent.
async fn read(mut body: Body, limit: usize) -> Result<Vec<u8>, Problem> {
    let announced = body.size_hint().lower();
    let mut bytes = Vec::with_capacity(announced.min(limit as u64) as usize);
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let broken = |_| Problem::bad("the body of the request broke off");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        seen += data.len();
        if seen <= limit {
            bytes.extend_from_slice(&data);
        } else {
            bytes = Vec::new();
        }
        if seen > limit.saturating_mul(4) {
            break;
        }
    }
    if seen > limit {
        let message = format!("the body has more than {limit} bytes");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    Ok(bytes)
}

/// What is wrong with a value, without Rust's names of types.
fn in_words(wrong: &str) -> String {
    const TYPES: [(&str, &str); 6] = [
        ("expected f64", "expected a number"),
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected u32", "expected a whole number, 0 or more"),
        ("expected usize", "expected a whole number, 0 or more"),
        ("expected i64", "expected a whole number"),
        ("expected struct ", "expected an object, "),
    ];
    TYPES.iter().fold(wrong.to_owned(), |text, (rust, words)| text.replace(rust, words))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if let Err(error) = std::str::from_utf8(bytes) {
        return Err(Problem::bad(format!(
            "the body is not UTF-8 text: byte {} is wrong",
            error.valid_up_to()
        )));
    }
    if bytes.trim_ascii_start().first().is_some_and(|&byte| byte != b'{') {
        return Err(Problem::bad("the body must be a JSON object: {\"name\": value, …}"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value: T = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, is_data) = (error.path().to_string(), error.inner().is_data());
        let inner = in_words(&error.inner().to_string());
        match is_data && path != "." && path != "?" {
            true => Problem::field(&path, format!("{path}: {inner}")),
            false => Problem::bad(format!("the body can't be understood: {inner}")),
        }
    })?;
    match json.end() {
        Ok(()) => Ok(value),
        Err(error) => Err(Problem::bad(format!("the body is more than one JSON value: {error}"))),
    }
}
