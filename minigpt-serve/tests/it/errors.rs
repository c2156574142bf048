//! Everything that can be wrong with a request has its status, and one shape: never HTML, never plain text, never a 5xx.

use crate::support::*;
use serde_json::{Value, json};

#[test]
fn bad_fields_are_named_with_a_400() {
    let site = Site::new(vec![plain()]);
    let cases = [
        (json!({ "prompt": "a", "n": 0 }), "n"),
        (json!({ "prompt": "a", "n": 1_000_000_000 }), "n"),
        (json!({ "prompt": "a", "n": 1e30 }), "n"),
        (json!({ "prompt": "a", "n": -1 }), "n"),
        (json!({ "prompt": "a", "temperature": -1 }), "temperature"),
        (json!({ "prompt": "a", "temperature": "hot" }), "temperature"),
        (json!({ "prompt": "a", "top_p": 1.5 }), "top_p"),
        (json!({ "prompt": "a", "min_p": 2 }), "min_p"),
        (json!({ "prompt": "a", "repetition_penalty": 0 }), "repetition_penalty"),
        (json!({ "prompt": "a", "num_beams": 9 }), "num_beams"),
        (json!({ "prompt": "a", "num_beams": 0 }), "num_beams"),
        (json!({ "prompt": "a", "num_beams": 2, "temperature": 1 }), "num_beams"),
        (json!({ "prompt": "a", "num_beams": 2, "n": 2 }), "num_beams"),
        (json!({ "prompt": "a", "max_tokens": -1 }), "max_tokens"),
        (json!({ "prompt": "a", "logprobs": 101 }), "logprobs"),
        (json!({ "prompt": "a", "logit_bias": { "99999": 1 } }), "logit_bias"),
        (json!({ "prompt": "a", "logit_bias": { "x": 1 } }), "logit_bias"),
        (json!({ "prompt": "a", "logit_bias": { "1": 101 } }), "logit_bias"),
        (json!({ "prompt": "a", "stop": [""] }), "stop"),
        (json!({ "prompt": "a", "stop": 5 }), "stop"),
        (json!({ "prompt": "a", "suffix": "b" }), "suffix"),
        (json!({ "prompt": "a", "best_of": 2 }), "best_of"),
        (json!({ "prompt": "a", "frequency_penalty": 3 }), "frequency_penalty"),
        (json!({ "prompt": "a", "presence_penalty": -2.5 }), "presence_penalty"),
        (json!({ "prompt": "a", "repeat_last_n": -2 }), "repeat_last_n"),
        (json!({ "prompt": "a", "repeat_penalty": 2, "repetition_penalty": 3 }), "repeat_penalty"),
        (json!({ "prompt": "a", "stop_token_ids": [99_999] }), "stop_token_ids"),
        (json!({ "prompt": "a", "min_tokens": 9, "max_tokens": 3 }), "min_tokens"),
        (json!({ "prompt": "a", "bad_words": [""] }), "bad_words"),
        (json!({ "prompt": "a", "n_predict": -2 }), "n_predict"),
        (json!({ "prompt": [] }), "prompt"),
        (json!({ "prompt": [[]], "max_tokens": 0, "logprobs": 200 }), "logprobs"),
        (json!({ "prompt": { "a": 1 } }), "prompt"),
        (json!({ "prompt": [1, 99_999] }), "prompt"),
        (json!({ "prompt": [-1] }), "prompt"),
        (json!({ "prompt": "a", "stream_options": { "include_usage": 3 } }), "stream_options.include_usage"),
    ];
    for (body, param) in cases {
        let reply = site.post("/v1/completions", &body);
        let problem = reply.problem();
        assert_eq!((reply.status, &problem["param"]), (400, &json!(param)), "{body}: {problem}");
        assert_eq!(problem["type"], "invalid_request_error");
    }
}

