//! Request fields: honoured, refused by name, or ignored and reported.

use crate::support::*;
use serde_json::{Value, json};

fn with(base: &Value, more: &Value) -> Value {
    let mut body = base.clone();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A request for a text of some tokens on each route that writes, and where the text is.
fn routes() -> [(&'static str, Value, &'static str); 4] {
    let base = json!({ "max_tokens": 12, "temperature": 0, "ignore_eos": true });
    let chat = json!({ "messages": [{ "role": "user", "content": "hello" }] });
    let prompt = json!({ "prompt": "hello" });
    [
        ("/v1/chat/completions", with(&base, &chat), "/choices/0/message/content"),
        ("/v1/completions", with(&base, &prompt), "/choices/0/text"),
        ("/completion", with(&base, &prompt), "/content"),
        ("/v1/responses", with(&base, &json!({ "input": "hello" })), "/output/0/content/0/text"),
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

/// A model that leaves out the characters that its vocabulary lacks, as models of folders do.
fn leaving_out() -> minigpt_serve::ModelParts {
    parts("plain", characters(&["<|endoftext|>"]).leaving_out(), minigpt_chat::Format::Plain)
}

/// Characters that the vocabulary lacks are left out of a prompt; they were left out without a word.
#[test]
fn characters_that_the_vocabulary_lacks_are_named_in_the_log_and_in_a_header() {
    use std::sync::{Arc, Mutex};
    /// A request's path, and the characters that its model lacks.
    type Entry = (String, Vec<char>);
    let records: Arc<Mutex<Vec<Entry>>> = Arc::default();
    let kept = Arc::clone(&records);
    let config = minigpt_serve::ServeConfig {
        on_request: Some(Arc::new(move |record| {
            kept.lock().unwrap().push((record.path.clone(), record.unknown.clone()));
        })),
        ..config()
    };
    let site = Site::with(config, vec![leaving_out()], &engine());
    let chat = |text: &str| json!({ "messages": [{ "role": "user", "content": text }], "max_tokens": 1 });
    for (path, body) in [
        ("/v1/completions", json!({ "prompt": "你喜he\u{7}", "max_tokens": 1 })),
        ("/v1/completions", json!({ "prompt": ["你喜", "he\u{7}喜"], "max_tokens": 1 })),
        ("/v1/completions", json!({ "prompt": "你喜he\u{7}", "max_tokens": 1, "stream": true })),
        ("/completion", json!({ "prompt": "你喜he\u{7}", "n_predict": 1 })),
        ("/v1/chat/completions", chat("你喜he\u{7}")),
        ("/v1/responses", json!({ "input": "你喜he\u{7}", "max_output_tokens": 1 })),
        ("/v1/embeddings", json!({ "input": "你喜he\u{7}" })),
        ("/tokenize", json!({ "content": "你喜he\u{7}" })),
        ("/tokenize", json!({ "content": "你喜he\u{7}", "parse_special": false })),
    ] {
        let reply = site.post(path, &body);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert_eq!(reply.header("x-minigpt-unknown"), Some("%07, %E5%96%9C"), "{path} {body}");
        let want = (path.to_owned(), vec!['\u{7}', '喜']);
        until("the record has them", || records.lock().unwrap().contains(&want));
        records.lock().unwrap().clear();
    }
    let known = json!({ "prompt": "你he<|endoftext|>", "max_tokens": 1 });
    assert_eq!(site.post("/v1/completions", &known).header("x-minigpt-unknown"), None);
    // However many there are, the header stays short.
    let many: String = ('一'..='十').filter(|letter| !"你好".contains(*letter)).collect();
    let reply = site.post("/tokenize", &json!({ "content": many }));
    assert_eq!(reply.header("x-minigpt-unknown").unwrap().split(", ").count(), 16);
}

#[test]
fn a_bias_of_a_text_without_tokens_is_refused() {
    let site = Site::new(vec![leaving_out()]);
    for (bias, part) in [
        (json!({ "喜": 5 }), "but the vocabulary lacks '喜'"),
        (json!([["a喜", false]]), "but the vocabulary lacks '喜'"),
        (json!([["", 1]]), "which has no tokens"),
    ] {
        let reply = site.post("/completion", &json!({ "prompt": "a", "n_predict": 1, "logit_bias": bias }));
        let problem = reply.problem();
        assert_eq!((reply.status, &problem["param"]), (400, &json!("logit_bias")));
        assert!(problem["message"].as_str().unwrap().contains(part), "{problem}");
    }
    // A word that can't be written forbids no other: "a喜b" is not "ab".
    let base = greedy("ab", 12);
    let plain = text(&site.ask("/v1/completions", &base), "/choices/0/text");
    let word: String = plain.chars().take(1).chain(['喜']).chain(plain.chars().skip(1).take(1)).collect();
    let reply = site.ask("/v1/completions", &with(&base, &json!({ "bad_words": [word] })));
    assert_eq!(text(&reply, "/choices/0/text"), plain);
}

#[test]
fn options_of_a_stream_are_done_refused_or_named() {
    let site = Site::new(vec![plain()]);
    for (path, base, place) in routes().into_iter().take(2) {
        let ask = |options: Value| site.post(path, &with(&base, &json!({ "stream_options": options })));
        let reply = ask(json!({ "include_usage": true, "continuous_usage_stats": true }));
        assert_eq!((reply.status, &reply.problem()["param"]), (400, &json!("stream_options")), "{path}");
        let whole = text(&site.ask(path, &base), place);
        let reply = ask(json!({ "continuous_usage_stats": false, "include_obfuscation": false }));
        assert_eq!((text(&reply.json(), place), reply.header("x-minigpt-ignored")), (whole.clone(), None));
        let reply = ask(json!({ "usage_every": 3, "nothing": null }));
        assert_eq!(text(&reply.json(), place), whole);
        assert_eq!(reply.header("x-minigpt-ignored"), Some("stream_options.usage_every"), "{path}");
    }
}

#[test]
fn a_picture_beside_a_text_is_refused_and_other_fields_of_a_part_are_named() {
    let site = Site::new(vec![plain()]);
    let ask = |part: &Value| {
        let message = json!({ "role": "user", "content": [part] });
        site.post("/v1/chat/completions", &json!({ "messages": [message], "max_tokens": 1 }))
    };
    for field in ["image_url", "input_audio", "file"] {
        let reply = ask(&json!({ "type": "text", "text": "hello", field: { "url": "data:" } }));
        let problem = reply.problem();
        assert_eq!((reply.status, &problem["param"]), (400, &json!("messages[0].content")), "{field}");
        assert!(problem["message"].as_str().unwrap().contains(field), "{problem}");
    }
    let reply =
        ask(&json!({ "type": "text", "text": "hello", "image_url": null, "annotations": [], "mood": 1 }));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("x-minigpt-ignored"), Some("messages[0].content[0].mood"));
}

#[test]
fn a_beam_search_refuses_what_belongs_to_a_draw_and_alternatives() {
    let site = Site::new(vec![plain()]);
    for (path, base, _) in routes() {
        let base = with(&base, &json!({ "num_beams": 2 }));
        for (more, field) in [
            (json!({ "top_p": 0.9 }), "top_p"),
            (json!({ "top_k": 3 }), "top_k"),
            (json!({ "min_p": 0.1 }), "min_p"),
            (json!({ "seed": 4 }), "seed"),
        ] {
            let reply = site.post(path, &with(&base, &more));
            assert_eq!((reply.status, &reply.problem()["param"]), (400, &json!(field)), "{path} {more}");
        }
        // Values that ask for nothing, as clients send them.
        site.ask(path, &with(&base, &json!({ "top_p": 1, "top_k": 0, "min_p": 0 })));
        let alternatives = match path {
            "/v1/chat/completions" => json!({ "logprobs": true, "top_logprobs": 2 }),
            "/v1/completions" => json!({ "logprobs": 2 }),
            "/v1/responses" => continue,
            _ => json!({ "n_probs": 2 }),
        };
        let reply = site.post(path, &with(&base, &alternatives));
        assert_eq!((reply.status, &reply.problem()["param"]), (400, &json!("num_beams")), "{path}");
    }
}

#[test]
fn two_numbers_of_tokens_that_differ_are_refused() {
    let site = Site::new(vec![plain()]);
    for (path, base, place) in routes() {
        for n_predict in [5, -1] {
            let reply = site.post(path, &with(&base, &json!({ "n_predict": n_predict })));
            assert_eq!((reply.status, &reply.problem()["param"]), (400, &json!("n_predict")), "{path}");
        }
        let reply = site.ask(path, &with(&base, &json!({ "n_predict": 12 })));
        assert_eq!(text(&reply, place), text(&site.ask(path, &base), place));
    }
}

#[test]
fn a_window_without_a_penalty_is_named_as_ignored() {
    let site = Site::new(vec![plain()]);
    for (path, base, _) in routes() {
        let ask = |more: Value| {
            let reply = site.post(path, &with(&base, &more));
            reply.header("x-minigpt-ignored").map(str::to_owned)
        };
        assert_eq!(ask(json!({ "repeat_last_n": 5 })).as_deref(), Some("repeat_last_n"), "{path}");
        assert_eq!(ask(json!({ "repeat_last_n": 5, "presence_penalty": 0.5 })), None, "{path}");
        assert_eq!(ask(json!({})), None, "{path}");
    }
}
