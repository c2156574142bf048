//! Whole workflows, from a fresh folder with the commands alone; and the ready configurations.

use crate::support::{Place, answer, assert_contains, minigpt, shown};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn configs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect()
}

#[test]
fn a_ready_configuration_needs_no_data_or_says_how_to_get_it() {
    for path in configs() {
        let text = fs::read_to_string(&path).unwrap();
        let data = text.lines().find_map(|line| line.strip_prefix("path = ")).unwrap().trim_matches('"');
        let comment: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(comment.contains(&format!("minigpt train --config {name}")), "{name}: {comment}");
        let built_in = ["builtin", "random"].contains(&data);
        assert!(built_in || comment.contains("minigpt data "), "{name}: where does {data} come from?");
    }
}

#[test]
fn a_public_set_that_is_missing_is_named_with_the_command_that_fetches_it() {
    let place = Place::new();
    let config = configs().into_iter().find(|path| path.ends_with("shakespeare-cpu.toml")).unwrap();
    let train = |more: &[&str]| {
        let args = [&["train", "--config", config.to_str().unwrap()], more].concat();
        minigpt(&args).within(&place.path("")).run().code(1).stderr().to_owned()
    };
    assert_contains(
        &train(&[]),
        &["data/shakespeare.txt", "`minigpt data download shakespeare` downloads it"],
    );
    let elsewhere = train(&["--set", "data.path=shakespeare.txt"]);
    assert_contains(&elsewhere, &["`minigpt data download shakespeare --out .` downloads it"]);
    let by_name = train(&["--dataset=shakespeare_char"]);
    assert_contains(&by_name, &["data/shakespeare_char", "`minigpt data download shakespeare` downloads it"]);
    let elsewhere = train(&["--set", "data.path=books/xiyouji.txt"]);
    assert_contains(&elsewhere, &["`minigpt data download xiyouji --out books` downloads it"]);
    assert!(!train(&["--set", "data.path=mine.txt"]).contains("download"));
    assert!(place.names("").is_empty(), "a refused run leaves nothing");
}

const QUESTIONS: [(&str, &str); 6] = [
    ("天空是什么颜色？", "蓝色。"),
    ("草是什么颜色？", "绿色的，春天最绿。"),
    ("雪是什么颜色？", "白色。"),
    ("你叫什么？", "我叫小智，很高兴认识你。"),
    ("一加一等于几？", "二。"),
    ("法国的首都是哪里？", "巴黎。"),
];

