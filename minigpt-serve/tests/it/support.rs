//! Small models, a server with them, and a client that shows every byte.

use minigpt_chat::Format;
use minigpt_formats::ChatTemplate;
use minigpt_generate::EngineConfig;
use minigpt_model::{Config, Device, Gpt};
use minigpt_serve::{ModelParts, Running, ServeConfig, ServedModel, Server};
use minigpt_tokenizer::{BpeTrainer, CharTokenizer, END_OF_TEXT, PAD, SEP, Tokenizer};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Tokens of the context of all models here.
pub const CONTEXT: usize = 96;

/// One token a character: ASCII and some more.
pub fn characters(special: &[&str]) -> Tokenizer {
    let known = (' '..='~').chain(['\n', '你', '好', 'é', '🙂']);
    Tokenizer::Char(CharTokenizer::from_text(special, known).unwrap())
}

/// Byte-level, so that most tokens of Chinese text are parts of characters.
pub fn bytes() -> Tokenizer {
    let mut trainer = BpeTrainer::new(300, &[END_OF_TEXT]).unwrap();
    trainer.push("你好，世界。the cat sat on the mat, and the dog sat on the cat.");
    Tokenizer::Bpe(trainer.train(|_| {}).unwrap())
}

/// Words, and a `<s>` that the post-processor puts before every text.
pub fn with_bos() -> Tokenizer {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let vocabulary: serde_json::Map<String, Value> = ["<s>", "<unk>", "<", "s", ">", "a", "b"]
        .iter()
        .enumerate()
        .map(|(id, token)| ((*token).to_owned(), json!(id)))
        .collect();
    let special = |id: u32, content: &str| {
        json!({ "id": id, "content": content, "special": true, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false })
    };
    let sequence = |id: &str| json!({ "Sequence": { "id": id, "type_id": 0 } });
    let first = json!({ "SpecialToken": { "id": "<s>", "type_id": 0 } });
    let file = json!({
        "version": "1.0",
        "added_tokens": [special(0, "<s>"), special(1, "<unk>")],
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, sequence("A")],
            "pair": [first, sequence("A"), sequence("B")],
            "special_tokens": { "<s>": { "id": "<s>", "ids": [0], "tokens": ["<s>"] } },
        },
        "model": { "type": "BPE", "vocab": vocabulary, "merges": [], "unk_token": "<unk>" },
    });
    let name =
        format!("minigpt-serve-{}-{}.json", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, file.to_string()).unwrap();
    let tokenizer = Tokenizer::open(&path);
    std::fs::remove_file(&path).unwrap();
    tokenizer.unwrap()
}

/// A model with random weights.
pub fn gpt(vocab_size: usize, seed: u64) -> Gpt {
    let shape =
        Config { n_layer: 2, n_head: 2, n_embd: 32, block_size: CONTEXT, vocab_size, ..Config::default() };
    Gpt::new(shape, seed, &Device::Cpu).unwrap()
}

pub fn parts(name: &str, tokenizer: Tokenizer, format: Format) -> ModelParts {
    let stop_ids = [SEP, END_OF_TEXT].iter().filter_map(|name| tokenizer.special_id(name)).collect();
    ModelParts {
        name: name.to_owned(),
        aliases: Vec::new(),
        path: "nowhere".into(),
        gpt: gpt(tokenizer.vocab_size(), 7),
        tokenizer: Some(tokenizer),
        format,
        stop_ids,
        dtype: "f32".to_owned(),
        bytes: 0,
    }
}

/// A model of each kind: plain characters first.
pub fn plain() -> ModelParts {
    parts("plain", characters(&[END_OF_TEXT]), Format::Plain)
}

pub fn questions() -> ModelParts {
    parts("questions", characters(&[PAD, SEP]), Format::Qa)
}

pub fn byte_level() -> ModelParts {
    parts("bytes", bytes(), Format::Plain)
}

pub fn template() -> ModelParts {
    let source = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                  {% if messages[0].content == 'raise' %}{{ raise_exception('no such talk') }}{% endif %}{{ '<|im_start|>assistant\n' }}";
    let template =
        ChatTemplate { source: source.to_owned(), tokens: vec![("eos_token".into(), "<|im_end|>".into())] };
    parts("template", characters(&["<|im_start|>", "<|im_end|>"]), Format::Template(template))
}

