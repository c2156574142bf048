//! What chat templates are told: tools and their calls, beginnings of answers, values of a client.

use crate::support::*;
use minigpt_chat::Format;
use minigpt_formats::ChatTemplate;
use serde_json::{Value, json};

/// A template in the manner of Hermes and Qwen.
const HERMES: &str = "{% if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<tool_call>{...}\
                      </tool_call><|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}\
                      {% for call in m.tool_calls or [] %}<tool_call>{\"name\": \"{{ call.function.name }}\", \"arguments\": \
                      {{ call.function.arguments | tojson }}}</tool_call>\
                      {% endfor %}{% if m.role == 'tool' %}({{ m.tool_call_id }}){% endif %}<|im_end|>\n{% endfor %}\
                      {% if enable_thinking is defined %}[{{ enable_thinking }}]{% endif %}\
                      {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// One in the manner of Llama 3.
const LLAMA: &str = "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{\"name\": x, \"parameters\": y}{% endif %}\
                     {% for m in messages %}{{ m.content }}{% for call in m.tool_calls or [] %}{\"name\": \
                     \"{{ call.function.name }}\", \"parameters\": {{ call.function.arguments | tojson }}}{% endfor %}{% endfor %}";

fn format(source: &str) -> Format {
    Format::Template(ChatTemplate { source: source.to_owned(), tokens: Vec::new() })
}

fn tokenizer() -> minigpt_tokenizer::Tokenizer {
    characters(&["<|im_start|>", "<|im_end|>"])
}

fn body() -> Value {
    json!({
        "messages": [{ "role": "user", "content": "How warm is it?" }],
        "tools": [{ "type": "function", "function": { "name": "warmth", "parameters": { "type": "object" } } }],
        "temperature": 0,
    })
}

/// A server whose model answers the body with a text.
fn says(source: &str, body: &Value, script: &str) -> Site {
    let told = json!({ "messages": body["messages"], "tools": body["tools"] });
    let parts = parts("any", tokenizer(), format(source));
    let prompt = Site::new(vec![parts]).ask("/apply-template", &told)["prompt"].as_str().unwrap().to_owned();
    let tokens = tokenizer().encode_with_special(&prompt).unwrap().len();
    Site::new(vec![scripted(tokenizer(), format(source), tokens, script)])
}

/// What a stream says in all: content, calls and the reason of its end.
fn streamed(site: &Site, body: &Value) -> (String, Vec<Value>, Value) {
    let mut body = body.clone();
    body["stream"] = json!(true);
    let (mut content, mut calls, mut reason) = (String::new(), Vec::new(), Value::Null);
    for chunk in site.chunks("/v1/chat/completions", &body) {
        let choice = &chunk["choices"][0];
        content += choice["delta"]["content"].as_str().unwrap_or("");
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            assert_eq!(call["index"], json!(calls.len()));
            calls.push(call["function"].clone());
        }
        if !choice["finish_reason"].is_null() {
            reason = choice["finish_reason"].clone();
        }
    }
    (content, calls, reason)
}

#[test]
fn calls_come_back_as_such_whole_and_streamed() {
    let call = "{\"name\": \"warmth\", \"arguments\": {\"town\": \"Bonn\", \"days\": 2}}";
    let hermes = format!("Let me see.\n<tool_call>\n{call}\n</tool_call>");
    let two = format!("<tool_call>{call}</tool_call>\n<tool_call>{call}</tool_call>");
    let llama = call.replace("arguments", "parameters");
    for (source, script, content, count) in [
        (HERMES, hermes.as_str(), json!("Let me see."), 1),
        (HERMES, &two, Value::Null, 2),
        (HERMES, "No < need.", json!("No < need."), 0),
        (LLAMA, &llama, Value::Null, 1),
        (LLAMA, &format!("{llama}; {llama}"), Value::Null, 2),
        (LLAMA, "{\"warm\": true}", json!("{\"warm\": true}"), 0),
    ] {
        let body = body();
        let site = says(source, &body, script);
        let answer = site.ask("/v1/chat/completions", &body);
        let choice = &answer["choices"][0];
        let reason = if count > 0 { "tool_calls" } else { "stop" };
        assert_eq!(
            (&choice["message"]["content"], &choice["finish_reason"]),
            (&content, &json!(reason)),
            "{script}"
        );
        let calls = choice["message"]["tool_calls"].as_array().cloned().unwrap_or_default();
        assert_eq!(calls.len(), count, "{script}");
        for call in &calls {
            assert!(call["type"] == "function" && call["id"].as_str().unwrap().starts_with("call"), "{call}");
            assert_eq!(
                call["function"],
                json!({ "name": "warmth", "arguments": "{\"town\":\"Bonn\",\"days\":2}" })
            );
        }
        let functions: Vec<Value> = calls.iter().map(|call| call["function"].clone()).collect();
        let content = content.as_str().unwrap_or("").to_owned();
        assert_eq!(streamed(&site, &body), (content, functions, json!(reason)), "{script}");
        // Nothing is lost of the log-probabilities of what waits.
        let mut detailed = body.clone();
        detailed["logprobs"] = json!(true);
        let whole = site.ask("/v1/chat/completions", &detailed);
        detailed["stream"] = json!(true);
        let chunks = site.chunks("/v1/chat/completions", &detailed);
        let entries =
            chunks.iter().filter_map(|c| c["choices"][0]["logprobs"]["content"].as_array()).flatten();
        let entries: Vec<&Value> = entries.collect();
        let all = whole["choices"][0]["logprobs"]["content"].as_array().unwrap();
        assert_eq!(entries, all.iter().collect::<Vec<_>>());
        // One call where only one is wanted.
        let mut single = body.clone();
        single["parallel_tool_calls"] = json!(false);
        let answer = site.ask("/v1/chat/completions", &single);
        let calls = answer["choices"][0]["message"]["tool_calls"].as_array().map_or(0, Vec::len);
        assert_eq!(calls, count.min(1), "{script}");
        if count > 1 && source == HERMES {
            // The model stops there instead of writing what is thrown away.
            let tokens = |answer: &Value| answer["usage"]["completion_tokens"].as_u64().unwrap();
            assert!(tokens(&answer) < tokens(&whole) * 2 / 3, "{answer}");
            assert_eq!(answer["choices"][0]["message"]["content"], Value::Null);
        } else if count > 1 {
            assert!(
                answer["choices"][0]["message"]["content"].as_str().unwrap().contains("warmth"),
                "{answer}"
            );
        }
    }
}

