//! What is attacked: data, tokenizers, models, archives and runs, as the program itself makes them.

use crate::files::copy;
use crate::program::Program;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub struct Fixtures {
    pub binary: PathBuf,
    pub folder: PathBuf,
    /// The settings of the run `run`.
    pub config: String,
    /// What the run took that nobody disturbed.
    pub run_time: Duration,
}

impl Fixtures {
    pub fn make(binary: &Path, folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let config = folder.join("config.toml").to_str().unwrap().to_owned();
        let (binary, folder) = (binary.to_owned(), folder.to_owned());
        let mut fixtures = Self { binary, folder, config, run_time: Duration::ZERO };
        let words =
            ["the cat sat on the mat. ", "a dog ran by the sea. ", "猫坐在垫子上。", "to be or not to be\n"];
        let text = |factor: usize| (0..600).map(|i| words[(i * i * factor + i / 7) % 4]).collect::<String>();
        fixtures.write("text.txt", &text(1));
        fixtures.write("other.txt", &text(3));
        let line =
            |i: usize| format!("{{\"question\": \"the cat {i}\", \"answer\": \"the mat {}\"}}\n", i * i);
        fixtures.write("qa.jsonl", &(0..60).map(line).collect::<String>());
        fixtures.write("config.toml", &fixtures.settings("text.txt"));

        let started = Instant::now();
        fixtures.run(&["train", "--quiet", "--config", "config.toml", "--out", "run"]);
        fixtures.run_time = started.elapsed();
        fixtures.run(&[
            "tokenizer",
            "train",
            "--input",
            "text.txt",
            "--vocab-size",
            "300",
            "--out",
            "tokenizer",
        ]);
        fixtures.run(&[
            "data",
            "prepare",
            "--input",
            "text.txt",
            "--tokenizer",
            "tokenizer",
            "--out",
            "prepared",
        ]);
        fixtures.write("bpe.toml", &fixtures.settings("prepared"));
        fixtures.run(&["train", "--quiet", "--config", "bpe.toml", "--out", "bpe-run"]);
        copy(&fixtures.path("run/best"), &fixtures.path("model"));
        copy(&fixtures.path("bpe-run/best"), &fixtures.path("bpe"));
        fixtures.run(&["export", "--model", "model", "--to", "nanogpt", "--out", "ckpt.pt"]);
        fixtures.run(&["export", "--model", "bpe", "--to", "gguf", "--out", "model.gguf"]);
        fixtures
    }

    /// A small run on some data, with a checkpoint every third step.
    fn settings(&self, data: &str) -> String {
        format!(
            "[model]\nn_layer = 1\nn_head = 2\nn_embd = 16\nblock_size = 16\ndropout = 0.1\n\
             [data]\npath = {:?}\n\
             [train]\nbatch_size = 4\nmax_iters = 40\neval_interval = 10\neval_iters = 2\nlog_interval = 1\n\
             save_interval = 3\n",
            self.path(data)
        )
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn program(&self, args: &[&str]) -> Program {
        Program::new(&self.binary, args)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, args: &[&str]) {
        let ended = self.program(args).run(&self.folder);
        assert!(ended.succeeded(), "{}: {}", ended.shown, ended.stderr);
    }
}
