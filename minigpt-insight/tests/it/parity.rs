//! Every configuration against PyTorch's hooks (`oracle/insight_fixtures.py`): lens, ablation, patching, attribution.

use crate::support::{Fixture, assert_close, fixtures, floats};
use candle_core::{Device, Tensor};
use minigpt_formats::load;
use minigpt_insight::{Ablation, Component, LensOptions, Subject, attribution, lens, patch};
use minigpt_model::NormPosition;
use std::path::Path;

const CLEAN: [u32; 8] = [3, 1, 4, 1, 5, 9, 2, 6];
const CORRUPT: [u32; 8] = [3, 1, 4, 7, 5, 9, 2, 6];
const TOLERANCE: f32 = 1e-4;

fn tensor<T: candle_core::WithDType>(values: Vec<T>, shape: &[usize]) -> Tensor {
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

fn check(case: &str) {
    let gpt = load(&fixtures().join(case), &Device::Cpu).unwrap().gpt;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{case}.safetensors"));
    let expected = Fixture::open_at(&path);
    let (subject, config) = (Subject::new(&gpt), gpt.config().clone());
    let (layers, heads, v) = (config.n_layer, config.n_head, config.vocab_size);

    let seen = lens(&subject, &CLEAN, LensOptions { top: 1, logits: true }).unwrap().lens_logits.unwrap();
    let seen = tensor(seen.concat().concat(), &[layers + 1, 8, v]);
    assert_close("lens", &seen, expected.need("lens"), TOLERANCE, 0.0);
    assert_close("last row", &seen.get(layers).unwrap(), expected.need("logits"), TOLERANCE, 0.0);

    let (mut zero, mut mean, mut mlp) = (Vec::new(), Vec::new(), Vec::new());
    for layer in 0..layers {
        for head in 0..heads {
            let part = [Component::Head { layer, head }];
            let mut off = Ablation::zero(&subject, &part).unwrap();
            zero.push(subject.logits(&CLEAN, &mut off).unwrap());
            let mut average = Ablation::mean(&subject, &part, &CLEAN).unwrap();
            mean.push(subject.logits(&CLEAN, &mut average).unwrap());
        }
        let mut off = Ablation::zero(&subject, &[Component::MlpOf(layer)]).unwrap();
        mlp.push(subject.logits(&CLEAN, &mut off).unwrap());
    }
    for (what, got) in [("zero", zero), ("mean", mean), ("mlp", mlp)] {
        assert_close(what, &Tensor::stack(&got, 0).unwrap(), expected.need(what), TOLERANCE, 0.0);
    }

    let patching = patch(&subject, &CLEAN, &CORRUPT, Some(8), Some(11)).unwrap();
    let shares = |rows: &[Vec<f64>]| {
        tensor(rows.concat().iter().map(|&x| x as f32).collect(), &[layers, rows[0].len()])
    };
    let positions = shares(&patching.layers_positions);
    assert_close("layers_positions", &positions, expected.need("layers_positions"), TOLERANCE, 1.0);
    let by_head = shares(&patching.layers_heads);
    assert_close("layers_heads", &by_head, expected.need("layers_heads"), TOLERANCE, 1.0);

    if config.norm_position == NormPosition::Post {
        assert!(expected.get("head_shares").is_none() && attribution(&subject, &CLEAN, 7, Some(10)).is_err());
        return;
    }
    let found = attribution(&subject, &CLEAN, 7, Some(10)).unwrap().attribution;
    let of = |wanted: &dyn Fn(&str) -> bool| {
        let shares = found.iter().filter(|share| share.head.is_none() && wanted(&share.component));
        shares.map(|share| share.logit as f32).collect::<Vec<f32>>()
    };
    let by_head: Vec<f32> =
        found.iter().filter(|share| share.head.is_some()).map(|share| share.logit as f32).collect();
    assert_close("heads", &tensor(by_head, &[layers, heads]), expected.need("head_shares"), TOLERANCE, 0.0);
    let mlps = of(&|name| name.starts_with("mlp."));
    assert_close("mlps", &tensor(mlps, &[layers]), expected.need("mlp_shares"), TOLERANCE, 0.0);
    let embedding: f32 = of(&|name| name.ends_with("embed")).iter().sum();
    let want = floats(expected.need("embed_share"))[0];
    assert!((embedding - want).abs() <= TOLERANCE * want.abs().max(0.1), "{embedding} is not {want}");
}

macro_rules! cases {
    ($($name:ident: $case:literal,)*) => { $(#[test] fn $name() { check($case); })* };
}

cases! {
    gpt2: "gpt2",
    gpt2_with_post_norm: "gpt2-post",
    gpt2_as_transformers_saved_it: "gpt2-transformers",
    nanogpt_with_biases: "nanogpt-bias",
    nanogpt_without_biases: "nanogpt-no-bias",
    textbook_with_learned_positions: "textbook-learned",
    textbook_with_sinusoidal_positions: "textbook-sinusoidal",
    question_answering: "qa",
    rotary_positions: "rope",
    no_positions: "no-positions",
}