#[test]
fn a_conversation_with_calls_goes_into_the_template() {
    let site = Site::new(vec![parts("any", tokenizer(), format(HERMES))]);
    let messages = json!([
        { "role": "user", "content": "How warm?" },
        { "role": "assistant", "content": null, "tool_calls": [
            { "id": "x", "type": "function", "function": { "name": "warmth", "arguments": "{\"town\": \"Bonn\"}" } }] },
        { "role": "tool", "tool_call_id": "x", "content": "21" },
    ]);
    let prompt = |body: Value| site.ask("/apply-template", &body)["prompt"].as_str().unwrap().to_owned();
    let want = "<|im_start|>user\nHow warm?<|im_end|>\n<|im_start|>assistant\n<tool_call>{\"name\": \"warmth\", \"arguments\": {\"town\": \"Bonn\"}}</tool_call><|im_end|>\n\
                <|im_start|>tool\n21(x)<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(prompt(json!({ "messages": messages })), want);
    // Tools that are not to be called are not shown.
    let tools = body()["tools"].clone();
    let none = json!({ "messages": messages, "tools": tools, "tool_choice": "none" });
    assert_eq!(prompt(none), want);
    let auto = prompt(json!({ "messages": messages, "tools": tools, "tool_choice": "auto" }));
    assert!(
        auto.starts_with("<|im_start|>system\n{\"type\": \"function\", \"function\": {\"name\": \"warmth\""),
        "{auto}"
    );
    assert!(auto.ends_with(want));
}

#[test]
fn tools_are_refused_with_the_reason_where_they_can_not_be() {
    let refused = |site: &Site, more: Value| {
        let mut body = body();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = site.post("/v1/chat/completions", &body);
        assert_eq!(reply.status, 400, "{}", reply.text());
        let problem = reply.problem();
        (problem["param"].as_str().unwrap().to_owned(), problem["message"].as_str().unwrap().to_owned())
    };
    for (parts, why) in [
        (plain(), "this model's chat template has no tools"),
        (template(), "this model's chat template has no tools"),
        (
            parts("any", tokenizer(), format("{% if tools %}[CALLS]{% endif %}")),
            "a form that is not known here",
        ),
        // It mentions the tag, but writes calls in another form, which would come back as text.
        (
            parts("any", tokenizer(), format(&HERMES.replace("\"arguments\": ", "<arg_value>"))),
            "a form that is not known here",
        ),
    ] {
        let (param, message) = refused(&Site::new(vec![parts]), json!({}));
        assert!(param == "tools" && message.contains(why), "{message}");
    }
    let site = Site::new(vec![parts("any", tokenizer(), format(HERMES))]);
    for (more, param) in [
        (json!({ "tool_choice": "required" }), "tool_choice"),
        (json!({ "tool_choice": { "type": "function", "function": { "name": "warmth" } } }), "tool_choice"),
        (json!({ "tools": [{ "type": "function" }] }), "tools"),
        (json!({ "tools": [{ "type": "function", "function": { "name": "" } }] }), "tools"),
        (json!({ "tools": {} }), "tools"),
        (json!({ "chat_template_kwargs": { "messages": [] } }), "chat_template_kwargs"),
        (json!({ "reasoning_effort": "high" }), "reasoning_effort"),
        (
            json!({ "messages": [{ "role": "assistant", "function_call": { "name": "f" } }] }),
            "messages[0].function_call",
        ),
    ] {
        assert_eq!(refused(&site, more.clone()).0, param, "{more}");
    }
    let site = Site::new(vec![template()]);
    let calls = json!({ "messages": [{ "role": "assistant", "tool_calls": [{ "id": "x" }] }], "tools": [] });
    assert_eq!(refused(&site, calls).0, "messages[0].tool_calls");
}

