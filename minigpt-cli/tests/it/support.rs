//! What the tests of the command line share: running the program, a folder to work in, small models, a server.

#[path = "../support/children.rs"]
mod children;

pub use children::end_with_test;
use minigpt_formats::hugging_face;
use minigpt_model::{Config, Device, Gpt};
use minigpt_tokenizer::{CharTokenizer, Tokenizer};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

/// The program as a person types it, ready to be started.
pub struct Program {
    command: Command,
    stdin: Vec<u8>,
}

/// The program with these arguments and nothing on standard input.
pub fn minigpt(args: &[&str]) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_minigpt"));
    command.args(args);
    // A local server is asked, whatever the network of this machine looks like.
    for proxy in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
    // English, whatever the person speaks who runs the tests.
    command.env("LC_ALL", "C");
    Program { command, stdin: Vec::new() }
}

impl Program {
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Under a shell that runs `setup` first.
    #[cfg(unix)]
    pub fn under_shell(self, setup: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{setup}; exec \"$@\""), "sh"]).arg(self.command.get_program());
        shell.args(self.command.get_args());
        Self { command: shell, stdin: self.stdin }
    }

    /// Starts it, with all of its streams piped.
    pub fn spawn(mut self) -> Child {
        let command = end_with_test(&mut self.command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs it to its end.
    pub fn run(mut self) -> Done {
        let stdin = std::mem::take(&mut self.stdin);
        let mut child = self.spawn();
        let mut pipe = child.stdin.take().unwrap();
        // On a thread of its own, so that neither side waits for the other. The program may refuse its arguments
        // before it reads anything.
        let writer = thread::spawn(move || drop(pipe.write_all(&stdin)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Done {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// What a program that ended has said.
#[derive(Debug)]
pub struct Done {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Done {
    pub fn success(self) -> Self {
        self.code(0)
    }

    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// Whether it ended with an error, in words: neither by a signal nor in a panic.
    pub fn failed(&self) -> bool {
        assert!(self.code.is_some_and(|code| code < 128), "{:?}: {}", self.code, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self.code != Some(0)
    }

    pub fn stdout(&self) -> &str {
        &self.stdout
    }

    pub fn stderr(&self) -> &str {
        &self.stderr
    }

    /// The one JSON value on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// What a command that must succeed prints.
pub fn shown(args: &[&str]) -> String {
    minigpt(args).run().success().stdout
}

/// What a command that must succeed answers with `--json`, which is added where it is missing.
pub fn answer(args: &[&str]) -> Value {
    let json: &[&str] = if args.contains(&"--json") { &[] } else { &["--json"] };
    minigpt(&[args, json].concat()).run().success().json()
}

/// What a command that must fail says.
pub fn refused(args: &[&str]) -> String {
    failure(args, 1)
}

/// What a command says that must end with this code, and print nothing.
pub fn failure(args: &[&str], code: i32) -> String {
    let done = minigpt(args).run().code(code);
    assert_eq!(done.stdout, "", "{args:?} prints something");
    done.stderr
}

pub fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

/// A file that another tool wrote.
pub fn foreign(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../minigpt-formats/tests/files").join(name)
}

/// The folder of a model whose numbers PyTorch computed; it has no tokenizer.
pub fn fixture(case: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../minigpt-model/tests/fixtures").join(case);
    text(&path).to_owned()
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The names in a folder, in order.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A folder to work in, gone when the test is over.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Where `name` is in it; `""` is the folder itself.
    pub fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.0.path().to_owned() } else { self.0.path().join(name) }
    }

    pub fn text(&self, name: &str) -> String {
        text(&self.path(name)).to_owned()
    }

    /// Writes a file, and the folders above it.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        self.text(name)
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub fn read_text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn read_json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).unwrap()
    }

    pub fn names(&self, name: &str) -> Vec<String> {
        names(&self.path(name))
    }

    /// Writes a model with random weights, and its tokenizer where it has one.
    pub fn model(&self, name: &str, config: Config, tokenizer: Option<&Tokenizer>) -> String {
        let path = self.path(name);
        hugging_face::save(&Gpt::new(config, 1, &Device::Cpu).unwrap(), &path).unwrap();
        if let Some(tokenizer) = tokenizer {
            tokenizer.save(&path).unwrap();
        }
        self.text(name)
    }
}

/// A model that takes no time at all.
pub fn small(vocab_size: usize) -> Config {
    Config { vocab_size, block_size: 16, n_layer: 2, n_head: 2, n_embd: 16, ..Config::default() }
}

/// The tokens that question/answer data needs, in their order.
pub const SPECIAL: [&str; 3] = ["<pad>", "<unk>", "<sep>"];

/// A tokenizer of these characters.
pub fn characters(special: &[&str], text: &str) -> Tokenizer {
    Tokenizer::Char(CharTokenizer::from_text(special, text.chars()).unwrap())
}

/// What a client asked for.
pub struct Request {
    /// The path with its query.
    pub path: String,
    /// The first byte that it wants.
    pub start: usize,
    /// What it says who it is, in small letters.
    pub authorization: Option<String>,
}

/// Serves HTTP on this machine, one request at a time, with whole responses that `respond` makes; the address.
pub fn serve(mut respond: impl FnMut(&Request) -> Vec<u8> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let Some(Ok(first)) = lines.next() else { continue };
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            let mut request = Request { path, start: 0, authorization: None };
            for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
                let line = line.to_ascii_lowercase();
                if let Some(range) = line.strip_prefix("range: bytes=") {
                    request.start = range.trim_end_matches('-').parse().unwrap();
                }
                if let Some(value) = line.strip_prefix("authorization: ") {
                    request.authorization = Some(value.to_owned());
                }
            }
            let _ = stream.write_all(&respond(&request));
        }
    });
    endpoint
}
