//! `/v1/chat/completions`: messages of every kind, in each format, and their streams.

use crate::support::*;
use serde_json::{Value, json};

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

fn user(text: &str) -> Value {
    json!([{ "role": "user", "content": text }])
}

#[test]
fn a_question_is_followed_by_its_separator_and_nothing_before_it_is_told() {
    let site = Site::new(vec![questions()]);
    let body = |messages: Value| json!({ "messages": messages, "max_completion_tokens": 8 });
    let answer = site.ask("/v1/chat/completions", &body(user("Who?")));
    let text =
        site.ask("/v1/completions", &json!({ "prompt": "Who?<sep>", "max_tokens": 8, "temperature": 0 }));
    assert_eq!(content(&answer), text["choices"][0]["text"].as_str().unwrap());
    assert_eq!(answer["usage"]["prompt_tokens"], 5);
    let long = json!([
        { "role": "system", "content": "Be kind." }, { "role": "user", "content": "What?" },
        { "role": "assistant", "content": "That." }, { "role": "user", "content": "Who?" },
    ]);
    assert_eq!(content(&site.ask("/v1/chat/completions", &body(long))), content(&answer));
    // What somebody types is text, never a separator.
    assert_eq!(
        site.ask("/apply-template", &json!({ "messages": user("Who?") })),
        json!({ "prompt": "Who?<sep>" })
    );
    let typed = site.ask("/v1/chat/completions", &body(user("a<sep>")));
    assert_eq!(typed["usage"]["prompt_tokens"], 7);
}

#[test]
fn the_template_of_a_model_is_used_and_all_roles_are_known() {
    let site = Site::new(vec![template()]);
    let messages = json!([
        { "role": "developer", "content": "Be kind." },
        { "role": "user", "content": [{ "type": "text", "text": "Hi" }, { "type": "text", "text": "you" }] },
        { "role": "assistant", "content": null, "tool_calls": [] },
        { "role": "tool", "content": "42", "tool_call_id": "x" },
    ]);
    let want = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi\nyou<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n\
                <|im_start|>user\n42<|im_end|>\n<|im_start|>assistant\n";
    let rendered = site.ask("/apply-template", &json!({ "messages": messages }));
    assert_eq!(rendered["prompt"], want);
    let body = json!({ "messages": user("Hi"), "max_tokens": 6, "temperature": 0, "ignore_eos": true });
    let answer = site.ask("/v1/chat/completions", &body);
    let prompt = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(
        content(&answer),
        site.ask("/v1/completions", &greedy(prompt, 6))["choices"][0]["text"].as_str().unwrap()
    );
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["choices"][0]["message"]["role"], "assistant");
    // A template that refuses is the client's problem, with its words.
    let reply = site.post("/v1/chat/completions", &json!({ "messages": user("raise") }));
    assert_eq!(reply.status, 400);
    assert!(reply.problem()["message"].as_str().unwrap().contains("no such talk"));
}

