//! `minigpt inspect` and `minigpt plan` as a person types them.

use crate::support::{Place, SPECIAL, answer, assert_contains, characters, failure, fixture, shown, small};
use minigpt_model::Config;
use serde_json::{Value, json};

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn inspect_gives_ids_loss_candidates_logits_and_attention_as_json() {
    let model = fixture("gpt2");
    let answer = answer(&["inspect", "--model", &model, "--ids", "1,2,3", "--full", "--attention"]);
    assert_eq!(answer["ids"], json!([1, 2, 3]));
    assert_eq!((&answer["tokens"], &answer["text"]), (&Value::Null, &Value::Null));

    let logits: Vec<Vec<f64>> = answer["logits"].as_array().unwrap().iter().map(numbers).collect();
    assert_eq!((logits.len(), logits[0].len()), (3, 37));
    // The loss by hand: −log softmax of the next id.
    let surprise = |row: &[f64], id: usize| row.iter().map(|x| x.exp()).sum::<f64>().ln() - row[id];
    let want = (surprise(&logits[0], 2) + surprise(&logits[1], 3)) / 2.0;
    assert!((answer["loss"].as_f64().unwrap() - want).abs() < 1e-5);
    assert!((answer["logprob"].as_f64().unwrap() + 2.0 * want).abs() < 1e-5);
    let shown = shown(&["inspect", "--model", &model, "--ids", "1,2,3"]);
    let sum = format!(
        "log P of the text, given its first token: {:.4}; loss (its negative mean) {want:.4}",
        -2.0 * want
    );
    assert_contains(&shown, &["log p", &format!("{:.4}", -surprise(&logits[0], 2)), &sum, "perplexity"]);

    let top = answer["top"].as_array().unwrap();
    let best = logits[2].iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
    assert_eq!((top.len(), top[0]["id"].as_u64().unwrap()), (10, best as u64));
    assert!(top[0]["probability"].as_f64() >= top[1]["probability"].as_f64());

    let attention = answer["attention"].as_array().unwrap();
    assert_eq!((attention.len(), attention[0].as_array().unwrap().len()), (2, 3));
    assert_eq!(numbers(&attention[1][2][0]), [1.0, 0.0, 0.0]);
}

#[test]
fn without_full_and_attention_there_is_neither() {
    let answer = answer(&["inspect", "--model", &fixture("rope"), "--ids", "5", "--top", "3"]);
    assert!(answer.get("logits").is_none() && answer.get("attention").is_none());
    assert_eq!(answer["loss"], Value::Null, "a single token has no loss");
    assert_eq!(answer["top"].as_array().unwrap().len(), 3);
}

/// A small model with a character tokenizer of its own.
fn with_tokenizer(place: &Place) -> String {
    let tokenizer = characters(&SPECIAL, "你好吗我很abc");
    place.model("model", Config { block_size: 8, n_embd: 8, ..small(16) }, Some(&tokenizer))
}

#[test]
fn a_prompt_goes_through_the_models_own_tokenizer() {
    let place = Place::new();
    let model = with_tokenizer(&place);
    let answer = answer(&["inspect", "--model", &model, "--prompt", "你好吗<sep>我"]);
    assert_eq!(answer["tokens"], json!(["你", "好", "吗", "<sep>", "我"]));
    assert_eq!(answer["text"], "你好吗<sep>我");
    assert_eq!(answer["ids"][3], 2);

    let shown = shown(&["inspect", "--model", &model, "--prompt", "你好吗", "--attention", "--head", "1"]);
    assert_contains(&shown, &["Next token", "probability", "Attention of layer 1, head 1", "█ 100"]);
}

#[test]
fn a_tokenizer_that_is_larger_than_the_model_is_refused() {
    let place = Place::new();
    let model = with_tokenizer(&place);
    let letters: String = ('a'..='z').chain('A'..='Z').collect();
    characters(&[], &letters).save(&place.path("model")).unwrap();
    let error = failure(&["inspect", "--model", &model, "--prompt", "a"], 1);
    assert_contains(&error, &["the tokenizer has 52 tokens, but the model has 16"]);
}

