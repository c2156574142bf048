//! What is known about a request when it is over, for whoever writes it down; and what is counted of all.

use crate::app::App;
use crate::budget::Share;
use crate::problem::Problem;
use crate::routes;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use serde::Serialize;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

/// The header that names the fields of a request that were ignored.
pub(crate) const IGNORED: HeaderName = HeaderName::from_static("x-minigpt-ignored");

/// The header that names the characters of a request that the vocabulary lacks.
pub(crate) const UNKNOWN: HeaderName = HeaderName::from_static("x-minigpt-unknown");

/// The most such characters that are named.
const MOST_CHARACTERS: usize = 16;

/// A request that is over.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RequestRecord {
    /// `GET`, `POST`.
    pub method: String,
    /// Where it went, without what follows a question mark.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
    /// The model that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that the client named, where it goes by another name here and was the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_model: Option<String>,
    /// Fields of the request that nobody knows, and that were ignored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// Characters of its texts that the model's vocabulary lacks, each once; the first 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<char>,
    /// Tokens of all its prompts.
    pub prompt_tokens: usize,
    /// How many of these had been read before.
    pub cached_tokens: usize,
    /// Tokens that were written.
    pub completion_tokens: usize,
    /// Seconds from the request to the first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token_seconds: Option<f64>,
    /// Tokens per second from the first token to the last; the first is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    /// Seconds from the request to the end of the answer.
    pub seconds: f64,
    /// Whether the client went away before the end.
    pub left: bool,
}

/// Counts of the server as a whole.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub requests: AtomicU64,
    pub client_errors: AtomicU64,
    pub server_errors: AtomicU64,
    pub left: AtomicU64,
    /// Requests that are being answered.
    pub active: AtomicU64,
}

/// A request under way. Handlers note in it what they know.
#[derive(Debug)]
pub(crate) struct Account {
    app: Arc<App>,
    begun: Instant,
    /// When the first token came, and the last.
    tokens: Mutex<Option<(Instant, Instant)>>,
    /// Which key the client gave.
    key: AtomicU64,
    /// What the answer takes of the room that all share, until its last byte has been sent.
    shares: Mutex<Vec<Share>>,
    record: Mutex<RequestRecord>,
}

impl Account {
    pub fn note(&self, change: impl FnOnce(&mut RequestRecord)) {
        change(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The model's vocabulary lacks these characters of the request.
    pub fn note_unknown(&self, characters: impl IntoIterator<Item = char>) {
        self.note(|record| {
            for character in characters {
                if record.unknown.len() < MOST_CHARACTERS && !record.unknown.contains(&character) {
                    record.unknown.push(character);
                }
            }
        });
    }

    /// Tokens came.
    pub fn tokens(&self, count: usize, at: Instant) {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((at, at)).1 = at;
        self.note(|record| record.completion_tokens += count);
    }

    /// Keeps a share of what all requests have together until the answer has been sent.
    pub fn hold(&self, share: Share) {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).push(share);
    }

    /// Counts the bytes of a whole answer until they have been sent, unless what it may write is counted already.
    fn hold_answer(&self, response: &Response) -> Result<(), Problem> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let (true, Some(size)) = (shares.is_empty(), response.body().size_hint().exact()) {
            shares.push(self.app.unsent.share(usize::try_from(size).unwrap_or(usize::MAX))?);
        }
        Ok(())
    }

    /// The server that the request came to.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Which of the server's keys the client gave, counted from 0; the same for all clients if there are no keys.
    pub fn key(&self) -> u64 {
        self.key.load(Ordering::Relaxed)
    }

    pub fn set_key(&self, key: u64) {
        self.key.store(key, Ordering::Relaxed);
    }

