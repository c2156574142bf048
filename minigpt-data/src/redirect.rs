//! Which redirects are followed, and which servers are sent a token.

use crate::download_problem::DownloadProblem;
use std::net::IpAddr;
use ureq::http::Uri;

/// Redirects that are followed in a row.
pub(crate) const MOST_REDIRECTS: usize = 10;

/// Parses an http or https URL.
pub(crate) fn address(url: &str) -> Result<Uri, DownloadProblem> {
    let not_a_url = |e: ureq::http::uri::InvalidUri| DownloadProblem::NotAUrl {
        url: url.to_owned(),
        problem: e.to_string(),
    };
    let uri: Uri = url.parse().map_err(not_a_url)?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(_)) => Ok(uri),
        _ => Err(DownloadProblem::NotHttp(url.to_owned())),
    }
}

/// Where `location` leads from `at`. A redirect from https to http is an error.
pub(crate) fn next(at: &Uri, location: &str) -> Result<Uri, DownloadProblem> {
    let (scheme, authority) = (at.scheme_str().unwrap_or_default(), at.authority());
    let origin = format!("{scheme}://{}", authority.map_or("", |authority| authority.as_str()));
    let next = if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{origin}{location}")
    } else if has_scheme(location) {
        location.to_owned()
    } else {
        let folder = at.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{origin}{folder}/{location}")
    };
    let next = address(&next)?;
    if scheme == "https" && next.scheme_str() != Some("https") {
        return Err(DownloadProblem::LeavesHttps(next.to_string()));
    }
    Ok(next)
}

fn has_scheme(location: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    location.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(letters))
}

/// Whether a token for `first` may be sent to `at`: only to the same server, over https or to this machine.
pub(crate) fn may_see_token(first: &Uri, at: &Uri) -> bool {
    origin(first) == origin(at) && (at.scheme_str() == Some("https") || is_loopback(at))
}

/// Whether the host is this machine.
pub(crate) fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

fn origin(uri: &Uri) -> (Option<&str>, String, u16) {
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    (uri.scheme_str(), uri.host().unwrap_or_default().to_ascii_lowercase(), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        address(text).unwrap()
    }

    #[test]
    fn locations_are_followed_but_not_out_of_https() {
        let at = uri("https://hub.example/a/b?c");
        for (location, want) in [
            ("https://cdn.example/x", "https://cdn.example/x"),
            ("//cdn.example/x", "https://cdn.example/x"),
            ("/x?y=http://z", "https://hub.example/x?y=http://z"),
            ("x?y=http://z", "https://hub.example/a/x?y=http://z"),
        ] {
            assert_eq!(next(&at, location).unwrap(), want, "{location}");
        }
        for location in
            ["http://hub.example/a", "ftp://hub.example/a", "file:///etc/passwd", "https://", "\u{1b}[2J"]
        {
            let error = next(&at, location).unwrap_err().to_string();
            assert!(!error.contains('\u{1b}'), "{error:?}");
        }
        assert_eq!(
            next(&uri("http://hub.example/"), "https://hub.example/").unwrap(),
            "https://hub.example/"
        );
    }

    #[test]
    fn a_token_is_for_one_server_and_for_no_open_line() {
        let sees = |first, at| may_see_token(&uri(first), &uri(at));
        assert!(sees("https://hub.example/a", "https://HUB.example:443/b"));
        assert!(!sees("https://hub.example/a", "https://cdn.hub.example/a"));
        assert!(!sees("https://hub.example/a", "https://hub.example:8443/a"));
        assert!(!sees("https://hub.example/a", "https://hub.example@evil.example/a"));
        assert!(!sees("http://hub.example/a", "http://hub.example/a"), "not over plain http");
        assert!(!sees("http://0.0.0.0/a", "http://0.0.0.0/a"));
        for here in ["http://127.0.0.1:8080/", "http://localhost/", "http://[::1]:1/"] {
            assert!(sees(here, here), "{here}");
        }
        assert!(!sees("http://127.0.0.1/", "http://localhost/"));
        assert!(!sees("http://localhost.evil.example/", "http://localhost.evil.example/"));
    }
}
