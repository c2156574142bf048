//! `minigpt demo`, `chat` and `eval` as a person types them.

use crate::support::{Place, assert_contains, characters, minigpt, refused, small, text};
use minigpt_model::Config;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// What a command that succeeds prints, and what it notes.
fn said(args: &[&str], stdin: &[u8]) -> (String, String) {
    let done = minigpt(args).stdin(stdin).run().success();
    (done.stdout().to_owned(), done.stderr().to_owned())
}

/// The demo on a little of its data, with a model that learns next to nothing.
const SMALL: [&str; 14] = [
    "--set",
    "train.epochs=2",
    "--set",
    "data.limit=64",
    "--set",
    "model.n_embd=32",
    "--set",
    "model.n_head=2",
    "--set",
    "model.n_layer=1",
    "--set",
    "train.sample_interval=2",
    "--set",
    "data.tokenizer=bpe:300",
];

/// A folder in which a small demo was run.
static DEMO: LazyLock<(Place, String, String)> = LazyLock::new(|| {
    let place = Place::new();
    let run = place.path("run");
    let (out, notes) = said(&[&["demo", "--out", text(&run)][..], &SMALL].concat(), b"");
    (place, out, notes)
});

fn demo_model() -> PathBuf {
    DEMO.0.path("run/best")
}

#[test]
fn the_demo_learns_answers_in_between_scores_and_says_what_comes_next() {
    let (place, out, notes) = &*DEMO;
    assert!(out.contains("known facts, new wording") && out.contains("questions it can't know"), "{out}");
    assert!(out.contains("of 718)") && out.contains("minigpt chat --model"), "{out}");
    assert!(notes.contains("parameters on ") && notes.contains("step 2, "), "{notes}");
    assert!(notes.matches("智利的首都是哪里？").count() >= 2, "{notes}");
    for name in ["config.toml", "metrics.jsonl", "loss.svg", "best/tokenizer.json", "last/training.json"] {
        assert!(place.path("run").join(name).exists(), "{name}");
    }
}