/// The Chinese question/answer model: lines in, split in two files, answers out, each row stopping at its own separator.
#[test]
fn a_question_answer_model_answers_several_questions_at_once() {
    let place = Place::new();
    let line = |(question, answer): &(&str, &str)| {
        format!("{}\n", serde_json::json!({ "question": question, "answer": answer }))
    };
    let lines: String = QUESTIONS.iter().cycle().take(60).map(line).collect();
    let lines = place.write("data.jsonl", lines);
    let data = place.text("qa");
    let split = answer(&["data", "split", &lines, "--out", &data]);
    assert_eq!((&split["train_lines"], &split["val_lines"]), (&Value::from(54), &Value::from(6)));
    let config = format!(
        "[model]\npreset = \"qa\"\nn_layer = 2\nn_head = 2\nn_embd = 32\nblock_size = 32\n\
         [data]\npath = {data:?}\nkind = \"qa\"\ntokenizer = \"char\"\nmax_length = 32\n\
         [train]\nepochs = 15\nbatch_size = 6\nlearning_rate = 1e-2\nlr_decay = \"linear\"\nmin_lr = 0\n\
         warmup_iters = 5\noptimizer = \"muon\"\nmuon_ratio = 8\n"
    );
    let config = place.write("qa.toml", config);
    let run = place.text("run");
    let done = minigpt(&["train", "--config", &config, "--out", &run]).run().success();
    assert_contains(done.stderr(), &["epoch 15, step 135: mean training loss 0.", ", validation 0."]);
    assert_contains(done.stdout(), &["best validation", "minigpt chat "]);

    let model = format!("{run}/best");
    let questions: Vec<String> = QUESTIONS.iter().map(|(question, _)| format!("{question}<sep>")).collect();
    let prompts: Vec<&str> = questions.iter().flat_map(|question| ["--prompt", question.as_str()]).collect();
    let ask = |more: &[&str]| answer(&[&["generate", "--model", &model], &prompts[..], more].concat());
    let said = |answer: &Value| -> Vec<(String, String)> {
        let first = |result: &Value| {
            let text = &result["completions"][0];
            (text["text"].as_str().unwrap().to_owned(), text["finish_reason"].as_str().unwrap().to_owned())
        };
        answer["results"].as_array().unwrap().iter().map(first).collect()
    };
    let want: Vec<(String, String)> =
        QUESTIONS.iter().map(|(_, answer)| ((*answer).to_owned(), "stop".to_owned())).collect();
    assert_eq!(said(&ask(&["--temperature", "0"])), want);
    assert_eq!(said(&ask(&["--temperature", "0.5", "--top-k", "3"])), want);
    // The same from a file, and for people.
    let file = place.write("questions.txt", questions.join("\n"));
    let greedy = ["--prompts", &file, "--temperature", "0"];
    assert_eq!(said(&answer(&[&["generate", "--model", &model], &greedy[..]].concat())), want);
    let page = shown(&[&["generate", "--model", &model], &greedy[..]].concat());
    assert_contains(&page, &["--- prompt 4 ---\n你叫什么？<sep>我叫小智，很高兴认识你。\n"]);
}

/// The textbook's model: random rows, ten epochs of one batch, and greedy tokens from 42 until 0 comes.
#[test]
fn the_textbooks_model_learns_random_rows_and_goes_on_from_an_id() {
    let place = Place::new();
    let config = configs().into_iter().find(|path| path.ends_with("textbook.toml")).unwrap();
    let train = ["train", "--config", config.to_str().unwrap(), "--out", "run"];
    let done = minigpt(&train).within(&place.path("")).run().success();
    assert_contains(done.stdout(), &["step 10: finished all steps", "minigpt generate run --ids 0"]);
    let log = place.read_text("run/metrics.jsonl");
    let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let losses: Vec<f64> = records.iter().map(|record| record["epoch_loss"].as_f64().unwrap()).collect();
    // 1,000 rows of 20 ids, of which the first is no target.
    assert_eq!((losses.len(), &records[9]["tokens"]), (10, &Value::from(190_000)));
    // At first no better than chance, ln 1000 = 6.9; a step of Adam on all rows makes it better, each time.
    assert!((6.5..8.0).contains(&losses[0]) && losses.windows(2).all(|pair| pair[1] < pair[0]), "{losses:?}");
    for (i, record) in records.iter().enumerate() {
        assert!(record["epoch"] == i + 1 && record["lr"] == 1e-3 && record["loss"] == record["epoch_loss"]);
    }
    let settings: Value = place.read_json("run/last/config.json");
    assert!(
        ["embd_pdrop", "attn_pdrop", "resid_pdrop"].iter().all(|name| settings[name] == 0.0),
        "{settings}"
    );
    let last = place.text("run/last");
    let from_42 = ["generate", "--model", &last, "--ids", "42", "--temperature", "0", "--stop-id", "0"];
    let said = answer(&[&from_42[..], &["--max-new-tokens", "20"]].concat());
    let text = &said["completions"][0];
    let ids: Vec<u32> = serde_json::from_value(text["ids"].clone()).unwrap();
    let stop = ids.iter().position(|&id| id == 0).map_or(20, |at| at + 1);
    assert_eq!((ids.len(), text["text"].is_null()), (stop, true));
    assert_eq!(text["finish_reason"], if ids.contains(&0) { "stop" } else { "length" });
}
