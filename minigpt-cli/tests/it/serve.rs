//! `minigpt serve` and `minigpt chat --server` as a person starts them.
#![cfg(unix)]

use crate::support::*;
use minigpt_model::Config;
use minigpt_tokenizer::{BpeTrainer, Tokenizer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr};
use std::time::{Duration, Instant};

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz ?.";

/// A server that answers.
struct Served {
    child: Child,
    said: Value,
    stderr: BufReader<ChildStderr>,
}

impl Served {
    fn start(program: Program) -> Self {
        let mut child = program.spawn();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        if line.is_empty() {
            let mut all = String::new();
            stderr.read_to_string(&mut all).unwrap();
            panic!("it did not start: {all}");
        }
        Self { child, said: serde_json::from_str(&line).unwrap(), stderr }
    }

    fn new(args: &[&str]) -> Self {
        Self::start(minigpt(&[&["serve", "--port", "0", "--json"], args].concat()))
    }

    fn address(&self) -> &str {
        self.said["address"].as_str().unwrap()
    }

    fn open(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address().trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let head = "host: localhost\r\nconnection: close\r\ncontent-type: application/json";
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\n{head}\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stream
    }

    /// Status and body.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut answer = String::new();
        self.open(method, path, headers, &body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap())
    }

    fn text(&self, body: &Value) -> String {
        let (status, answer) = self.ask("POST", "/v1/completions", "", body);
        assert_eq!(status, 200, "{answer}");
        answer["choices"][0]["text"].as_str().unwrap().to_owned()
    }

    fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    /// The most that it has had.
    fn most_resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Asks it to stop; what it said on standard error.
    fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        said
    }
}

fn place(block_size: usize) -> (Place, String) {
    let place = Place::new();
    let tokenizer = characters(&SPECIAL, LETTERS);
    let shape = Config { block_size, ..small(tokenizer.vocab_size()) };
    let model = place.model("model", shape, Some(&tokenizer));
    (place, model)
}

fn greedy(max_tokens: usize) -> Value {
    json!({ "prompt": "who is it?", "max_tokens": max_tokens, "temperature": 0, "ignore_eos": true })
}

#[test]
fn a_server_says_where_it_is_and_what_it_takes_and_ends_when_asked() {
    let (_place, model) = place(64);
    let served = Served::new(&[
        "--model",
        &model,
        "--parallel",
        "3",
        "--ctx-size",
        "32",
        "--alias",
        "gpt-4",
        "--log-format",
        "json",
    ]);
    let [name, parallel, context] =
        ["name", "parallel", "context"].map(|key| served.said["models"][0][key].clone());
    assert_eq!((name, parallel, context), (json!("model"), json!(3), json!(32)));
    // Two layers of 16 numbers, keys and values of 3 × 32 tokens in 4 bytes, and a little room at the end of each.
    let bytes = served.said["models"][0]["cache_bytes"].as_u64().unwrap();
    assert!((2 * 16 * 2 * 3 * 32 * 4..2 * 2 * 16 * 2 * 3 * 32 * 4).contains(&bytes), "{bytes}");
    assert_eq!(served.ask("GET", "/health", "", &Value::Null), (200, json!({ "status": "ok" })));
    let (status, answer) = served.ask(
        "POST",
        "/v1/chat/completions",
        "",
        &json!({ "model": "gpt-4", "messages": [{ "role": "user", "content": "who?" }] }),
    );
    assert_eq!((status, &answer["model"]), (200, &json!("model")));
    let said = served.stop();
    assert_contains(
        &said,
        &["listening on http://127.0.0.1:", "parameters in f32", "3 slots of 32 tokens", "stopping"],
    );
    let lines: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(
        lines.iter().map(|line| line["path"].as_str().unwrap()).collect::<Vec<_>>(),
        ["/health", "/v1/chat/completions"]
    );
    assert!(lines[1]["completion_tokens"].as_u64().unwrap() > 0 && lines[1]["time"].as_f64().unwrap() > 1e9);
}