/// A plain `cp` over a model's file makes it empty first; a chat that waits for a question must not notice.
#[test]
fn a_model_file_that_is_cut_under_a_chat_changes_nothing() {
    let place = Place::new();
    copy_folder(&demo_model(), &place.path("model"));
    let mut child = minigpt(&["chat", "--model", &place.text("model")]).spawn();
    let (mut question, mut notes) = (child.stdin.take().unwrap(), child.stderr.take().unwrap());
    // It has said how it will speak: the model is open.
    let mut first = [0; 16];
    notes.read_exact(&mut first).unwrap();
    fs::File::create(place.path("model/model.safetensors")).unwrap();
    question.write_all("智利的首都是哪里？\n".as_bytes()).unwrap();
    drop(question);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_demo_that_is_there_is_gone_on_with_and_a_fresh_one_goes_elsewhere() {
    let place = Place::new();
    let run = place.path("run");
    let small = [&["demo", "--out", text(&run)][..], &SMALL, &["--set", "train.epochs=1"]].concat();
    said(&small, b"");
    let (out, notes) = said(&small, b"");
    assert!(notes.contains("holds a demo; continuing it"), "{notes}");
    assert!(out.contains("known facts, new wording"), "{out}");
    said(&[&small[..], &["--fresh"]].concat(), b"");
    assert!(place.path("run-2/best").exists());
}

#[test]
fn every_line_of_standard_input_is_answered() {
    let model = demo_model();
    let (out, notes) = said(&["chat", "--model", text(&model)], "你好\n\nWho are\\\n you?\n".as_bytes());
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(notes.contains("question <sep> answer <sep>"), "{notes}");
    let (again, _) =
        said(&["chat", "--model", text(&model)], "你好\nWho are\\\n you?\n/quit\n你好\n".as_bytes());
    assert_eq!(again, out, "the same questions, the same answers, and nothing after /quit");
}

/// Ollama's words for what we call `/quit`, `/reset` and `/set`.
#[test]
fn a_chat_understands_ollamas_commands() {
    let commands = "/set parameter temperature 0.5\n/set top-k 7\n/clear\n/show\n/bye\nnever asked\n";
    let (out, notes) = said(&["chat", text(&demo_model())], commands.as_bytes());
    assert_eq!(out, "");
    assert_contains(&notes, &["temperature is 0.5", "top-k is 7", "conversation cleared"]);
    let shown: Vec<&str> = notes.lines().filter(|line| line.starts_with("  top_k")).collect();
    assert!(shown[0].contains(" 7 "), "{notes}");
}

#[test]
fn a_chat_can_be_set_shown_saved_and_loaded() {
    let (model, kept) = (demo_model(), DEMO.0.path("talk.jsonl"));
    let commands = format!(
        "/help\n/set temperature 0.7\n/set max_new_tokens 5\n/set top_p 7\n/set\n/show\nhello\n/save {0}\n/reset\n\
         /load {0}\n/show\n/load nowhere\n/jump\n",
        text(&kept)
    );
    let (out, notes) = said(&["chat", "--model", text(&model)], commands.as_bytes());
    assert!(!out.trim().is_empty());
    let parts = [
        "temperature is 0.7",
        "error: ",
        "top_p",
        "/set temperature 0.7",
        "2 turns saved",
        "conversation cleared",
        "2 turns loaded",
        "could not read nowhere",
        "unknown command /jump",
    ];
    assert_contains(&notes, &parts);
    let saved: Value = serde_json::from_str(&fs::read_to_string(&kept).unwrap()).unwrap();
    assert_eq!(
        (&saved["messages"][0]["content"], &saved["messages"][1]["role"]),
        (&"hello".into(), &"assistant".into())
    );
}

#[test]
fn a_line_that_is_no_text_is_skipped_and_the_chat_goes_on() {
    let model = demo_model();
    let (out, notes) = said(&["chat", "--model", text(&model)], b"\xff\xfe\nhello\n");
    assert_eq!(out.lines().count(), 1);
    assert!(notes.contains("line 1 of standard input is not UTF-8"), "{notes}");
}

/// A model that continues text, with random weights.
fn plain_model(place: &Place) -> String {
    let tokenizer = characters(&[], "abcdefgh \n");
    let config = Config { n_layer: 1, n_head: 1, n_embd: 8, ..small(tokenizer.vocab_size()) };
    place.model("model", config, Some(&tokenizer))
}

#[test]
fn a_model_without_a_format_goes_on_with_the_text_and_errors_do_not_end_the_chat() {
    let place = Place::new();
    let model = plain_model(&place);
    let (out, notes) = said(&["chat", "--model", &model], "xyz\nabc\n".as_bytes());
    assert!(notes.contains("plain: the model continues your text"), "{notes}");
    assert!(notes.contains("error: ") && notes.contains('x'), "{notes}");
    assert!(out.len() > 20, "{out}");
    let looping = said(&["chat", "--model", &model, "--set", "temperature=0"], b"abc\n").1;
    assert!(looping.contains("started to repeat itself"), "{looping}");
}

#[test]
fn a_chat_template_is_used_and_said() {
    let place = Place::new();
    let model = plain_model(&place);
    let path = place.path("model/chat_template.jinja");
    fs::write(&path, "{% for m in messages %}{{ m.content }}\n{% endfor %}").unwrap();
    let (out, notes) = said(&["chat", "--model", &model], b"abc\n");
    assert!(notes.contains("chat template") && !out.is_empty(), "{notes}");
    fs::write(&path, "{{ nothing.at.all }}").unwrap();
    let (_, notes) = said(&["chat", "--model", &model], b"abc\n");
    assert!(notes.contains("the model's chat template failed"), "{notes}");
}

#[test]
fn eval_gives_the_validation_loss_of_training() {
    let place = Place::new();
    let data = place.path("book.txt");
    fs::write(&data, "the cat sat on the mat. a dog ran by the sea. 猫坐在垫子上。\n".repeat(60)).unwrap();
    let config = place.path("config.toml");
    let settings = format!(
        "[model]\nn_layer = 1\nn_head = 1\nn_embd = 16\nblock_size = 16\n[data]\npath = {data:?}\n\
         [train]\nmax_iters = 20\neval_iters = 0\n"
    );
    fs::write(&config, settings).unwrap();
    let run = place.path("run");
    said(&["train", "--config", text(&config), "--out", text(&run), "--quiet"], b"");
    let metrics = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let last: Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    let (model, data) = (run.join("last"), text(&data));
    let eval = |more: &[&str]| -> Value {
        let args = [&["eval", "--model", text(&model), "--data", data, "--json"][..], more].concat();
        serde_json::from_str(&said(&args, b"").0).unwrap()
    };
    let val = eval(&["--part", "val", "--batch-size", "5"]);
    let (got, want) = (val["loss"].as_f64().unwrap(), last["val_loss"].as_f64().unwrap());
    assert!((got - want).abs() < 1e-5, "{got} is not {want}");
    assert!((val["perplexity"].as_f64().unwrap() - got.exp()).abs() < 1e-9);
    let (train, all) = (eval(&["--part", "train"]), eval(&[]));
    let tokens = |value: &Value| value["tokens"].as_u64().unwrap();
    assert!(tokens(&val) < tokens(&train) && tokens(&train) < tokens(&all));
    assert!(all.get("exact_match").is_none());
    // Nearly half of the bytes are Chinese, three to a character.
    let bits = all["loss"].as_f64().unwrap() / std::f64::consts::LN_2;
    let per_byte = all["bits_per_byte"].as_f64().unwrap();
    assert!(per_byte < bits && per_byte > bits / 2.0, "{per_byte} of {bits}");
}

#[test]
fn eval_counts_the_questions_that_are_answered_word_for_word() {
    let model = demo_model();
    let args = ["eval", "--model", text(&model), "--data", "builtin", "--limit", "10"];
    let report: Value = serde_json::from_str(&said(&[&args[..], &["--json"]].concat(), b"").0).unwrap();
    assert_eq!(report["questions"], 10);
    assert!((0.0..=1.0).contains(&report["exact_match"].as_f64().unwrap()));
    assert!(report["loss"].as_f64().unwrap() > 0.0 && report["tokens"].as_u64().unwrap() > 10);
    let shown = said(&args, b"").0;
    assert!(shown.contains("exact match") && shown.contains("of 10 questions"), "{shown}");
    assert!(shown.contains("wrong: ") && shown.contains("\n      expected: "), "{shown}");
    let answers = said(&[&args[..], &["--loss-on", "answer"]].concat(), b"").0;
    assert!(answers.contains("(answers only)"), "{answers}");
}

#[test]
fn bad_input_is_refused_in_words() {
    let place = Place::new();
    let model = &plain_model(&place);
    let nothing = place.path("nothing");
    fs::create_dir(&nothing).unwrap();
    for command in ["chat", "eval"] {
        let args = [command, "--model", text(&nothing)];
        let args =
            if command == "eval" { [&args[..], &["--data", "builtin"]].concat() } else { args.to_vec() };
        let error = refused(&args);
        assert!(error.contains("this folder is empty"), "{error}");
    }
    assert!(refused(&["eval", "--model", model, "--data", "nowhere.txt"]).contains("nowhere.txt"));
    let empty = place.path("empty.txt");
    fs::write(&empty, "").unwrap();
    assert!(refused(&["eval", "--model", model, "--data", text(&empty)]).contains("empty"));
    let strange = place.path("strange.txt");
    fs::write(&strange, "abc xyz").unwrap();
    let (_, notes) = said(&["eval", "--model", model, "--data", text(&strange)], b"");
    assert!(notes.contains("'x' × 1") && notes.contains("are left out"), "{notes}");
    let error = refused(&["eval", "--model", model, "--data", "builtin"]);
    assert!(error.contains("<sep>"), "{error}");
    assert!(refused(&["chat", "--model", model, "--set", "temperature=-1"]).contains("temperature"));
    assert!(refused(&["chat", "--model", model, "--set", "temperature"]).contains("name=value"));
    fs::remove_file(Path::new(model).join("tokenizer.json")).unwrap();
    assert!(refused(&["chat", "--model", model]).contains("has no tokenizer"));
    assert!(refused(&["eval", "--model", model, "--data", text(&strange)]).contains("has no tokenizer"));
}

#[test]
fn a_reader_that_goes_away_ends_a_chat_without_an_error() {
    let model = demo_model();
    let mut child = minigpt(&["chat", "--model", text(&model)]).spawn();
    drop(child.stdout.take());
    let _ = child.stdin.take().unwrap().write_all("hello\n".repeat(50).as_bytes());
    assert!(child.wait().unwrap().success());
}

#[test]
fn run_answers_a_prompt_once_however_it_is_given() {
    let run = DEMO.0.path("run");
    let (answer, notes) = said(&["run", text(&run), "智利的首都是哪里？"], b"");
    assert_contains(&notes, &["is a run: ", "/best is used"]);
    assert!(answer.ends_with('\n'), "{answer:?}");
    let question = "智利的首都是哪里？";
    assert_eq!(said(&["run", text(&run), "-p", question], b"").0, answer);
    assert_eq!(said(&["run", text(&run)], format!("{question}\n").as_bytes()).0, answer);
    // The chat has the same sampling options, and answers the same.
    let chat = ["chat", "-m", text(&run), "--temp", "0", "-n", "256", "-t", "1"];
    assert_eq!(said(&chat, format!("\"\"\"\n{question}\n\"\"\"\n／quit\n{question}").as_bytes()).0, answer);
    let short = said(&["run", text(&run), question, "-n", "1"], b"");
    assert_contains(&short.1, &["max_new_tokens reached"]);
    assert_contains(&refused(&["run", text(&run), "x", "--temp", "-1"]), &["temperature"]);
    assert_contains(&refused(&["run", text(&run), ""]), &["the prompt is empty"]);
    let place = Place::new();
    let plain = plain_model(&place);
    let (text, _) = said(&["run", &plain, "abc", "def", "-n", "5", "-c", "8"], b"");
    assert!(text.starts_with("abc def") && text.chars().count() == 13, "{text:?}");
    let (_, notes) = said(&["run", &plain, "a", "-n", "1", "-c", "999"], b"");
    assert_contains(&notes, &["the model's context is 16 tokens"]);
}

#[test]
fn a_run_is_a_model_for_every_command_that_takes_one() {
    let (run, place) = (DEMO.0.path("run"), Place::new());
    let run = text(&run);
    let out = place.text("out");
    let data = place.write("more.jsonl", "{\"question\": \"a\", \"answer\": \"b\"}\n".repeat(20));
    let config = place.write("more.toml", format!("[data]\npath = {data:?}\n[train]\nmax_iters = 1\n"));
    for args in [
        &["generate", "--model", run, "--prompt", "a", "-n", "1"][..],
        &["eval", "--model", run, "--data", &data],
        &["inspect", "--model", run, "--prompt", "a"],
        &["inspect", "--model", run, "--tensors"],
        &["export", "--model", run, "--to", "hf", "--out", &out],
        &["plan", "--model", run, "--flops-per-second", "1e12"],
        &["plan", run, "--flops-per-second", "1e12"],
        &["bench", "decode", "--model", run, "--repeat", "1", "--warm-up", "0", "--max-new-tokens", "2"],
        &["tokenizer", "encode", "--model", run, "--text", "a"],
        &["import", run, "--out", &place.text("imported")],
        &["train", "--config", &config, "--from", run, "--out", &place.text("more"), "--quiet"],
    ] {
        let (_, notes) = said(args, b"");
        assert_eq!(notes.matches("is a run: ").count(), 1, "{args:?}: {notes}");
        assert_contains(&notes, &["run/best is used"]);
    }
    let empty = place.text("");
    fs::create_dir(place.path("new")).unwrap();
    place.write("new/config.toml", "");
    for command in ["generate", "chat", "inspect", "eval", "export"] {
        let rest: &[&str] = match command {
            "inspect" => &["--prompt", "a"],
            "eval" => &["--data", "builtin"],
            "export" => &["--to", "hf", "--out", &out],
            _ => &[],
        };
        let error = refused(&[&[command, "--model", &place.text("new")], rest].concat());
        assert_contains(&error, &["this run has saved no model yet"]);
        let error = refused(&[&[command, "--model", &empty], rest].concat());
        assert_contains(&error, &["holds several models: "]);
    }
}
