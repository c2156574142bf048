//! Answers that come in events, as `text/event-stream`.

use crate::problem::Problem;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::body::Frame;
use serde::Serialize;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use utoipa::ToSchema;

/// Events that wait for a slow reader here; behind them the engine's own wait in a bounded `backlog`.
const WAITING: usize = 4;

/// Where a writer puts its events.
pub(crate) struct Events(Sender<Option<Bytes>>);

/// An event of a stream, for the description of the routes: `data` is JSON, or `[DONE]` behind the last.
#[derive(Serialize, ToSchema)]
pub(crate) struct StreamEvent {
    data: String,
}

/// The client has gone.
pub(crate) struct Gone;

impl Events {
    /// Sends one value.
    pub async fn send(&self, value: &impl Serialize) -> Result<(), Gone> {
        self.raw(event(value)).await
    }

    /// Sends a line of JSON.
    pub async fn text(&self, line: &str) -> Result<(), Gone> {
        self.raw(format!("data: {line}\n\n").into()).await
    }

    /// Sends an encoded event. Many clients may share its bytes.
    pub async fn raw(&self, event: Bytes) -> Result<(), Gone> {
        self.0.send(Some(event)).await.map_err(|_| Gone)
    }
}

/// The event that ends OpenAI's streams.
pub(crate) const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");

/// An event with a value.
pub(crate) fn event(value: &impl Serialize) -> Bytes {
    format!("data: {}\n\n", json(value)).into()
}

/// An event with a name and a value.
pub(crate) fn named_event(name: &str, value: &impl Serialize) -> Bytes {
    format!("event: {name}\ndata: {}\n\n", json(value)).into()
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| {
        Problem::internal(format!("an answer could not be written: {error}")).json().to_string()
    })
}

/// What ends a writer early.
pub(crate) enum Early {
    Gone,
    Problem(Problem),
}

impl From<Gone> for Early {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<Problem> for Early {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// An answer that a writer sends event by event. It is dropped, with all that it holds, as soon as the client has gone; what goes
/// wrong is its last event.
pub(crate) fn answer<F>(write: impl FnOnce(Events) -> F) -> Response
where
    F: Future<Output = Result<(), Early>> + Send + 'static,
{
    let (sender, receiver) = channel(WAITING);
    let writing = write(Events(sender.clone()));
    tokio::spawn(async move {
        let written = tokio::select! {
            () = sender.closed() => return,
            written = writing => written,
        };
        if let Err(Early::Problem(problem)) = written {
            let _ = Events(sender.clone()).send(&problem.json()).await;
        }
        let _ = sender.send(None).await;
    });
    let mut response = Response::new(Body::new(EventBody { receiver, over: false }));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies would keep events until they have many.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The events as a body. One that ends without its last word (its writer broke) is an error, not an end.
struct EventBody {
    receiver: Receiver<Option<Bytes>>,
    over: bool,
}

impl HttpBody for EventBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.over {
            return Poll::Ready(None);
        }
        self.receiver.poll_recv(context).map(|event| match event {
            Some(Some(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(None) => {
                self.over = true;
                None
            }
            None => Some(Err(axum::Error::new("the answer broke off"))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }
}
