//! Workflows around data, from a fresh folder with the commands alone.

use crate::support::{Done, Place, assert_contains, minigpt};
use serde_json::{Value, json};
use std::fs;

/// A folder in which commands are typed.
struct Folder(Place);

impl Folder {
    fn new() -> Self {
        Self(Place::new())
    }

    fn types(&self, command: &str) -> Done {
        self.typed(&command.split_whitespace().collect::<Vec<_>>())
    }

    fn typed(&self, args: &[&str]) -> Done {
        minigpt(args).within(&self.0.path("")).run().success()
    }
}

/// Questions and answers about numbers, with what a file that grew over years has in it.
fn questions() -> String {
    let pair =
        |i: usize| json!({ "question": format!("第{i}个数是什么？"), "answer": format!("是{}。", i * 7) });
    let mut lines: Vec<String> = (0..60).map(|i| pair(i).to_string()).collect();
    lines.insert(5, String::new());
    lines.insert(9, "{\"question\": \"断了".to_owned());
    lines.join("\n") + "\n"
}

const SMALL: &str = "--set model.n_layer=1 --set model.n_head=2 --set model.n_embd=32 --set model.block_size=32 \
                     --set data.max_length=24 --set train.batch_size=8 --set train.warmup_iters=0";

#[test]
fn the_chinese_question_answer_model_from_its_data_to_its_answers() {
    let folder = Folder::new();
    folder.0.write("data.jsonl", questions());
    // A vocabulary with the special tokens first.
    folder.types("tokenizer train --kind char --input data.jsonl --out vocab");
    let vocabulary = folder.0.read_text("vocab/vocabulary.json");
    assert!(vocabulary.starts_with(
        "{\n    \"word2id\": {\n        \"<pad>\": 0,\n        \"<unk>\": 1,\n        \"<sep>\": 2,"
    ));
    // A split beside the data, shuffled, without what can't be used.
    let said = folder.types("data split data.jsonl");
    assert_contains(said.stdout(), &["train     54", "val        6", "left out   2"]);
    assert_contains(said.stderr(), &["line 10: not JSON"]);
    assert!(folder.0.read_text("train.jsonl").lines().all(|line| line.starts_with('{')));
    // How long the examples are, with a picture.
    let stats = folder.types("data stats train.jsonl --tokenizer vocab --svg lengths.svg --json").json();
    assert_eq!(stats["examples"], 54);
    assert!(folder.0.read_text("lengths.svg").contains("<svg"));
    // One as the model gets it: padded, masked, shifted by one.
    let row = folder.types("data show train.jsonl --row 1 --tokenizer vocab --max-length 24 --json").json();
    let first = folder.0.read_text("train.jsonl").lines().next().unwrap().to_owned();
    let first: Value = serde_json::from_str(&first).unwrap();
    assert!(row["input_text"].as_str().unwrap().starts_with(first["question"].as_str().unwrap()));
    let list = |name: &str| -> Vec<u64> {
        row[name].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
    };
    let (ids, mask, input, target, counts) =
        (list("ids"), list("mask"), list("input"), list("target"), list("counts"));
    assert_eq!((ids.len(), mask.len(), input.len(), target.len()), (24, 24, 23, 23));
    assert_eq!((&ids[..23], &ids[1..]), (&input[..], &target[..]));
    let length = mask.iter().filter(|&&one| one == 1).count();
    assert!(ids[..length].iter().filter(|&&id| id == 2).count() == 2 && ids[length - 1] == 2);
    assert!(ids[length..].iter().all(|&id| id == 0) && counts.iter().sum::<u64>() as usize == length - 1);
    folder.types("data show train.jsonl --row 1 --tokenizer vocab --loss-on answer");
    let args =
        ["tokenizer", "encode", "--tokenizer", "vocab", "--text", "第1个", "--max-length", "5", "--json"];
    let padded = folder.typed(&args).json();
    assert_eq!(padded["mask"], json!([1, 1, 1, 0, 0]));
    let ids = padded["ids"].as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join(",");
    let text = folder.typed(&["tokenizer", "decode", "--tokenizer", "vocab", "--ids", &ids]);
    assert_eq!(text.stdout(), "第1个");
    // Training on exactly these two files.
    folder.0.write(
        "qa.toml",
        "[data]\npath = \"train.jsonl\"\nval_path = \"val.jsonl\"\ntokenizer = \"vocab\"\n",
    );
    let run = folder.types(&format!("train --config qa.toml --out run --set train.epochs=3 {SMALL}"));
    assert_contains(run.stderr(), &["JSON lines of questions and answers", "6 batches an epoch"]);
    assert_contains(run.stdout(), &["best validation", "minigpt chat"]);
    // Answers, several at once, each ending alone.
    let answers = minigpt(&["chat", "--model", "run/best"]).within(&folder.0.path(""));
    let answers = answers.stdin("第3个数是什么？\n第4个数是什么？😀\n").run().success();
    assert_eq!(answers.stdout().lines().count(), 2);
    let score = folder.types("eval --model run/best --data val.jsonl --json").json();
    assert_eq!(score["questions"], 6);
    // Other tools are told how it is spoken to.
    assert_eq!(folder.0.read_text("run/best/chat_template.jinja"), "{{ messages[-1]['content'] }}<sep>");
}