#[test]
fn what_is_wrong_is_said_in_words_and_not_in_types() {
    let site = Site::new(vec![plain()]);
    for (body, said) in [
        (r#"{"prompt": "a", "temperature": "hot"}"#, "expected a number at"),
        (r#"{"prompt": "a", "max_tokens": -1}"#, "expected a whole number, 0 or more at"),
        ("[]", "must be a JSON object"),
        ("3", "must be a JSON object"),
    ] {
        let json = [("content-type", "application/json")];
        let reply = site.send("POST", "/v1/completions", &json, body.as_bytes());
        let message = reply.problem()["message"].as_str().unwrap().to_owned();
        assert!(reply.status == 400 && message.contains(said), "{body}: {message}");
    }
}

#[test]
fn a_prompt_that_is_too_long_is_refused_with_both_numbers() {
    let site = Site::new(vec![plain()]);
    for stream in [false, true] {
        for prompt in [
            json!("a".repeat(CONTEXT + 1)),
            json!(vec![1; CONTEXT + 1]),
            json!(["a", "a".repeat(CONTEXT + 1)]),
        ] {
            let reply = site.post("/v1/completions", &json!({ "prompt": prompt, "stream": stream }));
            let problem = reply.problem();
            assert_eq!((reply.status, &problem["code"]), (400, &json!("context_length_exceeded")));
            let message = problem["message"].as_str().unwrap();
            assert!(message.contains("96") && message.contains("97"), "{message}");
        }
    }
    let chat = json!({ "messages": [{ "role": "user", "content": "a".repeat(1000) }] });
    let reply = site.post("/v1/chat/completions", &chat);
    assert_eq!((reply.status, &reply.problem()["code"]), (400, &json!("context_length_exceeded")));
    let reply = site.post("/completion", &json!({ "prompt": "a".repeat(1000) }));
    assert_eq!((reply.status, &reply.problem()["code"]), (400, &json!("context_length_exceeded")));
}

#[test]
fn bodies_that_are_no_json_are_400_or_415_or_413() {
    let site = Site::new(vec![plain()]);
    let json_type = [("content-type", "application/json; charset=utf-8")];
    let deep = format!("{{\"prompt\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let unknown_deep = format!("{{\"x\":{}{}}}", "{\"a\":".repeat(50_000), "}".repeat(50_000));
    let bodies: [&[u8]; 9] = [
        b"",
        b"{",
        b"nonsense",
        b"{\"prompt\": \"a\"} x",
        b"{\"prompt\": \"\xff\xfe\"}",
        b"[1]",
        b"{\"prompt\": \"\\ud800\"}",
        deep.as_bytes(),
        unknown_deep.as_bytes(),
    ];
    for path in [
        "/v1/completions",
        "/v1/chat/completions",
        "/completion",
        "/tokenize",
        "/detokenize",
        "/apply-template",
    ] {
        for body in bodies {
            let reply = site.send("POST", path, &json_type, body);
            reply.problem();
            assert_eq!(
                reply.status,
                400,
                "{path} {:?}",
                String::from_utf8_lossy(&body[..body.len().min(40)])
            );
        }
        for headers in [
            &[("content-type", "text/plain")][..],
            &[("content-type", "multipart/form-data; boundary=x")],
            &[("content-type", "application/json"), ("content-encoding", "gzip")],
            &[("content-type", "application/json"), ("content-encoding", "br, identity")],
            // What a page of another site can send without asking first.
            &[("sec-fetch-site", "cross-site")],
            &[("origin", "http://localhost:3000")],
            &[("content-type", "application/x-www-form-urlencoded"), ("referer", "http://localhost/")],
        ] {
            let reply = site.send("POST", path, headers, b"{}");
            let kind = reply.problem()["type"].clone();
            assert_eq!(
                (reply.status, kind.as_str()),
                (415, Some("invalid_request_error")),
                "{path} {headers:?}"
            );
        }
    }
}

#[test]
fn json_may_come_as_curl_sends_it_and_as_nothing_at_all() {
    let site = Site::new(vec![plain()]);
    let body = greedy("a", 2).to_string();
    for headers in [
        &[][..],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "application/json"), ("content-encoding", "identity")],
    ] {
        let reply = site.send("POST", "/v1/completions", headers, body.as_bytes());
        assert_eq!(reply.status, 200, "{headers:?}: {}", reply.text());
    }
}

#[test]
fn what_is_not_there_is_a_404_and_a_wrong_method_a_405() {
    let site = Site::new(vec![plain()]);
    for path in ["/nothing", "/v1/nothing", "/v1/completions/x", "/%ff", "/index.html"] {
        let reply = site.get(path);
        assert_eq!(reply.status, 404, "{path}");
        assert_eq!(reply.problem()["type"], "not_found_error");
    }
    for (method, path) in
        [("GET", "/v1/completions"), ("POST", "/health"), ("DELETE", "/v1/models"), ("PUT", "/tokenize")]
    {
        let reply = site.send(method, path, &[], b"");
        assert_eq!(reply.status, 405, "{method} {path}");
        reply.problem();
        assert!(reply.header("allow").is_some());
    }
    let strict = minigpt_serve::ServeConfig { strict_model: true, ..config() };
    let site = Site::with(strict, vec![plain()], &engine());
    let reply = site.post("/v1/completions", &json!({ "model": "gpt-4", "prompt": "a" }));
    let problem = reply.problem();
    assert_eq!(
        (reply.status, &problem["code"], &problem["param"]),
        (404, &json!("model_not_found"), &json!("model"))
    );
    assert!(problem["message"].as_str().unwrap().contains("plain"));
    assert_eq!(site.get("/v1/models/gpt-4").problem()["code"], "model_not_found");
}

#[test]
fn a_full_queue_is_a_429_with_a_time_to_come_back() {
    let engine = minigpt_generate::EngineConfig { slots: 1, max_queue: 1, ..engine() };
    let site = Site::with(config(), vec![plain()], &engine);
    let body = {
        let mut body = greedy("a", 90);
        body["stream"] = json!(true);
        body.to_string()
    };
    let open =
        || site.open("POST", "/v1/completions", &[("content-type", "application/json")], body.as_bytes());
    // Far more than one can write and one can wait for; none of them is read.
    let mut refused = 0;
    for _ in 0..20 {
        let streams: Vec<_> = (0..12).map(|_| open()).collect();
        let mut replies = streams.into_iter().map(|stream| {
            use std::io::Read;
            let mut stream = stream;
            let mut all = String::new();
            stream.read_to_string(&mut all).unwrap();
            all
        });
        refused += replies
            .by_ref()
            .filter(|reply| reply.starts_with("HTTP/1.1 429"))
            .inspect(|reply| {
                assert!(
                    reply.contains("retry-after: 1\r\n") && reply.contains("\"rate_limit_error\""),
                    "{reply}"
                );
            })
            .count();
        if refused > 0 {
            break;
        }
    }
    assert!(refused > 0, "nobody was refused");
    site.ask("/v1/completions", &greedy("a", 3));
}

#[test]
fn a_model_whose_logits_are_not_numbers_is_our_fault_and_nobody_elses() {
    let mut broken = plain();
    broken.name = "broken".to_owned();
    broken.gpt = crate::attack::not_a_number(&broken.gpt);
    let site = Site::new(vec![plain(), broken]);
    let body = json!({ "model": "broken", "prompt": "a", "max_tokens": 3 });
    let reply = site.post("/v1/completions", &body);
    assert_eq!(reply.status, 500);
    assert!(reply.problem()["message"].as_str().unwrap().contains("NaN"));
    let mut body = body;
    body["stream"] = json!(true);
    let events = site.events("/v1/completions", &body);
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert!(
        last["error"]["message"].as_str().unwrap().contains("NaN"),
        "the error ends the stream: {events:?}"
    );
    site.ask("/v1/completions", &greedy("a", 3));
}
