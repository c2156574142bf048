//! `minigpt bench` as a person types it, on models small enough for a test. No test asks how fast anything is.

use crate::support::{Place, answer, assert_contains, failure, shown, small};
use minigpt_model::Config;
use serde_json::Value;

/// A model that takes no time at all.
const SMALL: [&str; 10] =
    ["--preset", "textbook", "--n-layer", "1", "--n-embd", "16", "--vocab-size", "23", "--block-size", "24"];

fn assert_positive(answer: &Value, fields: &[&str]) {
    for field in fields {
        let value = answer[field].as_f64().unwrap_or_else(|| panic!("{field} is {}", answer[field]));
        assert!(value > 0.0 && value.is_finite(), "{field} is {value}");
    }
}

/// What every kind of measurement tells.
fn assert_measured(answer: &Value) {
    assert_positive(
        answer,
        &[
            "tokens_per_second",
            "median_tokens_per_second",
            "ms_per_step",
            "median_ms_per_step",
            "model_flops_per_second",
            "share_of_product_rate",
        ],
    );
    if cfg!(target_os = "linux") {
        assert_positive(answer, &["peak_rss_bytes"]);
    }
    assert_limit(&answer["limit"]);
    let ratio =
        |name: &str| answer[format!("median_{name}")].as_f64().unwrap() / answer[name].as_f64().unwrap();
    assert!(ratio("ms_per_step") >= 1.0 && ratio("tokens_per_second") <= 1.0, "{answer}");
}

fn assert_limit(limit: &Value) {
    let rates =
        ["threads", "product_flops_per_second", "multiply_add_flops_per_second", "read_bytes_per_second"];
    assert_positive(limit, &rates);
}

#[test]
fn training_steps_are_measured() {
    let few = ["bench", "train", "--batch-size", "3", "--context", "8", "--steps", "3", "--dropout", "0.1"];
    let answer = answer(&[&few, &SMALL[..]].concat());
    assert_measured(&answer);
    assert_eq!((&answer["measured"], &answer["tokens_per_step"]), (&"train".into(), &24.into()));
    assert_eq!((&answer["repeats"], &answer["config"]["resid_pdrop"]), (&3.into(), &0.1.into()));
    assert!(answer.get("bytes_read_per_token").is_none());
}

#[test]
fn decoding_tells_what_is_read_of_the_memory() {
    let one = answer(&[&["bench", "decode", "--repeat", "1"], &SMALL[..]].concat());
    let many =
        answer(&[&["bench", "decode", "--batch-size", "4", "--max-new-tokens", "5"], &SMALL[..]].concat());
    for answer in [&one, &many] {
        assert_measured(answer);
        assert_positive(answer, &["bytes_read_per_token", "read_bytes_per_second", "share_of_read_rate"]);
    }
    assert_eq!((&one["tokens_per_step"], &many["tokens_per_step"]), (&1.into(), &4.into()));
    let [one, many] = [one, many].map(|answer| answer["bytes_read_per_token"].as_f64().unwrap());
    assert!(many < one, "four texts share the weights: {many} bytes, alone {one}");
}

#[test]
fn prompts_are_read_whole() {
    let answer =
        answer(&[&["bench", "prefill", "--prompt-length", "24", "--batch-size", "2"], &SMALL[..]].concat());
    assert_measured(&answer);
    assert_eq!(answer["tokens_per_step"], 48);
}

#[test]
fn a_model_folder_is_measured_as_it_is() {
    let place = Place::new();
    let config = Config { block_size: 6, n_embd: 8, ..small(11) };
    let model = place.model("model", config, None);
    let few = ["--steps", "1", "--warm-up", "0", "--optimizer", "muon"];
    let answer = answer(&[&["bench", "train", "--model", &model], &few[..]].concat());
    assert_eq!((&answer["config"]["n_embd"], &answer["tokens_per_step"]), (&8.into(), &24.into()));
}

#[test]
fn people_see_a_table_with_the_limit_beside_it() {
    let shown = shown(&[&["bench", "decode", "--repeat", "2"], &SMALL[..]].concat());
    let parts =
        ["textbook (1 layer, 4 heads", "tokens/s", "median of 2", "matrix products", "reading memory", " %"];
    assert_contains(&shown, &parts);
}

#[test]
fn the_limit_can_be_had_alone() {
    assert_limit(&answer(&["bench", "limit"]));
}

fn assert_refused(args: &[&str], code: i32, part: &str) {
    assert_contains(&failure(&[&["bench"], args].concat(), code), &[part]);
}

#[test]
fn wrong_usage_is_told_apart() {
    let cases: [(&[&str], &str); 11] = [
        (&[], "Usage"),
        (&["fly"], "fly"),
        (&["train", "--batch-size", "0"], "expected 1 or more"),
        (&["train", "--steps", "0"], "expected a number from 1 to 1000000"),
        (&["train", "--n-layer", "-1"], "-1"),
        (&["train", "--context", "many"], "many"),
        (&["train", "--optimizer", "sgd"], "muon"),
        (&["decode", "--max-new-tokens", "1"], "expected 2 or more"),
        (&["decode", "--n-embd", "0"], "expected 1 or more"),
        (&["prefill", "--repeat", "0"], "expected a number from 1 to 1000000"),
        (&["prefill", "--model", "x", "--n-layer", "2"], "cannot be used with"),
    ];
    for (args, part) in cases {
        assert_refused(args, 2, part);
    }
}

#[test]
fn what_can_not_be_is_refused_in_words_before_memory_is_asked_for() {
    let cases: [(&[&str], &str); 13] = [
        (&["train", "--preset", "gpt9"], "unknown preset \"gpt9\"; presets are gpt2"),
        (&["train", "--model", "/no/such/folder"], "/no/such/folder"),
        (&["train", "--context", "2048"], "don't fit in the model's context of 1024; make --context smaller"),
        (&["train", "--dropout", "1"], "embd_pdrop is 1"),
        (&["train", "--n-embd", "100"], "not divisible by n_head 12"),
        (&["train", "--set", "n_layers=2"], "did you mean model.n_layer?"),
        (&["train", "--vocab-size", "4294967295"], "vocab_size is 4294967295; it must be from 1"),
        (&["train", "--batch-size", "4294967295"], "try a smaller --batch-size"),
        (&["train", "--preset", "gpt3"], "of memory are free"),
        (&["decode", "--prompt-length", "1024"], "don't fit in the model's context of 1024"),
        (&["decode", "--max-new-tokens", "4294967295"], "don't fit in the model's context"),
        (&["decode", "--batch-size", "4294967295"], "of memory are free"),
        (&["prefill", "--batch-size", "4294967295"], "of memory are free"),
    ];
    // Without /proc nobody knows how much memory is free.
    for (args, part) in
        cases.into_iter().filter(|(_, part)| cfg!(target_os = "linux") || !part.contains("memory"))
    {
        assert_refused(args, 1, part);
    }
}
