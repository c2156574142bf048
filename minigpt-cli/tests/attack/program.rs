//! The program under attack: started with limits, watched, and judged by how it ends.

use crate::Outcome;
use crate::children::end_with_test;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a command on small files may take.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How much memory it may hold, in kB: models and data are of a few kB.
const MOST_MEMORY: u64 = 600_000;
/// How much it may print.
const MOST_OUTPUT: u64 = 64 << 20;

pub struct Program {
    args: Vec<String>,
    stdin: String,
    /// What the shell does before it becomes the program.
    setup: String,
    /// What the program is started by.
    wrapper: Vec<String>,
    binary: PathBuf,
}

/// How a program ended.
pub struct Ended {
    pub shown: String,
    pub status: Option<ExitStatus>,
    pub stderr: String,
    problem: Option<String>,
}

/// A program that runs, with its output in files.
pub struct Running {
    child: Child,
    shown: String,
    stderr: PathBuf,
    stdout: PathBuf,
    started: Instant,
}

impl Program {
    pub fn new(binary: &Path, args: &[&str]) -> Self {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        let (stdin, setup) = (String::new(), "ulimit -v 6000000".to_owned());
        Self { args, stdin, setup, wrapper: Vec::new(), binary: binary.to_owned() }
    }

    pub fn stdin(mut self, text: &str) -> Self {
        text.clone_into(&mut self.stdin);
        self
    }

    pub fn after(mut self, setup: &str) -> Self {
        setup.clone_into(&mut self.setup);
        self
    }

    pub fn by(mut self, wrapper: Vec<String>) -> Self {
        self.wrapper = wrapper;
        self
    }

    /// Starts it in a folder, which keeps what it says.
    pub fn start(self, place: &Path) -> Running {
        let (stdin, stdout, stderr) = (place.join("stdin"), place.join("stdout"), place.join("stderr"));
        fs::write(&stdin, &self.stdin).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{}; exec \"$@\"", self.setup), "sh"]);
        shell.args(&self.wrapper).arg(&self.binary).args(&self.args).current_dir(place);
        shell.env_remove("MINIGPT_CACHE").env("HF_HUB_OFFLINE", "1");
        let file = |path: &Path| Stdio::from(File::create(path).unwrap());
        end_with_test(&mut shell).stdin(File::open(&stdin).unwrap());
        let child = shell.stdout(file(&stdout)).stderr(file(&stderr)).spawn();
        let shown = format!("{}; {} minigpt {}", self.setup, self.wrapper.join(" "), self.args.join(" "));
        Running { child: child.unwrap(), shown, stderr, stdout, started: Instant::now() }
    }

    /// Runs it to its end.
    pub fn run(self, place: &Path) -> Ended {
        self.start(place).end(PATIENCE)
    }
}

impl Running {
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        Command::new("kill").args([&format!("-{name}"), &id]).stderr(Stdio::null()).status().unwrap();
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for it, but not for ever, nor for whatever it takes.
    pub fn end(mut self, patience: Duration) -> Ended {
        let problem = loop {
            if self.is_over() {
                break None;
            }
            if self.elapsed() > patience {
                break Some(format!("is not done after {} s", patience.as_secs()));
            }
            if self.memory() > MOST_MEMORY {
                break Some(format!("holds more than {MOST_MEMORY} kB of memory"));
            }
            if fs::metadata(&self.stdout).is_ok_and(|about| about.len() > MOST_OUTPUT) {
                break Some(format!("prints more than {MOST_OUTPUT} bytes"));
            }
            thread::sleep(Duration::from_millis(3));
        };
        let status = if problem.is_none() { self.child.wait().ok() } else { None };
        if problem.is_some() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
        let stderr = String::from_utf8_lossy(&fs::read(&self.stderr).unwrap()).into_owned();
        Ended { shown: self.shown, status, stderr, problem }
    }

    /// The most memory that it has held so far, in kB, where the system says.
    pub fn memory(&self) -> u64 {
        let about = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = about.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }
}

impl Ended {
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    pub fn succeeded(&self) -> bool {
        self.code() == Some(0)
    }

    /// It did what was asked, or said in words why not.
    pub fn in_words(&self) -> Outcome {
        let problem = if let Some(problem) = &self.problem {
            problem.clone()
        } else if self.stderr.contains("panicked") {
            "panicked".to_owned()
        } else {
            match self.code() {
                Some(0) => return Ok(()),
                Some(1 | 2) if self.stderr.contains("error: ") => return Ok(()),
                Some(1 | 2) => "failed without a word".to_owned(),
                _ => format!("ended with {:?}", self.status),
            }
        };
        self.failed(&problem)
    }

    /// It did what was asked.
    pub fn success(&self) -> Outcome {
        self.in_words()?;
        if self.succeeded() { Ok(()) } else { self.failed("failed") }
    }

    pub fn failed(&self, problem: &str) -> Outcome {
        let end = self.stderr.char_indices().rev().nth(800).map_or(0, |(at, _)| at);
        Err(format!("{problem}\n  after: {}\n  said: {}", self.shown, self.stderr[end..].trim()))
    }

    /// Whether it ran until nobody wanted to wait.
    pub fn timed_out(&self) -> bool {
        self.problem.as_ref().is_some_and(|problem| problem.starts_with("is not done"))
    }
}
