//! The end of a server: nobody new, time for those who are there, then all is over.

use crate::support::*;
use minigpt_generate::EngineConfig;
use minigpt_model::{Config, Device, Gpt};
use minigpt_serve::ServeConfig;
use serde_json::json;
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn short_texts_are_finished_and_new_ones_refused() {
    let config = ServeConfig { shutdown_timeout: Duration::from_secs(60), ..config() };
    let mut site = Site::with(config, vec![plain()], &engine());
    let mut body = greedy("a", 90);
    body["stream"] = json!(true);
    body["logprobs"] = json!(20);
    let streams: Vec<_> = (0..12)
        .map(|_| {
            site.open(
                "POST",
                "/v1/completions",
                &[("content-type", "application/json")],
                body.to_string().as_bytes(),
            )
        })
        .collect();
    // Some may be done already: what counts is that all have come, beside those who ask for this number.
    let mut asked = 0;
    until("they have come", || {
        asked += 1;
        let metrics = site.get("/metrics").text();
        let requests = metrics.lines().find_map(|line| line.strip_prefix("minigpt_http_requests_total "));
        requests.and_then(|count| count.parse::<u64>().ok()).is_some_and(|count| count >= 12 + asked)
    });
    let running = site.running.take().unwrap();
    let stopping = std::thread::spawn(move || running.stop());
    until("nobody new", || TcpStream::connect(site.address).is_err());
    for stream in streams {
        assert_eq!(Events::new(stream).last().as_deref(), Some("[DONE]"));
    }
    stopping.join().unwrap();
}

#[test]
fn a_request_with_more_texts_than_slots_is_finished_too() {
    let config = ServeConfig { shutdown_timeout: Duration::from_secs(60), ..config() };
    let engine = EngineConfig { slots: 1, ..engine() };
    let mut site = Site::with(config, vec![plain()], &engine);
    let mut body = greedy("a", 90);
    body["stream"] = json!(true);
    body["n"] = json!(40);
    let stream = site.open(
        "POST",
        "/v1/completions",
        &[("content-type", "application/json")],
        body.to_string().as_bytes(),
    );
    until("it writes", || site.status(0).counters.generated_tokens > 8);
    site.running.take().unwrap().stop();
    assert_eq!(Events::new(stream).last().as_deref(), Some("[DONE]"));
}

#[test]
fn texts_that_take_too_long_end_with_a_word() {
    let config = ServeConfig { shutdown_timeout: Duration::from_millis(300), ..config() };
    let parts = plain();
    let shape = Config { block_size: 8192, n_layer: 6, n_embd: 128, ..parts.gpt.config().clone() };
    let parts = minigpt_serve::ModelParts { gpt: Gpt::new(shape, 3, &Device::Cpu).unwrap(), ..parts };
    let mut site = Site::with(config, vec![parts], &engine());
    let mut body = greedy("a", 8000);
    body["stream"] = json!(true);
    let streams: Vec<_> = (0..8)
        .map(|_| {
            site.open(
                "POST",
                "/v1/completions",
                &[("content-type", "application/json")],
                body.to_string().as_bytes(),
            )
        })
        .collect();
    until("they write", || site.status(0).counters.generated_tokens > 8);
    let begun = Instant::now();
    site.running.take().unwrap().stop();
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    for stream in streams {
        let last = Events::new(stream).last().unwrap();
        assert!(last.contains("\"error\"") && last.contains("stopped"), "{last}");
    }
}
