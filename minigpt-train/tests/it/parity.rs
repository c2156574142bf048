//! Ten steps of AdamW with clipping, in every configuration, against PyTorch's.

use crate::support::{Fixture, assert_close};
use candle_core::{Device, Var};
use minigpt_formats::load;
use minigpt_model::{Parameter, ParameterRole, Pass};
use minigpt_train::{Gradients, Optimizer, OptimizerConfig, OptimizerKind};

const LEARNING_RATE: f64 = 1e-2;
const MAX_NORM: f64 = 1.0;

fn fixtures() -> std::path::PathBuf {
    std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../minigpt-model/tests/fixtures")
}

/// Gradients that were recorded are those that candle keeps.
fn assert_same(got: &Gradients, want: &Gradients, parameters: &[Parameter]) {
    for ((got, want), parameter) in got.tensors().iter().zip(want.tensors()).zip(parameters) {
        assert_close(&parameter.name, got, want, 1e-5, 1e-3);
    }
}

#[test]
fn ten_steps_with_clipping_equal_pytorch_in_every_configuration() {
    let mut clipped = 0;
    let cases: Vec<_> = std::fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("config.json").exists())
        .collect();
    assert!(cases.len() >= 9);
    for case in cases {
        let gpt = load(&case, &Device::Cpu).unwrap().gpt.into_trainable().unwrap();
        let expected = Fixture::open_at(&case.join("expected.safetensors"));
        let (ids, targets) = (expected.ids("ids"), expected.ids("targets"));
        let parameters = gpt.parameters();
        let mut optimizer = Optimizer::new(&parameters, OptimizerConfig::default()).unwrap();
        let (losses, norms) = (expected.floats("adamw_losses"), expected.floats("adamw_grad_norms"));
        for step in 0..=10 {
            let pass = || Ok(gpt.loss(&ids, &targets, &Pass::new())?);
            let (loss, gradients) = Gradients::of_pass(&parameters, pass).unwrap();
            let (got, want) = (loss.mean().unwrap().to_scalar::<f32>().unwrap(), losses[step]);
            assert!(
                (got - want).abs() <= 1e-4 * want,
                "{}: step {step}: {got} is not {want}",
                case.display()
            );
            if step == 10 {
                break;
            }
            let count = loss.tokens as f64;
            let norm = gradients.norm().unwrap() / count;
            let loss = gpt.loss(&ids, &targets, &Pass::new()).unwrap();
            assert_same(&gradients, &Gradients::of(&loss.sum, &parameters).unwrap(), &parameters);
            assert!((norm / f64::from(norms[step]) - 1.0).abs() < 1e-3, "step {step}: norm {norm}");
            clipped += usize::from(norm > MAX_NORM);
            let clip = Gradients::clip_factor(norm, MAX_NORM);
            optimizer.step(&gradients, clip / count, LEARNING_RATE).unwrap();
        }
    }
    assert!(clipped > 10, "clipping is tested as well");
}

#[test]
fn five_steps_of_muon_equal_pytorch_on_matrices_of_every_proportion() {
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/muon.safetensors");
    let expected = Fixture::open_at(&fixture);
    for name in ["square", "wide", "tall", "joint"] {
        let before = Var::from_tensor(expected.need(&format!("{name}.before"))).unwrap();
        let role = if name == "joint" { ParameterRole::JointQkv } else { ParameterRole::Matrix };
        let tensor = before.as_tensor().clone();
        let parameter = Parameter { name: name.to_owned(), role, tensor, unused: false };
        // PyTorch multiplies the decay with Muon's own rate, 20 times AdamW's here.
        let muon = OptimizerConfig {
            kind: OptimizerKind::Muon,
            muon_ratio: 20.0,
            weight_decay: 2.0,
            ..OptimizerConfig::default()
        };
        let mut optimizer = Optimizer::new(std::slice::from_ref(&parameter), muon).unwrap();
        for gradient in expected.need(&format!("{name}.gradients")).chunk(5, 0).unwrap() {
            let gradient = gradient.squeeze(0).unwrap();
            let loss = (&gradient * &parameter.tensor).unwrap().sum_all().unwrap();
            optimizer
                .step(&Gradients::of(&loss, std::slice::from_ref(&parameter)).unwrap(), 1.0, 0.02 / 20.0)
                .unwrap();
        }
        let want = expected.need(&format!("{name}.after"));
        let difference = (before.as_tensor() - want).unwrap().abs().unwrap().max_all().unwrap();
        let difference = difference.to_scalar::<f32>().unwrap();
        assert!(difference < 1e-4, "{name} differs by {difference}");
    }
}