#[test]
fn a_stream_is_role_then_content_then_the_end_then_the_usage_if_asked() {
    let site = Site::new(vec![plain()]);
    let mut body =
        json!({ "messages": user("hello"), "max_tokens": 12, "temperature": 0, "ignore_eos": true });
    let whole = site.ask("/v1/chat/completions", &body);
    body["stream"] = json!(true);
    for usage in [None, Some(json!({ "include_usage": true }))] {
        body["stream_options"] = usage.clone().unwrap_or(Value::Null);
        let mut chunks = site.chunks("/v1/chat/completions", &body);
        let told = chunks.iter().filter(|chunk| chunk.get("usage").is_some()).count();
        assert_eq!(told, if usage.is_some() { chunks.len() } else { 0 });
        if usage.is_some() {
            let last = chunks.pop().unwrap();
            assert!(chunks.iter().all(|chunk| chunk["usage"].is_null()));
            assert_eq!((&last["choices"], &last["usage"]["completion_tokens"]), (&json!([]), &json!(12)));
        }
        assert!(
            chunks
                .iter()
                .all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"])
        );
        assert_eq!(chunks[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
        let last = &chunks.last().unwrap()["choices"][0];
        assert_eq!((&last["delta"], &last["finish_reason"]), (&json!({}), &json!("length")));
        let between = &chunks[1..chunks.len() - 1];
        let said: String =
            between.iter().map(|c| c["choices"][0]["delta"]["content"].as_str().unwrap()).collect();
        assert_eq!(said, content(&whole));
        assert!(between.iter().all(|chunk| chunk["choices"][0]["finish_reason"].is_null()));
    }
}

#[test]
fn several_answers_come_side_by_side() {
    let site = Site::new(vec![plain()]);
    let body = json!({ "messages": user("hello"), "max_tokens": 10, "seed": 2, "n": 3, "temperature": 1.3, "stream": true });
    let mut texts = vec![String::new(); 3];
    let mut ends = [0; 3];
    for chunk in site.chunks("/v1/chat/completions", &body) {
        let choice = &chunk["choices"][0];
        let index = choice["index"].as_u64().unwrap() as usize;
        texts[index] += choice["delta"]["content"].as_str().unwrap_or("");
        ends[index] += usize::from(!choice["finish_reason"].is_null());
    }
    assert_eq!(ends, [1; 3]);
    let mut body = body;
    body["stream"] = json!(false);
    let whole = site.ask("/v1/chat/completions", &body);
    let want: Vec<&str> = whole["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["message"]["content"].as_str().unwrap())
        .collect();
    assert_eq!(texts, want);
}

#[test]
fn max_completion_tokens_is_obeyed_and_wins_over_its_older_name() {
    let site = Site::new(vec![plain()]);
    let tokens =
        |body: Value| site.ask("/v1/chat/completions", &body)["usage"]["completion_tokens"].as_u64().unwrap();
    let base = json!({ "messages": user("hello"), "temperature": 0, "ignore_eos": true });
    let with = |more: Value| {
        let mut body = base.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    assert_eq!(tokens(with(json!({ "max_completion_tokens": 3 }))), 3);
    assert_eq!(tokens(with(json!({ "max_tokens": 4 }))), 4);
    assert_eq!(tokens(with(json!({ "max_completion_tokens": 3, "max_tokens": 9 }))), 3);
    // It means the same on the other routes that write.
    for (path, field) in
        [("/v1/completions", "prompt"), ("/completion", "prompt"), ("/v1/responses", "input")]
    {
        let body =
            json!({ field: "hello", "temperature": 0, "ignore_eos": true, "max_completion_tokens": 3 });
        let answer = site.ask(path, &body);
        let written = [
            answer.pointer("/usage/completion_tokens"),
            answer.pointer("/usage/output_tokens"),
            answer.get("tokens_predicted"),
        ];
        assert_eq!(written.into_iter().flatten().next(), Some(&json!(3)), "{path}");
    }
    // Without either, as much as the context holds.
    assert!(tokens(base.clone()) >= CONTEXT as u64 - 6);
}

#[test]
fn log_probabilities_have_their_tokens_bytes_and_alternatives() {
    for model in [plain(), byte_level()] {
        let site = Site::new(vec![model]);
        let mut body = json!({
            "messages": user("hello 你"), "max_tokens": 9, "temperature": 0, "ignore_eos": true, "logprobs": true, "top_logprobs": 3,
        });
        let answer = site.ask("/v1/chat/completions", &body);
        let entries = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
        assert_eq!(entries.len(), 9);
        let mut all = Vec::new();
        for entry in entries {
            let top = entry["top_logprobs"].as_array().unwrap();
            assert_eq!(top.len(), 3);
            assert_eq!(
                (&top[0]["token"], &top[0]["logprob"]),
                (&entry["token"], &entry["logprob"]),
                "greedy takes the first"
            );
            all.extend(entry["bytes"].as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8));
        }
        assert!(String::from_utf8_lossy(&all).starts_with(content(&answer)));
        body["stream"] = json!(true);
        let chunks = site.chunks("/v1/chat/completions", &body);
        let streamed =
            chunks.iter().filter_map(|c| c["choices"][0]["logprobs"]["content"].as_array()).flatten();
        assert_eq!(streamed.collect::<Vec<_>>(), entries.iter().collect::<Vec<_>>());
        body["stream"] = json!(false);
        body["logprobs"] = json!(false);
        body["top_logprobs"] = Value::Null;
        assert_eq!(site.ask("/v1/chat/completions", &body)["choices"][0]["logprobs"], Value::Null);
    }
}

#[test]
fn what_can_not_be_done_is_refused_and_not_left_out() {
    let site = Site::new(vec![plain()]);
    let cases = [
        (json!({ "messages": [] }), "messages"),
        (json!({ "messages": [{ "role": "wizard", "content": "x" }] }), "messages[0].role"),
        (
            json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "x" } }] }] }),
            "messages[0].content",
        ),
        (json!({ "messages": user("x"), "response_format": { "type": "sound" } }), "response_format"),
        (json!({ "messages": user("x"), "tool_choice": "required" }), "tool_choice"),
        (json!({ "messages": user("x"), "top_logprobs": 2 }), "top_logprobs"),
        (json!({ "messages": user("x"), "presence_penalty": 2.5 }), "presence_penalty"),
        (json!({ "messages": user("x"), "prompt": "x" }), "prompt"),
        (json!({ "messages": user(&"x".repeat(CONTEXT + 1)) }), "messages"),
    ];
    for (body, param) in cases {
        let reply = site.post("/v1/chat/completions", &body);
        assert_eq!((reply.status, &reply.problem()["param"]), (400, &json!(param)), "{body}");
    }
    let fine = json!({ "messages": user("x"), "max_tokens": 1, "response_format": { "type": "text" }, "tools": [], "tool_choice": "auto", "frequency_penalty": 0 });
    site.ask("/v1/chat/completions", &fine);
}
