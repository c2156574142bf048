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
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};

/// A body up to this size is always received and parsed at once. What a larger one has beyond it takes room that all share,
/// and it is parsed on a thread of its own.
const LARGE: usize = 64 << 10;
/// Bytes that all large bodies have together; more wait until others are done.
const ALL_LARGE: usize = 128 << 20;
/// Room is taken in pieces of this size as a body arrives, whatever length was announced.
const PIECE: usize = 256 << 10;
/// Large bodies that are parsed at once: a parsed body may take twenty times its bytes.
const PARSED: usize = 2;

/// While other bodies wait for room, each must bring a piece in this time; the one that has brought none for longest is ended.
const SLOW: Duration = Duration::from_secs(1);
/// How often a body that waits for room looks for one that is too slow.
const LOOK: Duration = Duration::from_millis(100);

/// The memory of large bodies, which all requests share.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: Semaphore,
    parsing: Semaphore,
    incoming: Mutex<Vec<Weak<Incoming>>>,
}

impl Default for Room {
    fn default() -> Self {
        let (bytes, parsing) = (Semaphore::new(ALL_LARGE), Semaphore::new(PARSED));
        Self { bytes, parsing, incoming: Mutex::default() }
    }
}

/// A large body that is being received.
#[derive(Debug)]
struct Incoming {
    progress: Mutex<Progress>,
    end: Notify,
}

/// How far a body has come.
#[derive(Debug)]
struct Progress {
    /// When its latest piece came.
    at: Instant,
    pieces: usize,
    /// It waits for room, not for its client.
    waits: bool,
}

impl Room {
    /// Adds a body that takes room from now on.
    fn enter(&self) -> Arc<Incoming> {
        let progress = Progress { at: Instant::now(), pieces: 0, waits: false };
        let body = Arc::new(Incoming { progress: Mutex::new(progress), end: Notify::new() });
        let mut incoming = lock(&self.incoming);
        incoming.retain(|body| body.strong_count() > 0);
        incoming.push(Arc::downgrade(&body));
        body
    }

    /// Waits for room for another piece. Meanwhile, the body whose client has sent nothing for longest is ended once that exceeds [`SLOW`].
    /// If waiting bodies hold all the room, one of them is ended, because none could continue.
    async fn piece(&self, body: &Incoming) -> Result<SemaphorePermit<'_>, Problem> {
        let mut permit = pin!(self.bytes.acquire_many(PIECE as u32));
        loop {
            tokio::select! {
                permit = permit.as_mut() => {
                    return permit.map_err(|_| Problem::unavailable("the server is being stopped"));
                }
                () = body.end.notified() => return Err(no_room()),
                () = sleep(LOOK) => self.end_slowest(),
            }
        }
    }

    fn end_slowest(&self) {
        let incoming: Vec<Arc<Incoming>> = lock(&self.incoming).iter().filter_map(Weak::upgrade).collect();
        let waiting = incoming.iter().map(|body| lock(&body.progress)).filter(|progress| progress.waits);
        let all_wait = waiting.map(|progress| progress.pieces).sum::<usize>() >= ALL_LARGE / PIECE;
        let late = incoming.iter().filter_map(|body| {
            let progress = lock(&body.progress);
            let since = progress.at.elapsed();
            let is_late = if progress.waits { all_wait } else { since > SLOW };
            (is_late && progress.pieces > 0).then_some((since, body))
        });
        if let Some((_, body)) = late.max_by_key(|(since, _)| *since) {
            // Its room is free as soon as its task runs; it must not be ended twice while others wait longer.
            lock(&body.progress).pieces = 0;
            body.end.notify_one();
        }
    }
}

