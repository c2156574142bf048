//! Text to ids and back, as llama.cpp's and vLLM's clients ask for it.

use crate::support::*;
use serde_json::json;

#[test]
fn text_becomes_ids_and_comes_back_under_both_names() {
    let site = Site::new(vec![byte_level()]);
    let text = "the cat 你好<|endoftext|>";
    let ids = bytes().encode_with_special(text).unwrap();
    for name in ["content", "prompt"] {
        let answer = site.ask("/tokenize", &json!({ name: text, "add_special_tokens": false }));
        assert_eq!((&answer["tokens"], &answer["count"]), (&json!(ids), &json!(ids.len())));
        assert_eq!(answer["max_model_len"], CONTEXT);
    }
    let plain = site.ask("/tokenize", &json!({ "content": text, "parse_special": false }));
    assert_eq!(plain["tokens"], json!(bytes().encode(text).unwrap()));
    let back = site.ask("/detokenize", &json!({ "tokens": ids }));
    assert_eq!(back, json!({ "content": text, "prompt": text }));
    assert_eq!(site.ask("/detokenize", &json!({ "tokens": [] }))["content"], "");
    assert_eq!(site.post("/detokenize", &json!({ "tokens": [99_999] })).status, 400);
    assert_eq!(site.post("/tokenize", &json!({})).problem()["param"], "content");
    let pieces = site.ask("/tokenize", &json!({ "content": "a你", "with_pieces": true }));
    let pieces = pieces["tokens"].as_array().unwrap();
    assert_eq!(pieces[0]["piece"], "a");
    assert!(pieces.iter().any(|token| token["piece"].is_array() || token["piece"] == "你"), "{pieces:?}");
}

#[test]
fn a_tokenizer_says_what_it_is() {
    let site = Site::new(vec![byte_level(), questions()]);
    let info = site.get("/tokenizer_info").json();
    assert_eq!(
        (&info["eos_token"], &info["vocab_size"]),
        (&json!("<|endoftext|>"), &json!(bytes().vocab_size()))
    );
    assert_eq!(info["model_max_length"], CONTEXT);
    let site = Site::new(vec![template()]);
    let info = site.get("/tokenizer_info").json();
    assert!(
        info["chat_template"].as_str().unwrap().contains("im_start") && info["eos_token"] == "<|im_end|>"
    );
}

#[test]
fn a_model_without_a_tokenizer_takes_and_gives_ids() {
    let bare = minigpt_serve::ModelParts { tokenizer: None, ..plain() };
    let site = Site::new(vec![bare]);
    assert_eq!(site.post("/v1/completions", &json!({ "prompt": "a" })).status, 400);
    assert_eq!(site.post("/tokenize", &json!({ "content": "a" })).status, 400);
    assert_eq!(site.post("/v1/completions", &json!({ "prompt": [1], "echo": true })).status, 400);
    let body = json!({ "prompt": [1, 2], "n_predict": 5, "return_tokens": true, "temperature": 0, "ignore_eos": true });
    let answer = site.ask("/completion", &body);
    assert_eq!((answer["tokens"].as_array().unwrap().len(), &answer["content"]), (5, &json!("")));
}

#[test]
fn what_stands_before_every_text_is_added_where_it_is_asked_for() {
    let site = Site::new(vec![parts("bos", with_bos(), minigpt_chat::Format::Plain)]);
    let ids = |body: serde_json::Value| site.ask("/tokenize", &body)["tokens"].clone();
    assert_eq!(ids(json!({ "content": "ab" })), json!([5, 6]));
    assert_eq!(ids(json!({ "content": "ab", "add_special": true })), json!([0, 5, 6]));
    assert_eq!(ids(json!({ "prompt": "ab" })), json!([0, 5, 6]));
    assert_eq!(ids(json!({ "prompt": "ab", "add_special_tokens": false })), json!([5, 6]));
    // A token that was typed is not taken for one that was added.
    assert_eq!(ids(json!({ "content": "<s>a" })), json!([0, 5]));
    let text = json!({ "content": "<s>a", "parse_special": false });
    assert_eq!(ids(text), json!([2, 3, 4, 5]));
    let added = json!({ "content": "<s>a", "parse_special": false, "add_special": true });
    assert_eq!(ids(added), json!([0, 2, 3, 4, 5]));
    let both = json!({ "content": "a", "add_special": true, "add_special_tokens": false });
    assert_eq!(site.post("/tokenize", &both).problem()["param"], "add_special_tokens");
}

#[test]
fn a_chat_without_a_template_begins_as_a_text_does() {
    let site = Site::new(vec![parts("bos", with_bos(), minigpt_chat::Format::Plain)]);
    let chat = json!({ "messages": [{ "role": "user", "content": "ab" }], "max_tokens": 1 });
    assert_eq!(site.ask("/v1/chat/completions", &chat)["usage"]["prompt_tokens"], 3);
    let text = site.ask("/completion", &json!({ "prompt": "ab", "n_predict": 1 }));
    assert_eq!(text["tokens_evaluated"], 3);
}

/// Regression: eight clients that read nothing of what 8 MB of text became took 2.9 GB, and `/health` waited for their answers.
#[test]
fn tokens_that_nobody_reads_are_bounded() {
    let site = Site::new(vec![plain()]);
    let text = |size: usize| json!({ "content": "a".repeat(size), "with_pieces": true });
    let too_large = site.post("/tokenize", &text(2 << 20));
    assert_eq!((too_large.status, &too_large.problem()["code"]), (400, &json!("request_too_large")));
    let ids = site.ask("/tokenize", &json!({ "content": "a".repeat(2 << 20) }));
    assert_eq!(ids["count"], 2 << 20);
    let body = text(1 << 20).to_string();
    let headers = [("content-type", "application/json")];
    let mut unread = Vec::new();
    let refused = (0..12).find_map(|_| {
        let stream = site.open("POST", "/tokenize", &headers, body.as_bytes());
        // The head has come: the answer is there, or it was refused.
        let mut head = [0; 12];
        std::io::Read::read_exact(&mut &stream, &mut head).unwrap();
        let status = String::from_utf8_lossy(&head[9..]).into_owned();
        unread.push(stream);
        (status != "200").then_some(status)
    });
    assert_eq!(refused.as_deref(), Some("429"));
    assert!(unread.len() > 3, "several may wait");
    assert_eq!(site.get("/health").status, 200);
    assert_eq!(site.ask("/tokenize", &json!({ "content": "a" }))["count"], 1);
    drop(unread);
    until("there is room again", || site.post("/tokenize", &text(1 << 20)).status == 200);
}

/// One token of many bytes makes a long text of a short request.
#[test]
fn a_text_of_many_tokens_is_bounded() {
    let site = Site::new(vec![plain()]);
    let end =
        characters(&[minigpt_tokenizer::END_OF_TEXT]).special_id(minigpt_tokenizer::END_OF_TEXT).unwrap();
    let many = json!({ "tokens": vec![end; (32 << 20) / 13 + 1] });
    let refused = site.post("/detokenize", &many);
    assert_eq!((refused.status, &refused.problem()["code"]), (400, &json!("request_too_large")));
    let some = site.ask("/detokenize", &json!({ "tokens": vec![end; 100_000] }));
    assert_eq!(some["content"].as_str().unwrap().len(), 1_300_000);
}