#[test]
fn several_models_have_their_names_and_a_key_is_asked_for() {
    let (_place, model) = place(32);
    let args = [
        "serve",
        "--port",
        "0",
        "--json",
        "--model",
        &format!("one={model}"),
        "--model",
        &format!("two={model}"),
        "--dtype",
        "q8_0",
    ];
    let served = Served::start(minigpt(&args).env("MINIGPT_API_KEY", "secret"));
    assert_eq!(served.ask("GET", "/v1/models", "", &Value::Null).0, 401);
    let (status, list) = served.ask("GET", "/v1/models", "authorization: Bearer secret\r\n", &Value::Null);
    let ids: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!((status, ids), (200, vec!["one", "two"]));
    // Rows that blocks of 32 do not fill are kept in 16 bits.
    assert_eq!(list["data"][0]["meta"]["dtype"], "f16 and q8_0");
    let wrong =
        minigpt(&["chat", "--server", served.address(), "--api-key", "wrong"]).stdin("who?\n").run().code(1);
    assert_contains(wrong.stderr(), &["401", "--api-key KEY"]);
    let right = ["chat", "two", "--server", served.address(), "--api-key", "secret", "-n", "5"];
    let right = minigpt(&right).stdin("who?\n").run().success();
    assert!(
        right.stdout().trim_end().chars().count() <= 5 && right.stderr().contains("two on http"),
        "{right:?}"
    );
    let address = served.address().trim_start_matches("http://");
    let kept = minigpt(&["chat", "two", "--server", address, "-n", "5"]).env("MINIGPT_API_KEY", "secret");
    assert_eq!(kept.stdin("who?\n/bye\nnever asked\n").run().success().stdout(), right.stdout());
    served.stop();
}

#[test]
fn a_chat_over_http_says_what_a_chat_at_home_says() {
    let (_place, model) = place(64);
    let served = Served::new(&["--model", &model]);
    let typed = "who is it?\n\"\"\"\nand\nwhere?\n\"\"\"\n/reset\nwho is it?\n/nothing\n/quit\nnever asked\n";
    let home = minigpt(&["chat", &model, "--temp", "0", "-n", "12", "--set", "guard=off"])
        .stdin(typed)
        .run()
        .success();
    let away = minigpt(&["chat", "--server", served.address(), "--temp", "0", "-n", "12"])
        .stdin(typed)
        .run()
        .success();
    assert_eq!(away.stdout(), home.stdout());
    assert_contains(away.stderr(), &["conversation cleared", "unknown command /nothing"]);
    served.stop();
    let nobody = minigpt(&["chat", "--server", "http://127.0.0.1:1"]).run().code(1);
    assert_contains(nobody.stderr(), &["http://127.0.0.1:1/v1/models: no answer from the server"]);
    assert_contains(&failure(&["chat"], 2), &["MODEL", "runs/demo"]);
    failure(&["chat", &model, "--api-key", "x"], 2);
}

#[test]
fn without_a_model_the_last_demos_is_served_or_the_way_to_one_is_told() {
    let (place, model) = place(32);
    let none = minigpt(&["serve", "--port", "0"]).within(&place.path("")).run().code(1);
    assert_contains(none.stderr(), &["minigpt demo", "--model"]);
    fs::create_dir_all(place.path("runs/demo")).unwrap();
    fs::rename(model, place.path("runs/demo/best")).unwrap();
    let served = Served::start(minigpt(&["serve", "--port", "0", "--json"]).within(&place.path("")));
    assert_eq!(served.said["models"][0]["name"], "demo");
    served.stop();
    let bare = minigpt(&["chat", "demo"]).within(&place.path("")).run().code(1);
    assert_contains(bare.stderr(), &["demo: no such file or folder; did you mean runs/demo?"]);
}

#[test]
fn what_can_not_be_served_is_said_and_a_server_for_all_is_said_aloud() {
    let (_place, model) = place(32);
    let served = Served::new(&["--model", &model]);
    let port = served.address().rsplit(':').next().unwrap().to_owned();
    assert_contains(
        &refused(&["serve", "--model", &model, "--port", &port]),
        &["could not listen on 127.0.0.1:", "--port 0 any free one"],
    );
    let chinese = minigpt(&["serve", &model, "--port", &port, "--lang", "zh"]).run().code(1);
    assert_contains(chinese.stderr(), &["错误：无法监听 127.0.0.1:", "地址已被占用"]);
    served.stop();
    assert_contains(&refused(&["serve", "--port", "0", "--model", "no/such"]), &["no/such"]);
    assert_contains(
        &refused(&["serve", "--port", "0", "--model", &model, "--cors-origin", "x"]),
        &["origin"],
    );
    assert_contains(
        &refused(&["serve", "--port", "0", "--model", &model, "--model", &model]),
        &["two models are named model"],
    );
    failure(&["serve", "--parallel", "0"], 2);
    let open = Served::new(&["--model", &model, "--host", "0.0.0.0"]);
    let (host, port) = open.address().trim_start_matches("http://").rsplit_once(':').unwrap();
    assert_eq!(host, "0.0.0.0");
    assert!(TcpStream::connect(format!("127.0.0.1:{port}")).is_ok());
    assert_contains(&open.stop(), &["anyone who can reach this machine", "--api-key"]);
}

