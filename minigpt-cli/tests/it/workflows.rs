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
fn a_public_set_that_is_missing_is_named_with_the_command_that_fetches_it() {
    let place = Place::new();
    let config = configs().into_iter().find(|path| path.ends_with("shakespeare-cpu.toml")).unwrap();
    let train = |more: &[&str]| {
        let args = [&["train", "--config", config.to_str().unwrap()], more].concat();
        minigpt(&args).within(&place.path("")).run().code(1).stderr().to_owned()
    };
    assert_contains(&train(&[]), &["data/shakespeare.txt", "`minigpt data download shakespeare` fetches it"]);
    let elsewhere = train(&["--set", "data.path=shakespeare.txt"]);
    assert_contains(&elsewhere, &["`minigpt data download shakespeare --out .` fetches it"]);
    let elsewhere = train(&["--set", "data.path=books/xiyouji.txt"]);
    assert_contains(&elsewhere, &["`minigpt data download xiyouji --out books` fetches it"]);
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

/// The Chinese question/answer model: lines in, answers out, each row stopping at its own separator.
#[test]
fn a_question_answer_model_answers_several_questions_at_once() {
    let place = Place::new();
    let line = |(question, answer): &(&str, &str)| {
        format!("{}\n", serde_json::json!({ "question": question, "answer": answer }))
    };
    let lines: String = QUESTIONS.iter().cycle().take(60).map(line).collect();
    let data = place.write("data.jsonl", lines);
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
    assert_contains(done.stdout(), &["best validation", "minigpt chat --model"]);

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
