//! A new model's weights, from a seed: normally distributed as GPT-2 has them, residual projections scaled down by
//! 1/√(2·layers) so that the residual stream keeps its size however deep the model is.

use crate::config::Config;
use crate::parameters::{Init, Spec, specs};
use candle_core::{Device, Result, Tensor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use std::collections::HashMap;

/// All tensors of a new model. Each is drawn from its own stream of ChaCha8, so they don't depend on each other.
pub fn init(config: &Config, seed: u64, device: &Device) -> Result<HashMap<String, Tensor>> {
    let draw = |(stream, spec): (usize, &Spec)| {
        let std = match spec.init {
            Init::Residual => config.initializer_range / (2.0 * config.n_layer as f64).sqrt(),
            _ => config.initializer_range,
        };
        let n = spec.shape.iter().product();
        let data = match spec.init {
            Init::One => vec![1f32; n],
            Init::Zero => vec![0f32; n],
            Init::Normal | Init::Residual => normal(n, std, seed, stream as u64),
        };
        Ok((spec.name.clone(), Tensor::from_vec(data, &spec.shape[..], device)?))
    };
    specs(config).par_iter().enumerate().map(draw).collect()
}

/// `n` normally distributed values by Box and Muller's method.
fn normal(n: usize, std: f64, seed: u64, stream: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
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
        let weights = init(&small(), 1, &Device::Cpu).unwrap();
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
        let draw = |seed| init(&small(), seed, &Device::Cpu).unwrap()["wte.weight"].to_vec2::<f32>().unwrap();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
