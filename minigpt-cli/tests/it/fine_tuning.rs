//! `minigpt train --from MODEL`: what is learned, what is kept, and in which form.

use crate::support::{Place, SPECIAL, assert_contains, characters, minigpt, small};
use minigpt_formats::ChatTemplate;
use serde_json::json;
use std::fs;

const LETTERS: &str = " .?abcdefghijklmnopqrstuvwxyz0123456789<|_>\n";
const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                      {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Lines of questions and answers about these things.
fn lines(things: &[&str]) -> String {
    let line = |thing: &&str| {
        json!({ "question": format!("where is the {thing}?"), "answer": format!("it is in the {thing} box.") })
            .to_string()
            + "\n"
    };
    things.iter().map(line).collect()
}

fn settings(place: &Place, run: &str) -> toml::Table {
    place.read_text(&format!("{run}/config.toml")).parse().unwrap()
}

fn train(place: &Place, args: &[&str]) -> (String, String) {
    let done = minigpt(&[&["train"], args].concat()).within(&place.path("")).run().success();
    (done.stdout().to_owned(), done.stderr().to_owned())
}

/// A model with random weights that is spoken to in ChatML.
fn chatml(place: &Place) {
    let names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
    let tokenizer = characters(&names, LETTERS);
    let config = minigpt_model::Config { block_size: 128, ..small(tokenizer.vocab_size()) };
    place.model("base", config, Some(&tokenizer));
    let tokens = vec![("eos_token".to_owned(), "<|im_end|>".to_owned())];
    ChatTemplate { source: CHATML.to_owned(), tokens }.save(&place.path("base")).unwrap();
}

/// 60 examples turned 98.5 % of the old answers into 0.1 %, and nothing said so.
#[test]
fn what_was_learned_and_what_was_kept_is_said() {
    let place = Place::new();
    place.write("old.jsonl", lines(&["cup", "pen", "hat", "map", "key", "jar"]));
    place.write("new.jsonl", lines(&["saw", "rug", "pan"]));
    train(&place, &["old.jsonl", "--max_iters=5", "--out", "runs/old"]);
    let (out, notes) = train(&place, &["new.jsonl", "--from", "runs/old", "--max_iters=2"]);
    assert_contains(&notes, &["chosen for fine-tuning, to forget less: learning rate 1e-3", "before: "]);
    assert_contains(&notes, &["half of each batch is what runs/old was trained on"]);
    assert_contains(&notes, &["of 6 questions answered", "old.jsonl, the model's former training data"]);
    assert_contains(
        &out,
        &["learned", "of 3 questions of new.jsonl (before: ", "kept", "of 6 questions of old.jsonl"],
    );
    // Regression: samples began with a line break instead of a question.
    assert_eq!(settings(&place, "runs/new")["sample"]["prompt"].as_str(), Some("where is the saw?<sep>"));
    // Only what was chosen is said to be.
    let (_, notes) =
        train(&place, &["new.jsonl", "--from", "runs/old", "--max_iters=2", "--learning_rate=1e-3"]);
    assert_contains(&notes, &["chosen for fine-tuning: batches of "]);
    assert!(!notes.contains("learning rate"), "{notes}");
    // Without the data, on what the model writes itself.
    fs::remove_file(place.path("old.jsonl")).unwrap();
    let (out, notes) = train(&place, &["new.jsonl", "--from", "runs/old", "--max_iters=2"]);
    assert_contains(&notes, &["the model's former training data was not found", "learning rate 3e-4"]);
    assert_contains(&out, &["texts that the model wrote before training: loss"]);
}

#[test]
fn training_further_is_slow_and_short_unless_it_is_said_otherwise() {
    let place = Place::new();
    let tokenizer = characters(&SPECIAL, LETTERS);
    let config = minigpt_model::Config { block_size: 64, ..small(tokenizer.vocab_size()) };
    place.model("base", config, Some(&tokenizer));
    place.write("new.jsonl", lines(&["saw", "rug", "pan", "cup"]));
    let (_, notes) = train(&place, &["new.jsonl", "--from", "base", "--minutes", "1", "--out", "a"]);
    assert_contains(&notes, &["with more, the model would forget what it knew"]);
    let steps = |out: &str| settings(&place, out)["train"]["max_iters"].as_integer().unwrap();
    assert!(steps("a") <= 200, "{} steps on 4 examples", steps("a"));
    train(&place, &["new.jsonl", "--from", "base", "--max_iters=3", "--out", "b"]);
    assert_eq!(steps("b"), 3);
}

/// The template became `content<|endoftext|>`, and so did the token that ends an answer.
#[test]
fn a_chat_model_is_trained_in_its_own_template_and_keeps_it() {
    let place = Place::new();
    chatml(&place);
    place.write("new.jsonl", lines(&["saw", "rug", "pan", "cup"]));
    let (_, notes) = train(&place, &["new.jsonl", "--from", "base", "--max_iters=2", "--out", "own"]);
    assert_contains(&notes, &["in the model's own chat template, in which <|im_end|> ends an answer"]);
    for model in ["own/best", "own/last"] {
        assert_eq!(place.read_text(&format!("{model}/chat_template.jinja")), CHATML);
        assert_eq!(place.read_json(&format!("{model}/tokenizer_config.json"))["eos_token"], "<|im_end|>");
        assert_eq!(place.read_json(&format!("{model}/config.json"))["eos_token_id"], 2);
    }
    let prompt = settings(&place, "own")["sample"]["prompt"].as_str().unwrap().to_owned();
    assert!(prompt.starts_with("<|im_start|>user\nwhere is the saw?<|im_end|>"), "{prompt}");
    // A run that goes on does so in the same form: the data's fingerprint would tell.
    minigpt(&["train", "--resume", "--out", "own", "--max_iters=4"]).within(&place.path("")).run().success();
    // A text leaves it alone, too.
    place.write("book.txt", "the saw is in the box. ".repeat(60));
    train(&place, &["book.txt", "--from", "base", "--max_iters=1", "--out", "text"]);
    assert_eq!(place.read_text("text/last/chat_template.jinja"), CHATML);
    // And eval asks as chat does: in the template.
    let eval = ["eval", "own", "--data", "new.jsonl", "--json"];
    let wrong = minigpt(&eval).within(&place.path("")).run().success().json()["wrong"][0].clone();
    assert_contains(wrong["question"].as_str().unwrap(), &["<|im_start|>user\nwhere is the saw?"]);
    assert_eq!(wrong["expected"], "it is in the saw box.");
}

#[test]
fn another_form_is_an_option_that_is_announced() {
    let place = Place::new();
    chatml(&place);
    place.write("new.jsonl", lines(&["saw", "rug", "pan", "cup"]));
    let args =
        ["new.jsonl", "--from", "base", "--max_iters=2", "--set", "data.format=questions", "--out", "q"];
    let (_, notes) = train(&place, &args);
    assert_contains(&notes, &["chat template is replaced: <|endoftext|> ends each question and answer"]);
    assert_eq!(place.read_json("q/last/config.json")["eos_token_id"], 0);
    let own = ["train", "new.jsonl", "--max_iters=2", "--set", "data.format=own"];
    let done = minigpt(&own).within(&place.path("")).run();
    assert!(done.failed());
    assert_contains(done.stderr(), &["there is no model with a chat template"]);
}

#[test]
fn a_tokenizer_that_does_not_fit_the_model_is_told_on_opening() {
    let place = Place::new();
    place.model("odd", small(5000), Some(&characters(&[], LETTERS)));
    place.model("run/snapshots/step-1", small(5000), Some(&characters(&[], LETTERS)));
    place.write("text.txt", "the saw is in the box. ".repeat(60));
    let commands: [&[&str]; 5] = [
        &["generate", "odd", "--prompt", "the", "-n", "2"],
        &["inspect", "odd", "--prompt", "the"],
        &["inspect", "run", "--snapshots", "--prompt", "the"],
        &["train", "text.txt", "--from", "odd", "--max_iters=1", "--out", "further"],
        &["import", "odd", "--out", "imported"],
    ];
    for command in commands {
        let done = minigpt(command).within(&place.path("")).run().success();
        // The table of `import` may break the line.
        let said = format!("{}{}", done.stdout(), done.stderr());
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_contains(&said, &["the tokenizer has", "but the model 5000"]);
    }
    place.model("even", small(characters(&[], LETTERS).vocab_size() + 2), Some(&characters(&[], LETTERS)));
    let wrote = ["generate", "even", "--prompt", "the", "-n", "2"];
    let done = minigpt(&wrote).within(&place.path("")).run().success();
    assert!(!done.stderr().contains("the tokenizer has"), "{}", done.stderr());
}

#[test]
fn a_change_of_a_run_that_goes_on_is_recorded_once() {
    let place = Place::new();
    place.write("old.jsonl", lines(&["cup", "pen", "hat", "map"]));
    train(&place, &["old.jsonl", "--max_iters=2", "--out", "run"]);
    train(&place, &["--resume", "--out", "run", "--max_iters=3", "--set", "sample.prompt=x"]);
    train(&place, &["--resume", "--out", "run", "--max_iters=4"]);
    let state = place.read_json("run/last/training.json");
    let changes: Vec<String> = state["changes"].as_array().unwrap().iter().map(|c| c.to_string()).collect();
    assert_eq!(changes.len(), 3, "{changes:?}");
}

/// Regression: a loss that rose from 0.351 to 2.120 was a row of the report, and nothing else.
#[test]
fn a_model_that_has_forgotten_most_is_told_with_what_to_do() {
    let place = Place::new();
    place.write("old.txt", "the cat sat on the mat. a dog ran by the sea. ".repeat(40));
    place.write("new.txt", "zz qq xx vv ".repeat(80) + "the cat sat on mdgrnbyo");
    let small = ["--n_layer=1", "--n_head=1", "--n_embd=32", "--block_size=32", "--eval_interval=0"];
    train(&place, &[&["old.txt", "--max_iters=150", "--out", "base"], &small[..]].concat());
    fs::remove_file(place.path("old.txt")).unwrap();
    let further = |out: &str, steps: &str, lang: &str| {
        let fast = "--learning_rate=1e-2";
        train(&place, &["new.txt", "--from", "base", "--quiet", "--lang", lang, "--out", out, steps, fast]).1
    };
    assert_contains(
        &further("much", "--max_iters=100", "en"),
        &["has forgotten most of what it knew", "--max_iters=N"],
    );
    assert_contains(&further("much-zh", "--max_iters=100", "zh"), &["忘记了大部分"]);
    assert!(!further("little", "--max_iters=1", "en").contains("forgotten"));
}
