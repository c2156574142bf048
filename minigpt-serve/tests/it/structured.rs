//! Structured output over HTTP: under every name, whole and as a stream, and refused where it makes no sense.

use crate::support::*;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";
const LLAMA: &str = "/completion";

/// An object with one small number and a choice.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "n": { "type": "integer", "minimum": 1, "maximum": 40 }, "ok": { "type": "boolean" } },
        "required": ["n", "ok"],
        "additionalProperties": false
    })
}

fn holds(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    let n = value["n"].as_u64().unwrap_or_else(|| panic!("{value}"));
    assert!((1..=40).contains(&n) && value["ok"].is_boolean(), "{value}");
}

/// A request of a route with some fields.
fn request(path: &str, fields: &Value) -> Value {
    let mut body = match path {
        CHAT => json!({ "messages": [{ "role": "user", "content": "hi" }], "max_tokens": 70 }),
        TEXT => json!({ "prompt": "hi", "max_tokens": 70 }),
        _ => json!({ "prompt": "hi", "max_tokens": 70 }),
    };
    let object = body.as_object_mut().unwrap();
    object.extend(fields.as_object().unwrap().clone());
    object.entry("seed").or_insert(json!(4));
    body
}

fn said(path: &str, answer: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    match path {
        CHAT => {
            answer["choices"].as_array().unwrap().iter().map(|one| text(&one["message"]["content"])).collect()
        }
        TEXT => answer["choices"].as_array().unwrap().iter().map(|one| text(&one["text"])).collect(),
        _ => vec![text(&answer["content"])],
    }
}

#[test]
fn every_name_of_a_schema_holds_on_every_route() {
    let site = Site::new(vec![plain()]);
    for path in [CHAT, TEXT, LLAMA] {
        for fields in [
            json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "x", "strict": true, "schema": schema() } } }),
            json!({ "response_format": { "type": "json_object", "schema": schema() } }),
            json!({ "json_schema": schema() }),
            json!({ "guided_json": schema() }),
            json!({ "guided_json": schema().to_string() }),
            json!({ "structured_outputs": { "json": schema() } }),
        ] {
            said(path, &site.ask(path, &request(path, &fields))).iter().for_each(|text| holds(text));
        }
        let fields =
            json!({ "response_format": { "type": "json_object" }, "max_tokens": 30, "n_predict": 30 });
        assert!(said(path, &site.ask(path, &request(path, &fields)))[0].starts_with('{'));
    }
}

#[test]
fn grammars_choices_and_regular_expressions_hold() {
    let site = Site::new(vec![plain(), byte_level()]);
    for (fields, fits) in [
        (json!({ "grammar": "root ::= \"a\"{5,5}" }), (|text| text == "aaaaa") as fn(&str) -> bool),
        (json!({ "guided_grammar": "root ::= (\"x\" | \"y\") root | \".\"", "max_tokens": 90 }), |text| {
            text.trim_end_matches('.').chars().all(|c| "xy".contains(c))
        }),
        (json!({ "guided_choice": ["red", "green 你好"] }), |text| ["red", "green 你好"].contains(&text)),
        (json!({ "guided_regex": "^[0-9]{3}-[0-9]{2}$" }), |text| {
            text.len() == 6 && text.as_bytes()[3] == b'-'
        }),
        (json!({ "structured_outputs": { "choice": ["one", "two"] } }), |text| {
            ["one", "two"].contains(&text)
        }),
        (json!({ "structured_outputs": { "regex": "[ab]{4}" } }), |text| text.len() == 4),
    ] {
        for path in [CHAT, TEXT, LLAMA] {
            for model in ["plain", "bytes"] {
                let mut body = request(path, &fields);
                body["model"] = json!(model);
                let text = said(path, &site.ask(path, &body)).remove(0);
                assert!(fits(&text), "{fields}: {text:?}");
            }
        }
    }
}

#[test]
fn several_texts_streams_log_probabilities_and_stop_strings_go_with_it() {
    let site = Site::new(vec![plain()]);
    let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema() } });
    let body =
        request(TEXT, &json!({ "response_format": format, "n": 3, "logprobs": 2, "temperature": 1.5 }));
    let whole = site.ask(TEXT, &body);
    for choice in whole["choices"].as_array().unwrap() {
        holds(choice["text"].as_str().unwrap());
        assert_eq!(choice["finish_reason"], "stop");
        let tokens: String = choice["logprobs"]["tokens"]
            .as_array()
            .unwrap()
            .iter()
            .map(|token| token.as_str().unwrap())
            .collect();
        assert_eq!(json!(tokens), choice["text"]);
    }
    // The same seed, the same texts, also as a stream.
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let mut texts = vec![String::new(); 3];
    for chunk in site.chunks(TEXT, &streamed) {
        for choice in chunk["choices"].as_array().unwrap() {
            texts[choice["index"].as_u64().unwrap() as usize] += choice["text"].as_str().unwrap();
        }
    }
    assert_eq!(json!(texts), json!(said(TEXT, &whole)));
    let stopped =
        site.ask(TEXT, &request(TEXT, &json!({ "grammar": "root ::= \"abcdef\"", "stop": ["cd"] })));
    assert_eq!(
        (&stopped["choices"][0]["text"], &stopped["choices"][0]["finish_reason"]),
        (&json!("ab"), &json!("stop"))
    );
    let short = site.ask(TEXT, &request(TEXT, &json!({ "grammar": "root ::= \"abcdef\"", "max_tokens": 3 })));
    assert_eq!(
        (&short["choices"][0]["text"], &short["choices"][0]["finish_reason"]),
        (&json!("abc"), &json!("length"))
    );
}

