//! `/v1/embeddings`: the mean of the hidden states, of length 1, in any form of input and output.

use crate::support::*;
use minigpt_model::TokenChunk;
use serde_json::{Value, json};

fn vector(entry: &Value) -> Vec<f64> {
    entry["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn an_embedding_is_the_mean_of_what_the_model_knows_of_each_token() {
    let site = Site::new(vec![plain()]);
    let text = "hello there";
    let answer = site.ask("/v1/embeddings", &json!({ "input": text }));
    assert_eq!((&answer["object"], &answer["pooling"]), (&json!("list"), &json!("mean")));
    assert_eq!(answer["usage"], json!({ "prompt_tokens": 11, "total_tokens": 11 }));
    let got = vector(&answer["data"][0]);
    // The same from the residual stream, as the hooks of a plain pass see it.
    let parts = plain();
    let ids = parts.tokenizer.as_ref().unwrap().encode(text).unwrap();
    let mut cache = parts.gpt.cache(1).unwrap();
    let mut sum = vec![0.0; got.len()];
    for id in ids {
        let token = TokenChunk { row: 0, ids: &[id], logits: 1 };
        let hidden = parts.gpt.hidden_step(&[token], &mut cache).unwrap();
        let row = hidden.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(x));
    }
    let length = sum.iter().map(|x| x * x).sum::<f64>().sqrt();
    for (got, want) in got.iter().zip(&sum) {
        assert!((got - want / length).abs() < 1e-6, "{got} is not {}", want / length);
    }
    let one: f64 = got.iter().map(|x| x * x).sum();
    assert!((one - 1.0).abs() < 1e-5, "{one}");
}

#[test]
fn texts_and_ids_come_alone_and_in_lists_and_go_as_numbers_or_bytes() {
    let site = Site::new(vec![plain()]);
    let ids = |text: &str| characters(&["<|endoftext|>"]).encode(text).unwrap();
    let of = |input: Value| {
        let answer = site.ask("/v1/embeddings", &json!({ "input": input, "user": "x", "dimensions": 32 }));
        answer["data"].as_array().unwrap().iter().map(vector).collect::<Vec<_>>()
    };
    let (a, b) = (of(json!("a cat")), of(json!("a dog")));
    assert!(a.len() == 1 && a != b);
    let both = [a.clone(), b].concat();
    assert_eq!(of(json!(["a cat", "a dog"])), both);
    assert_eq!(of(json!(ids("a cat"))), a);
    assert_eq!(of(json!([ids("a cat"), ids("a dog")])), both);
    let answer = site.ask("/v1/embeddings", &json!({ "input": "a cat", "encoding_format": "base64" }));
    // 32 numbers of 4 bytes are 128 bytes, 172 digits.
    assert_eq!(answer["data"][0]["embedding"].as_str().unwrap().len(), 172);
    for (body, param) in [
        (json!({}), "input"),
        (json!({ "input": [] }), "input"),
        (json!({ "input": "a", "dimensions": 7 }), "dimensions"),
        (json!({ "input": "a", "encoding_format": "int8" }), "encoding_format"),
        (json!({ "input": "a".repeat(CONTEXT + 1) }), "input"),
        (json!({ "input": [99_999] }), "input"),
        (json!({ "input": "a", "pooling": "cls" }), "pooling"),
        (json!({ "input": "a", "truncate_prompt_tokens": 5 }), "truncate_prompt_tokens"),
    ] {
        let reply = site.post("/v1/embeddings", &body);
        let problem = reply.problem();
        let named = problem["param"] == param
            || (problem["param"].is_null() && problem["message"].to_string().contains(param));
        assert!(reply.status == 400 && named, "{body}: {problem}");
    }
    assert_eq!(site.get("/v1/models/plain").json()["meta"]["pooling"], "mean");
}
