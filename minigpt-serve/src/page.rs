//! The page: its files, embedded in the program, and what a browser may do with them. Nothing is fetched from elsewhere, no
//! code stands in the markup, and nobody may frame it.

use crate::app::App;
use crate::inspect::{self, PageState};
use crate::problem::Problem;
use crate::runs;
use crate::server::Server;
use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

pub use crate::inspect::{OpenSnapshot, OpenedModel};
use std::path::PathBuf;

/// The files, by path.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// What a browser may load and run: what this server sends, and nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What the page shows beside the served models.
#[derive(Clone)]
pub struct PageConfig {
    /// The folder whose runs are shown.
    pub runs: Option<PathBuf>,
    /// Opens a snapshot of a run.
    pub open: OpenSnapshot,
    /// Whether the page itself is served, or only the questions that it asks.
    pub files: bool,
}

impl std::fmt::Debug for PageConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageConfig")
            .field("runs", &self.runs)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Adds the page, and the questions about models and runs that it asks. The files need no key: on the page it is entered.
    pub fn with_page(self, config: PageConfig) -> Self {
        let state = Arc::new(PageState::new(config.runs, config.open, config.files));
        let server = self
            .merge(inspect::routes(&state), inspect::described())
            .merge(runs::routes(&state), runs::described());
        if config.files { server.merge_public(routes()) } else { server }
    }
}

fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(|headers: HeaderMap| async move { file("index.html", &headers) }))
        .route("/icon.svg", get(|headers: HeaderMap| async move { file("icon.svg", &headers) }))
        .route("/css/{*path}", get(below::<'c'>))
        .route("/js/{*path}", get(below::<'j'>))
}

async fn below<const FOLDER: char>(Path(path): Path<String>, headers: HeaderMap) -> Response {
    let folder = if FOLDER == 'c' { "css" } else { "js" };
    file(&format!("{folder}/{path}"), &headers)
}

/// A file with the mark of its content; the content itself only where the browser does not have it yet.
fn file(path: &str, headers: &HeaderMap) -> Response {
    static MARKS: LazyLock<HashMap<&str, (String, &[u8])>> = LazyLock::new(|| {
        let mark = |bytes: &[u8]| {
            Sha256::digest(bytes)[..12].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        FILES.iter().map(|&(path, bytes)| (path, (format!("\"{}\"", mark(bytes)), bytes))).collect()
    });
    let Some((mark, bytes)) = MARKS.get(path) else {
        return Problem::new(StatusCode::NOT_FOUND, "there is no such file of the page").into_response();
    };
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let same = known
        .is_some_and(|known| known.split(',').any(|known| known.trim().trim_start_matches("W/") == mark));
    let mut response =
        if same { StatusCode::NOT_MODIFIED.into_response() } else { Response::new(Body::from(*bytes)) };
    let answer = response.headers_mut();
    let mut put =
        |name: header::HeaderName, value: &'static str| answer.insert(name, HeaderValue::from_static(value));
    put(header::CONTENT_TYPE, kind(path));
    put(header::CONTENT_SECURITY_POLICY, POLICY);
    put(header::REFERRER_POLICY, "no-referrer");
    put(header::X_FRAME_OPTIONS, "DENY");
    put(header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    // Asked for again each time, and sent only if another program stands behind the address now.
    put(header::CACHE_CONTROL, "no-cache");
    if let Ok(mark) = HeaderValue::from_str(mark) {
        answer.insert(header::ETAG, mark);
    }
    response
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_every_file_has_a_kind() {
        let all: usize = FILES.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(all < 450_000, "{all} bytes");
        for (path, _) in FILES {
            assert_ne!(kind(path), "application/octet-stream", "{path}");
            assert!(
                *path == "index.html"
                    || *path == "icon.svg"
                    || path.starts_with("css/")
                    || path.starts_with("js/"),
                "{path}"
            );
        }
    }

    #[test]
    fn a_file_that_the_browser_has_is_not_sent_again() {
        let first = file("index.html", &HeaderMap::new());
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(first.headers()[header::CONTENT_SECURITY_POLICY], POLICY);
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        assert_eq!(file("index.html", &headers).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(file("js/../../Cargo.toml", &headers).status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn nothing_inline_may_run() {
        assert!(!POLICY.contains("unsafe"));
        let index = FILES
            .iter()
            .find(|(path, _)| *path == "index.html")
            .map(|(_, bytes)| String::from_utf8_lossy(bytes));
        let index = index.unwrap();
        assert!(!index.contains("<style") && !index.contains(" style=") && !index.contains("onclick"));
        assert!(
            index.matches("<script").count()
                == index.matches("<script src=").count()
                    + index.matches("<script type=\"module\" src=").count()
        );
    }
}
