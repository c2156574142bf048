//! The public attention module and its core against PyTorch's.

use crate::support::{Fixture, assert_close, fixtures};
use candle_core::{Tensor, Var};
use minigpt_kernels::{self as ops, AttentionMask};
use minigpt_model::attention::{Attend, MultiHeadAttention};
use minigpt_model::linear::Linear;

fn cases(prefix: &str) -> Vec<String> {
    let files = std::fs::read_dir(fixtures().join("attention")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut cases: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    cases.sort();
    assert!(cases.len() >= 3, "{cases:?}");
    cases
}

fn var(x: &Tensor) -> Tensor {
    Var::from_tensor(x).unwrap().into_inner()
}

/// Gradients of (y · dout).
fn backward(y: &Tensor, dout: &Tensor) -> candle_core::backprop::GradStore {
    (y * dout).unwrap().sum_all().unwrap().backward().unwrap()
}

#[test]
fn the_core_equals_scaled_dot_product_attention() {
    for case in cases("sdpa-") {
        let fixture = Fixture::open(&format!("attention/{case}"));
        let [q, k, v] = ["q", "k", "v"].map(|name| var(fixture.need(name)));
        let b = q.dim(0).unwrap();
        let mut visible =
            if case.contains("causal") { AttentionMask::causal(&vec![0; b]) } else { AttentionMask::all() };
        if let Some(mask) = fixture.get("mask") {
            visible = visible.and(mask).unwrap();
        }
        if let Some(padding) = fixture.get("key_padding") {
            visible = visible.and(&padding.unsqueeze(1).unwrap().unsqueeze(1).unwrap()).unwrap();
        }
        let fused = ops::attention(&q, &k, &v, &visible, None).unwrap();
        let composed = ops::attention_composed(&q, &k, &v, &visible, None).unwrap().0;
        for (kind, y) in [("fused", fused), ("composed", composed)] {
            let y = y.transpose(1, 2).unwrap(); // (B, H, Tq, D), as PyTorch has it
            assert_close(&format!("{case} {kind}"), &y, fixture.need("out"), 1e-5, 0.0);
            let grads = backward(&y, fixture.need("dout"));
            for (name, x) in [("dq", &q), ("dk", &k), ("dv", &v)] {
                let what = format!("{case} {kind} {name}");
                assert_close(&what, grads.get(x).unwrap(), fixture.need(name), 1e-5, 1e-5);
            }
        }
    }
}

#[test]
fn the_module_equals_multihead_attention() {
    for case in cases("mha-") {
        let fixture = Fixture::open(&format!("attention/{case}"));
        let parameters = ["q_proj", "k_proj", "v_proj", "out_proj"].map(|name| {
            let weight = var(fixture.need(&format!("{name}.weight")));
            (name, weight, fixture.get(&format!("{name}.bias")).map(var))
        });
        let [q_proj, k_proj, v_proj, out_proj] =
            parameters.clone().map(|(_, weight, bias)| Linear::new(weight, bias));
        let mut module =
            MultiHeadAttention { q_proj, k_proj, v_proj, out_proj, n_head: 3, sequence_first: false };
        let inputs = ["query", "key", "value"].map(|name| var(fixture.need(name)));
        let [query, key, value] = &inputs;
        let attend = Attend {
            causal: case.contains("causal"),
            mask: fixture.get("mask"),
            key_padding: fixture.get("key_padding"),
            ..Attend::default()
        };
        for weights in [false, true] {
            let attend = Attend { weights, ..attend.clone() };
            let (y, seen) = module.forward(query, key, value, &attend).unwrap();
            assert_close(&case, &y, fixture.need("out"), 1e-5, 0.0);
            assert_eq!(seen.is_some(), weights);
            if let Some(seen) = seen {
                assert_close(&format!("{case} weights"), &seen, fixture.need("weights"), 1e-5, 0.0);
            }
            let grads = backward(&y, fixture.need("dout"));
            let check = |name: &str, x: &Tensor| {
                let what = format!("{case} {name}");
                assert_close(&what, grads.get(x).unwrap(), fixture.need(&format!("grad.{name}")), 1e-4, 0.1);
            };
            for (name, weight, bias) in &parameters {
                check(&format!("{name}.weight"), weight);
                if let Some(bias) = bias {
                    check(&format!("{name}.bias"), bias);
                }
            }
            for (name, x) in ["query", "key", "value"].iter().zip(&inputs) {
                check(name, x);
            }
        }

        module.sequence_first = true;
        let [query, key, value] = inputs.map(|x| x.transpose(0, 1).unwrap().contiguous().unwrap());
        let (y, _) = module.forward(&query, &key, &value, &attend).unwrap();
        let y = y.transpose(0, 1).unwrap();
        assert_close(&format!("{case} sequence first"), &y, fixture.need("out"), 1e-5, 0.0);
    }
}
