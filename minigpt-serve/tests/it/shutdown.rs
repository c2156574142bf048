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
    // An answer's head comes when the engine has taken the request.
    let answers: Vec<Events> = streams.into_iter().map(Events::new).collect();
    let running = site.running.take().unwrap();
    let stopping = std::thread::spawn(move || running.stop());
    until("nobody new", || TcpStream::connect(site.address).is_err());
    for answer in answers {
        assert_eq!(answer.last().as_deref(), Some("[DONE]"));
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

/// Panics when it is dropped, which happens on the engine's thread.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("injected");
    }
}

#[test]
fn when_an_engine_ends_its_requests_get_a_503_and_the_server_an_error() {
    use minigpt_generate::{GenerationConfig, Request};
    let site = Site::with(config(), vec![plain()], &EngineConfig { slots: 1, ..engine() });
    let running = site.running.as_ref().unwrap();
    let signals = running.watch_signals().unwrap();
    let model = std::sync::Arc::clone(&running.app().models().unwrap()[0]);
    assert_eq!(site.get("/health").status, 200);
    // It holds the only slot, for as long as it sends nothing back.
    let (entered, inside) = std::sync::mpsc::channel();
    let (go_on, hold) = std::sync::mpsc::channel::<()>();
    let bomb = Bomb;
    let listener = move |_| {
        let _held = &bomb;
        entered.send(()).unwrap();
        let _ = hold.recv();
        std::ops::ControlFlow::Break(())
    };
    let request = Request::new(vec![1], GenerationConfig { max_new_tokens: 5, ..Default::default() });
    let ticket = model.engine.submit(request, listener).unwrap();
    inside.recv().unwrap();
    let mut body = greedy("a", 5);
    let open = |body: &serde_json::Value| {
        site.open(
            "POST",
            "/v1/completions",
            &[("content-type", "application/json")],
            body.to_string().as_bytes(),
        )
    };
    let whole = open(&body);
    body["stream"] = json!(true);
    let stream = open(&body);
    until("both wait", || site.status(0).waiting == 2);
    go_on.send(()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut { whole }, &mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("engine_failed"), "{answer}");
    let last = Events::new(stream).last().unwrap();
    assert!(last.contains("engine_failed"), "{last}");
    for reply in [site.get("/health"), site.post("/v1/completions", &greedy("a", 1)), site.get("/slots")] {
        assert_eq!((reply.status, &reply.problem()["code"]), (503, &json!("engine_failed")));
    }
    let error = running.wait_for_signal(signals).unwrap_err().to_string();
    assert!(error.contains("plain") && error.contains("injected"), "{error}");
    drop(ticket);
}
