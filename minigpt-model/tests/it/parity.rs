//! Every configuration against PyTorch: logits, loss and all gradients.

use crate::support::{Fixture, assert_close, fixtures, floats};
use candle_core::{Device, Tensor};
use minigpt_formats::load;
use minigpt_model::Pass;

/// Compares one fixture folder; the fixture is exact (computed in f64).
fn check(case: &str) {
    let gpt = load(&fixtures().join(case), &Device::Cpu).unwrap().gpt.into_trainable().unwrap();
    let expected = Fixture::open(&format!("{case}/expected.safetensors"));
    let (ids, targets) = (expected.ids("ids"), expected.ids("targets"));

    assert_close("logits", &gpt.logits(&ids).unwrap(), expected.need("logits"), 1e-5, 0.0);

    let loss = gpt.loss(&ids, &targets, &Pass::new()).unwrap().mean().unwrap();
    let (got, want) = (floats(&loss)[0], expected.floats("loss")[0]);
    assert!((got - want).abs() <= 1e-5 * want, "loss {got} is not {want}");

    let grads = loss.backward().unwrap();
    let parameters = gpt.parameters();
    let mut squares = 0f64;
    for parameter in &parameters {
        let grad =
            grads.get(&parameter.tensor).unwrap_or_else(|| panic!("no gradient for {}", parameter.name));
        let name = format!("grad.{}", parameter.name);
        assert_close(&name, grad, expected.need(&name), 1e-4, 1e-5);
        squares += floats(grad).iter().map(|&g| f64::from(g).powi(2)).sum::<f64>();
    }
    let (got, want) = (squares.sqrt(), f64::from(expected.floats("grad_norm")[0]));
    assert!((got / want - 1.0).abs() < 1e-4, "gradient norm {got} is not {want}");

    let expected_grads = expected.names().filter(|name| name.starts_with("grad.")).count();
    assert_eq!(parameters.len(), expected_grads, "as many parameters as PyTorch has gradients");
}

macro_rules! cases {
    ($($name:ident: $case:literal,)*) => {
        $(#[test] fn $name() { check($case); })*

        #[test]
        fn every_fixture_is_checked() {
            let mut found: Vec<String> = std::fs::read_dir(fixtures())
                .unwrap()
                .map(|entry| entry.unwrap())
                .filter(|entry| entry.path().join("config.json").exists())
                .map(|entry| entry.file_name().into_string().unwrap())
                .collect();
            found.sort();
            let mut checked = vec![$($case),*];
            checked.sort();
            assert_eq!(found, checked);
        }
    };
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

#[test]
fn padding_that_nobody_may_look_at_changes_nothing_else() {
    let gpt = load(&fixtures().join("qa"), &Device::Cpu).unwrap().gpt;
    let ids = gpt.ids(&[[1, 2, 3, 4, 5, 6]]).unwrap();
    let padded = gpt.ids(&[[9, 1, 2, 3, 4, 5], [1, 2, 3, 9, 9, 9]]).unwrap();
    let mask = Tensor::new(&[[1u8, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]], &Device::Cpu).unwrap();
    let got = gpt.forward(&padded, &Pass::new().with_key_padding(&mask)).unwrap();
    let want = gpt.logits(&ids).unwrap();
    let (got, want) =
        (got.get(1).unwrap().narrow(0, 0, 3).unwrap(), want.get(0).unwrap().narrow(0, 0, 3).unwrap());
    assert_close("logits before the padding", &got, &want, 1e-6, 0.0);
    // A hidden token in the middle is as good as absent for those after it.
    let hole = Tensor::new(&[[0u8, 1, 1, 1, 1, 1]], &Device::Cpu).unwrap();
    let with_hole = |first: u32| {
        let ids = gpt.ids(&[[first, 2, 3, 4, 5, 6]]).unwrap();
        gpt.forward(&ids, &Pass::new().with_key_padding(&hole)).unwrap().narrow(1, 1, 5).unwrap()
    };
    assert_close("logits behind a hidden token", &with_hole(7), &with_hole(30), 1e-6, 0.0);
}
