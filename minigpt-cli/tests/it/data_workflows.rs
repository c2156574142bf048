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
                     --set train.batch_size=8 --set train.warmup_iters=0";

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
    assert_contains(run.stderr(), &["JSON lines of questions and answers", "6 batches per epoch"]);
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

    // Whatever a configuration says of text.
    for (kind, note) in
        [("char", ""), ("gpt2", "data.tokenizer is gpt2"), ("bpe:300", "data.tokenizer is bpe:300")]
    {
        folder.0.write("any.toml", format!("[data]\npath = \"text.txt\"\ntokenizer = \"{kind}\"\n"));
        let out = format!("any-{}", kind.replace(':', "-"));
        let run = folder.types(&format!(
            "train tokens/train.bin --config any.toml --out {out} --set train.max_iters=2 {SMALL}"
        ));
        assert_contains(run.stderr(), &[note]);
        let tokens = folder.types(&format!("tokenizer encode hello --model {out}/last --json")).json();
        assert_eq!(tokens["ids"].as_array().unwrap().len(), 5, "{kind}");
    }
    // A model with other tokens would learn nonsense.
    folder.0.write("other.txt", "0123456789 ".repeat(40));
    folder.types(&format!("train other.txt --out other --max_iters=1 {SMALL}"));
    let args = ["train", "--config", "tokens.toml", "--from", "other/last", "--out", "x", "--max_iters=1"];
    let refused = minigpt(&args).within(&folder.0.path("")).run().code(1);
    assert_contains(refused.stderr(), &["made with the meta.pkl next to them"]);

    // By nanoGPT's name for it, and alone.
    fs::create_dir(folder.0.path("data")).unwrap();
    fs::rename(folder.0.path("tokens"), folder.0.path("data/chars")).unwrap();
    folder.types(&format!("train --dataset=chars --out named --max_iters=2 {SMALL}"));
    assert!(folder.0.path("named/last/tokenizer.json").exists());
}

#[test]
fn nanogpts_checkpoint_finds_the_vocabulary_of_the_data_set_that_it_names() {
    let folder = Folder::new();
    folder.0.write("text.txt", "hello there, general. ".repeat(40));
    folder.types(&format!("train text.txt --out run --max_iters=3 {SMALL} --set train.optimizer=\"adamw\""));
    // As nanoGPT lays them out, seen from its folder and from outside.
    folder.types("export run/last --to nanogpt --out nano/out/ckpt.pt");
    fs::create_dir_all(folder.0.path("nano/data/minigpt")).unwrap();
    fs::rename(folder.0.path("nano/out/meta.pkl"), folder.0.path("nano/data/minigpt/meta.pkl")).unwrap();
    let found = folder.types("import nano/out/ckpt.pt --out a --json").json();
    assert!(found["tokenizer"].as_str().unwrap().ends_with("data/minigpt/meta.pkl"), "{found}");
    let inside = minigpt(&["import", "out/ckpt.pt", "--out", "b", "--json"]).within(&folder.0.path("nano"));
    assert_eq!(inside.run().success().json()["tokenizer"], "data/minigpt/meta.pkl");
    folder.typed(&["generate", "--out_dir=nano/out", "--init_from=resume", "--start=hello", "-n", "2"]);
    folder.0.write("p.txt", "hello");
    let by_file = [
        "generate",
        "--out_dir=nano/out",
        "--start=FILE:p.txt",
        "--dtype=float16",
        "--compile=False",
        "-n",
        "2",
    ];
    folder.typed(&by_file);
    // Its run is not one of ours.
    for args in [&["--init_from=resume", "--out_dir=nano/out"][..], &["--resume", "--out", "nano/out"]] {
        let refused = minigpt(&[&["train"], args].concat()).within(&folder.0.path("")).run().code(1);
        assert_contains(refused.stderr(), &["`--from nano/out/ckpt.pt --out runs/NAME`"]);
    }
    folder.types("train text.txt --from nano/out/ckpt.pt --out further --max_iters=2");
}

#[test]
fn what_is_left_out_of_data_is_counted() {
    let folder = Folder::new();
    folder.0.write("data.jsonl", questions());
    let shown = folder.types("data show data.jsonl --start 1 --count 20");
    assert_contains(shown.stderr(), &["data.jsonl: 1 line can't be used:", "line 10: not JSON"]);
    let row = folder.types("data show data.jsonl --row 2 --max-length 24");
    assert_contains(row.stderr(), &["1 line can't be used"]);
    // Answers beyond the context.
    folder.types(&format!("train data.jsonl --out run --max_iters=1 {SMALL}"));
    let long = json!({"question": "第1个数是什么？", "answer": "是7。".repeat(30)});
    let beyond = json!({"question": "第1个数是什么？".repeat(30), "answer": "是7。"});
    folder.0.write("long.jsonl", format!("{}{long}\n{beyond}\n", questions()));
    for (more, expected) in [("", (2, 0)), ("--loss-on answer", (1, 1))] {
        let done = folder.types(&format!("eval run/last --data long.jsonl --limit 62 --json {more}"));
        let report = done.json();
        assert_eq!(
            (&report["cut"], &report["left_out"]),
            (&json!(expected.0), &json!(expected.1)),
            "{report}"
        );
        assert_contains(done.stderr(), &["skipped 1 bad line"]);
    }
    let shown = folder.types("eval run/last --data long.jsonl --limit 62");
    assert_contains(shown.stdout(), &["2 of 62 examples are longer than the context"]);
}

