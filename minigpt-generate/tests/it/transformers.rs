//! Decoding as `transformers` does it: fixtures made by `oracle/generate_fixtures.py`, settings in its own words.

use minigpt_formats::load;
use minigpt_generate::processors::process;
use minigpt_generate::{Completion, FinishReason, GenerationConfig, generate};
use minigpt_model::{DType, Device, Gpt, Tensor};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn json(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixtures().join(name)).unwrap()).unwrap()
}

fn tensors(name: &str) -> HashMap<String, Tensor> {
    candle_core::safetensors::load(fixtures().join(name), &Device::Cpu).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Name and settings of every case.
fn cases(file: &Value) -> impl Iterator<Item = (&str, GenerationConfig, &Value)> {
    file["cases"].as_array().unwrap().iter().map(|case| {
        let config = GenerationConfig::from_json(&case["config"].to_string()).unwrap();
        (case["name"].as_str().unwrap(), config, case)
    })
}

fn model() -> Gpt {
    let name = json("texts.json")["model"].as_str().unwrap().to_owned();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../minigpt-model/tests/fixtures").join(name);
    load(&path, &Device::Cpu).unwrap().gpt
}

#[test]
fn processors_change_random_logits_as_those_of_transformers_do() {
    let (file, tensors) = (json("processors.json"), tensors("processors.safetensors"));
    let floats = |name: &str| tensors[name].to_vec2::<f32>().unwrap();
    let history = tensors["history"].to_dtype(DType::U32).unwrap().to_vec2::<u32>().unwrap();
    let prompt_length = file["prompt_length"].as_u64().unwrap() as usize;
    let mut compared = 0;
    for (name, config, _) in cases(&file) {
        let rows = floats("logits").into_iter().zip(floats(name)).zip(&history);
        for (row, ((mut logits, want), history)) in rows.enumerate() {
            process(&mut logits, history, history.len() - prompt_length, &config);
            for (id, (got, want)) in logits.iter().zip(&want).enumerate() {
                let same = got == want || (got - want).abs() <= 1e-6 * want.abs();
                assert!(same, "{name}, row {row}, token {id}: {got} is not {want}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 20 * 5 * 101);
}

/// Texts and scores of every case whose name begins so; how many there were.
fn compare_texts(prefix: &str) -> usize {
    let (file, scores, gpt) = (json("texts.json"), tensors("scores.safetensors"), model());
    let of_prefix = cases(&file).filter(|(name, ..)| name.starts_with(prefix));
    let compare = |(name, config, case): (&str, GenerationConfig, &Value)| {
        let got = generate(&gpt, &[ids(&case["prompt"])], &config, None).unwrap();
        let want: Vec<Vec<u32>> = case["texts"].as_array().unwrap().iter().map(ids).collect();
        assert_eq!(got.iter().map(|c| c.ids.clone()).collect::<Vec<_>>(), want, "{name}");
        got.iter().for_each(|completion| check_finish(name, completion, &config));
        if let Some(scores) = scores.get(name) {
            for (completion, want) in got.iter().zip(scores.to_vec1::<f32>().unwrap()) {
                let got = completion.score.unwrap();
                assert!(
                    (got - f64::from(want)).abs() < 1e-5 * f64::from(want.abs()),
                    "{name}: {got} is not {want}"
                );
            }
        }
    };
    of_prefix.map(compare).count()
}

fn check_finish(name: &str, completion: &Completion, config: &GenerationConfig) {
    let ended = config.eos_token_id.contains(completion.ids.last().unwrap());
    let want = if ended { FinishReason::Stop } else { FinishReason::Length };
    assert_eq!(completion.finish_reason, Some(want), "{name}");
    assert_eq!(completion.logprobs.len(), completion.ids.len(), "{name}");
}

#[test]
fn greedy_texts_are_those_of_transformers_with_and_without_repetition_penalty() {
    assert_eq!(compare_texts("greedy-"), 28);
}

#[test]
fn beams_are_those_of_transformers_however_they_stop() {
    assert_eq!(compare_texts("beams-"), 66);
}
