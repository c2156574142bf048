//! Sockets: accepted up to a limit, heads of requests within a time, and an orderly end.

use crate::app::App;
use crate::problem::Problem;
use crate::timed_stream::TimedStream;
use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The head of a request, with all its headers, in bytes.
const LARGEST_HEAD: usize = 64 << 10;
/// Bytes that are buffered of a head, so that one that is somewhat too large gets an answer in JSON.
const HEAD_BUFFER: usize = 2 * LARGEST_HEAD;
/// How long no connection is accepted after the system gave none, for example because too many files are open.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
/// What the last answers have beyond the time that running requests get, to reach their clients.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves until it is told to stop; running requests then have their time, and everything ends.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    app: Arc<App>,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(app.config.max_connections));
    let mut connections = JoinSet::new();
    loop {
        let told = async { drop(stop.wait_for(|stop| *stop).await) };
        let accepted = tokio::select! {
            () = told => break,
            accepted = accept(&listener, &places) => accepted,
        };
        while connections.try_join_next().is_some() {}
        let Some((stream, place)) = accepted else {
            sleep(AFTER_FAILURE).await;
            continue;
        };
        let (router, stop) = (router.clone(), stop.clone());
        let app = Arc::clone(&app);
        connections.spawn(async move {
            connection(stream, router, &app, stop).await;
            drop(place);
        });
    }
    // Nobody else can connect from here on.
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(app.config.shutdown_timeout + LAST_WORDS, all).await;
    connections.abort_all();
}

type Accepted = (TcpStream, tokio::sync::OwnedSemaphorePermit);

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<Accepted> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    Some((stream, place))
}

/// Refuses a request whose head is too large. What is larger than the buffer never comes here.
pub(crate) async fn check_head(request: Request, next: Next) -> Result<Response, Problem> {
    let headers = request.headers().iter();
    // Between name and value stand two bytes, and two end the line; the first line has three spaces and line ends, and a version.
    let headers: usize = headers.map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let target = request.uri().path_and_query().map_or(1, |target| target.as_str().len());
    let size = headers + request.method().as_str().len() + target + 14;
    if size > LARGEST_HEAD {
        let message = format!("the head of the request has {size} bytes; {LARGEST_HEAD} is the most");
        return Err(Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message));
    }
    Ok(next.run(request).await)
}

async fn connection(stream: TcpStream, router: Router, app: &App, mut stop: watch::Receiver<bool>) {
    // A token must not wait for the next one.
    let _ = stream.set_nodelay(true);
    let stream = TokioIo::new(TimedStream::new(stream, app.config.request_timeout, app.config.write_timeout));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // From the end of one request to the whole head of the next. What has begun must come sooner: see `timed_stream`.
        .header_read_timeout(app.config.idle_timeout.max(app.config.request_timeout))
        .max_buf_size(HEAD_BUFFER)
        .serve_connection(stream, TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    let told = async move { drop(stop.wait_for(|stop| *stop).await) };
    // What goes wrong with a connection is its client's business.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = told => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
