//! Keys, hosts, origins, and what browsers ask first.

use crate::support::*;
use minigpt_serve::ServeConfig;
use serde_json::json;

fn keyed() -> Site {
    let config = ServeConfig {
        api_keys: vec!["secret-1".into(), "secret-2".into()],
        cors_origins: vec!["https://chat.example.org".into()],
        ..config()
    };
    Site::with(config, vec![plain()], &engine())
}

#[test]
fn without_the_key_only_health_answers() {
    let site = keyed();
    assert_eq!((site.get("/health").status, site.get("/v1/health").status), (200, 200));
    for path in ["/v1/models", "/props", "/slots", "/metrics", "/openapi.json", "/nothing", "/tokenizer_info"]
    {
        for headers in [
            &[][..],
            &[("authorization", "Bearer secret-3")],
            &[("authorization", "Bearer ")],
            &[("authorization", "secret-1")],
            &[("x-api-key", "secret")],
        ] {
            let reply = site.send("GET", path, headers, b"");
            if path == "/nothing" {
                assert!([401, 404].contains(&reply.status));
                continue;
            }
            assert_eq!(
                (reply.status, &reply.problem()["code"]),
                (401, &json!("invalid_api_key")),
                "{path} {headers:?}"
            );
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert_eq!(site.post("/v1/completions", &greedy("a", 1)).status, 401);
    for good in [
        ("authorization", "Bearer secret-1"),
        ("authorization", "bearer secret-2"),
        ("x-api-key", "secret-2"),
    ] {
        assert_eq!(site.send("GET", "/v1/models", &[good], b"").status, 200, "{good:?}");
    }
}

#[test]
fn a_page_elsewhere_can_not_reach_a_server_on_loopback() {
    let site = Site::new(vec![plain()]);
    for host in ["evil.example", "evil.example:8080", "localhost.evil.example", "[::1"] {
        let reply = site.send("GET", "/v1/models", &[("host", host)], b"");
        assert_eq!((reply.status, &reply.problem()["code"]), (403, &json!("host_not_allowed")), "{host}");
    }
    for host in ["localhost:1", "127.0.0.1", "[::1]:5"] {
        assert_eq!(site.send("GET", "/v1/models", &[("host", host)], b"").status, 200, "{host}");
    }
    for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
        let reply = site.send("GET", "/v1/models", &[("origin", origin)], b"");
        assert_eq!((reply.status, &reply.problem()["code"]), (403, &json!("origin_not_allowed")), "{origin}");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
    let own = format!("http://{}", site.address);
    for origin in [own.as_str(), "http://localhost:3000"] {
        let reply = site.send("GET", "/v1/models", &[("origin", origin)], b"");
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some(origin)));
    }
}

#[test]
fn a_preflight_gets_the_very_headers_that_it_asks_for_without_a_key() {
    let site = keyed();
    let asked = "authorization,content-type,x-stainless-arch,x-stainless-retry-count,x-stainless-timeout";
    let headers = [
        ("origin", "https://chat.example.org"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", asked),
    ];
    let reply = site.send("OPTIONS", "/v1/chat/completions", &headers, b"");
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("access-control-allow-origin"), Some("https://chat.example.org"));
    assert_eq!(reply.header("access-control-allow-headers"), Some(asked));
    assert!(reply.header("access-control-allow-methods").unwrap().contains("POST"));
    let evil = [("origin", "https://evil.example"), ("access-control-request-method", "POST")];
    assert_eq!(site.send("OPTIONS", "/v1/chat/completions", &evil, b"").status, 403);
    // An error can be read by the page too.
    let headers = [("origin", "https://chat.example.org"), ("content-type", "application/json")];
    let reply = site.send("POST", "/v1/completions", &headers, b"{}");
    assert_eq!(
        (reply.status, reply.header("access-control-allow-origin")),
        (401, Some("https://chat.example.org"))
    );
}

#[test]
fn keys_and_origins_that_can_not_be_are_said_at_the_start() {
    use minigpt_serve::Server;
    let bad = |config: ServeConfig| Server::bind(config).unwrap_err().to_string();
    assert!(bad(ServeConfig { api_keys: vec!["a b".into()], ..config() }).contains("key"));
    assert!(bad(ServeConfig { cors_origins: vec!["example.org".into()], ..config() }).contains("origin"));
    let site = Site::new(vec![plain()]);
    let taken = ServeConfig { port: site.address.port(), ..config() };
    assert!(bad(taken).contains("could not listen on 127.0.0.1:"));
}

#[test]
fn what_one_key_has_sent_is_not_to_be_found_out_with_another() {
    let keys = ServeConfig { api_keys: vec!["one".into(), "two".into()], ..config() };
    let site = Site::with(keys, vec![plain()], &engine());
    let cached = |site: &Site, key: &str| {
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let body = greedy("a secret that nobody else knows", 1).to_string();
        let answer = site.send("POST", "/v1/completions", &headers, body.as_bytes()).json();
        answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
    };
    assert_eq!(cached(&site, "one"), 0);
    assert_eq!(cached(&site, "two"), 0, "read anew for another key");
    assert!(cached(&site, "one") > 20 && cached(&site, "two") > 20, "each key has its own");
    // Without keys all clients share what was read.
    let open = Site::new(vec![plain()]);
    assert_eq!(cached(&open, "one"), 0);
    assert!(cached(&open, "two") > 20);
}
