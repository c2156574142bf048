//! Random initial weights from a seed.

use crate::config::Config;
use crate::parameters::{Init, ParameterRole, Part, Spec, specs};
use candle_core::{Device, Result, Tensor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// How the weights of a new model are drawn. Norms always start as the identity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initialization {
    /// N(0, `initializer_range`), biases 0; residual projections scaled down by 1/√(2·layers), so that the
    /// residual stream keeps its size however deep the model is.
    #[default]
    Gpt2,
    /// N(0, `initializer_range`), biases 0.
    Plain,
    /// The defaults of PyTorch's layers: weights and biases of `nn.Linear` U(±1/√inputs), `nn.Embedding` N(0,
    /// 1).
    Pytorch,
}

/// The distribution of a tensor's initial values.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Draw {
    Constant(f32),
    /// Normal with this standard deviation.
    Normal(f64),
    /// Uniform from minus this to this.
    Uniform(f64),
}

/// Draws all tensors of a new model, each from its own stream of ChaCha8, so that they don't depend on each
/// other.
pub fn init(
    config: &Config,
    initialization: Initialization,
    seed: u64,
    device: &Device,
) -> Result<HashMap<String, Tensor>> {
    let draw = |(stream, spec): (usize, &Spec)| {
        let n = spec.shape.iter().product();
        let data = match initialization.draw(config, spec) {
            Draw::Constant(value) => vec![value; n],
            Draw::Normal(std) => normal(n, std, seed, stream as u64),
            Draw::Uniform(bound) => uniform(n, bound, seed, stream as u64),
        };
        Ok((spec.name.clone(), Tensor::from_vec(data, &spec.shape[..], device)?))
    };
    specs(config).par_iter().enumerate().map(draw).collect()
}

impl Initialization {
    fn draw(self, config: &Config, spec: &Spec) -> Draw {
        let std = config.initializer_range;
        match (self, spec.init) {
            (_, Init::One) => Draw::Constant(1.0),
            (_, Init::Zero) if spec.part == Part::Norm => Draw::Constant(0.0),
            (Self::Pytorch, _) => match spec.role {
                ParameterRole::TokenEmbedding | ParameterRole::PositionEmbedding => Draw::Normal(1.0),
                _ => Draw::Uniform(1.0 / (inputs(config, &spec.name) as f64).sqrt()),
            },
            (_, Init::Zero) => Draw::Constant(0.0),
            (Self::Gpt2, Init::Residual) => Draw::Normal(std / (2.0 * config.n_layer as f64).sqrt()),
            _ => Draw::Normal(std),
        }
    }
}

/// The number of inputs of the layer that a weight or bias belongs to.
fn inputs(config: &Config, name: &str) -> usize {
    if name.contains(".mlp.c_proj.") { config.inner() } else { config.n_embd }
}

/// A stream of random numbers for each tensor.
fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// `n` values drawn uniformly between −`bound` and `bound`.
pub(crate) fn uniform(n: usize, bound: f64, seed: u64, stream: u64) -> Vec<f32> {
    let mut rng = generator(seed, stream);
    (0..n).map(|_| (bound * (2.0 * rng.random::<f64>() - 1.0)) as f32).collect()
}

