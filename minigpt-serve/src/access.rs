//! Who may ask: hosts, origins, keys.
//!
//! A page on the internet can send requests to a server on this machine, directly (its `Origin` gives it away) or by letting
//! its own name point here (its `Host` does). So both are looked at before anything else. Numbers can't be rebound, so an address
//! as a host is always fine; and where a key is asked for, a page that lacks it gets nowhere under any name.

use crate::app::App;
use crate::config::ServeConfig;
use crate::error::{Error, Result};
use crate::problem::Problem;
use crate::record::{Account, IGNORED, UNKNOWN};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// Routes that need no key: whoever watches over the server has none.
const WITHOUT_KEY: [&str; 2] = ["/health", "/v1/health"];

/// Who may ask.
#[derive(Debug)]
pub(crate) struct Access {
    /// Hashes of the keys, all of one length, so that comparing them tells nothing.
    keys: Vec<[u8; 32]>,
    origins: Vec<String>,
    any_origin: bool,
    /// Names of this server beside addresses and `localhost`.
    hosts: Vec<String>,
    on_loopback: bool,
}

impl Access {
    pub fn new(config: &ServeConfig) -> Result<Self> {
        if config
            .api_keys
            .iter()
            .any(|key| key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return Err(Error::Key);
        }
        let any_origin = config.cors_origins.iter().any(|origin| origin == "*");
        let origins: Vec<String> =
            config.cors_origins.iter().map(|origin| origin.trim_end_matches('/').to_lowercase()).collect();
        let mut hosts = vec![config.host.to_lowercase()];
        for host in &config.allowed_hosts {
            let name = name_of(host).to_lowercase();
            // A name, not an address with a path or a pattern.
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-._:".contains(c)) {
                return Err(Error::Host(host.clone()));
            }
            hosts.push(name);
        }
        for origin in origins.iter().filter(|origin| *origin != "*" && scheme_of(origin).is_none()) {
            let host = host_of(origin).ok_or_else(|| Error::Origin(origin.clone()))?;
            // The host of an app's or an extension's origin is no name of a machine.
            if origin.starts_with("http://") || origin.starts_with("https://") {
                hosts.push(name_of(host).to_owned());
            }
        }
        Ok(Self {
            keys: config.api_keys.iter().map(|key| Sha256::digest(key).into()).collect(),
            origins,
            any_origin,
            hosts,
            on_loopback: is_loopback(&config.host),
        })
    }

    fn allows_host(&self, host: &str) -> bool {
        let name = name_of(host).to_lowercase();
        !self.keys.is_empty()
            || name.parse::<IpAddr>().is_ok()
            || is_loopback(&name)
            || self.hosts.contains(&name)
    }

    /// Whether a page of this origin may ask: one that is allowed by name, that this server sent itself, or, where the server
    /// can be reached from this machine only, any page of this machine.
    fn allows_origin(&self, origin: &str, host: Option<&str>) -> bool {
        let origin = origin.to_lowercase();
        let of = host_of(&origin);
        self.any_origin
            || self.origins.contains(&origin)
            || self.origins.iter().filter_map(|known| scheme_of(known)).any(|scheme| {
                origin.strip_prefix(scheme).is_some_and(|rest| rest.starts_with("://") && of.is_some())
            })
            || (of.is_some() && of == host.map(str::to_lowercase).as_deref())
            || of.is_some_and(|of| self.on_loopback && is_loopback(name_of(of)))
    }

    /// Which of the keys a client gives, counted from 0; 0 for every client if none is asked for.
    fn key(&self, headers: &HeaderMap) -> Option<u64> {
        let bearer = |value: &HeaderValue| {
            let value = value.as_bytes();
            let (scheme, key) = value.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii().to_vec())
        };
        let bearer = headers.get(header::AUTHORIZATION).and_then(bearer);
        let given = bearer.or_else(|| headers.get("x-api-key").map(|key| key.as_bytes().to_vec()));
        if self.keys.is_empty() {
            return Some(0);
        }
        let given = Sha256::digest(given?);
        // All are compared, whichever is right.
        let compare = |found: Option<u64>, (place, key): (usize, &[u8; 32])| {
            let same = bool::from(given.as_slice().ct_eq(key));
            if same { found.or(Some(place as u64)) } else { found }
        };
        self.keys.iter().enumerate().fold(None, compare)
    }

    /// Answers what a browser asks before it lets a page ask, with the very headers that it asks for.
    pub fn cors(app: &Arc<App>) -> CorsLayer {
        let app = Arc::clone(app);
        let allowed = move |origin: &HeaderValue, parts: &axum::http::request::Parts| {
            let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
            origin.to_str().is_ok_and(|origin| app.access.allows_origin(origin, host))
        };
        CorsLayer::new()
            .allow_origin(AllowOrigin::predicate(allowed))
            .allow_methods([Method::GET, Method::POST])
            .allow_headers(AllowHeaders::mirror_request())
            .allow_private_network(true)
            .expose_headers([header::RETRY_AFTER, IGNORED, UNKNOWN])
            .max_age(Duration::from_secs(3600))
    }
}