#[test]
fn inspect_refuses_what_it_can_not_read_in_words() {
    let model = fixture("gpt2");
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--ids", "1,99"], 1, "id 99 at position 1 is outside the vocabulary of 37"),
        (&["--ids", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"], 1, "17 tokens do not fit a context of 16"),
        (&["--prompt", "hello"], 1, "has no tokenizer"),
        (&["--ids", "1", "--attention", "--layer", "7"], 1, "layers 0 to 1"),
        (&["--ids", "1", "--attention", "--head", "3"], 1, "heads 0 to 2"),
        (&["--ids", "one"], 2, "invalid value"),
        (&["--ids", "1", "--ids", "2"], 2, "--ids"),
        (&["--ids", "-1"], 2, "-1"),
        (&[], 2, "--prompt"),
    ];
    for (args, code, part) in cases {
        assert_contains(&failure(&[&["inspect", "--model", &model], args].concat(), code), &[part]);
    }
    let error = failure(&["inspect", "--model", "/no/such/folder", "--ids", "1"], 1);
    assert_contains(&error, &["/no/such/folder", "no such file or folder"]);
}

#[test]
fn plan_reports_parameters_memory_and_arithmetic() {
    let plan = answer(&["plan", "--preset", "gpt2", "--flops-per-second", "1e12", "--batch-size", "4"]);
    assert_eq!(plan["parameters"]["total"], 124_439_808u64);
    assert_eq!(plan["parameters"]["head"], 0);
    assert_eq!(plan["train_memory"]["weights"], 4 * 124_439_808u64);
    assert!(plan["train_bytes"].as_u64().unwrap() > 16 * 124_439_808);
    assert!(plan["train_flops_per_token"].as_u64().unwrap() > 6 * 124_000_000);
    assert!(plan["seconds"].as_f64().unwrap() > 0.0);

    let gpt3 = answer(&["plan", "--preset", "gpt3", "--flops-per-second", "1e15"]);
    assert_eq!(gpt3["parameters"]["total"], 174_604_259_328u64);
    let small =
        ["plan", "--preset", "textbook", "--set", "position_embedding=sinusoidal", "--set", "n_layer=3"];
    let small = answer(&small);
    assert_eq!(small["parameters"]["position_embedding"], 0);
    assert_eq!(small["measured"], true);
}

#[test]
fn plan_shows_people_a_table() {
    let gpt3 = shown(&["plan", "--preset", "gpt3", "--flops-per-second", "1e15"]);
    let parts = ["174,604,259,328", "attention", "AdamW's moments", "4.2 TB", "years", "activations"];
    assert_contains(&gpt3, &parts);
    let folder = fixture("textbook-learned");
    assert_contains(&shown(&["plan", "--model", &folder, "--flops-per-second", "1e12"]), &["output head"]);
}

#[test]
fn several_models_are_planned_side_by_side() {
    let folder = fixture("textbook-learned");
    let names = ["plan", "shakespeare-char", "gpt2", &folder, "--flops-per-second", "1e12"];
    let parts =
        ["10,745,088", "124,439,808", "textbook-learned", "grows with T²", "4,096", "parameters", "to train"];
    assert_contains(&shown(&names), &parts);
    let plans = answer(&names);
    let plans = plans["models"].as_array().unwrap();
    assert_eq!(plans.len(), 3);
    assert_eq!(
        (&plans[1]["name"], &plans[1]["parameters"]["total"]),
        (&"gpt2".into(), &124_439_808u64.into())
    );
    let attention = |i: usize| plans[1]["attention"][i]["flops"].as_u64().unwrap();
    assert_eq!([attention(1), attention(2)], [4 * attention(0), 16 * attention(0)]);
    // One alone is shown as with --preset.
    let one = answer(&["plan", "gpt2", "--flops-per-second", "1e12"]);
    assert_eq!(one, answer(&["plan", "--preset", "gpt2", "--flops-per-second", "1e12"]));
    assert_eq!(one, answer(&["plan", "--flops-per-second", "1e12"]));
}

#[test]
fn the_tree_of_tensors_has_shapes_and_adds_up() {
    let tree = answer(&["plan", "gpt2", "--tensors"]);
    assert_eq!(tree["tensors"].as_array().unwrap().len(), 2 + 12 * 12 + 2);
    assert_eq!(tree["tensors"][4]["name"], "h.0.attn.c_attn.weight");
    assert_eq!(tree["tensors"][4]["shape"], serde_json::json!([768, 2304]));
    let sum = |list: &str| {
        tree[list].as_array().unwrap().iter().map(|one| one["count"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!([sum("tensors"), sum("layers"), tree["total"].as_u64().unwrap()], [124_439_808; 3]);
    assert_eq!(tree["layers"][2], serde_json::json!({ "name": "h.0", "count": 7_087_872 }));

    let model = fixture("textbook-learned");
    let inspected = answer(&["inspect", "--model", &model, "--tensors"]);
    assert_eq!(inspected, answer(&["plan", "--model", &model, "--tensors"]));
    let drawn = shown(&["inspect", "--model", &model, "--tensors"]);
    assert_contains(&drawn, &["h.1\u{20}", "attn.c_attn.weight", "[20, 60]", "lm_head", "all"]);
    let both = shown(&["plan", "gpt2", "qa", "--tensors"]);
    assert_contains(&both, &["[50257, 768]", "[4825, 768]", "the token embedding, wte"]);
    assert_eq!(answer(&["plan", "gpt2", "qa", "--tensors"])["models"][1]["tree"]["total"], 46_403_328);
}

#[test]
fn plan_refuses_nonsense_in_words() {
    let cases: [(&[&str], i32, &str); 8] = [
        (&["gpt2", "gpt9"], 1, "unknown preset \"gpt9\"; presets are gpt2"),
        (&["gpt2", "--preset", "qa"], 2, "cannot be used with"),
        (&["--preset", "gpt9"], 1, "unknown preset \"gpt9\"; presets are gpt2"),
        (&["--set", "n_embd=100"], 1, "n_embd 100 is not divisible by n_head 12"),
        (&["--set", "n_layers=3"], 1, "did you mean model.n_layer?"),
        (&["--flops-per-second", "0"], 1, "must be a positive number"),
        (&["--block-size", "2048"], 1, "more than the model's context of 1024"),
        (&["--batch-size", "0"], 2, "0"),
    ];
    for (args, code, part) in cases {
        assert_contains(&failure(&[&["plan"], args].concat(), code), &[part]);
    }
}

#[test]
fn a_broken_model_is_not_shown_as_if_it_answered() {
    let place = Place::new();
    let model = with_tokenizer(&place);
    let path = place.path("model/model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let error = failure(&["inspect", "--model", &model, "--prompt", "你好"], 1);
    assert_contains(&error, &["a logit is NaN", "broken"]);
}