    /// Since when the request is here.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    fn finish(&self, left: bool) {
        let tokens = *self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.seconds = self.begun.elapsed().as_secs_f64();
        record.left = left;
        record.first_token_seconds = tokens.map(|(first, _)| (first - self.begun).as_secs_f64());
        record.tokens_per_second = tokens.and_then(|(first, last)| {
            let (more, seconds) = (record.completion_tokens.checked_sub(1)?, (last - first).as_secs_f64());
            (more > 0 && seconds > 0.0).then(|| more as f64 / seconds)
        });
        let counters = &self.app.counters;
        let counted = match record.status {
            _ if left => Some(&counters.left),
            500.. => Some(&counters.server_errors),
            400..500 => Some(&counters.client_errors),
            _ => None,
        };
        counters.active.fetch_sub(1, Ordering::Relaxed);
        counted.map(|counter| counter.fetch_add(1, Ordering::Relaxed));
        if let Some(on_request) = &self.app.config.on_request {
            on_request(&record);
        }
    }
}

/// Finishes the account of a request, however it ends.
struct Closing {
    account: Arc<Account>,
    /// Whether the whole answer went out.
    done: bool,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.account.finish(!self.done);
    }
}

/// Keeps the account of every request until the last byte of its answer.
pub(crate) async fn keep(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let record = RequestRecord {
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        ..RequestRecord::default()
    };
    let is_head = request.method() == Method::HEAD;
    app.counters.requests.fetch_add(1, Ordering::Relaxed);
    app.counters.active.fetch_add(1, Ordering::Relaxed);
    let account = Account {
        app,
        begun: Instant::now(),
        tokens: Mutex::default(),
        key: AtomicU64::new(0),
        shares: Mutex::default(),
        record: Mutex::new(record),
    };
    let account = Arc::new(account);
    request.extensions_mut().insert(Arc::clone(&account));
    // Dropped with this future if the client goes away while the answer is computed.
    let mut closing = Closing { account: Arc::clone(&account), done: false };
    let mut response = next.run(request).await;
    if !is_head && let Err(problem) = account.hold_answer(&response) {
        response = routes::mark(problem.into_response()).await;
    }
    let [mut ignored, mut unknown] = [String::new(), String::new()];
    account.note(|record| {
        record.status = response.status().as_u16();
        ignored = record.ignored.join(", ");
        unknown = record.unknown.iter().map(|&character| in_header(character)).collect::<Vec<_>>().join(", ");
    });
    for (name, value) in [(IGNORED, ignored), (UNKNOWN, unknown)] {
        if let (false, Ok(value)) = (value.is_empty(), HeaderValue::from_str(&value)) {
            response.headers_mut().insert(name, value);
        }
    }
    // The body of an answer to HEAD is never asked for.
    closing.done = is_head || response.body().is_end_stream();
    response.map(|body| Body::new(Counted { body, rest: Bytes::new(), closing }))
}

/// A character as it stands in a header: percent-encoded, unless it is an ASCII letter or digit.
fn in_header(character: char) -> String {
    if character.is_ascii_alphanumeric() {
        return character.to_string();
    }
    character.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Bytes of an answer that are handed over at a time: what a connection has been given counts as sent.
const PIECE: usize = 64 << 10;

/// A body that knows when its last bytes were taken.
struct Counted {
    body: Body,
    /// What is left of a part of the body.
    rest: Bytes,
    closing: Closing,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut frame = Poll::Ready(None);
        if self.rest.is_empty() {
            frame = Pin::new(&mut self.body).poll_frame(context);
            if let Poll::Ready(Some(Ok(data))) = &frame
                && let Some(data) = data.data_ref()
            {
                self.rest = data.clone();
            }
        }
        if !self.rest.is_empty() {
            let piece = self.rest.len().min(PIECE);
            frame = Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))));
        }
        if matches!(frame, Poll::Ready(None)) || self.is_end_stream() {
            self.closing.done = true;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut size, rest) = (self.body.size_hint(), self.rest.len() as u64);
        match size.upper() {
            Some(upper) => size.set_upper(upper + rest),
            None => size.set_lower(size.lower() + rest),
        }
        size
    }
}

/// What is answered when a handler breaks: that request alone fails.
pub(crate) fn broken(_: Box<dyn std::any::Any + Send>) -> Response {
    let problem =
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "this request broke something here; others go on");
    problem.into_response()
}