#[test]
fn a_folder_with_two_parts_is_trained_on_as_it_is() {
    let folder = Folder::new();
    folder.0.write("data.jsonl", questions());
    folder.types("data split data.jsonl --out parts");
    folder.0.write("qa.toml", "[data]\npath = \"parts\"\n");
    let run = folder.types(&format!("train --config qa.toml --out run --set train.max_iters=2 {SMALL}"));
    assert_contains(run.stderr(), &["in two parts"]);
    let score = folder.types("eval --model run/best --data parts --json").json();
    assert_eq!(score["questions"], 6, "the validation part is what is scored");
}

/// The same three pairs in every form.
fn forms() -> Vec<(&'static str, String)> {
    let pairs = [("一加一？", "二"), ("二加二？", "四"), ("三加三？", "六")];
    let lines = |make: &dyn Fn(&str, &str) -> Value| -> String {
        pairs.iter().map(|(q, a)| make(q, a).to_string() + "\n").collect()
    };
    let messages =
        |q: &str, a: &str| json!([{"role": "user", "content": q}, {"role": "assistant", "content": a}]);
    let table = |between: &str| {
        let rows = pairs.iter().map(|(q, a)| format!("{q}{between}{a}\n")).collect::<String>();
        format!("question{between}answer\n{rows}")
    };
    let array: Vec<Value> = pairs.iter().map(|(q, a)| json!({"question": q, "answer": a})).collect();
    vec![
        ("qa.jsonl", lines(&|q, a| json!({"question": q, "answer": a}))),
        ("prompt.jsonl", lines(&|q, a| json!({"prompt": q, "completion": a}))),
        ("alpaca.jsonl", lines(&|q, a| json!({"instruction": q, "input": "", "output": a}))),
        (
            "sharegpt.jsonl",
            lines(
                &|q, a| json!({"conversations": [{"from": "human", "value": q}, {"from": "gpt", "value": a}]}),
            ),
        ),
        ("messages.jsonl", lines(&|q, a| json!({ "messages": messages(q, a) }))),
        ("array.json", serde_json::to_string_pretty(&array).unwrap()),
        ("table.csv", table(",")),
        ("table.tsv", table("\t")),
    ]
}

#[test]
fn data_is_read_in_every_form_that_people_have_it_in() {
    let folder = Folder::new();
    let shown = |name: &str| {
        let rows = folder.types(&format!("data show {name} --json")).json();
        rows.as_array().unwrap().iter().map(|row| row["messages"].clone()).collect::<Vec<_>>()
    };
    folder.0.write("first.jsonl", &forms()[0].1);
    let expected = shown("first.jsonl");
    assert_eq!((expected.len(), &expected[2][1]["content"]), (3, &json!("六")));
    for (name, text) in forms() {
        folder.0.write(name, &text);
        assert_eq!(shown(name), expected, "{name}");
    }
    // In other encodings, of which the first is found out.
    let table = &forms()[6].1;
    let long = forms()[0].1.repeat(40);
    folder.0.write("gbk.jsonl", encoding_rs::GBK.encode(&long).0);
    let said = folder.types("data stats gbk.jsonl --json");
    assert_eq!(said.json()["examples"], 120);
    folder.0.write("gbk.csv", encoding_rs::GBK.encode(table).0);
    let rows = folder.types("data show gbk.csv --encoding gbk --json").json();
    assert_eq!(rows[2]["messages"][1]["content"], "六");
    // With columns of other names.
    folder.0.write("odd.csv", "Frage,Antwort\n一加一？,二\n");
    let lost = minigpt(&["data", "stats", "odd.csv"]).within(&folder.0.path("")).run().code(1);
    assert_contains(lost.stderr(), &["has \"Frage\", \"Antwort\"", "--columns question=NAME"]);
    let rows =
        folder.typed(&["data", "show", "odd.csv", "--columns", "question=Frage,answer=Antwort", "--json"]);
    assert_eq!(rows.json()[0]["messages"][1]["content"], "二");
}

#[test]
fn texts_in_rows_are_text_and_binary_files_are_not() {
    let folder = Folder::new();
    let rows: String =
        (0..30).map(|i| json!({ "text": format!("第{i}篇 story") }).to_string() + "\n").collect();
    folder.0.write("stories.jsonl", rows);
    let stats = folder.types("data stats stories.jsonl --json").json();
    assert_eq!(stats["kind"], "text");
    folder.types("data prepare --input stories.jsonl --tokenizer gpt2 --out tokens");
    let refused = |args: &[&str]| minigpt(args).within(&folder.0.path("")).run().code(1).stderr().to_owned();
    folder.0.write("archive.txt", b"\x1f\x8b\x08\x00\x00\x00\x00\x00");
    assert_contains(&refused(&["data", "stats", "archive.txt"]), &["compressed with gzip, not text"]);
    folder.0.write("noise.txt", (0..=255u8).cycle().take(4000).collect::<Vec<_>>());
    assert_contains(&refused(&["data", "stats", "noise.txt"]), &["a binary file, not text"]);
    // Tokens by the name of one file mean the folder.
    let tokens = folder.types("data stats tokens/train.bin --json").json();
    assert_eq!((&tokens["kind"], &tokens["tokenizer"]["kind"]), (&json!("tokens"), &json!("bpe")));
}

