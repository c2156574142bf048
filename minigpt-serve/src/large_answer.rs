//! Answers that grow with their requests: made on a thread of their own, few at a time, and refused beyond a size.

use crate::app::App;
use crate::body::aside;
use crate::problem::Problem;
use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::io::{self, Write};
use std::sync::Arc;

/// The largest answer, in bytes of JSON.
pub(crate) const LARGEST: usize = 32 << 20;
/// Answers that are made at once from requests larger than [`SMALL`]: an answer may take ten times the bytes of its request while
/// it is made.
pub(crate) const AT_ONCE: usize = 2;
/// Answers to requests up to this size wait for nobody's turn.
const SMALL: usize = 64 << 10;

/// The JSON of what `make` returns; `size` is that of the request, in bytes. How much waits for its clients is counted in
/// `record`.
pub(crate) async fn answer<T: Serialize>(
    app: &Arc<App>,
    size: usize,
    make: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let turn = if size > SMALL { Arc::clone(&app.large_answers).acquire_owned().await.ok() } else { None };
    let json = aside(move || {
        // Kept until the work is done, even if the client leaves before.
        let _turn = turn;
        json(&make()?, LARGEST)
    });
    let mut response = json.await?.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The problem of an answer beyond [`LARGEST`].
pub(crate) fn too_large() -> Problem {
    let message = format!("the answer would have more than {LARGEST} bytes: ask in several smaller requests");
    Problem::bad(message).with_code("request_too_large")
}

fn json(value: &impl Serialize, limit: usize) -> Result<Bytes, Problem> {
    let mut bounded = Bounded { bytes: Vec::new(), limit, is_full: false };
    match serde_json::to_writer(&mut bounded, value) {
        Ok(()) => Ok(bounded.bytes.into()),
        Err(_) if bounded.is_full => Err(too_large()),
        Err(error) => Err(Problem::internal(format!("an answer could not be written: {error}"))),
    }
}

/// Bytes up to a limit.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    is_full: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_written_up_to_its_limit_and_not_beyond() {
        assert_eq!(&json(&[1, 2], 5).unwrap()[..], b"[1,2]");
        assert_eq!(json(&[1, 2], 4).unwrap_err().code, Some("request_too_large"));
    }
}