fn no_room() -> Problem {
    Problem::unavailable("too many large bodies are being received: try again later")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        return Err(if waits {
            no_room()
        } else {
            let message = "the body of the request did not arrive in time";
            Problem::new(StatusCode::REQUEST_TIMEOUT, message)
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
    let mut incoming: Option<Arc<Incoming>> = None;
    loop {
        let frame = match &incoming {
            None => body.frame().await,
            Some(incoming) => tokio::select! {
                frame = body.frame() => frame,
                () = incoming.end.notified() => {
                    let message = "the body of the request came too slowly while others waited for room";
                    return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, message));
                }
            },
        };
        let Some(frame) = frame else { break };
        let broken = |_| Problem::bad("the request body ended early");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        seen += data.len();
        if seen <= limit {
            while seen > LARGE + taken.len() * PIECE {
                let incoming = incoming.get_or_insert_with(|| room.enter());
                *waits = true;
                lock(&incoming.progress).waits = true;
                taken.push(room.piece(incoming).await?);
                *waits = false;
                *lock(&incoming.progress) =
                    Progress { at: Instant::now(), pieces: taken.len(), waits: false };
            }
            bytes.extend_from_slice(&data);
        } else {
            (bytes, taken, incoming) = (Vec::new(), Vec::new(), None);
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
        if is_data && path != "." && path != "?" {
            Problem::field(&path, format!("{path}: {inner}"))
        } else {
            Problem::bad(format!("the body can't be understood: {inner}"))
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

    /// A body in parts, of which none says how many follow. Each comes when others had their turn; the body then ends, or never.
    fn parts(parts: Vec<Vec<u8>>, ends: bool) -> Body {
        struct Parts(std::vec::IntoIter<Vec<u8>>, bool, bool);
        impl axum::body::HttpBody for Parts {
            type Data = axum::body::Bytes;
            type Error = axum::Error;
            fn poll_frame(
                mut self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
                self.2 = !self.2;
                if self.2 {
                    context.waker().wake_by_ref();
                    return std::task::Poll::Pending;
                }
                match self.0.next() {
                    None if !self.1 => std::task::Poll::Pending,
                    part => {
                        std::task::Poll::Ready(part.map(|part| Ok(hyper::body::Frame::data(part.into()))))
                    }
                }
            }
        }
        Body::new(Parts(parts.into_iter(), ends, false))
    }

    fn chunked(chunks: Vec<Vec<u8>>) -> Body {
        parts(chunks, true)
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async { timeout(Duration::from_secs(60), work).await.expect("it never ends") })
    }

    const LIMIT: usize = 8 << 20;

    type Reading = tokio::task::JoinHandle<u16>;

    /// Bodies that are read at the same time, with the statuses that they get: 200 if they came.
    fn read_all(room: &Arc<Room>, bodies: Vec<Body>) -> Vec<Reading> {
        let reading = |body| {
            let room = Arc::clone(room);
            tokio::spawn(async move {
                let read = read(body, LIMIT, &room, &mut false).await;
                read.map_or_else(|problem| problem.status.as_u16(), |_| 200)
            })
        };
        bodies.into_iter().map(reading).collect()
    }

    /// Regression: 18 clients that sent 7.9 of 8 MB and stopped held up a body of 100 KB until their time was over.
    #[test]
    fn bodies_that_stop_make_room_for_one_that_comes() {
        let room = Arc::new(Room::default());
        run(async {
            let stop = || parts(vec![vec![1; 79 * LIMIT / 80]], false);
            let mut bodies: Vec<Body> = (0..17).map(|_| stop()).collect();
            bodies.push(chunked(vec![vec![1; 100 << 10]]));
            let mut reading = read_all(&room, bodies);
            assert_eq!(reading.pop().unwrap().await.unwrap(), 200);
            let (ended, open): (Vec<Reading>, _) = reading.into_iter().partition(Reading::is_finished);
            assert!(!ended.is_empty() && open.len() >= 15, "as many as it takes: {}", ended.len());
            for ended in ended {
                assert_eq!(ended.await.unwrap(), 408);
            }
        });
    }

    #[test]
    fn bodies_that_all_wait_for_room_do_not_wait_for_each_other() {
        let room = Arc::new(Room::default());
        run(async {
            let bodies = (0..40).map(|_| chunked(vec![vec![1; PIECE]; LIMIT / PIECE])).collect();
            let mut statuses = Vec::new();
            for reading in read_all(&room, bodies) {
                statuses.push(reading.await.unwrap());
            }
            assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
            assert!(statuses.iter().filter(|&&status| status == 200).count() >= 16, "{statuses:?}");
        });
        assert_eq!(room.bytes.available_permits(), ALL_LARGE);
    }

    #[test]
    fn only_bytes_that_have_come_take_room_and_small_bodies_take_none() {
        run(bodies_and_their_room());
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
        assert!(timeout(Duration::from_millis(50), large).await.is_err());
        assert!(waits);
        drop(others);
        let too_large = read(chunked(vec![vec![1; limit], vec![1]]), limit, &room, &mut waits).await;
        assert_eq!(too_large.unwrap_err().status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(room.bytes.available_permits(), all);
    }
}