#[test]
fn damaged_chinese_is_read_and_the_damage_is_said() {
    let folder = Folder::new();
    let line = "天空为什么是蓝色的？因为空气散射阳光中的蓝光。\n";
    let bytes = encoding_rs::GBK.encode(&line.repeat(60)).0.into_owned();
    let damaged = [&bytes[..200], b"\xff", &bytes[200..bytes.len() - 2]].concat();
    folder.0.write("gbk.txt", damaged);
    let stats = folder.types("data stats gbk.txt --json").json();
    assert_eq!(stats["cleaned"]["replaced"], 2, "{stats}");
    let said = folder.types("data stats gbk.txt");
    assert_contains(said.stdout(), &["2 broken characters replaced by U+FFFD"]);
    let shown = folder.types("data show gbk.txt --count 1");
    assert_contains(
        shown.stderr(),
        &["gbk.txt: text in gb18030", "gbk.txt is damaged: 2 invalid characters were replaced by U+FFFD"],
    );
    assert_contains(shown.stdout(), &["天空为什么是蓝色的"]);
    let chinese = folder.types("data stats gbk.txt --lang zh");
    assert_contains(chinese.stdout(), &["2 个损坏的字符替换为 U+FFFD"]);
    folder.0.write("crlf.txt", line.replace('\n', "\r\n").repeat(9));
    let chinese = folder.types("data stats crlf.txt --lang zh");
    assert_contains(chinese.stdout(), &["统一为 \\n"]);
}

/// Rows in GBK, with a wrong byte in one of them.
fn damaged(rows: &str) -> Vec<u8> {
    let bytes = encoding_rs::GBK.encode(rows).0.into_owned();
    let at = bytes.len() / 2 + bytes[bytes.len() / 2..].windows(2).position(|two| two == b"\"}").unwrap();
    [&bytes[..at], b"\xff", &bytes[at..]].concat()
}

/// Regression: of examples and rows of texts only `data show` and `train` told of the damage, of folders nothing did, or only
/// the first file.
#[test]
fn damage_is_said_by_every_command_that_opens_data() {
    let folder = Folder::new();
    let good: String = (0..60)
        .map(|i| {
            json!({"question": format!("第{i}个数是什么？"), "answer": format!("是{}。", i * 7)}).to_string()
                + "\n"
        })
        .collect();
    let texts: String =
        (0..60).map(|i| json!({"text": format!("天空为什么是蓝色的？{i}")}).to_string() + "\n").collect();
    let prose = "天空为什么是蓝色的？因为空气散射阳光中的蓝光。\n".repeat(60);
    let gbk = encoding_rs::GBK.encode(&prose).0.into_owned();
    let broken = [&gbk[..202], b"\xff", &gbk[202..]].concat();
    folder.0.write("good.jsonl", &good);
    folder.0.write("good.txt", &prose);
    folder.0.write("bad.jsonl", damaged(&good));
    folder.0.write("badt.jsonl", damaged(&texts));
    folder.0.write("bad.txt", &broken);
    folder.0.write("long.txt", [&broken[..], &gbk.repeat(300)].concat());
    folder
        .0
        .write("bad.toml", "[data]\npath = \"bad.jsonl\"\n[model]\nn_layer = 1\nn_head = 1\nn_embd = 16\n");
    for name in ["a", "c"] {
        folder.0.write(&format!("two/{name}.txt"), &broken);
    }
    folder.0.write("two/b.txt", &prose);
    folder.0.write("twoq/a.jsonl", &encoding_rs::GBK.encode(&good).0);
    folder.0.write("twoq/b.jsonl", damaged(&good));
    folder.types(&format!("train good.jsonl --out run --max_iters=1 {SMALL}"));
    let one = |name: &str| format!("{name} is damaged: 1 invalid character was replaced by U+FFFD");
    for (command, said) in [
        ("data stats bad.jsonl", one("bad.jsonl")),
        ("data split bad.jsonl --out parts", one("bad.jsonl")),
        ("data split badt.jsonl --out parts2", one("badt.jsonl")),
        ("data show bad.jsonl --count 1", one("bad.jsonl")),
        (
            "data show two --count 1",
            "two is damaged: 2 invalid characters were replaced by U+FFFD".to_owned(),
        ),
        ("data show two --count 1", "two: 3 text files in UTF-8, gb18030".to_owned()),
        ("tokenizer train bad.jsonl --kind char --out tokenizer", one("bad.jsonl")),
        ("eval run/last --data bad.jsonl", one("bad.jsonl")),
        ("train bad.jsonl --out run --eval-only", one("bad.jsonl")),
        ("train good.jsonl --out with-val --max_iters=1 --val_path=bad.jsonl SMALL", one("bad.jsonl")),
        (
            "train two --out of-two --max_iters=1 SMALL",
            "two is damaged: 2 invalid characters were".to_owned(),
        ),
        ("train twoq --out of-twoq --max_iters=1 SMALL", one("twoq")),
        ("train bad.txt --out of-text --max_iters=1 SMALL", one("bad.txt")),
        ("plan --config bad.toml", one("bad.jsonl")),
        (
            "scaling plan long.txt --minutes 60",
            "long.txt is damaged: 1 invalid character was replaced by U+FFFD".to_owned(),
        ),
    ] {
        let done = folder.types(&command.replace("SMALL", SMALL));
        let times = done.stderr().matches(&said).count();
        assert_eq!(times, 1, "{command}: {said} in {}", done.stderr());
    }
    assert_eq!(folder.types("data stats bad.jsonl --json").json()["replaced"], 1);
    assert_eq!(folder.types("data stats badt.jsonl --json").json()["cleaned"]["replaced"], 1);
    assert_eq!(folder.types("data split bad.jsonl --out parts3 --json").json()["replaced"], 1);
    assert_eq!(folder.types("data stats good.jsonl --json").json()["replaced"], 0);
    let chinese = folder.types("data stats bad.jsonl --lang zh");
    assert_contains(chinese.stderr(), &["bad.jsonl 有损坏：1 个损坏的字符已换成 U+FFFD"]);
}

