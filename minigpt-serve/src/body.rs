//! The body of a request: JSON of a limited size, read in a limited time.

use crate::app::App;
use crate::fields::{self, Fields};
use crate::problem::Problem;
use crate::record::Account;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// A body up to this size is always received and parsed at once. What a larger one has beyond it takes room that all share,
/// and it is parsed on a thread of its own.
const LARGE: usize = 64 << 10;
/// Bytes that all large bodies have together; more wait until others are done.
const ALL_LARGE: usize = 128 << 20;
/// Room is taken in pieces of this size as a body arrives, whatever length was announced.
const PIECE: usize = 256 << 10;
/// Large bodies that are parsed at once: a parsed body may take twenty times its bytes.
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

/// What a request has in its body. A field that is `null` is absent, one that the type does not have is ignored.
#[derive(Debug)]
pub struct JsonBody<T>(pub T);

/// The same for routes whose fields the table knows: what can't be done is refused by name, and what nobody knows is noted.
#[derive(Debug)]
pub(crate) struct KnownFields<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<App>> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        receive(request, app, parse).await.map(Self)
    }
}

impl<T: Fields + Send + 'static> FromRequest<Arc<App>> for KnownFields<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let account = request.extensions().get::<Arc<Account>>().cloned();
        let read = |bytes: &[u8]| Ok((T::read(bytes)?, fields::check(bytes, T::ROUTE)?));
        let (value, ignored) = receive(request, app, read).await?;
        if let Some(account) = account {
            account.note(|record| record.ignored.extend(ignored));
        }
        Ok(Self(value))
    }
}

/// Reads a body within its limits, and makes of it what the route takes.
async fn receive<T: Send + 'static>(
    request: Request,
    app: &Arc<App>,
    make: impl FnOnce(&[u8]) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    check_kind(request.headers())?;
    let (body, limit) = (request.into_body(), app.config.body_limit);
    let mut waits = false;
    let reading = read(body, limit, &app.room, &mut waits);
    let Ok(read) = timeout(app.config.request_timeout, reading).await else {
        return Err(match waits {
            true => Problem::unavailable("too many large bodies are being received: try again later"),
            false => {
                let message = "the body of the request did not arrive in time";
                Problem::new(StatusCode::REQUEST_TIMEOUT, message)
            }
        });
    };
    let (bytes, _room): (Vec<u8>, _) = read?;
    if bytes.len() < LARGE {
        return make(&bytes);
    }
    let _turn = app.room.parsing.acquire().await;
    aside(move || make(&bytes)).await
}

/// Whether the headers announce JSON that can be read.
///
/// `curl -d` announces a form, and some clients announce nothing; both are taken for JSON. A page of another site may send such
/// requests without asking first, so they are taken only without the headers that every browser adds to what a page sends
/// (`Origin` and `Host` are checked before, too).
fn check_kind(headers: &HeaderMap) -> Result<(), Problem> {
    let refuse = |message: String| Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(coding) = text(header::CONTENT_ENCODING)
        && !coding.trim().eq_ignore_ascii_case("identity")
    {
        return refuse(format!("the body is compressed ({coding:.40}): send it as it is"));
    }
    let kind = text(header::CONTENT_TYPE);
    let of_a_page = ["origin", "referer", "cookie", "sec-fetch-site", "sec-fetch-mode"];
    let from_a_page = of_a_page.iter().any(|name| headers.contains_key(*name));
    let unsaid = kind.is_none_or(|kind| essence(kind) == "application/x-www-form-urlencoded");
    if is_json(kind.unwrap_or("")) || (unsaid && !from_a_page) {
        return Ok(());
    }
    refuse("the body must be JSON: send it with \"Content-Type: application/json\"".to_owned())
}

/// A media type without its parameters.
fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// Work that would keep others waiting, on a thread of its own.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let broken = |_| Problem::internal("this request broke something here; others go on");
    tokio::task::spawn_blocking(work).await.map_err(broken)?
}

fn is_json(content_type: &str) -> bool {
    let kind = essence(content_type);
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// All bytes of a body, with the room that they take. One that is too large is read for a while and thrown away, because most
/// clients look for an answer only when all is sent. `waits` says whether it waits for room, not for its client.
async fn read<'a>(
    mut body: Body,
    limit: usize,
    room: &'a Room,
    waits: &mut bool,
) -> Result<(Vec<u8>, Vec<SemaphorePermit<'a>>), Problem> {
    let (mut bytes, mut taken) = (Vec::new(), Vec::new());
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let broken = |_| Problem::bad("the request body ended early");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        seen += data.len();
        if seen <= limit {
            while seen > LARGE + taken.len() * PIECE {
                *waits = true;
                taken.extend(room.bytes.acquire_many(PIECE as u32).await);
                *waits = false;
            }
            bytes.extend_from_slice(&data);
        } else {
            (bytes, taken) = (Vec::new(), Vec::new());
        }
        if seen > limit.saturating_mul(4) {
            break;
        }
    }
    if seen > limit {
        let message = format!("the body has more than {limit} bytes");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    Ok((bytes, taken))
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

/// A value from JSON, or what is wrong with it and where.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A body in parts, of which none says how many follow.
    fn chunked(parts: Vec<Vec<u8>>) -> Body {
        struct Parts(std::vec::IntoIter<Vec<u8>>);
        impl axum::body::HttpBody for Parts {
            type Data = axum::body::Bytes;
            type Error = axum::Error;
            fn poll_frame(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
                let part = self.0.next();
                std::task::Poll::Ready(part.map(|part| Ok(hyper::body::Frame::data(part.into()))))
            }
        }
        Body::new(Parts(parts.into_iter()))
    }

    #[test]
    fn only_bytes_that_have_come_take_room_and_small_bodies_take_none() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(bodies_and_their_room());
    }

    async fn bodies_and_their_room() {
        let room = Room::default();
        let all = room.bytes.available_permits();
        let limit = 8 << 20;
        let mut waits = false;
        let (bytes, taken) = read(chunked(vec![vec![1; 2 << 20]]), limit, &room, &mut waits).await.unwrap();
        assert_eq!((bytes.len(), waits), (2 << 20, false));
        assert_eq!(room.bytes.available_permits(), all - 8 * PIECE, "what has come, in pieces");
        drop(taken);
        assert_eq!(room.bytes.available_permits(), all);
        // All room is taken: a large body waits for it, a small one does not.
        let others = room.bytes.acquire_many(all as u32).await.unwrap();
        let small = read(chunked(vec![vec![1; LARGE]]), limit, &room, &mut waits).await.unwrap();
        assert_eq!((small.0.len(), small.1.len()), (LARGE, 0));
        let large = read(chunked(vec![vec![1; LARGE + 1]]), limit, &room, &mut waits);
        assert!(timeout(std::time::Duration::from_millis(50), large).await.is_err());
        assert!(waits);
        drop(others);
        let too_large = read(chunked(vec![vec![1; limit], vec![1]]), limit, &room, &mut waits).await;
        assert_eq!(too_large.unwrap_err().status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(room.bytes.available_permits(), all);
    }
}
