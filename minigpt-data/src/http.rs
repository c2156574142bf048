//! The part of HTTP that downloads need: one request from a given byte on, and its response.

use crate::download_problem::DownloadProblem;
use crate::error::Error;
use crate::redirect::{MOST_REDIRECTS, address, is_loopback, may_see_token, next};
use std::fmt;
use std::io::Read;
use std::time::Duration;
use ureq::http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_RANGE, ETAG, IF_RANGE, LAST_MODIFIED, LOCATION,
    RANGE, RETRY_AFTER,
};
use ureq::http::{HeaderMap, HeaderName, Response, Uri};
use ureq::{Agent, Body, Timeout};

/// A bearer token. It is sent only to the server that it is for, over https or to this machine: not to the targets of
/// redirects, and never shown in a message.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(String);

impl AccessToken {
    /// A token without the white space around it; `None` if nothing is left.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        Some(text.trim()).filter(|text| !text.is_empty()).map(|text| Self(text.to_owned()))
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

/// Why a request or its response failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server can't be reached: retrying at once is pointless.
    Unreachable(String),
    /// A retry may work.
    Passing(DownloadProblem),
    /// A retry may work after this time.
    Wait(DownloadProblem, Duration),
    /// The file ends before the requested byte; its length, if the server sent it.
    Beyond(Option<u64>),
    /// A retry will not work.
    Final(Error),
}

/// A response.
pub(crate) struct Answer {
    /// Offset of the first byte of `body` in the file.
    pub(crate) start: u64,
    /// Length of the whole file, if the server sent it.
    pub(crate) total: Option<u64>,
    /// Names this version of the file: a part of it may only be continued if it is still the same.
    pub(crate) version: Option<String>,
    /// The bytes.
    pub(crate) body: Box<dyn Read>,
}

/// An HTTP client that gives up on a dead server in reasonable time.
pub(crate) fn client() -> Agent {
    let seconds = |n| Some(Duration::from_secs(n));
    let config = Agent::config_builder()
        .user_agent(concat!("minigpt/", env!("CARGO_PKG_VERSION")))
        .http_status_as_error(false)
        // Followed by `request`, which decides who sees the token.
        .max_redirects(0)
        .timeout_resolve(seconds(10))
        .timeout_connect(seconds(15))
        .timeout_recv_response(seconds(30))
        .timeout_per_read(seconds(60))
        .build();
    Agent::new_with_config(config)
}

/// The longest wait that a server may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What is requested.
pub(crate) struct Request<'a> {
    pub(crate) url: &'a str,
    /// From this byte on,
    pub(crate) start: u64,
    /// as long as it is still of this version.
    pub(crate) version: Option<&'a str>,
    pub(crate) token: Option<&'a AccessToken>,
    /// Time limit for the whole response.
    pub(crate) patience: Option<Duration>,
}

/// Sends a request and follows redirects.
pub(crate) fn request(client: &Agent, asked: &Request) -> Result<Answer, Fault> {
    let first = address(asked.url).map_err(|problem| failed(asked.url, problem))?;
    let mut at = first.clone();
    for _ in 0..=MOST_REDIRECTS {
        let token = asked.token.filter(|_| may_see_token(&first, &at));
        let response = send(client, &at, asked, token).map_err(|e| fault(asked.url, e))?;
        if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            let withheld = asked.token.is_some() && token.is_none();
            return answer(asked, response, withheld);
        }
        let location = header(response.headers(), &LOCATION).unwrap_or_default();
        at = next(&at, location).map_err(|problem| failed(asked.url, problem))?;
    }
    Err(failed(asked.url, DownloadProblem::TooManyRedirects(MOST_REDIRECTS)))
}

/// One request to one server.
fn send(
    client: &Agent,
    at: &Uri,
    asked: &Request,
    token: Option<&AccessToken>,
) -> Result<Response<Body>, ureq::Error> {
    let mut request = client.get(at).header(ACCEPT_ENCODING, "identity");
    if let Some(AccessToken(token)) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    if asked.start > 0 {
        request = request.header(RANGE, format!("bytes={}-", asked.start));
        if let Some(version) = asked.version {
            request = request.header(IF_RANGE, version);
        }
    }
    let mut config = request.config().timeout_global(asked.patience);
    if is_loopback(at) {
        // A proxy is not this machine, and would see what is meant for it alone.
        config = config.proxy(None);
    }
    config.build().call()
}