#[test]
fn nanogpts_tokens_bring_the_vocabulary_beside_them() {
    let folder = Folder::new();
    folder.0.write("text.txt", "hello there, general. ".repeat(40));
    folder.0.write("run.toml", "[data]\npath = \"text.txt\"\n");
    folder.types(&format!("train --config run.toml --out run --set train.max_iters=1 {SMALL}"));
    folder.types("export --model run/last --to nanogpt --out nano/ckpt.pt");
    folder.types("data prepare --input text.txt --out tokens");
    for name in ["meta.json", "tokenizer.json", "tokenizer_config.json"] {
        fs::remove_file(folder.0.path("tokens").join(name)).unwrap();
    }
    fs::copy(folder.0.path("nano/meta.pkl"), folder.0.path("tokens/meta.pkl")).unwrap();
    folder.0.write("tokens.toml", "[data]\npath = \"tokens/train.bin\"\n");
    let run =
        folder.types(&format!("train --config tokens.toml --out again --set train.max_iters=2 {SMALL}"));
    assert_contains(run.stderr(), &["prepared tokens"]);
    assert!(folder.0.path("again/last/tokenizer.json").exists());
}

#[test]
fn a_character_that_a_vocabulary_lacks_makes_nothing_impossible() {
    let folder = Folder::new();
    folder.0.write("text.txt", "abc def. ".repeat(60));
    folder.0.write("run.toml", "[data]\npath = \"text.txt\"\n");
    let small = format!("{SMALL} --set train.max_iters=2");
    let run = folder.types(&format!("train --config run.toml --out run {small}"));
    assert_contains(run.stderr(), &["are the vocabulary; of other texts the rest is left out"]);
    let odd =
        folder.typed(&["generate", "--model", "run/last", "--prompt", "ab😀c é", "--max-new-tokens", "2"]);
    assert_contains(odd.stderr(), &["the prompt: 'é' × 1, '😀' × 1 are left out"]);
    folder.0.write("more.txt", "fed a $5 bead. ".repeat(40));
    folder.0.write("more.toml", "[data]\npath = \"more.txt\"\n");
    let run = folder.types("train --config more.toml --from run/last --out more --set train.max_iters=2");
    assert_contains(run.stderr(), &["'$' × 40", "are left out: the vocabulary lacks them"]);
}

#[test]
fn conversations_carry_their_template_and_are_remembered() {
    let folder = Folder::new();
    let talk = json!({"messages": [
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "bye"}, {"role": "assistant", "content": "see you"}]});
    folder.0.write("talk.jsonl", format!("{talk}\n").repeat(20));
    folder.0.write("talk.toml", "[data]\npath = \"talk.jsonl\"\nloss_on = \"answer\"\n");
    folder.types(&format!("train --config talk.toml --out run --set train.max_iters=2 {SMALL}"));
    let template = folder.0.read_text("run/last/chat_template.jinja");
    assert_eq!(template, "{% for message in messages %}{{ message['content'] }}<sep>{% endfor %}");
    // The end of an answer is known to other tools, too.
    for (name, key) in
        [("config", "eos_token_id"), ("generation_config", "eos_token_id"), ("config", "pad_token_id")]
    {
        let ids = folder.0.read_json(&format!("run/last/{name}.json"));
        assert_eq!(ids[key], if key == "eos_token_id" { 2 } else { 0 }, "{name}: {ids}");
    }
    let chat = minigpt(&["chat", "--model", "run/last"]).within(&folder.0.path(""));
    let chat = chat.stdin("hi\n").run().success();
    assert_contains(chat.stderr(), &["the model's own chat template"]);
    let row = folder.types("data show talk.jsonl --row 1 --loss-on answer --max-length 24 --json").json();
    let counted: u64 = row["counts"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(counted, 6 + 8, "what the assistant says, with its separators");
}

#[test]
fn the_built_in_set_can_be_looked_at_and_taken_along() {
    let folder = Folder::new();
    let shown = folder.types("data show builtin --start 100 --count 2");
    assert_contains(shown.stdout(), &["100", "user", "assistant"]);
    let said = folder.types("data export builtin --out qa.jsonl --json").json();
    let lines = |name: &str| folder.0.read_text(name).lines().count() as u64;
    assert_eq!(
        (said["train_lines"].as_u64().unwrap(), said["val_lines"].as_u64().unwrap()),
        (lines("qa.jsonl"), lines("qa-val.jsonl"))
    );
    folder.types("data export builtin --out set");
    let show = folder.types("data show set --part val --count 1");
    assert_contains(show.stderr(), &["in two parts"]);
}