/// `n` normally distributed values, by the Box–Muller method.
fn normal(n: usize, std: f64, seed: u64, stream: u64) -> Vec<f32> {
    let mut rng = generator(seed, stream);
    let mut values = Vec::with_capacity(n + 1);
    while values.len() < n {
        // 1 − u lies in (0, 1]: its logarithm is finite.
        let radius = std * (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * rng.random::<f64>()).sin_cos();
        values.extend([(radius * cos) as f32, (radius * sin) as f32]);
    }
    values.truncate(n);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Config {
        Config { vocab_size: 500, block_size: 64, n_layer: 3, n_head: 2, n_embd: 64, ..Config::default() }
    }

    fn moments(x: &Tensor) -> (f64, f64) {
        let x = x.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let n = x.len() as f64;
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        (mean, (x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n).sqrt())
    }

    #[test]
    fn weights_are_normal_residual_ones_smaller_biases_zero_norms_one() {
        let weights = init(&small(), Initialization::Gpt2, 1, &Device::Cpu).unwrap();
        for (name, want) in [
            ("wte.weight", 0.02),
            ("h.1.mlp.c_fc.weight", 0.02),
            ("h.2.mlp.c_proj.weight", 0.02 / 6f64.sqrt()),
        ] {
            let (mean, std) = moments(&weights[name]);
            assert!(mean.abs() < 1e-3 && (std / want - 1.0).abs() < 0.02, "{name}: mean {mean}, std {std}");
        }
        assert_eq!(moments(&weights["h.0.attn.c_attn.bias"]), (0.0, 0.0));
        assert_eq!(moments(&weights["h.0.ln_1.weight"]), (1.0, 0.0));
    }

    #[test]
    fn the_same_seed_gives_the_same_weights_and_another_seed_others() {
        for how in [Initialization::Gpt2, Initialization::Plain, Initialization::Pytorch] {
            let draw = |seed| {
                let weights = init(&small(), how, seed, &Device::Cpu).unwrap();
                ["wte.weight", "h.0.mlp.c_fc.weight"].map(|name| weights[name].to_vec2::<f32>().unwrap())
            };
            assert_eq!(draw(1), draw(1));
            assert_ne!(draw(1), draw(2));
        }
    }

    #[test]
    fn plain_weights_are_all_of_one_deviation() {
        let weights = init(&small(), Initialization::Plain, 1, &Device::Cpu).unwrap();
        for name in ["wte.weight", "wpe.weight", "h.0.attn.c_proj.weight", "h.2.mlp.c_proj.weight"] {
            let (mean, std) = moments(&weights[name]);
            assert!(mean.abs() < 2e-3 && (std / 0.02 - 1.0).abs() < 0.03, "{name}: mean {mean}, std {std}");
        }
        assert_eq!(moments(&weights["h.1.mlp.c_fc.bias"]), (0.0, 0.0));
        assert_eq!(moments(&weights["ln_f.weight"]), (1.0, 0.0));
    }

    /// `nn.Linear` draws weights and biases from U(±1/√inputs), whose deviation is 1/√(3·inputs), and nothing
    /// beyond.
    #[test]
    fn pytorch_weights_are_those_of_its_layers() {
        let shape = Config { tie_word_embeddings: false, lm_head_bias: true, n_inner: Some(100), ..small() };
        let weights = init(&shape, Initialization::Pytorch, 1, &Device::Cpu).unwrap();
        for (name, inputs) in [
            ("h.0.attn.c_attn.weight", 64.0),
            ("h.1.attn.c_proj.weight", 64.0),
            ("h.1.mlp.c_fc.weight", 64.0),
            ("h.2.mlp.c_proj.weight", 100.0),
            ("lm_head.weight", 64.0),
            ("lm_head.bias", 64.0),
            ("h.0.attn.c_attn.bias", 64.0),
            ("h.0.mlp.c_proj.bias", 100.0),
        ] {
            let (bound, tensor) = (1.0 / f64::sqrt(inputs), &weights[name]);
            let largest = tensor.abs().unwrap().flatten_all().unwrap().max(0).unwrap();
            let largest = f64::from(largest.to_scalar::<f32>().unwrap());
            assert!(largest <= bound * 1.0001 && largest > 0.9 * bound, "{name}: {largest} of {bound}");
            let ((mean, std), n) = (moments(tensor), tensor.elem_count() as f64);
            assert!(mean.abs() < 5.0 * bound / n.sqrt(), "{name}: mean {mean}");
            assert!((std * f64::sqrt(3.0) / bound - 1.0).abs() < 3.0 / n.sqrt(), "{name}: std {std}");
        }
        for name in ["wte.weight", "wpe.weight"] {
            let (mean, std) = moments(&weights[name]);
            assert!(mean.abs() < 0.05 && (std - 1.0).abs() < 0.05, "{name}: mean {mean}, std {std}");
        }
        assert_eq!(moments(&weights["h.0.ln_1.weight"]), (1.0, 0.0));
        assert_eq!(moments(&weights["h.0.ln_1.bias"]), (0.0, 0.0));
    }
}