/// A model that writes a given text behind a prompt of so many tokens, whatever the prompt is: what it says depends on positions
/// alone, because its only block adds nothing and its tokens look alike.
pub fn scripted(tokenizer: Tokenizer, format: Format, prompt_tokens: usize, script: &str) -> ModelParts {
    let ids = tokenizer.encode_with_special(script).unwrap();
    let length = prompt_tokens + ids.len() + 1;
    let (vocab_size, end) = (tokenizer.vocab_size(), tokenizer.special_id("<|im_end|>").unwrap());
    let shape = Config {
        n_layer: 1,
        n_head: 1,
        n_embd: length,
        block_size: length,
        vocab_size,
        tie_word_embeddings: false,
        ..Config::default()
    };
    let gpt = Gpt::new(shape.clone(), 1, &Device::Cpu).unwrap();
    let one_at = |places: &[(usize, usize)], rows: usize| {
        let mut table = vec![0.0_f32; rows * length];
        places.iter().for_each(|&(row, column)| table[row * length + column] = 50.0);
        minigpt_model::Tensor::from_vec(table, (rows, length), &Device::Cpu).unwrap()
    };
    let positions: Vec<(usize, usize)> = (0..length).map(|at| (at, at)).collect();
    let said: Vec<(usize, usize)> = (0..length)
        .map(|at| {
            let id = (at + 1).checked_sub(prompt_tokens).and_then(|at| ids.get(at)).copied();
            (id.unwrap_or(end) as usize, at)
        })
        .collect();
    let weights = gpt.parameters().into_iter().map(|p| {
        let tensor = match p.name.as_str() {
            "wpe.weight" => one_at(&positions, length),
            "lm_head.weight" => one_at(&said, vocab_size),
            name if name == "wte.weight" || name.contains("c_proj") => p.tensor.affine(0.0, 0.0).unwrap(),
            _ => p.tensor,
        };
        (p.name, minigpt_model::Weight::Plain(tensor))
    });
    let gpt = Gpt::from_tensors(shape, weights.collect()).unwrap();
    ModelParts { gpt, stop_ids: vec![end], ..parts("scripted", tokenizer, format) }
}

pub fn engine() -> EngineConfig {
    EngineConfig { slots: 4, max_queue: 64, ..EngineConfig::default() }
}

/// A server on a free port of loopback.
pub struct Site {
    pub running: Option<Running>,
    pub address: SocketAddr,
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }
}

pub fn config() -> ServeConfig {
    ServeConfig { port: 0, shutdown_timeout: Duration::from_millis(200), ..ServeConfig::default() }
}

impl Site {
    pub fn with(config: ServeConfig, models: Vec<ModelParts>, engine: &EngineConfig) -> Self {
        let running = Server::bind(config).unwrap().start().unwrap();
        let models = models.into_iter().map(|parts| ServedModel::start(parts, engine).unwrap());
        running.serve(models.collect()).unwrap();
        Self { address: running.address(), running: Some(running) }
    }

    pub fn new(models: Vec<ModelParts>) -> Self {
        Self::with(config(), models, &engine())
    }

    pub fn status(&self, model: usize) -> minigpt_generate::EngineStatus {
        self.running.as_ref().unwrap().app().models().unwrap()[model].engine.status()
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    /// A good answer.
    pub fn ask(&self, path: &str, body: &Value) -> Value {
        let reply = self.post(path, body);
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut stream = self.open(method, path, headers, body);
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        Reply::parse(&all)
    }

    /// Sends a request and leaves the answer to be read.
    pub fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
        let mut stream = self.connect();
        let has = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !has("host") {
            head += &format!("host: {}\r\n", self.address);
        }
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        // A server that has heard enough may have closed its side.
        let _ = stream.write_all(body);
        stream
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    }

    /// The events of an answer as they come, without the `data: `.
    pub fn events(&self, path: &str, body: &Value) -> Vec<String> {
        let stream =
            self.open("POST", path, &[("content-type", "application/json")], body.to_string().as_bytes());
        Events::new(stream).collect()
    }

    /// The events of an answer that ends as it should, as JSON, without the last line.
    pub fn chunks(&self, path: &str, body: &Value) -> Vec<Value> {
        let mut events = self.events(path, body);
        assert_eq!(events.pop().as_deref(), Some("[DONE]"), "{events:?}");
        events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

/// Events read one by one.
pub struct Events {
    lines: BufReader<TcpStream>,
}

impl Events {
    pub fn new(stream: TcpStream) -> Self {
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        let mut head = String::new();
        while line != "\r\n" {
            line.clear();
            lines.read_line(&mut line).unwrap();
            head += &line;
        }
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        Self { lines }
    }
}

impl Iterator for Events {
    type Item = String;

    /// The next event. Sizes of chunks and empty lines are passed over: no event of JSON looks like them.
    fn next(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(event) = line.strip_prefix("data: ") {
                return Some(event.trim_end().to_owned());
            }
        }
    }
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
}

impl Reply {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or_else(|| {
            panic!("no answer: {:?}", String::from_utf8_lossy(bytes));
        });
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head[9..12].parse().unwrap();
        Self { status, head, body: bytes[end + 4..].to_vec() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{}", self.text());
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The error of an answer that is one, in its one shape.
    pub fn problem(&self) -> Value {
        assert!(self.status >= 400, "{}", self.text());
        let json = self.json();
        let error = &json["error"];
        assert!(!error["message"].as_str().unwrap().is_empty() && error["type"].is_string(), "{json}");
        let fields: Vec<&String> = error.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["message", "type", "param", "code"]);
        error.clone()
    }
}

/// A request for a text of some tokens that is the same every time.
pub fn greedy(prompt: &str, max_tokens: usize) -> Value {
    json!({ "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": true })
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}