#[test]
fn the_models_own_last_message_is_continued() {
    let site = Site::new(vec![parts("any", tokenizer(), format(HERMES)), plain(), questions()]);
    let messages =
        json!([{ "role": "user", "content": "Hi" }, { "role": "assistant", "content": " Well <|im_end|>" }]);
    let prompt = |more: Value| {
        let mut body = json!({ "messages": messages });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        site.ask("/apply-template", &body)["prompt"].as_str().unwrap().to_owned()
    };
    let asked = "<|im_start|>user\nHi<|im_end|>\n";
    let continued = format!("{asked}<|im_start|>assistant\n Well <|im_end|>");
    let closed = format!("{continued}<|im_end|>\n");
    assert_eq!(prompt(json!({})), continued);
    assert_eq!(prompt(json!({ "continue_final_message": true, "add_generation_prompt": false })), continued);
    assert_eq!(prompt(json!({ "add_generation_prompt": false })), closed);
    assert_eq!(
        prompt(json!({ "continue_final_message": false })),
        format!("{closed}<|im_start|>assistant\n")
    );
    assert_eq!(prompt(json!({ "add_generation_prompt": true })), format!("{closed}<|im_start|>assistant\n"));
    assert_eq!(prompt(json!({ "model": "plain" })), "Hi\n Well <|im_end|>");
    assert_eq!(prompt(json!({ "model": "questions" })), "Hi<sep> Well <|im_end|>");
    // The answer goes on there, and what was written before is text, no tokens of the template.
    let ask = |messages: Value| json!({ "messages": messages, "max_tokens": 5, "temperature": 0, "ignore_eos": true });
    let answer = site.ask(
        "/v1/chat/completions",
        &ask(json!([
        { "role": "user", "content": "Hi" }, { "role": "assistant", "content": " Well" }])),
    );
    let text = site.ask("/v1/completions", &greedy(&format!("{asked}<|im_start|>assistant\n Well"), 5));
    assert_eq!(answer["choices"][0]["message"]["content"], text["choices"][0]["text"]);
    for (body, param) in [
        (
            json!({ "continue_final_message": true, "add_generation_prompt": true, "messages": messages }),
            "continue_final_message",
        ),
        (
            json!({ "continue_final_message": true, "messages": [{ "role": "user", "content": "a" }] }),
            "continue_final_message",
        ),
        (json!({ "messages": [{ "role": "assistant", "content": "a" }] }), "messages"),
        (
            json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "assistant", "content": "a" },
                              { "role": "assistant", "content": "a" }] }),
            "messages",
        ),
        (
            json!({ "model": "plain", "add_generation_prompt": false, "messages": [{ "role": "user", "content": "a" }] }),
            "add_generation_prompt",
        ),
    ] {
        let reply = site.post("/v1/chat/completions", &body);
        assert_eq!((reply.status, &reply.problem()["param"]), (400, &json!(param)), "{body}");
    }
}

#[test]
fn a_template_gets_the_values_that_it_knows_and_the_others_are_told() {
    let site = Site::new(vec![parts("any", tokenizer(), format(HERMES))]);
    let body = json!({
        "messages": [{ "role": "user", "content": "Hi", "name": "Ann", "mood": "good" }],
        "chat_template_kwargs": { "enable_thinking": false, "colour": "red" },
    });
    let reply = site.post("/apply-template", &body);
    assert!(reply.json()["prompt"].as_str().unwrap().contains("[False]"), "{}", reply.text());
    assert_eq!(reply.header("x-minigpt-ignored"), Some("chat_template_kwargs.colour, messages[0].mood"));
    let reply = site.post("/v1/chat/completions", &{
        let mut body = body;
        body["max_tokens"] = json!(1);
        body
    });
    assert_eq!(reply.header("x-minigpt-ignored"), Some("chat_template_kwargs.colour, messages[0].mood"));
}

#[test]
fn a_template_is_told_the_date_as_llamas_server_tells_it() {
    let source = "{{ date_string }}|{{ datetime }}|{{ messages[0].content }}";
    let site = Site::new(vec![parts("any", tokenizer(), format(source))]);
    let prompt = |more: Value| {
        let mut body = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        site.ask("/apply-template", &body)["prompt"].as_str().unwrap().to_owned()
    };
    let (before, said, after) = (
        minigpt_chat::today("%d %b %Y|%b %d %Y|Hi"),
        prompt(json!({})),
        minigpt_chat::today("%d %b %Y|%b %d %Y|Hi"),
    );
    assert!(said == before || said == after, "{said}");
    let own = prompt(json!({ "chat_template_kwargs": { "date_string": "26 Jul 2024" } }));
    assert!(own.starts_with("26 Jul 2024|"), "{own}");
}
