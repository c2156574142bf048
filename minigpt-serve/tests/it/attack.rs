//! What nobody means well with: half requests, huge bodies, a million of anything, a handler that breaks.

use crate::support::*;
use minigpt_model::{Gpt, Weight};
use minigpt_serve::axum::{Router, routing::get};
use minigpt_serve::{ServeConfig, ServedModel, Server};
use serde_json::json;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// The model with a weight that is no number.
pub fn not_a_number(gpt: &Gpt) -> Gpt {
    let damaged = |name: &str, tensor: minigpt_model::Tensor| match name {
        "ln_f.weight" => tensor.affine(0.0, f64::NAN).unwrap(),
        _ => tensor,
    };
    let weights = gpt.parameters().into_iter();
    let weights = weights.map(|p| (p.name.clone(), Weight::Plain(damaged(&p.name, p.tensor)))).collect();
    Gpt::from_tensors(gpt.config().clone(), weights).unwrap()
}

#[test]
fn half_a_request_is_not_waited_for_and_holds_up_nobody() {
    let config = ServeConfig { request_timeout: Duration::from_millis(400), ..config() };
    let site = Site::with(config, vec![plain()], &engine());
    let halves: Vec<_> = (0..50)
        .map(|i| {
            let mut stream = site.connect();
            let half: &[u8] = match i % 3 {
                0 => b"POST /v1/comp",
                1 => b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n",
                _ => b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{\"prompt\":",
            };
            stream.write_all(half).unwrap();
            stream
        })
        .collect();
    let begun = Instant::now();
    site.ask("/v1/completions", &greedy("a", 3));
    assert!(begun.elapsed() < Duration::from_secs(10));
    for (i, mut stream) in halves.into_iter().enumerate() {
        let mut answer = String::new();
        // Closed, with or without a word.
        let _ = stream.read_to_string(&mut answer);
        assert!(i % 3 != 2 || answer.starts_with("HTTP/1.1 408"), "{i}: {answer}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_body_of_8_mb_is_read_and_one_byte_more_is_a_413() {
    let site = Site::new(vec![plain()]);
    let json_type = [("content-type", "application/json")];
    let body = |size: usize| {
        let frame = "{\"prompt\":\"\"}".len();
        format!("{{\"prompt\":\"{}\"}}", "a".repeat(size - frame))
    };
    let most = 8 << 20;
    let reply = site.send("POST", "/v1/completions", &json_type, body(most).as_bytes());
    assert_eq!((reply.status, &reply.problem()["code"]), (400, &json!("context_length_exceeded")));
    let reply = site.send("POST", "/v1/completions", &json_type, body(most + 1).as_bytes());
    assert_eq!(reply.status, 413);
    assert!(reply.problem()["message"].as_str().unwrap().contains("8388608"));
    // Without its length said before, too.
    let mut stream = site.connect();
    write!(stream, "POST /tokenize HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n", site.address).unwrap();
    for part in body(most + 1).as_bytes().chunks(1 << 16) {
        write!(stream, "{:x}\r\n", part.len()).unwrap();
        stream.write_all(part).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[test]
fn a_million_of_anything_is_refused() {
    let site = Site::new(vec![plain()]);
    let million = 1_000_000;
    let cases = [
        (json!({ "prompt": "a", "stop": vec!["ab"; million] }), "stop"),
        (json!({ "prompt": "a", "stop": "x".repeat(million) }), "stop"),
        (json!({ "prompt": vec!["a"; million] }), "prompt"),
        (json!({ "prompt": vec![vec![1]; million] }), "prompt"),
        (json!({ "prompt": vec![1; million] }), "prompt"),
        (json!({ "prompt": vec!["a"; 100], "n": 100 }), "prompt"),
        (json!({ "prompt": "a", "n": 1_000_000_000u64 }), "n"),
        (
            json!({ "prompt": "a", "logit_bias": (0..200_000).map(|i| (i.to_string(), 1.0)).collect::<std::collections::BTreeMap<_, _>>() }),
            "logit_bias",
        ),
    ];
    for (body, param) in cases {
        let reply = site.post("/v1/completions", &body);
        assert_eq!((reply.status, &reply.problem()["param"]), (400, &json!(param)));
    }
    let headers: Vec<(String, String)> = (0..500).map(|i| (format!("x-{i}"), "y".repeat(100))).collect();
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let reply = site.send("GET", "/health", &headers, b"");
    assert!((400..500).contains(&reply.status), "{}", reply.status);
    let long = format!("/{}", "a".repeat(100_000));
    let reply = site.get(&long);
    assert!((400..500).contains(&reply.status), "{}", reply.status);
    site.ask("/v1/completions", &greedy("a", 3));
}

#[test]
fn more_numbers_than_a_request_may_ask_for_are_refused_with_both_numbers() {
    let site = Site::new(vec![plain()]);
    let body = json!({
        "prompt": vec!["a"; 16], "n": 128, "max_tokens": 1000, "logprobs": 100, "ignore_eos": true,
    });
    let before = site.status(0).counters;
    let reply = site.post("/v1/completions", &body);
    assert_eq!((reply.status, &reply.problem()["code"]), (400, &json!("request_too_large")));
    let message = reply.problem()["message"].as_str().unwrap().to_owned();
    let asked = 16 * 128 * (CONTEXT - 1) * 101;
    assert!(message.contains(&asked.to_string()) && message.contains("1048576"), "{message}");
    // An echoed prompt counts, too; what the context has no room for does not.
    let echo = json!({ "prompt": vec!["a".repeat(90); 120], "max_tokens": 0, "echo": true, "logprobs": 100 });
    assert_eq!(site.post("/v1/completions", &echo).problem()["code"], "request_too_large");
    let chat = json!({ "messages": [{ "role": "user", "content": "a" }], "n": 128, "logprobs": true, "top_logprobs": 100 });
    assert_eq!(site.post("/v1/chat/completions", &chat).problem()["code"], "request_too_large");
    let after = site.status(0).counters;
    assert_eq!(
        (after.generated_tokens, after.prompt_tokens),
        (before.generated_tokens, before.prompt_tokens)
    );
    site.ask("/v1/completions", &json!({ "prompt": "a", "n": 100, "max_tokens": 2, "logprobs": 100 }));
}

#[test]
fn a_head_of_more_than_64_kib_is_a_431_however_it_is_made_up() {
    let site = Site::new(vec![plain()]);
    let long = |size: usize| "y".repeat(size);
    let ask = |path: &str, headers: &[(&str, &str)]| site.send("GET", path, headers, b"").status;
    assert_eq!(ask("/health", &[("x-long", &long(60_000))]), 200);
    for size in [66_000, 100_000, 120_000, 300_000] {
        assert_eq!(ask("/health", &[("x-long", &long(size))]), 431, "{size}");
    }
    assert_eq!(ask("/health", &[("a", &long(30_000)), ("b", &long(30_000)), ("c", &long(6_000))]), 431);
    assert_eq!(ask(&format!("/{}", long(40_000)), &[("x-long", &long(30_000))]), 431);
    let reply = site.send("GET", "/health", &[("x-long", &long(80_000))], b"");
    assert!(reply.problem()["message"].as_str().unwrap().contains("65536 is the most"));
}

#[test]
fn bodies_that_do_not_come_hold_up_no_other() {
    let site = Site::new(vec![plain()]);
    // As many as would take all room if what they announce counted.
    let announced: Vec<_> = (0..40)
        .map(|i| {
            let mut stream = site.connect();
            let length = if i % 2 == 0 { "content-length: 8000000" } else { "transfer-encoding: chunked" };
            write!(stream, "POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{length}\r\n\r\n").unwrap();
            stream
        })
        .collect();
    let small = r#"{"content":"a"}"#;
    let mut stream = site.connect();
    write!(stream, "POST /tokenize HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{small}\r\n0\r\n\r\n", small.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let large = json!({ "content": "a".repeat(1 << 20) });
    assert_eq!(site.post("/tokenize", &large).status, 200);
    // They are still waited for: nothing here depends on their time being over.
    for stream in &announced {
        stream.set_nonblocking(true).unwrap();
        let waits = (&*stream).read(&mut [0]).unwrap_err();
        assert_eq!(waits.kind(), std::io::ErrorKind::WouldBlock);
    }
}

#[test]
fn bytes_that_are_no_http_end_their_connection_alone() {
    let site = Site::new(vec![plain()]);
    let mut seed = 1u64;
    for size in [0, 1, 10, 100, 1000, 100_000] {
        let bytes: Vec<u8> = (0..size)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 33) as u8
            })
            .collect();
        let mut stream = site.connect();
        let _ = stream.write_all(&bytes);
        let _ = stream.write_all(b"\r\n\r\n");
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
            "{:?}",
            String::from_utf8_lossy(&answer)
        );
    }
    site.ask("/v1/completions", &greedy("a", 3));
}

#[test]
fn a_handler_that_breaks_costs_its_request_alone() {
    async fn breaks() -> &'static str {
        panic!("injected")
    }
    let more = Router::new().route("/breaks", get(breaks));
    let running = Server::bind(config()).unwrap().merge(more, Default::default()).start().unwrap();
    running.serve(vec![ServedModel::start(plain(), &engine()).unwrap()]).unwrap();
    let site = Site { address: running.address(), running: Some(running) };
    let mut body = greedy("a", 60);
    body["stream"] = json!(true);
    let beside = site.open(
        "POST",
        "/v1/completions",
        &[("content-type", "application/json")],
        body.to_string().as_bytes(),
    );
    for _ in 0..5 {
        let reply = site.get("/breaks");
        assert_eq!((reply.status, reply.problem()["type"].as_str()), (500, Some("server_error")));
        assert!(!reply.text().contains("injected"), "what broke inside is nobody's business");
    }
    assert_eq!(Events::new(beside).last().as_deref(), Some("[DONE]"));
    site.ask("/v1/completions", &greedy("a", 3));
}
