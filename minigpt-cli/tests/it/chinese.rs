//! Chinese throughout: under `--lang zh` or a Chinese locale no English is left in what a person sees. What programs and
//! files are told does not change.

use crate::support::{Done, Place, minigpt};
use std::fs;

/// Latin that belongs into Chinese text: names of programs, formats, files and units, what is typed, settings.
const NAMES: &[&str] = &[
    "minigpt",
    "en",
    "zh",
    "temperature",
    "seed",
    "stop",
    "guard",
    "history",
    "style",
    "Hugging",
    "Face",
    "Weights",
    "Biases",
    "GPT",
    "MiniGPT",
    "UTF",
    "JSON",
    "TOML",
    "CSV",
    "BPE",
    "Ctrl",
    "Tab",
    "config",
    "list",
    "settings",
    "data",
    "stats",
    "train",
    "generate",
    "chat",
    "demo",
    "plot",
    "inspect",
    "help",
    "OPTIONS",
    "COMMAND",
    "DATA",
    "NAME",
    "FILE",
    "MODEL",
    "id",
    "ids",
    "best",
    "last",
    "runs",
    "prompt",
    "model",
    "out",
    "show",
    "set",
    "reset",
    "save",
    "load",
    "quit",
    "min",
    "ms",
    "kB",
    "MB",
    "GB",
    "sep",
    "unk",
];

/// A small run on a text of its own.
const CONFIG: &str = "[model]\nn_layer = 1\nn_head = 2\nn_embd = 16\nblock_size = 16\n[data]\npath = \"book.txt\"\n\
                      [train]\nmax_iters = 4\nbatch_size = 4\neval_interval = 2\nlog_interval = 1\n";

fn place() -> Place {
    let place = Place::new();
    place.write("book.txt", "天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。\n".repeat(40));
    place.write("small.toml", CONFIG);
    place
}

fn run(place: &Place, args: &[&str], stdin: &str) -> Done {
    minigpt(&[&["--lang", "zh"], args].concat()).within(&place.path("")).stdin(stdin).run()
}

/// Symbols of units, which stand behind numbers in Chinese text, too.
const UNITS: &[&str] = &["s", "h", "min", "ms", "B", "kB", "MB", "GB", "TB"];

/// The lines with words of Latin letters that follow each other and are no names, or with such a word or a letter behind a
/// number (`49.2 days`, `2.5 G`). A word with a sign of a path, an option, a setting or a number in it is a name, and so is
/// what stands in brackets.
fn english(text: &str) -> Vec<String> {
    let is_number = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_digit() || ".,%".contains(c))
            && !word.ends_with([',', '.'])
    };
    let is_unit = |word: &str| {
        let bare = word.trim_end_matches([',', '.', ';', ':']);
        !bare.is_empty()
            && bare.chars().all(|c| c.is_ascii_alphabetic())
            // kFLOP, MFLOP and so on.
            && !bare.ends_with("FLOP")
            && ![UNITS, NAMES].concat().contains(&bare)
    };
    let is_english = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let plain = bare.len() > 1 && bare.chars().all(|c| c.is_ascii_alphabetic() || c == '\'');
        plain && !word.starts_with(['`', '\'', '"', '<', '-', '/', '|']) && !NAMES.contains(&bare)
    };
    let two_words = |part: &str| {
        let words: Vec<bool> = part.split_whitespace().map(is_english).collect();
        let pairs: Vec<&str> = part.split_whitespace().collect();
        let counted = pairs.windows(2).any(|pair| is_number(pair[0]) && is_unit(pair[1]));
        counted || words.windows(2).any(|words| words == [true, true])
    };
    let is_left = |line: &&str| {
        let outside = line.split_inclusive('[').map(|part| match part.split_once(']') {
            Some((inside, rest)) if line.contains(&format!("[{inside}]")) => rest,
            _ => part,
        });
        // Columns of a table do not belong together.
        let parts = outside.collect::<String>().replace("  ", "│");
        parts.split(|c: char| !c.is_ascii()).any(two_words)
    };
    text.lines().filter(is_left).map(str::to_owned).collect()
}

/// Everything that was printed is Chinese.
fn assert_chinese(done: &Done) {
    let all = format!("{}\n{}", done.stdout(), done.stderr());
    assert!(all.chars().any(|c| ('一'..='鿿').contains(&c)), "{all}");
    let left = english(&all);
    assert!(left.is_empty(), "English is left:\n{}\nin\n{all}", left.join("\n"));
}