#[test]
fn what_asks_for_nothing_changes_nothing() {
    let site = Site::new(vec![plain()]);
    let plain = site.ask(TEXT, &greedy("hello", 8))["choices"].clone();
    for fields in [
        json!({ "response_format": { "type": "text" } }),
        json!({ "response_format": null, "grammar": "", "guided_choice": [] }),
        json!({ "structured_outputs": {} }),
    ] {
        let mut body = greedy("hello", 8);
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        assert_eq!(site.ask(TEXT, &body)["choices"], plain, "{fields}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_field_and_the_reason() {
    let site = Site::new(vec![plain()]);
    for (fields, param, part) in [
        (
            json!({ "response_format": { "type": "sound" } }),
            "response_format",
            "must be text, json_object or json_schema",
        ),
        (json!({ "response_format": { "type": "json_schema" } }), "response_format", "schema is missing"),
        (
            json!({ "response_format": { "type": "json_object", "schema": 123 } }),
            "response_format",
            "must be an object",
        ),
        (
            json!({ "response_format": { "type": "json_object", "schema": { "type": "hiccup" } } }),
            "response_format",
            "hiccup",
        ),
        (json!({ "response_format": "json" }), "response_format", "must be an object"),
        (json!({ "json_schema": { "type": "string", "not": {} } }), "json_schema", "not"),
        (json!({ "grammar": "root ::= \"a\"\nb ::= \"" }), "grammar", "line 2"),
        (json!({ "grammar": "root ::= this is (not valid GBNF" }), "grammar", "line 1"),
        (json!({ "guided_regex": "a(b" }), "guided_regex", ""),
        (json!({ "guided_json": "{" }), "guided_json", "is not JSON"),
        (json!({ "guided_choice": ["λ"] }), "guided_choice", "no token of the vocabulary"),
        (
            json!({ "structured_outputs": { "structural_tag": "x" } }),
            "structured_outputs",
            "structural_tag is not supported",
        ),
        (json!({ "structured_outputs": { "json": {}, "regex": "a" } }), "structured_outputs", "one of"),
        (
            json!({ "json_schema": {}, "grammar": "root ::= \"a\"" }),
            "grammar",
            "both say what the text looks like",
        ),
        (json!({ "json_schema": {}, "num_beams": 2, "seed": null }), "num_beams", "schema or grammar"),
    ] {
        for path in [CHAT, TEXT, LLAMA] {
            let reply = site.post(path, &request(path, &fields));
            assert_eq!(reply.status, 400, "{fields}: {}", reply.text());
            let problem = reply.problem();
            assert_eq!(problem["param"], param, "{fields}: {problem}");
            assert!(problem["message"].as_str().unwrap().contains(part), "{fields}: {problem}");
        }
    }
    // What turns out to be impossible while it is written is an error of this request alone.
    let reply = site.post(TEXT, &request(TEXT, &json!({ "guided_choice": ["abλ"] })));
    assert_eq!(reply.status, 400, "{}", reply.text());
    assert!(reply.problem()["message"].as_str().unwrap().contains("no token with which"));
    site.ask(TEXT, &greedy("hello", 3));
}

#[test]
fn what_a_grammar_would_leave_without_effect_is_refused_by_name() {
    let site = Site::new(vec![plain()]);
    for path in [CHAT, TEXT, LLAMA] {
        for (fields, param, part) in [
            (json!({ "grammar": "root ::= \"a\"", "min_tokens": 8 }), "min_tokens", "schema or grammar"),
            (
                json!({ "response_format": { "type": "json_object", "json_schema": { "schema": schema() } } }),
                "response_format",
                ".json_schema has no effect with type json_object",
            ),
            (
                json!({ "response_format": { "type": "text", "schema": schema() } }),
                "response_format",
                ".schema has no effect with type text",
            ),
            (
                json!({ "response_format": { "type": "json_schema", "schema": schema(), "json_schema": { "schema": schema() } } }),
                "response_format",
                "both given",
            ),
            (
                json!({ "json_schema": { "type": "string", "contentEncoding": "base64" } }),
                "json_schema",
                "contentEncoding is not supported",
            ),
        ] {
            let reply = site.post(path, &request(path, &fields));
            let problem = reply.problem();
            assert_eq!((reply.status, &problem["param"]), (400, &json!(param)), "{fields}");
            assert!(problem["message"].as_str().unwrap().contains(part), "{problem}");
        }
    }
}

#[test]
fn a_token_that_may_never_come_does_not_come_in_a_grammar_either() {
    let site = Site::new(vec![plain()]);
    let body = |grammar: &str| request(LLAMA, &json!({ "grammar": grammar, "logit_bias": [["a", false]] }));
    for _ in 0..3 {
        assert_eq!(site.ask(LLAMA, &body("root ::= \"a\" | \"b\""))["content"], "b");
    }
    let reply = site.post(LLAMA, &body("root ::= \"a\""));
    assert_eq!(reply.status, 400, "{}", reply.text());
    let message = reply.problem()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("no token is left to choose") && message.contains("logit_bias"), "{message}");
}