/// Refuses hosts and origins that are none of ours.
pub(crate) async fn check_source(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    allow_source(&app.access, &request)?;
    Ok(next.run(request).await)
}

fn allow_source(access: &Access, request: &Request) -> Result<(), Problem> {
    let text = |name| request.headers().get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
    let host = text(header::HOST).or_else(|| request.uri().authority().map(|authority| authority.as_str()));
    let refuse = |message: String, code| Err(Problem::new(StatusCode::FORBIDDEN, message).with_code(code));
    if let Some(host) = host
        && !access.allows_host(host)
    {
        let message = format!(
            "host {host:?} is not allowed, because any page could make a name point here: use the server's address, or start \
             it with this name as an allowed host or with a key"
        );
        return refuse(message, "host_not_allowed");
    }
    if let Some(origin) = text(header::ORIGIN)
        && !access.allows_origin(origin, host)
    {
        let message =
            format!("origin {origin:?} is not allowed: start the server with this as an allowed origin");
        return refuse(message, "origin_not_allowed");
    }
    Ok(())
}

/// Refuses those without a key, if one is asked for.
pub(crate) async fn check_key(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    match app.access.key(request.headers()) {
        Some(key) => {
            if let Some(account) = request.extensions().get::<Arc<Account>>() {
                account.set_key(key);
            }
        }
        None if WITHOUT_KEY.contains(&request.uri().path()) => {}
        None => {
            let message = "the key is missing or wrong: send it as \"Authorization: Bearer KEY\"";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, message).with_code("invalid_api_key"));
        }
    }
    Ok(next.run(request).await)
}

/// The scheme of which all origins are allowed: `app` of `app://*`.
fn scheme_of(origin: &str) -> Option<&str> {
    let scheme = origin.strip_suffix("://*")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    (!scheme.is_empty() && scheme.chars().all(plain)).then_some(scheme)
}

/// The host and port of an origin such as `https://example.org:8080`.
fn host_of(origin: &str) -> Option<&str> {
    let (scheme, host) = origin.split_once("://")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.:[]_".contains(c);
    (!scheme.is_empty() && !host.is_empty() && host.chars().all(plain)).then_some(host)
}