#[test]
fn english_is_recognised() {
    assert_eq!(english("error: there is no model").len(), 1);
    assert_eq!(english("错误：could not read it").len(), 1);
    assert_eq!(english("需要 49.2 days\n大小 2.5 G 个词元\n共 12 steps").len(), 3);
    assert!(english("需要 3 min，49.2 天，2.5 GB").is_empty());
    assert!(english("无法读取 book.txt：没有 max_iters 这项设置 minigpt train --config x.toml").is_empty());
}

#[test]
fn a_run_from_training_to_a_chat_is_chinese() {
    let place = place();
    let trained = run(&place, &["train", "--config", "small.toml", "--out", "runs/a"], "").success();
    assert_chinese(&trained);
    assert!(trained.stdout().contains("验证") && trained.stderr().contains("学习率"));
    assert!(trained.stderr().contains("book.txt：文本"), "{}", trained.stderr());
    let model = "runs/a";
    for args in [
        &[
            "train",
            "book.txt",
            "--max_iters=2",
            "--set",
            "model.n_layer=1",
            "--set",
            "model.n_embd=16",
            "--set",
            "model.n_head=2",
        ][..],
        &["train", "--resume", "--out", "runs/a", "--max_iters=6"],
        &["generate", model, "--prompt", "天地", "-n", "4"],
        &["generate", model, "--prompt", "天地", "-n", "2", "--explain"],
        &["inspect", model, "--prompt", "天地玄黄", "--attention"],
        &["inspect", model, "--prompt", "天地玄黄", "--ablate", "attn.0"],
        &["inspect", model, "--tensors"],
        &["eval", model, "--data", "book.txt"],
        &["plot", "runs/a"],
        &["plan", model],
        &["plan", "gpt2", "gpt2-medium", "--flops-per-second", "1e12"],
        &["plan", "gpt2", "--tokens", "2500000000", "--flops-per-second", "1e12"],
        &["data", "stats", "book.txt"],
        &["data", "list"],
        &["data", "show", "book.txt", "--row", "1"],
        &["data", "split", "book.txt", "--out", "parts"],
        &["data", "prepare", "book.txt", "--out", "prepared"],
        &["config", "list"],
        &["config", "settings", "train"],
        &["tokenizer", "train", "book.txt", "--kind", "char", "--out", "tokenizers/a"],
        &["tokenizer", "encode", "天地", "--model", model],
        &["export", model, "--to", "hf", "--out", "exported"],
    ] {
        assert_chinese(&run(&place, args, "").success());
    }
    let said = |args: &[&str]| run(&place, args, "").success().stdout().to_owned();
    assert!(said(&["inspect", model, "--prompt", "天地玄黄", "--ablate", "attn.0"]).contains("损失"));
    let plan = said(&["plan", "gpt2", "--tokens", "2500000000", "--flops-per-second", "1e12"]);
    assert!(plan.contains(" 天") && plan.contains("25 亿"), "{plan}");
    let typed = "天地\n/help\n/show\n/set temperature 0.5\n/set nonsense 1\n/nonsense\n/reset\n/quit\n";
    let talked = run(&place, &["chat", model, "--max-new-tokens", "3"], typed).success();
    assert_chinese(&talked);
    assert!(talked.stderr().contains("显示本说明"));
}

#[test]
fn the_demo_is_chinese_under_a_chinese_locale() {
    let place = Place::new();
    let small = [
        "train.epochs=1",
        "data.limit=64",
        "model.n_embd=32",
        "model.n_head=2",
        "model.n_layer=1",
        "train.sample_interval=1",
        "data.tokenizer=bpe:300",
    ];
    let mut args = vec!["demo", "--out", "runs/demo"];
    args.extend(small.iter().flat_map(|change| ["--set", *change]));
    let done = minigpt(&args).within(&place.path("")).env("LC_ALL", "zh_CN.UTF-8").run().success();
    let said = format!("{}\n{}", done.stdout(), done.stderr());
    // The three questions that are asked meanwhile are of both languages, and so are the answers.
    let ours = said.lines().filter(|line| !line.starts_with("  ") || line.contains('│'));
    let left = english(&ours.collect::<Vec<_>>().join("\n"));
    assert!(left.is_empty(), "English is left:\n{}\nin\n{said}", left.join("\n"));
    assert!(said.contains("参数的 GPT 学习"), "{said}");
}

