//! Request fields: honoured, refused by name, or ignored and reported.

use crate::support::*;
use serde_json::{Value, json};

fn with(base: &Value, more: &Value) -> Value {
    let mut body = base.clone();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A request for a text of some tokens on each route that writes, and where the text is.
fn routes() -> [(&'static str, Value, &'static str); 3] {
    let base = json!({ "max_tokens": 12, "temperature": 0, "ignore_eos": true });
    let chat = json!({ "messages": [{ "role": "user", "content": "hello" }] });
    let prompt = json!({ "prompt": "hello" });
    [
        ("/v1/chat/completions", with(&base, &chat), "/choices/0/message/content"),
        ("/v1/completions", with(&base, &prompt), "/choices/0/text"),
        ("/completion", with(&base, &prompt), "/content"),
    ]
}

fn text(answer: &Value, place: &str) -> String {
    answer.pointer(place).and_then(Value::as_str).unwrap().to_owned()
}

#[test]
fn fields_that_would_change_the_answer_are_refused_by_name_on_every_route() {
    let site = Site::new(vec![plain()]);
    for (path, base, _) in routes() {
        for field in [
            json!({ "tools": "abc" }),
            json!({ "tools": [{ "type": "browser" }] }),
            json!({ "tool_choice": "required" }),
            json!({ "tools": [{ "type": "function", "function": { "name": "f" } }] }),
            json!({ "functions": [{ "name": "f" }] }),
            json!({ "response_format": { "type": "sound" } }),
            json!({ "structural_tag": "x" }),
            json!({ "chat_template": "{{ 1 }}" }),
            json!({ "mirostat": 2 }),
            json!({ "typical_p": 0.5 }),
            json!({ "dry_multiplier": 0.8 }),
            json!({ "xtc_probability": 0.5 }),
            json!({ "suffix": "b" }),
            json!({ "image_data": [{ "data": "x" }] }),
            json!({ "samplers": ["top_k"] }),
            json!({ "lora": [{ "id": 0, "scale": 1 }] }),
        ] {
            let name = field.as_object().unwrap().keys().next().unwrap();
            let reply = site.post(path, &with(&base, &field));
            assert_eq!((reply.status, &reply.problem()["param"]), (400, &json!(name)), "{path} {field}");
        }
    }
}

#[test]
fn harmless_fields_change_nothing_and_unknown_ones_are_told() {
    use std::sync::{Arc, Mutex};
    /// A request's path, its ignored fields and the model that it asked for.
    type Entry = (String, Vec<String>, Option<String>);
    let records: Arc<Mutex<Vec<Entry>>> = Arc::default();
    let kept = Arc::clone(&records);
    let config = minigpt_serve::ServeConfig {
        on_request: Some(Arc::new(move |record| {
            let entry = (record.path.clone(), record.ignored.clone(), record.asked_model.clone());
            kept.lock().unwrap().push(entry);
        })),
        ..config()
    };
    let site = Site::with(config, vec![plain()], &engine());
    let harmless =
        json!({ "user": "x", "store": true, "metadata": { "a": "b" }, "service_tier": "auto", "id_slot": 3 });
    for (path, base, place) in routes() {
        let whole = text(&site.ask(path, &base), place);
        let reply = site.post(path, &with(&base, &harmless));
        assert_eq!((text(&reply.json(), place), reply.header("x-minigpt-ignored")), (whole.clone(), None));
        let unknown = json!({ "tempature": 2, "model": "gpt-4", "top_q": null });
        let reply = site.post(path, &with(&base, &unknown));
        assert_eq!(text(&reply.json(), place), whole, "any name means the only model");
        assert_eq!(reply.header("x-minigpt-ignored"), Some("tempature, top_q"));
        let named = ["tempature".to_owned(), "top_q".to_owned()].to_vec();
        let want = (path.to_owned(), named, Some("gpt-4".to_owned()));
        until("the record has them", || records.lock().unwrap().contains(&want));
    }
    assert_eq!(
        site.post("/tokenize", &json!({ "content": "a", "x": 1 })).header("x-minigpt-ignored"),
        Some("x")
    );
    // Of several models none is meant by a name that none has.
    let site = Site::new(vec![plain(), questions()]);
    let reply = site.post("/v1/completions", &json!({ "model": "gpt-4", "prompt": "a" }));
    assert_eq!((reply.status, &reply.problem()["code"]), (404, &json!("model_not_found")));
}

#[test]
fn the_routes_of_openai_answer_without_v1_too() {
    let site = Site::new(vec![plain()]);
    let [(path, body, place), ..] = routes();
    let want = text(&site.ask(path, &body), place);
    assert_eq!(text(&site.ask("/chat/completions", &body), place), want);
    assert_eq!(site.ask("/embeddings", &json!({ "input": "a" }))["object"], "list");
    assert_eq!(
        site.ask("/responses", &json!({ "input": "a", "max_output_tokens": 1 }))["object"],
        "response"
    );
}

#[test]
fn lengths_go_by_all_their_names_and_tokens_end_a_text() {
    let site = Site::new(vec![plain()]);
    for (path, base, place) in routes() {
        let mut base = base;
        base.as_object_mut().unwrap().remove("max_tokens");
        for name in ["max_tokens", "n_predict"] {
            let answer = site.ask(path, &with(&base, &json!({ name: 2 })));
            assert_eq!(text(&answer, place).chars().count(), 2, "{path} {name}");
        }
        let whole = text(&site.ask(path, &with(&base, &json!({ "max_tokens": 12 }))), place);
        let tokenizer = characters(&["<|endoftext|>"]);
        let fifth: String = whole.chars().skip(4).take(1).collect();
        let first = whole.chars().position(|c| c.to_string() == fifth).unwrap();
        let id = tokenizer.encode(&fifth).unwrap()[0];
        let more = json!({ "max_tokens": 12, "stop_token_ids": [id] });
        let stopped = text(&site.ask(path, &with(&base, &more)), place);
        assert_eq!(stopped, whole[..whole.char_indices().nth(first).unwrap().0], "{path}");
        // Not before there are so many.
        let more = with(&more, &json!({ "min_tokens": 12 }));
        let long = text(&site.ask(path, &with(&base, &more)), place);
        assert!(long.chars().count() == 12 && !long.contains(&fifth), "{path}: {long:?}");
        let more = json!({ "max_tokens": 12, "bad_words": [fifth] });
        let without = text(&site.ask(path, &with(&base, &more)), place);
        assert!(without.chars().count() == 12 && !without.contains(&fifth), "{path}: {without:?}");
    }
}

#[test]
fn penalties_make_a_text_less_like_itself() {
    let site = Site::new(vec![plain()]);
    let repeats = |text: &str| {
        let mut seen: Vec<char> = text.chars().collect();
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        all - seen.len()
    };
    for (path, base, place) in routes() {
        let base = with(&base, &json!({ "max_tokens": 40 }));
        let of = |more: Value| text(&site.ask(path, &with(&base, &more)), place);
        let alone = of(json!({}));
        assert!(repeats(&alone) > 20, "a small random model goes round in circles: {alone:?}");
        for penalty in [
            json!({ "frequency_penalty": 2 }),
            json!({ "presence_penalty": 2 }),
            json!({ "repetition_penalty": 3 }),
            json!({ "repeat_penalty": 3 }),
        ] {
            let penalised = of(penalty.clone());
            assert!(repeats(&penalised) < repeats(&alone), "{path} {penalty}: {penalised:?}");
        }
        // A window of nothing penalises nothing.
        assert_eq!(of(json!({ "frequency_penalty": 2, "repeat_last_n": 0 })), alone, "{path}");
    }
}

#[test]
fn an_answer_has_the_fields_that_were_asked_for() {
    let site = Site::new(vec![plain()]);
    let body = json!({ "prompt": "a", "n_predict": 3, "n_cmpl": 2, "seed": 1,
                       "response_fields": ["content", "generation_settings/n_predict", "nothing"] });
    let answers = site.ask("/completion", &body);
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 2);
    for answer in answers {
        let names: Vec<&String> = answer.as_object().unwrap().keys().collect();
        assert_eq!(names, ["content", "generation_settings/n_predict"]);
        assert_eq!(answer["generation_settings/n_predict"], 3);
    }
}