/// A host without its port, an address of IPv6 without its brackets.
fn name_of(host: &str) -> &str {
    if let Some((address, port)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let port = port.strip_prefix(':').unwrap_or(port);
        return if port.bytes().all(|byte| byte.is_ascii_digit()) { address } else { host };
    }
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether a name means this machine, and nothing else can.
pub(crate) fn is_loopback(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(host: &str, keys: &[&str], origins: &[&str]) -> Access {
        let all = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let config = ServeConfig {
            host: host.into(),
            api_keys: all(keys),
            cors_origins: all(origins),
            ..ServeConfig::default()
        };
        Access::new(&config).unwrap()
    }

    #[test]
    fn a_name_that_somebody_else_could_point_here_is_no_host_of_ours() {
        let access = access("127.0.0.1", &[], &["https://chat.example.org"]);
        for good in [
            "127.0.0.1:8080",
            "localhost",
            "LOCALHOST:1",
            "[::1]:8080",
            "10.0.0.7:80",
            "a.localhost",
            "chat.example.org",
        ] {
            assert!(access.allows_host(good), "{good}");
        }
        for bad in [
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "?",
            "localhost:80:evil",
        ] {
            assert!(!access.allows_host(bad), "{bad}");
        }
        assert!(self::access("0.0.0.0", &["k"], &[]).allows_host("my.box"), "with a key any name will do");
        assert!(self::access("my.box", &[], &[]).allows_host("my.box:80"));
    }

    #[test]
    fn pages_of_this_server_and_of_this_machine_may_ask_and_others_if_they_are_named() {
        let access = access("127.0.0.1", &[], &["https://Chat.example.org/"]);
        let ask = |origin| access.allows_origin(origin, Some("127.0.0.1:8080"));
        for good in
            ["http://127.0.0.1:8080", "http://localhost:3000", "http://[::1]", "https://chat.example.org"]
        {
            assert!(ask(good), "{good}");
        }
        for bad in [
            "null",
            "https://evil.example",
            "http://chat.example.org",
            "https://chat.example.org.evil.example",
            "http://localhost:1@evil.example",
            "",
        ] {
            assert!(!ask(bad), "{bad}");
        }
        let open = self::access("0.0.0.0", &["k"], &[]);
        assert!(
            !open.allows_origin("http://localhost:3000", Some("10.0.0.7:8080")),
            "another machine's localhost"
        );
        assert!(open.allows_origin("http://10.0.0.7:8080", Some("10.0.0.7:8080")));
        assert!(self::access("0.0.0.0", &["k"], &["*"]).allows_origin("null", None));
    }

    #[test]
    fn apps_and_extensions_may_ask_if_their_scheme_is_named_and_names_of_this_machine_if_they_are() {
        let access = access("127.0.0.1", &[], &["app://*", "chrome-extension://abcdef", "tauri://localhost"]);
        let ask = |origin| access.allows_origin(origin, Some("127.0.0.1:8080"));
        for good in ["app://obsidian.md", "APP://x", "chrome-extension://abcdef", "tauri://localhost"] {
            assert!(ask(good), "{good}");
        }
        for bad in
            ["app://", "application://x", "https://app", "chrome-extension://other", "app:x", "app://*/"]
        {
            assert!(!ask(bad), "{bad}");
        }
        assert!(!access.allows_host("abcdef"), "the name of an extension is no name of this machine");
        let named = |host: &str| {
            let config = ServeConfig { allowed_hosts: vec![host.into()], ..ServeConfig::default() };
            Access::new(&config)
        };
        let access = named("Host.docker.internal").unwrap();
        assert!(access.allows_host("host.docker.internal:8080") && !access.allows_host("docker.internal"));
        for bad in ["", "*", "http://x", "a b"] {
            assert!(named(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_is_a_bearers_or_stands_alone() {
        let access = access("127.0.0.1", &["one", "two"], &[]);
        let with = |name: &'static str, value: &'static str| {
            access.key(&HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))]))
        };
        assert_eq!(with("authorization", "Bearer one"), Some(0));
        assert_eq!([with("authorization", "bearer  two"), with("x-api-key", "two")], [Some(1); 2]);
        for (name, value) in [("authorization", "Bearer on"), ("authorization", "one"), ("x-api-key", "")] {
            assert_eq!(with(name, value), None, "{name}: {value}");
        }
        assert_eq!(access.key(&HeaderMap::new()), None);
        let open = self::access("127.0.0.1", &[], &[]);
        let any = HeaderMap::from_iter([("x-api-key".parse().unwrap(), HeaderValue::from_static("any"))]);
        assert_eq!([open.key(&HeaderMap::new()), open.key(&any)], [Some(0); 2], "one cache for all");
        let wrong = ServeConfig { api_keys: vec!["ä".into()], ..ServeConfig::default() };
        assert!(Access::new(&wrong).is_err());
    }
}
