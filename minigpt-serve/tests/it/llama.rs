//! `/completion` as llama.cpp's clients know it.

use crate::support::*;
use serde_json::{Value, json};

#[test]
fn an_answer_has_llamas_fields() {
    let site = Site::new(vec![plain()]);
    let body = json!({ "prompt": "hello", "n_predict": 6, "temperature": 0, "ignore_eos": true, "n_probs": 2, "return_tokens": true, "repeat_penalty": 1.0 });
    let answer = site.ask("/completion", &body);
    let text = site.ask("/v1/completions", &greedy("hello", 6))["choices"][0]["text"].clone();
    assert_eq!(answer["content"], text);
    assert_eq!(
        (&answer["stop"], &answer["stop_type"], &answer["truncated"]),
        (&json!(true), &json!("limit"), &json!(false))
    );
    assert_eq!((&answer["tokens_evaluated"], &answer["tokens_predicted"]), (&json!(5), &json!(6)));
    assert_eq!(
        (&answer["prompt"], &answer["generation_settings"]["n_predict"]),
        (&json!("hello"), &json!(6))
    );
    assert_eq!(answer["tokens"].as_array().unwrap().len(), 6);
    // A seed that was drawn comes back as it is from any program that reads JSON.
    assert!(answer["generation_settings"]["seed"].as_u64().unwrap() < 1 << 32);
    let timings = &answer["timings"];
    assert_eq!((&timings["prompt_n"], &timings["predicted_n"]), (&json!(5), &json!(6)));
    assert!(
        timings["predicted_ms"].as_f64().unwrap() > 0.0
            && timings["predicted_per_second"].as_f64().unwrap() > 0.0
    );
    let probabilities = answer["completion_probabilities"].as_array().unwrap();
    assert_eq!((probabilities.len(), probabilities[0]["top_logprobs"].as_array().unwrap().len()), (6, 2));
    // The second time the prompt is there already, unless that is not wanted.
    assert_eq!(site.ask("/completion", &body)["tokens_cached"], 4);
    let mut anew = body.clone();
    anew["cache_prompt"] = json!(false);
    assert_eq!(site.ask("/completion", &anew)["tokens_cached"], 0);
    assert_eq!(site.ask("/completions", &body)["content"], text, "its other name");
}

#[test]
fn a_text_that_fills_the_context_is_truncated_and_never_longer() {
    let site = Site::new(vec![plain()]);
    let ask = |n_predict: i64| {
        let prompt = "a".repeat(CONTEXT - 8);
        let body = json!({ "prompt": prompt, "n_predict": n_predict, "temperature": 0, "ignore_eos": true });
        let answer = site.ask("/completion", &body);
        (answer["tokens_predicted"].as_u64().unwrap(), answer["truncated"].as_bool().unwrap())
    };
    assert_eq!([ask(5), ask(8), ask(9), ask(-1)], [(5, false), (8, false), (8, true), (8, true)]);
}

#[test]
fn rates_are_those_of_the_tokens_behind_the_first() {
    let site = Site::new(vec![plain()]);
    let timings = |n: usize| {
        let body = json!({ "prompt": "hello", "n_predict": n, "temperature": 0, "ignore_eos": true });
        site.ask("/completion", &body)["timings"].clone()
    };
    let (five, one) = (timings(5), timings(1));
    let number = |timings: &Value, field: &str| timings[field].as_f64().unwrap();
    let ms = number(&five, "predicted_ms");
    assert!((number(&five, "predicted_per_second") * ms / 4e3 - 1.0).abs() < 1e-6, "{five}");
    assert!((number(&five, "predicted_per_token_ms") * 4.0 / ms - 1.0).abs() < 1e-6, "{five}");
    assert_eq!((&one["predicted_n"], number(&one, "predicted_per_second")), (&json!(1), 0.0));
    assert_eq!(number(&one, "predicted_per_token_ms"), 0.0, "{one}");
}

#[test]
fn a_stream_ends_with_what_is_known_at_the_end() {
    let site = Site::new(vec![plain()]);
    let body =
        json!({ "prompt": "hello", "n_predict": 8, "temperature": 0, "ignore_eos": true, "stream": true });
    let events: Vec<Value> =
        site.events("/completion", &body).iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let (last, others) = events.split_last().unwrap();
    assert!(last["stop"] == true && last["timings"].is_object() && last["tokens_predicted"] == 8);
    assert!(others.iter().all(|event| event["stop"] == false && event.get("timings").is_none()));
    let said: String = events.iter().map(|event| event["content"].as_str().unwrap()).collect();
    let ids: Vec<&Value> = events.iter().flat_map(|event| event["tokens"].as_array().unwrap()).collect();
    assert_eq!(ids.len(), 8, "a stream has the ids");
    assert_eq!(json!(said), site.ask("/v1/completions", &greedy("hello", 8))["choices"][0]["text"]);
}

#[test]
fn the_end_says_why() {
    let site = Site::new(vec![plain()]);
    let whole = site.ask(
        "/completion",
        &json!({ "prompt": "hello", "n_predict": 20, "temperature": 0, "ignore_eos": true }),
    );
    let stop: String = whole["content"].as_str().unwrap().chars().skip(4).take(2).collect();
    let answer = site.ask(
        "/completion",
        &json!({ "prompt": "hello", "n_predict": 20, "temperature": 0, "ignore_eos": true, "stop": [stop] }),
    );
    assert_eq!((&answer["stop_type"], &answer["stopping_word"]), (&json!("word"), &json!(stop)));
    let end = plain().stop_ids[0];
    let answer = site.ask("/completion", &json!({ "prompt": "hello", "logit_bias": [[end, 100]] }));
    assert_eq!((&answer["stop_type"], &answer["content"]), (&json!("eos"), &json!("")));
    // Nothing to write only reads.
    let answer = site.ask("/completion", &json!({ "prompt": "hello", "n_predict": 0 }));
    assert_eq!(
        (&answer["content"], &answer["tokens_predicted"], &answer["tokens_evaluated"]),
        (&json!(""), &json!(0), &json!(5))
    );
}

#[test]
fn biases_come_in_all_of_llamas_forms_and_several_prompts_give_a_list() {
    let site = Site::new(vec![plain()]);
    let z = characters(&["<|endoftext|>"]).encode("z").unwrap()[0];
    for bias in [json!([[z, 100]]), json!([["z", 100.0]]), json!({ z.to_string(): 100 })] {
        let answer = site.ask(
            "/completion",
            &json!({ "prompt": "a", "n_predict": 3, "logit_bias": bias, "ignore_eos": true }),
        );
        assert_eq!(answer["content"], "zzz", "{bias}");
    }
    let never = json!({ "prompt": "a", "n_predict": 30, "logit_bias": [["z", false]], "seed": 4 });
    assert!(!site.ask("/completion", &never)["content"].as_str().unwrap().contains('z'));
    for bias in [json!(5), json!([[1]]), json!([[1, "x"]]), json!([[99_999, 1]]), json!([[1, 1e9]])] {
        assert_eq!(
            site.post("/completion", &json!({ "prompt": "a", "logit_bias": bias })).problem()["param"],
            "logit_bias"
        );
    }
    let answers = site.ask("/completion", &json!({ "prompt": ["a", "b"], "n_predict": 2 }));
    assert_eq!(answers.as_array().unwrap().len(), 2);
    assert_eq!(
        site.post("/completion", &json!({ "prompt": "a", "n_predict": -2 })).problem()["param"],
        "n_predict"
    );
}