/// Regression: any word was taken for the meaning of a column, and columns of running text were passed over.
#[test]
fn columns_are_used_or_refused() {
    let folder = Folder::new();
    folder.0.write("text.txt", "to be or not to be. ".repeat(60));
    folder.0.write("rows.csv", format!("Q,A\n{}", "1 + 1?,2\n".repeat(20)));
    folder.0.write("usual.csv", format!("question,answer\n{}", "1 + 1?,2\n".repeat(20)));
    let run = "[data]\npath = \"rows.csv\"\n[data.columns]\nquestio = \"Q\"\nanswer = \"A\"\n";
    folder.0.write("run.toml", run);
    folder.types("data stats rows.csv --columns question=Q,answer=A");
    let near = "unknown meaning \"questio\"; did you mean question?";
    for (command, code, said) in [
        ("data stats rows.csv --columns questio=Q,answer=A", 2, near),
        ("data stats rows.csv --columns question=Q,question=A", 2, "question is given twice"),
        ("train --config run.toml --out run", 1, near),
        ("train text.txt --columns={questio=\"Q\"} --out run", 1, near),
        ("data stats text.txt --columns question=Q", 1, "text.txt is text, which has no columns"),
        ("data split text.txt --columns question=Q --out o", 1, "text.txt is text, which has no columns"),
        ("train text.txt --columns={question=\"Q\"} --out run", 1, "text.txt is text, which has no columns"),
        (
            "data show builtin --columns question=Q",
            1,
            "the built-in questions and answers, which has no columns",
        ),
        ("data stats usual.csv --columns output=A", 1, "in which no column means output"),
    ] {
        let args: Vec<&str> = command.split_whitespace().collect();
        let done = minigpt(&args).within(&folder.0.path("")).run().code(code);
        assert_contains(done.stderr(), &[said]);
    }
}

#[test]
fn a_character_that_a_vocabulary_lacks_makes_nothing_impossible() {
    let folder = Folder::new();
    folder.0.write("text.txt", "abc def. ".repeat(60));
    folder.0.write("run.toml", "[data]\npath = \"text.txt\"\n");
    let small = format!("{SMALL} --set train.max_iters=2");
    let run = folder.types(&format!("train --config run.toml --out run {small}"));
    assert_contains(run.stderr(), &["the vocabulary is the", "other characters in prompts are left out"]);
    let odd =
        folder.typed(&["generate", "--model", "run/last", "--prompt", "ab😀c é", "--max-new-tokens", "2"]);
    assert_contains(
        odd.stderr(),
        &["the prompt: 'é' × 1, '😀' × 1 are not in the vocabulary and are left out"],
    );
    folder.0.write("more.txt", "fed a $5 bead. ".repeat(40));
    folder.0.write("more.toml", "[data]\npath = \"more.txt\"\n");
    let run = folder.types("train --config more.toml --from run/last --out more --set train.max_iters=2");
    assert_contains(run.stderr(), &["'$' × 40", "are not in the vocabulary and are left out"]);
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