/// Interprets the status of a response.
fn answer(asked: &Request, response: Response<Body>, withheld: bool) -> Result<Answer, Fault> {
    let url = asked.url;
    match response.status().as_u16() {
        200 => whole(url, response),
        206 => rest(url, response, asked.start),
        416 => Err(Fault::Beyond(header(response.headers(), &CONTENT_RANGE).and_then(parse_length))),
        404 => Err(Fault::Final(Error::NotThere { url: url.to_owned() })),
        401 | 403 => {
            let status = response.status().to_string();
            let problem = if withheld {
                DownloadProblem::TokenWithheld(status)
            } else {
                DownloadProblem::NeedsToken(status)
            };
            Err(failed(url, problem))
        }
        429 => {
            let seconds = header(response.headers(), &RETRY_AFTER).and_then(|text| text.trim().parse().ok());
            let wait = Duration::from_secs(seconds.unwrap_or(1)).min(LONGEST_WAIT);
            Err(Fault::Wait(status(&response), wait))
        }
        500..=599 => Err(Fault::Passing(status(&response))),
        _ => Err(failed(url, status(&response))),
    }
}

fn status(response: &Response<Body>) -> DownloadProblem {
    DownloadProblem::Status(response.status().to_string())
}

fn whole(url: &str, response: Response<Body>) -> Result<Answer, Fault> {
    if header(response.headers(), &CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(failed(url, DownloadProblem::Compressed));
    }
    let version = version(response.headers());
    let total = response.body().content_length();
    let body = Box::new(response.into_body().into_reader());
    Ok(Answer { start: 0, total, version, body })
}

fn rest(url: &str, response: Response<Body>, asked: u64) -> Result<Answer, Fault> {
    let range = header(response.headers(), &CONTENT_RANGE).unwrap_or_default();
    let (start, total) =
        parse_range(range).ok_or_else(|| failed(url, DownloadProblem::BadRange(range.to_owned())))?;
    if start != asked {
        return Err(failed(url, DownloadProblem::OtherRange { requested: asked, range: range.to_owned() }));
    }
    let version = version(response.headers());
    Ok(Answer { start, total, version, body: Box::new(response.into_body().into_reader()) })
}

/// `bytes 5-9/10` is from 5, of 10; `bytes 5-9/*` is from 5, of who knows how many.
fn parse_range(range: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = range.trim().strip_prefix("bytes ")?.split_once('/')?;
    let start = range.split_once('-')?.0.trim().parse().ok()?;
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    Some((start, total))
}

/// `bytes */10` is of 10: what a server says when the range is beyond the file.
fn parse_length(range: &str) -> Option<u64> {
    range.trim().strip_prefix("bytes */")?.parse().ok()
}

/// A strong tag, or else the date: the two that `If-Range` allows.
fn version(headers: &HeaderMap) -> Option<String> {
    let tag = header(headers, &ETAG).filter(|tag| !tag.starts_with("W/"));
    tag.or_else(|| header(headers, &LAST_MODIFIED)).map(str::to_owned)
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A failure that trying again does not change.
pub(crate) fn failed(url: &str, problem: DownloadProblem) -> Fault {
    Fault::Final(Error::Download { url: url.to_owned(), problem })
}

fn fault(url: &str, error: ureq::Error) -> Fault {
    use std::io::ErrorKind as Kind;
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_)
        | ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => Fault::Unreachable(error.to_string()),
        ureq::Error::Io(e) => match e.kind() {
            Kind::ConnectionReset | Kind::ConnectionAborted | Kind::UnexpectedEof | Kind::BrokenPipe => {
                Fault::Passing(DownloadProblem::Connection(e.to_string()))
            }
            _ => Fault::Unreachable(e.to_string()),
        },
        ureq::Error::Timeout(_) | ureq::Error::Protocol(_) | ureq::Error::BodyStalled => {
            Fault::Passing(DownloadProblem::Connection(error.to_string()))
        }
        _ => failed(url, DownloadProblem::Connection(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(parse_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(parse_range("bytes 5-9/*"), Some((5, None)));
        for bad in ["", "bytes", "bytes */10", "bytes -9/10", "items 0-1/2", "bytes 0-1/x", "bytes 1/2"] {
            assert_eq!(parse_range(bad), None, "{bad}");
        }
    }
}
