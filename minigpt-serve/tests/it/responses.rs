//! `/v1/responses`: the answers and events that OpenAI's client parses.

use crate::support::*;
use serde_json::{Value, json};

fn base() -> Value {
    json!({ "input": "hello", "max_output_tokens": 12, "temperature": 0, "ignore_eos": true })
}

fn with(more: &Value) -> Value {
    let mut body = base();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn text(answer: &Value) -> &str {
    answer["output"][0]["content"][0]["text"].as_str().unwrap()
}

#[test]
fn an_answer_is_the_chats_in_another_shape() {
    let site = Site::new(vec![plain()]);
    let answer = site.ask("/v1/responses", &with(&json!({ "metadata": { "a": "b" }, "store": true })));
    let chat = json!({ "messages": [{ "role": "user", "content": "hello" }], "max_tokens": 12, "temperature": 0, "ignore_eos": true });
    let chat = site.ask("/v1/chat/completions", &chat);
    assert_eq!(text(&answer), chat["choices"][0]["message"]["content"].as_str().unwrap());
    assert!(answer["id"].as_str().unwrap().starts_with("resp_"));
    assert!(answer["output"][0]["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!((&answer["object"], &answer["model"]), (&json!("response"), &json!("plain")));
    assert_eq!(
        (&answer["status"], &answer["incomplete_details"]),
        (&json!("incomplete"), &json!({ "reason": "max_output_tokens" }))
    );
    assert_eq!((&answer["store"], &answer["metadata"]), (&json!(false), &json!({ "a": "b" })));
    assert_eq!(
        (&answer["usage"]["input_tokens"], &answer["usage"]["output_tokens"]),
        (&json!(5), &json!(12))
    );
    assert_eq!(answer["output"][0]["content"][0]["type"], "output_text");
    // Messages in every form, with what the model is told before them.
    let site = Site::new(vec![template()]);
    let listed = json!([
        { "role": "user", "content": "Hi" },
        { "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
          "content": [{ "type": "output_text", "text": "Yes?", "annotations": [] }] },
        { "role": "user", "content": [{ "type": "input_text", "text": "Why?" }] },
    ]);
    let body = with(&json!({ "input": listed, "instructions": "Be kind.", "max_output_tokens": 3 }));
    let messages = json!([
        { "role": "system", "content": "Be kind." }, { "role": "user", "content": "Hi" },
        { "role": "assistant", "content": "Yes?" }, { "role": "user", "content": "Why?" },
    ]);
    let prompt =
        site.ask("/apply-template", &json!({ "messages": messages }))["prompt"].as_str().unwrap().to_owned();
    let count = site.ask("/tokenize", &json!({ "content": prompt }))["count"].clone();
    assert_eq!(site.ask("/v1/responses", &body)["usage"]["input_tokens"], count);
}

#[test]
fn a_stream_has_numbered_and_named_events_from_created_to_the_end() {
    let site = Site::new(vec![plain()]);
    let whole = site.ask("/v1/responses", &base());
    let events: Vec<Value> = site
        .events("/v1/responses", &with(&json!({ "stream": true })))
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let (before, rest) = kinds.split_at(4);
    assert_eq!(
        before,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added"
        ]
    );
    let (deltas, after) = rest.split_at(rest.len() - 4);
    assert!(deltas.iter().all(|kind| *kind == "response.output_text.delta") && deltas.len() > 5);
    let want = [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ];
    assert_eq!(after, want);
    let said: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(said, text(&whole));
    let last = &events.last().unwrap()["response"];
    assert_eq!((text(last), &last["usage"]["output_tokens"]), (said.as_str(), &json!(12)));
    let reply = site.post("/v1/responses", &with(&json!({ "stream": true })));
    assert!(reply.text().contains("event: response.created\ndata: {"), "{}", reply.text());
}

#[test]
fn what_is_not_text_or_would_have_to_be_kept_is_refused_by_name() {
    let site = Site::new(vec![plain()]);
    for (more, param) in [
        (json!({ "previous_response_id": "resp_1" }), "previous_response_id"),
        (json!({ "conversation": "c" }), "conversation"),
        (json!({ "background": true }), "background"),
        (json!({ "tools": [{ "type": "web_search" }] }), "tools"),
        (json!({ "text": { "verbosity": "high" } }), "text"),
        (json!({ "truncation": "auto" }), "truncation"),
        (json!({ "reasoning": { "effort": "high" } }), "reasoning"),
        (json!({ "n": 2 }), "n"),
        (json!({ "input": [] }), "input"),
        (json!({ "input": [{ "type": "function_call_output" }] }), "input[0]"),
        (
            json!({ "input": [{ "role": "user", "content": [{ "type": "input_image" }] }] }),
            "input[0].content",
        ),
        (json!({ "input": "a".repeat(CONTEXT + 1) }), "input"),
    ] {
        let reply = site.post("/v1/responses", &with(&more));
        assert_eq!((reply.status, &reply.problem()["param"]), (400, &json!(param)), "{more}");
    }
    let fine = json!({ "text": { "format": { "type": "text" } }, "truncation": "disabled", "tools": [], "background": false });
    site.ask("/v1/responses", &with(&fine));
    assert_eq!(site.get("/v1/responses/resp_1").status, 404, "nothing is kept");
}

#[test]
fn openais_own_structured_form_holds_and_comes_back() {
    let site = Site::new(vec![plain()]);
    let schema = json!({ "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"], "additionalProperties": false });
    let format = json!({ "type": "json_schema", "name": "answer", "strict": true, "schema": schema });
    let body = json!({ "input": "hello", "max_output_tokens": 60, "text": { "format": format, "verbosity": "medium" } });
    let answer = site.ask("/v1/responses", &body);
    let value: Value = serde_json::from_str(text(&answer)).unwrap();
    assert!(value["ok"].is_boolean(), "{value}");
    assert_eq!(answer["text"]["format"], format);
    let object =
        json!({ "input": "hello", "max_output_tokens": 9, "text": { "format": { "type": "json_object" } } });
    assert!(text(&site.ask("/v1/responses", &object)).starts_with('{'));
    for (more, part) in [
        (json!({ "text": { "format": { "type": "json_schema" } } }), "text.format.schema is missing"),
        (json!({ "text": { "format": { "type": "grammar" } } }), "text.format.type must be"),
        (
            json!({ "text": { "format": { "type": "text", "schema": {} } } }),
            "text.format.schema has no effect",
        ),
        (json!({ "text": { "format": format }, "response_format": { "type": "json_object" } }), "both say"),
        (json!({ "text": "json" }), "text must be"),
    ] {
        let reply = site.post("/v1/responses", &with(&more));
        let problem = reply.problem();
        assert_eq!((reply.status, &problem["param"]), (400, &json!("text")), "{more}");
        assert!(problem["message"].as_str().unwrap().contains(part), "{problem}");
    }
}