#[test]
fn a_strict_server_refuses_other_models_and_an_allowed_host_is_answered() {
    let (_place, model) = place(32);
    let ask = |served: &Served, host: &str, model: &str| {
        let body = json!({ "prompt": "a", "max_tokens": 1, "model": model }).to_string();
        let mut stream = TcpStream::connect(served.address().trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let head = "connection: close\r\ncontent-type: application/json";
        let length = body.len();
        write!(
            stream,
            "POST /v1/completions HTTP/1.1\r\nhost: {host}\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer[9..12].parse::<u16>().unwrap()
    };
    let served = Served::new(&["--model", &model]);
    assert_eq!((ask(&served, "localhost", "other"), ask(&served, "minigpt", "model")), (200, 403));
    served.stop();
    let served = Served::new(&["--model", &model, "--strict-model", "--allowed-host", "minigpt"]);
    assert_eq!((ask(&served, "localhost", "other"), ask(&served, "minigpt", "model")), (404, 200));
    assert_eq!(ask(&served, "elsewhere", "model"), 403);
    served.stop();
}

/// Whoever replaces the files of a model, or cuts them, does so for the next start.
#[test]
fn files_that_are_replaced_change_nothing() {
    let (place, model) = place(64);
    let served = Served::new(&["--model", &model]);
    let file = place.path("model/model.safetensors");
    let before = fs::read(&file).unwrap();
    // In place: the very bytes that were opened.
    let mut writing = fs::File::options().write(true).open(&file).unwrap();
    writing.write_all(&vec![0x55; before.len()]).unwrap();
    writing.sync_all().unwrap();
    let want = served.text(&greedy(20));
    writing.set_len(10).unwrap();
    drop(writing);
    assert_eq!(served.text(&greedy(20)), want);
    fs::remove_dir_all(place.path("model")).unwrap();
    assert_eq!(served.text(&greedy(20)), want);
    served.stop();
    // What it said is what the model says.
    let tokenizer = characters(&SPECIAL, LETTERS);
    let again =
        place.model("model", Config { block_size: 64, ..small(tokenizer.vocab_size()) }, Some(&tokenizer));
    assert_eq!(fs::read(&file).unwrap(), before);
    let served = Served::new(&["--model", &again]);
    assert_eq!(served.text(&greedy(20)), want);
    served.stop();
}

#[test]
fn a_request_to_terminate_under_load_ends_it_in_order() {
    let (_place, model) = place(4096);
    let served = Served::new(&["--model", &model, "--parallel", "4", "--shutdown-timeout", "1"]);
    let mut body = greedy(4000);
    body["stream"] = json!(true);
    let streams: Vec<_> =
        (0..32).map(|_| served.open("POST", "/v1/completions", "", &body.to_string())).collect();
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    let said = served.stop();
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(said.contains("stopping"));
    for mut stream in streams {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let ended = answer.contains("data: [DONE]") || answer.contains("\"unavailable_error\"");
        assert!(
            ended || answer.is_empty(),
            "neither an end nor an error: …{:?}",
            answer.chars().rev().take(200).collect::<String>()
        );
    }
}

/// A model of eight bits was said to be of f32, with four times its bytes.
#[test]
fn types_and_bytes_are_those_of_the_weights_in_memory() {
    let place = Place::new();
    let mut trainer = BpeTrainer::new(300, &["<|endoftext|>"]).unwrap();
    trainer.push("who is it? it is the cat on the mat.");
    let tokenizer = Tokenizer::Bpe(trainer.train(|_| {}).unwrap());
    let (vocab, context, width, layers) = (tokenizer.vocab_size(), 64, 64, 2);
    let shape = Config { n_embd: width, block_size: context, ..small(vocab) };
    let model = place.model("model", shape, Some(&tokenizer));
    let file = place.text("model.gguf");
    shown(&["export", &model, "--to", "gguf", "--dtype", "q8_0", "--out", &file]);
    let matrices = vocab * width + layers * 12 * width * width;
    // Positions, and per layer two norms and the biases of four products.
    let others = context * width + layers * 13 * width + 2 * width;
    // 32 numbers and their scale in 34 bytes.
    let eight_bit = (matrices / 32 * 34 + 4 * others) as u64;
    let cases: [(&[&str], &str, u64); 3] = [
        (&[&model], "f32", (4 * (matrices + others)) as u64),
        (&[&model, "--dtype", "q8_0"], "q8_0", eight_bit),
        (&[&file], "q8_0", eight_bit),
    ];
    for (args, dtype, bytes) in cases {
        let served = Served::new(args);
        let said = &served.said["models"][0];
        assert_eq!((&said["dtype"], &said["weights_bytes"]), (&json!(dtype), &json!(bytes)), "{args:?}");
        let (_, list) = served.ask("GET", "/v1/models", "", &Value::Null);
        let meta = &list["data"][0]["meta"];
        assert_eq!((&meta["dtype"], &meta["size"]), (&json!(dtype), &json!(bytes)), "{args:?}");
        assert_contains(&served.stop(), &[&format!("parameters in {dtype} (")]);
        let limits = ["--prompt-length", "2", "--max-new-tokens", "2", "--json"];
        let bench = answer(&[&["bench", "decode"], args, &limits].concat());
        assert_eq!((&bench["dtype"], &bench["weights_bytes"]), (&json!(dtype), &json!(bytes)), "{args:?}");
        // Of the positions one row is looked up; keys and values of a few tokens come on top.
        let read = bench["bytes_read_per_token"].as_f64().unwrap();
        let (weights, cache) =
            (bytes as f64 - (4 * context * width) as f64, (4 * 2 * layers * width * 4) as f64);
        assert!(
            (weights..=weights + cache).contains(&read),
            "{args:?}: {read} bytes for {weights} of weights"
        );
    }
}

/// What a server takes is what it says, and a constant: also while it quantises a model whose embedding is most of it.
#[test]
#[cfg(target_os = "linux")]
fn memory_is_bounded_by_the_bytes_that_are_announced() {
    const MB: u64 = 1 << 20;
    let place = Place::new();
    let shape = |vocab_size| Config { n_embd: 512, block_size: 64, n_layer: 1, ..small(vocab_size) };
    let measure = |vocab_size| {
        let model = place.model(&format!("model{vocab_size}"), shape(vocab_size), None);
        let served = Served::new(&[&model, "--dtype", "q8_0", "--parallel", "1"]);
        let body = json!({ "prompt": [1, 2, 3], "max_tokens": 4, "temperature": 0 });
        assert_eq!(served.ask("POST", "/completion", "", &body).0, 200);
        let said = &served.said["models"][0];
        let bytes =
            ["weights_bytes", "cache_bytes"].iter().map(|name| said[name].as_u64().unwrap()).sum::<u64>();
        let memory = [bytes, served.resident(), served.most_resident()];
        served.stop();
        memory
    };
    let [few, many] = [measure(1_000), measure(60_000)];
    let [announced, resident, peak] = [0, 1, 2].map(|i| many[i] - few[i]);
    // 59,000 rows of 512 numbers: 31 MB in eight bits, 115 MB in f32.
    assert!((30 * MB..32 * MB).contains(&announced), "{announced}");
    assert!(resident < announced + 16 * MB, "{resident} bytes for {announced}");
    // The blocks are there twice while they are laid out, and the allocator may not have given back a third copy yet; an
    // expanded embedding would be four more.
    assert!(peak < 3 * announced + 32 * MB, "{peak} bytes at most for {announced}");
}

#[test]
#[cfg(target_os = "linux")]
fn memory_stays_flat_over_requests_and_clients_that_vanish() {
    let (_place, model) = place(256);
    let served = Served::new(&["--model", &model, "--parallel", "4"]);
    let round = |count: usize| {
        std::thread::scope(|scope| {
            for client in 0..8 {
                let served = &served;
                scope.spawn(move || {
                    for i in 0..count / 8 {
                        let mut body = greedy(4);
                        body["stream"] = json!(i % 2 == 0);
                        body["logprobs"] = json!(i % 3);
                        let mut stream = served.open("POST", "/v1/completions", "", &body.to_string());
                        if (i + client) % 5 == 0 {
                            // Gone before, or in the middle of, its answer.
                            continue;
                        }
                        let mut answer = String::new();
                        stream.read_to_string(&mut answer).unwrap();
                        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                    }
                });
            }
        });
        served.resident()
    };
    let before = round(600);
    let after = round(2400);
    assert!(after < before + (16 << 20), "{} bytes more after 2,400 requests", after - before);
    served.stop();
}

/// What is typed and the model can't see is said, also by a chat over HTTP.
#[test]
fn a_chat_over_http_names_the_characters_that_the_vocabulary_lacks() {
    let (_place, model) = place(64);
    let served = Served::new(&["--model", &model]);
    let said =
        minigpt(&["chat", "--server", served.address(), "-n", "2"]).stdin("who 喜欢?\n").run().success();
    assert_contains(said.stderr(), &["your message: the model's vocabulary lacks '喜', '欢'"]);
    let known = minigpt(&["chat", "--server", served.address(), "-n", "2"]).stdin("who?\n").run().success();
    assert!(!known.stderr().contains("vocabulary"), "{}", known.stderr());
    assert_contains(&served.stop(), &["not in the vocabulary: '喜' '欢'"]);
}

#[test]
fn a_folder_of_runs_that_is_not_there_is_said() {
    let (place, model) = place(64);
    let served = Served::new(&["--model", &model, "--runs", &place.text("nope"), "--exact"]);
    let said = served.stop();
    assert_contains(&said, &["nope: the folder doesn't exist yet", "--exact has no effect"]);
    let file = place.write("file", "");
    assert_contains(&refused(&["serve", "--port", "0", &model, "--runs", &file]), &["is a file"]);
}

/// The page can say which characters of a text the model never sees.
#[test]
fn questions_about_a_text_name_the_characters_that_the_vocabulary_lacks() {
    let (_place, model) = place(64);
    let served = Served::new(&["--model", &model]);
    let ask = |route: &str, body: &Value| served.ask("POST", &format!("/v1/inspect/{route}"), "", body);
    for route in ["read", "next", "lens", "walk", "continue"] {
        let (status, answer) = ask(route, &json!({ "text": "who喜欢 is喜<sep>" }));
        assert_eq!((status, &answer["unknown"]), (200, &json!(["喜", "欢"])), "{route}: {answer}");
        let (_, known) = ask(route, &json!({ "text": "who" }));
        assert_eq!(known["unknown"], json!([]), "{route}");
        let (_, ids) = ask(route, &json!({ "ids": [4, 5] }));
        assert!(ids.get("unknown").is_none(), "{route}: {ids}");
    }
    let (status, answer) = ask("read", &json!({ "text": "who", "ids": [4] }));
    assert_eq!((status, &answer["error"]["param"]), (400, &json!("ids")), "{answer}");
    for (route, field) in [("read", "layer"), ("heads", "text"), ("lens", "token"), ("walk", "size")] {
        let value = if field == "text" { json!("who") } else { json!(1) };
        let mut body = if field == "text" { json!({}) } else { json!({ "ids": [4] }) };
        body[field] = value;
        let (status, answer) = ask(route, &body);
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(field)), "{route}: {answer}");
    }
    assert_eq!(ask("read", &json!({ "text": "who", "latyer": 1 })).0, 400);
    served.stop();
}

/// Regression: each line of the log was held against all messages, which took 20 seconds for 6,000 crafted paths.
#[test]
fn the_log_of_a_server_that_speaks_chinese_is_english() {
    let (_place, model) = place(32);
    let served = Served::new(&["--model", &model, "--lang", "zh"]);
    assert_eq!(served.ask("GET", "/stopping", "", &Value::Null).0, 404);
    let said = served.stop();
    assert_contains(&said, &["正在停止"]);
    let line = said.lines().find(|line| line.contains("/stopping")).unwrap();
    assert!(line.is_ascii() && line.contains("404"), "{line}");
}
