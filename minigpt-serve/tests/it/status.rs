//! Models, health, properties, slots, counts, and the description of it all.

use crate::support::*;
use minigpt_serve::{RequestRecord, ServeConfig, ServedModel, Server};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

#[test]
fn health_says_when_the_models_are_there() {
    let running = Server::bind(config()).unwrap().start().unwrap();
    let site = Site { address: running.address(), running: Some(running) };
    for path in ["/health", "/v1/health", "/v1/models", "/metrics", "/slots"] {
        let reply = site.get(path);
        assert_eq!(
            (reply.status, reply.problem()["type"].as_str()),
            (503, Some("unavailable_error")),
            "{path}"
        );
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    assert_eq!(site.post("/v1/completions", &greedy("a", 1)).status, 503);
    assert_eq!(site.get("/openapi.json").status, 200);
    let model = ServedModel::start(plain(), &engine()).unwrap();
    site.running.as_ref().unwrap().serve(vec![model]).unwrap();
    let reply = site.get("/health");
    assert_eq!((reply.status, reply.json()), (200, json!({ "status": "ok" })));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn models_are_listed_with_their_size_and_found_by_name_and_alias() {
    let named =
        minigpt_serve::ModelParts { aliases: vec!["gpt-4".into(), "owner/name".into()], ..questions() };
    let site = Site::new(vec![plain(), named]);
    for path in ["/v1/models", "/models"] {
        let list = site.get(path).json();
        let ids: Vec<&str> =
            list["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
        assert_eq!((ids, &list["object"]), (vec!["plain", "questions"], &json!("list")));
    }
    for name in ["questions", "gpt-4", "owner/name", "owner%2Fname"] {
        let model = site.get(&format!("/v1/models/{name}")).json();
        assert_eq!((&model["id"], &model["object"]), (&json!("questions"), &json!("model")));
        let meta = &model["meta"];
        assert_eq!(
            (&meta["n_ctx"], &meta["n_layer"], &meta["n_embd"]),
            (&json!(CONTEXT), &json!(2), &json!(32))
        );
        assert!(meta["n_params"].as_u64().unwrap() > 10_000 && meta["n_vocab"].as_u64().unwrap() > 90);
    }
    let body = json!({ "model": "gpt-4", "messages": [{ "role": "user", "content": "a" }], "max_tokens": 2 });
    assert_eq!(site.ask("/v1/chat/completions", &body)["model"], "questions");
    let running = Server::bind(config()).unwrap().start().unwrap();
    let two = [plain(), plain()].map(|parts| ServedModel::start(parts, &engine()).unwrap());
    assert!(running.serve(two.into()).unwrap_err().to_string().contains("plain"));
}

#[test]
fn properties_slots_and_counts_have_llamas_names() {
    let site = Site::new(vec![template()]);
    site.ask("/completion", &json!({ "prompt": "hello", "n_predict": 4, "ignore_eos": true }));
    let props = site.get("/props").json();
    assert_eq!((&props["total_slots"], &props["model_alias"]), (&json!(4), &json!("template")));
    assert_eq!(props["default_generation_settings"]["n_ctx"], CONTEXT);
    assert!(props["chat_template"].as_str().unwrap().contains("im_start"));
    let slots = site.get("/slots").json();
    let slots = slots.as_array().unwrap();
    assert_eq!(slots.len(), 4);
    assert!(slots.iter().all(|slot| slot["is_processing"] == false && slot["n_ctx"] == CONTEXT));
    assert!(
        slots.iter().any(|slot| slot["n_past"].as_u64().unwrap() >= 8),
        "what was read is kept: {slots:?}"
    );
    let metrics = site.get("/metrics");
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let text = metrics.text();
    for line in [
        "llamacpp:tokens_predicted_total{model=\"template\"} 4",
        "minigpt_generated_tokens_total{model=\"template\"} 4",
        "llamacpp:prompt_tokens_total{model=\"template\"} 5",
        "llamacpp:requests_processing{model=\"template\"} 0",
        "llamacpp:requests_deferred{model=\"template\"} 0",
        "# TYPE llamacpp:prompt_tokens_seconds gauge",
        "# TYPE minigpt_http_requests_total counter",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let named = |line: &&str| !line.starts_with('#');
    assert!(text.lines().filter(named).all(|line| line.rsplit(' ').next().unwrap().parse::<f64>().is_ok()));
}

#[test]
fn the_description_names_every_route_and_every_reference_is_there() {
    let site = Site::new(vec![plain()]);
    let api = site.get("/openapi.json").json();
    let paths = api["paths"].as_object().unwrap();
    let known = [
        "/health",
        "/v1/models",
        "/v1/models/{id}",
        "/v1/completions",
        "/v1/chat/completions",
        "/completion",
        "/tokenize",
        "/detokenize",
        "/tokenizer_info",
        "/apply-template",
        "/props",
        "/slots",
        "/metrics",
    ];
    for path in known {
        assert!(paths.contains_key(path), "{path}");
    }
    let mut left = vec![&api];
    let mut references = 0;
    while let Some(value) = left.pop() {
        match value {
            Value::Object(map) => {
                if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                    references += 1;
                    assert!(api.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
                }
                left.extend(map.values());
            }
            Value::Array(list) => left.extend(list),
            _ => {}
        }
    }
    assert!(references > 20);
}

#[test]
fn every_request_is_told_about_once_it_is_over() {
    let records: Arc<Mutex<Vec<RequestRecord>>> = Arc::default();
    let kept = Arc::clone(&records);
    let on_request = move |record: &RequestRecord| kept.lock().unwrap().push(record.clone());
    let config = ServeConfig { on_request: Some(Arc::new(on_request)), ..config() };
    let site = Site::with(config, vec![plain()], &engine());
    site.send("HEAD", "/health", &[], b"");
    site.get("/nothing?secret=1");
    let mut body = greedy("hello", 7);
    site.ask("/v1/completions", &body);
    body["stream"] = json!(true);
    site.chunks("/v1/completions", &body);
    until("four records", || records.lock().unwrap().len() == 4);
    let records = records.lock().unwrap().clone();
    assert_eq!(records.iter().map(|r| r.status).collect::<Vec<_>>(), [200, 404, 200, 200]);
    assert!(!records[0].left, "a HEAD has its whole answer");
    assert_eq!((records[1].path.as_str(), records[1].method.as_str()), ("/nothing", "GET"));
    for record in &records[2..] {
        assert_eq!((record.prompt_tokens, record.completion_tokens, record.left), (5, 7, false));
        assert!(
            record.first_token_seconds.unwrap() > 0.0
                && record.first_token_seconds.unwrap() <= record.seconds
        );
        assert!(record.tokens_per_second.unwrap() > 0.0);
    }
    assert_eq!(records[3].cached_tokens, 4);
}

/// The page and the inspection come from elsewhere: this is where they are put.
#[test]
fn other_crates_add_routes_behind_the_same_doors() {
    use minigpt_serve::axum::{Router, routing::get};
    let more = Router::new().route("/more", get(|| async { "more" }));
    let public = Router::new().route("/", get(|| async { "page" }));
    let config = ServeConfig { api_keys: vec!["key".into()], ..config() };
    let server = Server::bind(config).unwrap().merge(more, Default::default()).merge_public(public);
    let running = server.start().unwrap();
    let site = Site { address: running.address(), running: Some(running) };
    assert_eq!(site.get("/").text(), "page");
    assert_eq!(site.get("/more").status, 401);
    assert_eq!(site.send("GET", "/more", &[("x-api-key", "key")], b"").text(), "more");
    assert_eq!(
        site.send("GET", "/", &[("host", "evil.example")], b"").status,
        200,
        "with a key any name will do"
    );
    assert_eq!(site.send("GET", "/", &[("origin", "https://evil.example")], b"").status, 403);
}
