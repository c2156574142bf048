//! The public attention module and its core against PyTorch's.

use crate::support::{Fixture, assert_close, fixtures};
use candle_core::{DType, Device, Tensor, Var};
use minigpt_kernels::{self as ops, AttentionMask};
use minigpt_model::attention::{Attend, MultiHeadAttention, visible_where_zero};
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

#[test]
fn a_new_module_attends_over_other_lengths_with_masks_of_either_convention() {
    let module = MultiHeadAttention::new(12, 3, true).unwrap();
    let random = |shape: (usize, usize, usize)| Tensor::randn(0f32, 1.0, shape, &Device::Cpu).unwrap();
    let (query, memory) = (random((2, 4, 12)), random((2, 7, 12)));
    // True hides, as nn.MultiheadAttention has it; and what is added to the scores.
    let hidden = Tensor::new(&[[0u8, 0, 0, 0, 0, 1, 1], [0, 1, 0, 0, 0, 0, 0]], &Device::Cpu).unwrap();
    let zeros = Tensor::zeros((2, 7), DType::F32, &Device::Cpu).unwrap();
    let infinite = Tensor::full(f32::NEG_INFINITY, (2, 7), &Device::Cpu).unwrap();
    let added = hidden.where_cond(&infinite, &zeros).unwrap();
    let mut outputs = Vec::new();
    for mask in [&hidden, &added] {
        let visible = visible_where_zero(mask).unwrap();
        let attend = Attend { key_padding: Some(&visible), weights: true, ..Attend::default() };
        let (output, weights) = module.forward(&query, &memory, &memory, &attend).unwrap();
        assert_eq!(output.dims(), [2, 4, 12]);
        let weights = weights.unwrap();
        assert_eq!(weights.dims(), [2, 3, 4, 7]);
        let sums = weights.sum(3).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-6), "{sums:?}");
        let seen = weights.get(1).unwrap().narrow(2, 1, 1).unwrap().flatten_all().unwrap();
        assert!(seen.to_vec1::<f32>().unwrap().iter().all(|&weight| weight == 0.0));
        outputs.push(output);
    }
    assert_close("both conventions", &outputs[0], &outputs[1], 0.0, 0.0);
    // Its weights can be trained.
    let gradients = outputs[0].sum_all().unwrap().backward().unwrap();
    for layer in [&module.q_proj, &module.k_proj, &module.v_proj, &module.out_proj] {
        assert!(gradients.get(layer.weight().unwrap()).is_some() && layer.bias().is_some());
    }
    assert!(MultiHeadAttention::new(12, 3, false).unwrap().q_proj.bias().is_none());
    let error = MultiHeadAttention::new(10, 3, true).unwrap_err().to_string();
    assert_eq!(error, "d_model 10 is not divisible by n_head 3");
    assert!(MultiHeadAttention::new(10, 0, true).is_err());
}

/// Heads whose queries and values have widths of their own compute what the definition says.
#[test]
fn heads_of_other_widths_equal_the_definition() {
    let [d_model, n_head, d_k, d_v] = [10, 3, 4, 2];
    let module = MultiHeadAttention::with_widths([d_model, n_head, d_k, d_v], true, 7, &Device::Cpu).unwrap();
    let x = Tensor::randn(0f32, 1.0, (2, 5, d_model), &Device::Cpu).unwrap();
    let attend = Attend { causal: true, ..Attend::default() };
    let (y, none) = module.forward(&x, &x, &x, &attend).unwrap();
    assert!(none.is_none());
    // With the weights asked for, the module takes the composed path.
    let (composed, weights) = module.forward(&x, &x, &x, &Attend { weights: true, ..attend }).unwrap();
    assert_eq!((y.dims(), weights.unwrap().dims()), (&[2, 5, d_model][..], &[2, n_head, 5, 5][..]));
    let [y, composed] = [y, composed].map(|y| y.flatten_all().unwrap().to_vec1::<f32>().unwrap());
    assert!(y.iter().zip(&composed).all(|(a, b)| (a - b).abs() < 1e-5));
    let error = MultiHeadAttention::with_widths([10, 3, 0, 2], true, 7, &Device::Cpu).unwrap_err();
    assert!(error.to_string().contains("at least 1"), "{error}");
}
