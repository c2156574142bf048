//! What is known about a request when it is over, for whoever writes it down; and what is counted of all.

use crate::app::App;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use serde::Serialize;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

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
    /// Tokens of all its prompts.
    pub prompt_tokens: usize,
    /// How many of these had been read before.
    pub cached_tokens: usize,
    /// Tokens that were written.
    pub completion_tokens: usize,
    /// Seconds from the request to the first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token_seconds: Option<f64>,
    /// Tokens a second, from the first one on.
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
    first: Mutex<Option<Instant>>,
    record: Mutex<RequestRecord>,
}

impl Account {
    pub fn note(&self, change: impl FnOnce(&mut RequestRecord)) {
        change(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A token came.
    pub fn token(&self) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(Instant::now);
        self.note(|record| record.completion_tokens += 1);
    }

    /// Since when the request is here.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    fn finish(&self, left: bool) {
        let first = *self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.seconds = self.begun.elapsed().as_secs_f64();
        record.left = left;
        record.first_token_seconds = first.map(|first| (first - self.begun).as_secs_f64());
        record.tokens_per_second = first.and_then(|first| {
            let (more, seconds) = (record.completion_tokens.checked_sub(1)?, first.elapsed().as_secs_f64());
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
    let account = Account { app, begun: Instant::now(), first: Mutex::default(), record: Mutex::new(record) };
    let account = Arc::new(account);
    request.extensions_mut().insert(Arc::clone(&account));
    // Dropped with this future if the client goes away while the answer is computed.
    let mut closing = Closing { account: Arc::clone(&account), done: false };
    let response = next.run(request).await;
    account.note(|record| record.status = response.status().as_u16());
    // The body of an answer to HEAD is never asked for.
    closing.done = is_head || response.body().is_end_stream();
    response.map(|body| Body::new(Counted { body, closing }))
}

/// A body that knows when its last byte was taken.
struct Counted {
    body: Body,
    closing: Closing,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.closing.done = true;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What is answered when a handler breaks: that request alone fails.
pub(crate) fn broken(_: Box<dyn std::any::Any + Send>) -> Response {
    use axum::response::IntoResponse;
    let problem = crate::Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "this request broke something here; others go on",
    );
    problem.into_response()
}
