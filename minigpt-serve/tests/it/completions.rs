//! `/v1/completions`: prompts of every kind, log-probabilities as lm-evaluation-harness reads them, streams, stop strings.

use crate::support::*;
use minigpt_generate::{GenerationConfig, generate};
use serde_json::{Value, json};

fn text(answer: &Value) -> &str {
    answer["choices"][0]["text"].as_str().unwrap()
}

#[test]
fn a_text_is_what_the_library_writes() {
    let site = Site::new(vec![plain()]);
    let answer = site.ask("/v1/completions", &greedy("Hello", 12));
    let ModelPartsOf { gpt, tokenizer } = of(plain());
    let config = GenerationConfig { max_new_tokens: 12, ..GenerationConfig::default() };
    let want = generate(&gpt, &[tokenizer.encode("Hello").unwrap()], &config, Some(&tokenizer)).unwrap();
    assert_eq!(text(&answer), want[0].text.as_deref().unwrap());
    assert_eq!((&answer["object"], &answer["model"]), (&json!("text_completion"), &json!("plain")));
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(answer["choices"][0]["logprobs"], Value::Null);
    let usage = &answer["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(5), &json!(12)));
    assert_eq!(usage["total_tokens"], 17);
    assert!(
        answer["id"].as_str().unwrap().starts_with("cmpl-")
            && answer["created"].as_u64().unwrap() > 1_700_000_000
    );
    // The second time the prompt but for its last token is there already.
    let again = site.ask("/v1/completions", &greedy("Hello", 12));
    assert_eq!(text(&again), text(&answer));
    assert_eq!(again["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 0);
}

struct ModelPartsOf {
    gpt: minigpt_model::Gpt,
    tokenizer: minigpt_tokenizer::Tokenizer,
}

fn of(parts: minigpt_serve::ModelParts) -> ModelPartsOf {
    ModelPartsOf { gpt: parts.gpt, tokenizer: parts.tokenizer.unwrap() }
}

#[test]
fn prompts_are_strings_or_ids_one_or_many() {
    let site = Site::new(vec![plain()]);
    let ids = of(plain()).tokenizer.encode("ab").unwrap();
    let with = |prompt: Value| {
        site.ask("/v1/completions", &json!({ "prompt": prompt, "max_tokens": 4, "temperature": 0 }))
    };
    let want = with(json!("ab"));
    assert_eq!(text(&with(json!(ids))), text(&want));
    assert_eq!(text(&with(json!([ids]))), text(&want));
    let many = with(json!(["ab", "cd", "ab"]));
    let choices = many["choices"].as_array().unwrap();
    assert_eq!(choices.iter().map(|c| c["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(choices[0]["text"], choices[2]["text"]);
    assert_eq!(choices[0]["text"], want["choices"][0]["text"]);
    assert_eq!(many["usage"]["prompt_tokens"], 6);
    assert_eq!(with(json!([ids, ids]))["choices"].as_array().unwrap().len(), 2);
    // Without a prompt, from the beginning of a text; more prompts than slots wait for each other.
    assert!(
        !text(
            &site.ask("/v1/completions", &json!({ "max_tokens": 3, "temperature": 0, "ignore_eos": true }))
        )
        .is_empty()
    );
    let twenty: Vec<String> = (0..20).map(|i| format!("number {i}")).collect();
    assert_eq!(with(json!(twenty))["choices"].as_array().unwrap().len(), 20);
}

#[test]
fn n_texts_are_different_and_come_again_with_their_seed() {
    let site = Site::new(vec![plain()]);
    let body = json!({ "prompt": "a", "max_tokens": 16, "n": 3, "seed": 5, "temperature": 1.5 });
    let texts = |answer: Value| -> Vec<String> {
        answer["choices"].as_array().unwrap().iter().map(|c| c["text"].as_str().unwrap().to_owned()).collect()
    };
    let (one, two) = (texts(site.ask("/v1/completions", &body)), texts(site.ask("/v1/completions", &body)));
    assert_eq!(one, two);
    assert!(one[0] != one[1] && one[1] != one[2]);
    let other = json!({ "prompt": "a", "max_tokens": 16, "n": 3, "temperature": 1.5 });
    assert_ne!(texts(site.ask("/v1/completions", &other)), texts(site.ask("/v1/completions", &other)));
    assert_eq!(site.ask("/v1/completions", &body)["usage"]["prompt_tokens"], 1);
}

#[test]
fn the_settings_are_those_of_the_library() {
    let site = Site::new(vec![plain()]);
    let tokenizer = of(plain()).tokenizer;
    let only = tokenizer.encode("z").unwrap()[0];
    let biased = json!({ "prompt": "a", "max_tokens": 5, "logit_bias": { only.to_string(): 100 }, "ignore_eos": true });
    assert_eq!(text(&site.ask("/v1/completions", &biased)), "zzzzz");
    let mut cold = greedy("a", 8);
    cold["top_k"] = json!(1);
    cold["temperature"] = json!(1.0);
    assert_eq!(
        text(&site.ask("/v1/completions", &cold)),
        text(&site.ask("/v1/completions", &greedy("a", 8)))
    );
    cold["top_k"] = json!(-1);
    cold["top_p"] = json!(0);
    assert_eq!(
        text(&site.ask("/v1/completions", &cold)),
        text(&site.ask("/v1/completions", &greedy("a", 8)))
    );
    let beams = site
        .ask("/v1/completions", &json!({ "prompt": "a", "max_tokens": 6, "num_beams": 3, "logprobs": 0 }));
    let ModelPartsOf { gpt, tokenizer } = of(plain());
    let config = GenerationConfig {
        max_new_tokens: 6,
        num_beams: 3,
        eos_token_id: plain().stop_ids,
        ..GenerationConfig::default()
    };
    let want = generate(&gpt, &[tokenizer.encode("a").unwrap()], &config, Some(&tokenizer)).unwrap();
    assert_eq!(text(&beams), want[0].text.as_deref().unwrap());
    assert_eq!(
        beams["choices"][0]["logprobs"]["tokens"].as_array().unwrap().len(),
        text(&beams).chars().count()
    );
    // What nobody knows is ignored, and null is absent.
    let odd = json!({ "prompt": "a", "max_tokens": 8, "temperature": 0, "ignore_eos": true, "user": "me", "zzz": [1], "stop": null, "n": null });
    assert_eq!(text(&site.ask("/v1/completions", &odd)), text(&site.ask("/v1/completions", &greedy("a", 8))));
}

/// What lm-evaluation-harness's `local-completions` asks for and how it reads the answer.
#[test]
fn echo_with_log_probabilities_is_what_the_evaluation_harness_needs() {
    for model in [plain(), byte_level()] {
        let prompt = "the cat 你好é";
        let ModelPartsOf { gpt, tokenizer } = of(if model.name == "plain" { plain() } else { byte_level() });
        let ids = tokenizer.encode(prompt).unwrap();
        let end = model.stop_ids[0];
        let site = Site::new(vec![model]);
        // The token that is written may be one that ends a text: it is there all the same.
        for (max_tokens, bias) in [(1, 0), (0, 0), (1, 100)] {
            let bias = json!({ end.to_string(): bias });
            let body = json!({
                "prompt": [ids], "max_tokens": max_tokens, "temperature": 0, "logprobs": 1, "echo": true, "seed": 1234,
                "logit_bias": bias,
            });
            let answer = site.ask("/v1/completions", &body);
            let choice = &answer["choices"][0];
            let lists = &choice["logprobs"];
            let list = |name: &str| lists[name].as_array().unwrap().clone();
            let (tokens, own, top, offsets) =
                (list("tokens"), list("token_logprobs"), list("top_logprobs"), list("text_offset"));
            assert_eq!(tokens.len() - ids.len(), max_tokens, "the harness leaves the last one out");
            assert!([own.len(), top.len(), offsets.len()].iter().all(|&n| n == tokens.len()));
            assert_eq!((&own[0], &top[0]), (&Value::Null, &Value::Null));
            assert!(choice["text"].as_str().unwrap().starts_with(prompt));
            let logits = gpt.logits(&gpt.ids(&[&ids]).unwrap()).unwrap().squeeze(0).unwrap();
            let rows = logits.to_vec2::<f32>().unwrap();
            for i in 1..ids.len() {
                let number = own[i].as_f64().unwrap();
                let want = minigpt_generate::logprob(&rows[i - 1], ids[i]);
                assert!((number - want).abs() < 1e-4, "{i}: {number} {want}");
                let top = top[i].as_object().unwrap();
                let name = tokens[i].as_str().unwrap();
                assert_eq!(top[name], own[i], "the token itself, with the identical number");
                // One alternative beside it, unless it is the likeliest itself.
                let greedy = minigpt_generate::candidates(&rows[i - 1], 1)[0].id == ids[i];
                assert_eq!(top.len(), if greedy { 1 } else { 2 });
                let best =
                    top.values().map(|value| value.as_f64().unwrap()).fold(f64::NEG_INFINITY, f64::max);
                assert_eq!(best == number, greedy);
            }
            let whole: Vec<char> = choice["text"].as_str().unwrap().chars().collect();
            for (token, offset) in tokens.iter().zip(&offsets).take(ids.len()) {
                let (token, offset) = (token.as_str().unwrap(), offset.as_u64().unwrap() as usize);
                if !token.starts_with("bytes:") {
                    let there: String = whole[offset..offset + token.chars().count()].iter().collect();
                    assert_eq!(there, token);
                }
            }
        }
    }
}

#[test]
fn parts_of_characters_that_look_alike_do_not_overwrite_each_other() {
    let site = Site::new(vec![byte_level()]);
    let body =
        json!({ "prompt": "你", "max_tokens": 4, "temperature": 0, "logprobs": 100, "ignore_eos": true });
    let answer = site.ask("/v1/completions", &body);
    let top = answer["choices"][0]["logprobs"]["top_logprobs"].as_array().unwrap().clone();
    assert!(!top.is_empty());
    for entry in top {
        let names: Vec<&String> = entry.as_object().unwrap().keys().collect();
        assert!((100..=101).contains(&names.len()), "{}", names.len());
        assert!(names.iter().filter(|name| name.starts_with("bytes:\\x")).count() > 10, "{names:?}");
    }
}

#[test]
fn a_stream_says_the_same_as_the_whole_answer() {
    for model in [plain(), byte_level()] {
        let site = Site::new(vec![model]);
        for logprobs in [Value::Null, json!(2)] {
            let mut body = greedy("你好 the", 24);
            body["logprobs"] = logprobs;
            body["echo"] = json!(true);
            let whole = site.ask("/v1/completions", &body);
            body["stream"] = json!(true);
            let chunks = site.chunks("/v1/completions", &body);
            let said: String = chunks.iter().map(text).collect();
            assert_eq!(said, text(&whole));
            assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
            let (last, others) = chunks.split_last().unwrap();
            assert_eq!(last["choices"][0]["finish_reason"], "length");
            assert!(others.iter().all(|chunk| chunk["choices"][0]["finish_reason"].is_null()));
            assert!(others.len() > 5);
            for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
                let all = chunks.iter().filter_map(|chunk| chunk["choices"][0]["logprobs"][name].as_array());
                let all: Vec<Value> = all.flatten().cloned().collect();
                assert_eq!(
                    json!(all),
                    whole["choices"][0]["logprobs"].get(name).cloned().unwrap_or(json!([]))
                );
            }
            // The usage comes if it was asked for, in an event of its own.
            body["stream_options"] = json!({ "include_usage": true });
            let chunks = site.chunks("/v1/completions", &body);
            let (last, others) = chunks.split_last().unwrap();
            assert!(others.iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)), "{others:?}");
            assert_eq!(last["choices"], json!([]));
            assert_eq!(last["usage"]["total_tokens"], whole["usage"]["total_tokens"]);
        }
    }
}

#[test]
fn a_stop_string_never_leaks_also_across_chunks() {
    let site = Site::new(vec![plain()]);
    let whole = site.ask("/v1/completions", &greedy("stop ", 40));
    let characters: Vec<char> = text(&whole).chars().collect();
    for (start, length) in [(0, 1), (3, 2), (10, 5), (20, 3)] {
        let stop: String = characters[start..start + length].iter().collect();
        let before = text(&whole).find(&stop).unwrap();
        let mut body = greedy("stop ", 40);
        body["stop"] = json!([stop, "never there"]);
        body["logprobs"] = json!(0);
        let answer = site.ask("/v1/completions", &body);
        assert_eq!(text(&answer), &text(&whole)[..before]);
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
        let tokens = answer["choices"][0]["logprobs"]["tokens"].as_array().unwrap().len();
        assert_eq!(
            tokens,
            text(&answer).chars().count(),
            "tokens of the stop string are no part of the text"
        );
        body["stream"] = json!(true);
        let chunks = site.chunks("/v1/completions", &body);
        assert_eq!(chunks.iter().map(text).collect::<String>(), text(&answer));
        body["stop"] = json!(stop);
        assert_eq!(site.chunks("/v1/completions", &body).iter().map(text).collect::<String>(), text(&answer));
    }
}

#[test]
fn a_text_ends_where_the_context_does_and_a_prompt_that_fits_is_read_whole() {
    let site = Site::new(vec![plain()]);
    let answer = site.ask("/v1/completions", &greedy(&"a".repeat(CONTEXT - 4), 1000));
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(answer["usage"]["completion_tokens"], 4, "prompt and text fill the context, to the token");
    assert_eq!(answer["usage"]["total_tokens"], CONTEXT);
    let beams =
        json!({ "prompt": "a".repeat(CONTEXT - 4), "max_tokens": 1000, "num_beams": 2, "ignore_eos": true });
    assert!(site.ask("/v1/completions", &beams)["usage"]["total_tokens"].as_u64().unwrap() <= CONTEXT as u64);
    let full = |max_tokens: usize| json!({ "prompt": "a".repeat(CONTEXT), "max_tokens": max_tokens, "echo": true, "logprobs": 1, "temperature": 0 });
    let answer = site.ask("/v1/completions", &full(0));
    assert_eq!(answer["usage"]["total_tokens"], CONTEXT);
    let problem = site.post("/v1/completions", &full(1)).problem();
    assert_eq!(problem["code"], "context_length_exceeded");
    assert!(problem["message"].as_str().unwrap().contains("no room for an answer"), "{problem}");
}

#[test]
fn whole_characters_only_are_streamed() {
    let site = Site::new(vec![byte_level()]);
    let tokenizer = bytes();
    let parts = tokenizer.encode("你").unwrap();
    // The very bytes of a character, over and over.
    let bias: serde_json::Map<String, Value> = parts.iter().map(|id| (id.to_string(), json!(100))).collect();
    let body = json!({ "prompt": "a", "max_tokens": 30, "seed": 3, "logit_bias": bias, "stream": true, "ignore_eos": true });
    for event in site.chunks("/v1/completions", &body) {
        let said = text(&event);
        assert!(!said.contains('\u{FFFD}') || said.chars().all(|c| c == '\u{FFFD}' || c == '你'), "{said:?}");
    }
}
