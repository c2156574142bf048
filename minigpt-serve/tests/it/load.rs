//! Many at once: nothing is lost, nobody changes anybody else's text, and those who leave take no more time.

use crate::support::*;
use minigpt_generate::EngineConfig;
use minigpt_model::{Config, Device, Gpt};
use minigpt_serve::{ModelParts, ServeConfig};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Connections that one process may have here, with both of their ends in it.
fn room_for(connections: usize) -> usize {
    #[cfg(unix)]
    let connections = {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let wanted = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
        let _ = setrlimit(Resource::Nofile, wanted);
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        connections.min((allowed.saturating_sub(300) / 2) as usize)
    };
    connections
}

/// A model whose texts can be long.
fn long() -> ModelParts {
    let parts = plain();
    let shape = Config { block_size: 4096, ..parts.gpt.config().clone() };
    ModelParts { gpt: Gpt::new(shape, 3, &Device::Cpu).unwrap(), ..parts }
}

#[test]
fn two_hundred_and_fifty_six_streams_beside_a_thousand_idle_connections() {
    let idle = room_for(1256).saturating_sub(256);
    let engine = EngineConfig { slots: 16, max_queue: 256, ..EngineConfig::default() };
    let config = ServeConfig { idle_timeout: Duration::from_secs(600), ..config() };
    let site = Arc::new(Site::with(config, vec![plain()], &engine));
    let idlers: Vec<_> = (0..idle).map(|_| site.connect()).collect();
    let body = |i: usize| {
        let mut body = greedy(&format!("client {}", i % 8), 20);
        body["stream"] = json!(true);
        body
    };
    let say = |events: Vec<Value>| -> String {
        events.iter().map(|e| e["choices"][0]["text"].as_str().unwrap()).collect()
    };
    let want: Vec<String> = (0..8).map(|i| say(site.chunks("/v1/completions", &body(i)))).collect();
    let streams: Vec<_> = (0..256)
        .map(|i| {
            site.open(
                "POST",
                "/v1/completions",
                &[("content-type", "application/json")],
                body(i).to_string().as_bytes(),
            )
        })
        .collect();
    let begun = Instant::now();
    assert_eq!(site.get("/health").status, 200);
    assert_eq!(site.get("/slots").json().as_array().unwrap().len(), 16);
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "those who only look wait for nobody: {:?}",
        begun.elapsed()
    );
    for (i, stream) in streams.into_iter().enumerate() {
        let mut events: Vec<String> = Events::new(stream).collect();
        assert_eq!(events.pop().as_deref(), Some("[DONE]"), "client {i}");
        let events = events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        assert_eq!(say(events), want[i % 8], "client {i}");
    }
    // The idle ones are still there.
    for mut stream in idlers.into_iter().step_by(97) {
        write!(stream, "GET /health HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", site.address)
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// The promise of the engine, through everything that stands before it: texts and log-probabilities to the last bit.
#[test]
fn texts_and_log_probabilities_are_those_of_the_lonely_run() {
    for parts in [plain as fn() -> ModelParts, byte_level] {
        let requests: Vec<(&str, Value)> = (0..24usize)
            .map(|i| {
                let prompt = format!("{} the cat sat on 你好 {}", "x".repeat(i % 5), i % 3);
                let (temperature, top_p) = ([0.0, 0.7, 1.3][i % 3], [1.0, 0.9][i % 2]);
                let common = json!({
                    "max_tokens": 6 + i % 11, "seed": i, "temperature": temperature, "top_p": top_p, "n": 1 + i % 2,
                    "ignore_eos": true,
                });
                let (path, more) = match i % 3 {
                    0 => ("/v1/completions", json!({ "prompt": prompt, "logprobs": 3, "echo": i % 2 == 0 })),
                    1 => ("/v1/chat/completions", json!({ "messages": [{ "role": "user", "content": prompt }], "logprobs": true, "top_logprobs": 2 })),
                    _ => ("/v1/completions", json!({ "prompt": [prompt, "another"], "logprobs": 0, "repetition_penalty": 1.2 })),
                };
                let mut body = common;
                body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                (path, body)
            })
            .collect();
        // Each alone, on a server that has seen nothing before.
        let lonely: Vec<Value> = requests
            .iter()
            .map(|(path, body)| {
                Site::with(config(), vec![parts()], &EngineConfig { slots: 1, ..engine() })
                        .ask(path, body)["choices"]
                        .clone()
            })
            .collect();
        let numbers = lonely[0][0]["logprobs"]["token_logprobs"].as_array().unwrap();
        assert!(
            numbers.iter().skip(1).all(|number| number.as_f64().unwrap() < 0.0),
            "there are numbers to compare"
        );
        for slots in [2, 7] {
            let site = Arc::new(Site::with(
                config(),
                vec![parts()],
                &EngineConfig { slots, max_queue: 256, ..engine() },
            ));
            let threads: Vec<_> = (0..requests.len() * 3)
                .map(|i| {
                    // Another order each time round.
                    let i = i * 7 % requests.len();
                    let (site, (path, body), want) =
                        (Arc::clone(&site), requests[i].clone(), lonely[i].clone());
                    std::thread::spawn(move || {
                        assert_eq!(site.ask(path, &body)["choices"], want, "request {i} beside others");
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }
}

#[test]
fn those_who_vanish_take_no_more_time() {
    let site = Site::with(config(), vec![long()], &EngineConfig { slots: 4, ..engine() });
    let idle = || {
        let status = site.status(0);
        status.queued == 0 && status.slots.iter().all(|slot| slot.request.is_none())
    };
    for (i, stream) in [true, false, true, false].into_iter().enumerate() {
        let before = site.status(0).counters;
        let mut body = greedy("a", 4000);
        body["stream"] = json!(stream);
        let connection = site.open(
            "POST",
            "/v1/completions",
            &[("content-type", "application/json")],
            body.to_string().as_bytes(),
        );
        until("it writes", || site.status(0).counters.generated_tokens > before.generated_tokens + 3);
        drop(connection);
        until("it stops", idle);
        let after = site.status(0).counters;
        assert_eq!(after.cancelled, before.cancelled + 1, "{i}");
        assert!(after.generated_tokens - before.generated_tokens < 3000, "{i}: {after:?}");
    }
    // At random instants, many of them: in the queue, while a prompt is read, in the middle of a text.
    let seen = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for client in 0..24u64 {
            let (site, seen) = (&site, &seen);
            scope.spawn(move || {
                for round in 0..4u64 {
                    let mut body = greedy(&"a".repeat(1 + (client * 37 + round * 211) as usize % 1500), 3000);
                    body["stream"] = json!((client + round) % 2 == 0);
                    let mut connection = site.open(
                        "POST",
                        "/v1/completions",
                        &[("content-type", "application/json")],
                        body.to_string().as_bytes(),
                    );
                    connection
                        .set_read_timeout(Some(Duration::from_millis(1 + (client * 31 + round * 17) % 200)))
                        .unwrap();
                    let mut some = [0; 600];
                    seen.fetch_add(connection.read(&mut some).unwrap_or(0), Ordering::Relaxed);
                }
            });
        }
    });
    assert!(seen.load(Ordering::Relaxed) > 0, "nobody got that far");
    until("all is given up", idle);
    let counters = site.status(0).counters;
    assert!(counters.generated_tokens < 24 * 4 * 3000 / 2, "{counters:?}");
    site.ask("/v1/completions", &greedy("a", 3));
}

#[test]
fn a_reader_that_takes_a_byte_now_and_then_holds_back_only_itself() {
    let site = Site::with(config(), vec![plain()], &EngineConfig { slots: 2, ..engine() });
    let mut body = json!({ "prompt": "a", "max_tokens": 60, "n": 24, "logprobs": 50, "stream": true, "ignore_eos": true });
    let slow = |body: &Value| {
        site.open(
            "POST",
            "/v1/completions",
            &[("content-type", "application/json")],
            body.to_string().as_bytes(),
        )
    };
    let mut first = slow(&body);
    let want = site.ask("/v1/completions", &greedy("b", 5));
    for _ in 0..20 {
        let mut byte = [0];
        first.read_exact(&mut byte).unwrap();
        assert_eq!(site.ask("/v1/completions", &greedy("b", 5))["choices"], want["choices"]);
    }
    // It gets all of it when it reads at last.
    let mut rest = Vec::new();
    first.read_to_end(&mut rest).unwrap();
    assert!(
        rest.len() > 1_000_000 && String::from_utf8_lossy(&rest).contains("data: [DONE]"),
        "{}",
        rest.len()
    );

    // One that takes nothing at all is left after a time.
    let config = ServeConfig { write_timeout: Duration::from_millis(300), ..config() };
    let site = Site::with(config, vec![plain()], &EngineConfig { slots: 16, ..engine() });
    body["n"] = json!(100);
    body["logprobs"] = json!(100);
    body["max_tokens"] = json!(95);
    let connection = site.open(
        "POST",
        "/v1/completions",
        &[("content-type", "application/json")],
        body.to_string().as_bytes(),
    );
    let active = || site.running.as_ref().unwrap().app();
    until("it is left", || site.get("/metrics").text().contains("minigpt_http_left_total 1"));
    let _ = active();
    drop(connection);
    site.ask("/v1/completions", &greedy("a", 3));
}

#[test]
fn the_queue_counts_requests_and_not_their_texts() {
    let site = Site::with(config(), vec![long()], &EngineConfig { slots: 1, max_queue: 2, ..engine() });
    let stream = |n: usize| {
        let mut body = greedy("a", 4000);
        body["stream"] = json!(true);
        body["n"] = json!(n);
        site.open(
            "POST",
            "/v1/completions",
            &[("content-type", "application/json")],
            body.to_string().as_bytes(),
        )
    };
    let first = stream(20);
    until("it writes", || site.status(0).counters.generated_tokens > 3);
    let waiting = [stream(20), stream(20)];
    until("two requests wait", || site.status(0).waiting == 2);
    let refused = site.post("/v1/completions", &greedy("a", 1));
    assert_eq!((refused.status, &refused.problem()["code"]), (429, &json!("queue_full")));
    assert_eq!(refused.header("retry-after"), Some("1"));
    drop((first, waiting));
}

/// A client that never reads: the engine is done with its texts, and what is kept of them for it is bounded.
#[test]
fn a_reader_that_never_reads_holds_no_slot_and_stops_further_texts() {
    let site = Site::with(config(), vec![plain()], &EngineConfig { slots: 2, ..engine() });
    let body = json!({
        "prompt": "a", "n": 100, "max_tokens": 95, "logprobs": 100, "ignore_eos": true, "stream": true,
    });
    let stuck: Vec<_> = (0..4)
        .map(|_| {
            site.open(
                "POST",
                "/v1/completions",
                &[("content-type", "application/json")],
                body.to_string().as_bytes(),
            )
        })
        .collect();
    until("no text is written for those who don't read", || {
        let idle = || site.status(0).slots.iter().all(|slot| slot.request.is_none());
        idle() && {
            let before = site.status(0).counters.generated_tokens;
            std::thread::sleep(Duration::from_millis(50));
            idle() && before > 0 && before == site.status(0).counters.generated_tokens
        }
    });
    let all = 4 * 100 * 95;
    assert!(site.status(0).counters.generated_tokens < all, "they were not written to their ends");
    site.ask("/v1/completions", &greedy("b", 5));
    drop(stuck);
}

#[test]
fn answers_that_nobody_reads_count_until_their_clients_have_gone() {
    let site = Site::with(config(), vec![plain()], &EngineConfig { slots: 16, ..engine() });
    let large = json!({ "prompt": "a", "n": 100, "max_tokens": 95, "logprobs": 100, "ignore_eos": true });
    let unread: Vec<_> = (0..2)
        .map(|_| {
            site.open(
                "POST",
                "/v1/completions",
                &[("content-type", "application/json")],
                large.to_string().as_bytes(),
            )
        })
        .collect();
    until("both are written", || site.status(0).counters.finished == 200);
    let refused = site.post("/v1/completions", &large);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.problem()["code"], "answers_too_large");
    assert_eq!(refused.header("retry-after"), Some("1"));
    site.ask("/v1/completions", &greedy("a", 3));
    drop(unread);
    let next = json!({ "prompt": "a", "n": 100, "max_tokens": 2, "logprobs": 100, "ignore_eos": true });
    until("there is room again", || site.post("/v1/completions", &next).status == 200);
}
