//! Attacks on the server: requests that ask for much, connections that say little, readers that never read, hostile grammars and
//! crafted paths. Its memory stays bounded, and it goes on answering others.

use crate::Outcome;
use crate::fixtures::Fixtures;
use crate::program::{PATIENCE, Program, Running};
use crate::random::Random;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Requests of one attack.
const REQUESTS: usize = 10;
/// Connections that one of them opens.
const CONNECTIONS: usize = 16;
/// What the server may hold, in kB. The model has a few kB, so all of it is for requests.
const MOST_MEMORY: u64 = 500_000;

const GRAMMARS: [&str; 5] = [
    "root ::= e\ne ::= e e | e e e | [a-z ] | \"th\" | \"the\"",
    "root ::= e\ne ::= e e | [a-z ]",
    "root ::= root root | \"a\" | \"\"",
    "root ::= ((\"a\"{0,1000}){0,1000}){0,1000}",
    "root ::= ((((((((((((((((",
];

/// Parts of crafted paths.
const PARTS: [&str; 9] = ["../", "%2e%2e/", "%00", "v1/runs/", "%ff", "a", "//", "%7b0%7d", "{0}"];

/// What a client does: asks and waits for the answer, or opens connections and leaves them.
#[derive(Debug, Clone, Copy)]
enum Kind {
    ManyTexts,
    ManyBiases,
    Grammar,
    DeepBody,
    Path,
    LongHeader,
    SlowBody,
    DeafReader,
}

const KINDS: [Kind; 8] = [
    Kind::ManyTexts,
    Kind::ManyBiases,
    Kind::Grammar,
    Kind::DeepBody,
    Kind::Path,
    Kind::LongHeader,
    Kind::SlowBody,
    Kind::DeafReader,
];

/// A server under several attacks at once.
pub fn serve(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    let model = fixtures.path("model");
    let language = *random.pick(&["en", "zh"]);
    let args = ["serve", "--model", model.to_str().unwrap(), "--port", "0", "--json", "--parallel", "4"];
    let args = [&args[..], &["--lang", language]].concat();
    let mut server = Program::new(&fixtures.binary, &args).start(place);
    let attacked = address(&mut server, place).and_then(|address| attack(random, &server, &address));
    server.signal("TERM");
    let ended = server.end(PATIENCE);
    attacked?;
    ended.success()
}

/// Where the server listens, once it says so.
fn address(server: &mut Running, place: &Path) -> Result<String, String> {
    while !server.is_over() && server.elapsed() < PATIENCE {
        let said = fs::read_to_string(place.join("stdout")).unwrap_or_default();
        if let Some((_, rest)) = said.split_once("http://")
            && let Some((address, _)) = rest.split_once('"')
        {
            return Ok(address.to_owned());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err("the server does not start".to_owned())
}

fn attack(random: &mut Random, server: &Running, address: &str) -> Outcome {
    // Connections stay open until the end, so that attacks come together.
    let mut open = Vec::new();
    for _ in 0..REQUESTS {
        let kind = *random.pick(&KINDS);
        match kind {
            Kind::SlowBody | Kind::DeafReader => {
                for _ in 0..CONNECTIONS {
                    open.push(connect(address, &request(random, kind))?);
                }
            }
            _ => {
                let answer = answer(connect(address, &request(random, kind))?);
                if !answer.is_empty() && !answer.starts_with("HTTP/1.1 ") {
                    return Err(format!("{kind:?} is answered by {answer:.80}"));
                }
                if answer.starts_with("HTTP/1.1 500") {
                    return Err(format!("{kind:?} is answered by an internal error: {answer:.400}"));
                }
            }
        }
        let memory = server.memory();
        if memory > MOST_MEMORY {
            return Err(format!("the server holds {memory} kB after {kind:?}"));
        }
        still_answers(address).map_err(|problem| format!("after {kind:?} {problem}"))?;
    }
    drop(open);
    still_answers(address)
}

/// Whether the server answers a small request of somebody else. It may be busy for a moment.
fn still_answers(address: &str) -> Outcome {
    let body = r#"{"prompt": "the", "max_tokens": 1}"#;
    let started = Instant::now();
    loop {
        let said = answer(connect(address, &post("/v1/completions", body))?);
        if said.starts_with("HTTP/1.1 200") {
            return Ok(());
        }
        let busy = ["HTTP/1.1 429", "HTTP/1.1 503"].iter().any(|status| said.starts_with(status));
        if !busy || started.elapsed() > PATIENCE {
            return Err(format!("a small request is answered by {said:.200}"));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn connect(address: &str, request: &[u8]) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(address).map_err(|error| format!("the server is gone: {error}"))?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    // A server that has heard enough may have closed its side.
    drop(stream.write_all(request));
    Ok(stream)
}

/// All that the server says, as far as it is text.
fn answer(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    drop(stream.read_to_end(&mut said));
    String::from_utf8_lossy(&said).into_owned()
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let head = "host: localhost\r\nconnection: close\r\ncontent-type: application/json";
    format!("POST {path} HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn request(random: &mut Random, kind: Kind) -> Vec<u8> {
    let route = *random.pick(&["/v1/completions", "/completion"]);
    match kind {
        Kind::ManyTexts => {
            let prompts = vec!["\"a\""; random.below(16) + 1].join(",");
            let n = random.pick(&[1, 7, 128, 100_000]);
            post(
                route,
                &format!(
                    r#"{{"prompt": [{prompts}], "n": {n}, "max_tokens": 12, "logprobs": 100, "ignore_eos": true}}"#
                ),
            )
        }
        Kind::ManyBiases => {
            let biases = (0..random.below(50_000)).map(|i| format!("[{}, 1]", i % 10)).collect::<Vec<_>>();
            let biases = biases.join(",");
            post(route, &format!(r#"{{"prompt": "a", "n": 64, "max_tokens": 4, "logit_bias": [{biases}]}}"#))
        }
        Kind::Grammar => {
            let grammar = random.pick(&GRAMMARS).replace('"', "\\\"").replace('\n', "\\n");
            post(route, &format!(r#"{{"prompt": "a", "n": 7, "max_tokens": 200, "grammar": "{grammar}"}}"#))
        }
        Kind::DeepBody => {
            let depth = random.below(200_000);
            post(route, &format!(r#"{{"prompt": {}{}}}"#, "[".repeat(depth), "]".repeat(depth)))
        }
        Kind::Path => {
            let mut path = String::from("/");
            for _ in 0..random.below(2000) {
                path += *random.pick(&PARTS);
            }
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").into_bytes()
        }
        Kind::LongHeader => {
            let value = "x".repeat(random.below(1 << 20));
            format!("GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-long: {value}\r\n\r\n")
                .into_bytes()
        }
        Kind::SlowBody => {
            let head = "host: localhost\r\ncontent-type: application/json\r\ncontent-length: 8000000";
            format!("POST {route} HTTP/1.1\r\n{head}\r\n\r\n{{\"prompt\": ").into_bytes()
        }
        Kind::DeafReader => post(
            route,
            r#"{"prompt": "a", "n": 1, "max_tokens": 12, "logprobs": 50, "ignore_eos": true, "stream": true}"#,
        ),
    }
}