#[test]
fn the_commonest_errors_are_chinese() {
    let place = place();
    run(&place, &["train", "--config", "small.toml", "--out", "runs/a"], "").success();
    place.write("empty.txt", "");
    place.write("program", b"\x7fELF\x02\x01\x01\0".repeat(30));
    place.write("picture.png", b"\x89PNG\r\n\x1a\n".repeat(30));
    fs::create_dir(place.path("nothing")).unwrap();
    place.write("broken.toml", "[train\nmax_iters = ");
    place.write("wrong.toml", "[train]\nmax_iters = \"many\"\n");
    place.write("bad.jsonl", "{\"question\": \"a\"}\n{broken\n");
    let long = "天".repeat(40);
    for args in [
        // A file that is missing, an option and a setting that do not exist, values that make no sense.
        &["train", "missing.txt"][..],
        &["generate", "runs/a", "--nonsense", "3"],
        &["train", "--config", "small.toml", "--nonsense=3"],
        &["train", "--config", "small.toml", "--set", "train.max_iter=3", "--out", "runs/b"],
        &["train", "--config", "small.toml", "--set", "train.wandb=3", "--out", "runs/b"],
        &["generate", "runs/a", "--prompt", "天", "--temperature", "-1"],
        &["generate", "runs/a", "--prompt", "天", "--max-new-tokens", "ten"],
        &["train", "--config", "small.toml", "--set", "train.learning_rate=-1", "--out", "runs/b"],
        &["train", "book.txt", "--n_embd=abc"],
        &["train", "book.txt", "--n_embd=256", "--n_head=3"],
        &["train", "book.txt", "--dropout=abc"],
        &["train", "book.txt", "--bias=3"],
        &["train", "book.txt", "--minutes", "abc"],
        &["train", "book.txt", "book.txt"],
        &["train", "runs/a"],
        &["train", "runs/a/last"],
        &["config"],
        // Files that can't be used.
        &["train", "--config", "broken.toml"],
        &["train", "--config", "wrong.toml"],
        &["train", "--config", "nonsense"],
        &["train", "empty.txt"],
        &["train", "bad.jsonl"],
        // A model that is not there, a run that is.
        &["generate", "models/none", "--prompt", "天"],
        &["chat", "."],
        // What is no text, and what is no model.
        &["train", "program"],
        &["train", "picture.png"],
        &["generate", "nothing", "--prompt", "天"],
        &["generate", "book.txt", "--prompt", "天"],
        &["serve", "--host", "999.1.1.1", "runs/a"],
        &["serve", "--cors-origin", "x", "runs/a"],
        &["chat", "--server", "127.0.0.1:1"],
        &["run", "runs/a", "--temprature", "1"],
        &["dmo"],
        &["train", "--config", "small.toml", "--out", "runs/a"],
        // Too many tokens, and ids that do not exist.
        &["inspect", "runs/a", "--prompt", &long],
        &["generate", "runs/a", "--ids", "1,2,99999"],
        &["nonsense"],
        &["train"],
        &["quantize"],
    ] {
        let done = run(&place, args, "");
        assert!(done.failed(), "{args:?} succeeds");
        assert_chinese(&done);
    }
}

#[test]
fn help_is_chinese_and_fits() {
    let place = Place::new();
    for command in [
        "",
        "demo",
        "data",
        "data stats",
        "tokenizer train",
        "config settings",
        "train",
        "eval",
        "generate",
        "chat",
        "run",
        "inspect",
        "import",
        "export",
        "bench train",
        "plan",
        "plot",
    ] {
        let mut args: Vec<&str> = command.split_whitespace().collect();
        args.push("--help");
        let done = run(&place, &args, "").success();
        let page = done.stdout();
        assert!(page.contains("用法：") && page.contains("选项：") && page.contains("示例："), "{page}");
        let ours: Vec<&str> = page.split("示例：").next().unwrap().lines().collect();
        let left = english(&ours.join("\n"));
        assert!(left.is_empty(), "English is left:\n{}\nin {page}", left.join("\n"));
    }
}

#[test]
fn programs_and_files_are_told_the_same_in_every_language() {
    let place = place();
    for args in [
        &["config", "settings", "--json"][..],
        &["data", "list", "--json"],
        &["plan", "gpt2", "--set", "n_layer=2", "--flops-per-second", "1e12", "--json"],
    ] {
        let [english, chinese] =
            ["en", "zh"].map(|lang| minigpt(&[args, &["--lang", lang]].concat()).run().success());
        assert_eq!(english.stdout(), chinese.stdout());
    }
    run(&place, &["train", "--config", "small.toml", "--out", "runs/zh"], "").success();
    let written = place.read_text("runs/zh/loss.svg");
    assert!(written.contains("Loss of") && !written.contains("损失"), "{written}");
}
