//! The worked examples of the textbooks, computed by the program's own operations, so that a reader can compare.

use super::WalkStep;
use super::sentences::{self, Sentence};
use crate::error::Result;
use crate::subject::floats;
use candle_core::{Device, Tensor};
use minigpt_kernels::{self as ops, Activation, AttentionMask};

/// A worked example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkExample {
    /// One head over three tokens, causal.
    Attention,
    /// Layer norm of six numbers.
    LayerNorm,
    /// A query over three keys: a guest and a menu.
    Restaurant,
    /// GELU in both forms.
    Gelu,
    /// Softmax at three temperatures.
    Softmax,
}

const Q: [f32; 12] = [0.8, 0.6, 0.4, 0.2, 0.3, 0.9, 0.5, 0.3, 0.4, 0.3, 0.8, 0.6];
const K: [f32; 12] = [0.9, 0.7, 0.5, 0.3, 0.4, 0.8, 0.6, 0.2, 0.5, 0.4, 0.9, 0.7];
const V: [f32; 12] = [1.2, 0.8, 0.6, 0.4, 0.5, 1.3, 0.7, 0.3, 0.6, 0.5, 1.4, 0.9];

impl WalkExample {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 5] = [
        ("attention", Self::Attention),
        ("layernorm", Self::LayerNorm),
        ("restaurant", Self::Restaurant),
        ("gelu", Self::Gelu),
        ("softmax", Self::Softmax),
    ];

    /// Its steps.
    pub fn walk(self) -> Result<Vec<WalkStep>> {
        match self {
            Self::Attention => attention(),
            Self::LayerNorm => layer_norm(),
            Self::Restaurant => restaurant(),
            Self::Gelu => gelu(),
            Self::Softmax => softmax(),
        }
    }
}

fn step(site: &str, sentence: Sentence, x: &Tensor) -> Result<WalkStep> {
    // Leading dimensions of 1 are the batch and the head.
    let shape: Vec<usize> = x.dims().iter().copied().skip_while(|&n| n == 1).collect();
    Ok(WalkStep::new(site, sentence, if shape.is_empty() { &[1] } else { &shape }, floats(x)?))
}

fn tensor(values: &[f32], shape: &[usize]) -> Result<Tensor> {
    Ok(Tensor::from_slice(values, shape, &Device::Cpu)?)
}

fn attention() -> Result<Vec<WalkStep>> {
    let shape = [1, 1, 3, 4];
    let (q, k, v) = (tensor(&Q, &shape)?, tensor(&K, &shape)?, tensor(&V, &shape)?);
    let scaled = ops::attention_scores(&q, &k, &AttentionMask::all())?;
    let masked = ops::attention_scores(&q, &k, &AttentionMask::causal(&[0]))?;
    let weights = ops::softmax(&masked)?;
    let output = ops::attention_mix(&weights, &v, None)?;
    Ok(vec![
        step("q", sentences::EXAMPLE_QUERIES, &q)?,
        step("k", sentences::EXAMPLE_KEYS, &k)?,
        step("v", sentences::EXAMPLE_VALUES, &v)?,
        step("scores.raw", sentences::RAW, &q.matmul(&k.t()?)?)?,
        step("scores.scaled", sentences::SCALED_SCORES, &scaled)?,
        step("scores", sentences::MASKED, &masked)?,
        step("pattern", sentences::PATTERN, &weights)?,
        step("z", sentences::EXAMPLE_OUTPUT, &output.squeeze(2)?)?,
    ])
}

fn layer_norm() -> Result<Vec<WalkStep>> {
    let x = tensor(&[0.1, 0.3, 98.5, 123.7, 0.2, 201.3], &[6])?;
    let y = ops::layer_norm(&x, &x.ones_like()?, None, 1e-5)?;
    let before = floats(&x)?;
    Ok(vec![
        step("x", sentences::EXAMPLE_INPUT, &x)?,
        step("ln", sentences::EXAMPLE_NORM, &y)?.normalized(&before),
    ])
}

fn restaurant() -> Result<Vec<WalkStep>> {
    let (q, k) =
        (tensor(&[0.9, 0.8], &[1, 1, 1, 2])?, tensor(&[0.1, 0.3, 0.9, 0.5, 0.3, 0.1], &[1, 1, 3, 2])?);
    let v = tensor(&[0.5, 0.9, 0.9, 0.6, 0.7, 0.8], &[1, 1, 3, 2])?;
    let raw = q.matmul(&k.t()?)?;
    let scaled = ops::attention_scores(&q, &k, &AttentionMask::all())?;
    let weights = ops::softmax(&scaled)?;
    let visible = Tensor::from_slice(&[1u8, 1, 0], (1, 1, 1, 3), &Device::Cpu)?;
    let masked = ops::attention_scores(&q, &k, &AttentionMask::all().and(&visible)?)?;
    let left = ops::softmax(&masked)?;
    let mix = |weights: &Tensor| ops::attention_mix(weights, &v, None);
    Ok(vec![
        step("q", sentences::GUEST, &q)?,
        step("k", sentences::MENU, &k)?,
        step("v", sentences::DISHES, &v)?,
        step("scores.raw", sentences::RAW, &raw)?,
        step("pattern.unscaled", sentences::UNSCALED, &ops::softmax(&raw)?)?,
        step("scores.scaled", sentences::SCALED_SCORES, &scaled)?,
        step("pattern", sentences::PATTERN, &weights)?,
        step("z", sentences::SERVED, &mix(&weights)?)?,
        step("scores", sentences::SOLD_OUT, &masked)?,
        step("pattern.masked", sentences::PATTERN, &left)?,
        step("z.masked", sentences::SERVED, &mix(&left)?)?,
    ])
}

fn gelu() -> Result<Vec<WalkStep>> {
    let x = tensor(&[-2.0, -1.0, 0.0, 1.0, 2.0], &[5])?;
    Ok(vec![
        step("x", sentences::EXAMPLE_INPUT, &x)?,
        step("gelu", sentences::GELU_ERF, &ops::activation(&x, Activation::Gelu)?)?,
        step("gelu_new", sentences::GELU_TANH, &ops::activation(&x, Activation::GeluNew)?)?,
    ])
}

fn softmax() -> Result<Vec<WalkStep>> {
    let x = tensor(&[1.0, 2.0, 3.0, 4.0, 5.0], &[5])?;
    let at = |temperature: f64| -> Result<Tensor> { Ok(ops::softmax(&(&x / temperature)?)?) };
    Ok(vec![
        step("x", sentences::EXAMPLE_INPUT, &x)?,
        step("softmax.1", sentences::SOFTMAX_AT_1, &at(1.0)?)?,
        step("softmax.2", sentences::SOFTMAX_AT_2, &at(2.0)?)?,
        step("softmax.0.1", sentences::SOFTMAX_AT_TENTH, &at(0.1)?)?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_values(example: WalkExample, site: &str, want: &[f32]) {
        let steps = example.walk().unwrap();
        let step = steps.iter().find(|step| step.site == site).unwrap();
        assert_eq!(step.values.len(), want.len(), "{site}");
        assert_eq!(step.shape.iter().product::<usize>(), want.len(), "{site}");
        for (got, want) in step.values.iter().zip(want) {
            assert!((got - want).abs() <= 6e-5, "{site}: {:?}", step.values);
        }
    }

    #[test]
    fn the_books_numbers_come_out() {
        use WalkExample::*;
        let weights = [1.0, 0.0, 0.0, 0.5050, 0.4950, 0.0, 0.3231, 0.2997, 0.3772];
        assert_values(Attention, "pattern", &weights);
        let mixed = [1.2, 0.8, 0.6, 0.4, 0.8535, 1.0475, 0.6495, 0.3505, 0.7639, 0.8367, 0.9318, 0.5586];
        assert_values(Attention, "z", &mixed);
        assert_values(LayerNorm, "ln", &[-0.9170, -0.9144, 0.3614, 0.6888, -0.9157, 1.6969]);
        let norm = &LayerNorm.walk().unwrap()[1];
        assert!(
            (norm.mean.unwrap() - 70.6833).abs() < 1e-4 && (norm.deviation.unwrap() - 76.9729).abs() < 1e-4
        );
        assert_values(Restaurant, "scores.raw", &[0.33, 1.21, 0.35]);
        assert_values(Restaurant, "pattern.unscaled", &[0.2257, 0.5441, 0.2302]);
        assert_values(Restaurant, "pattern", &[0.2579, 0.4805, 0.2616]);
        assert_values(Restaurant, "z", &[0.7445, 0.7297]);
        assert_values(Restaurant, "pattern.masked", &[0.3493, 0.6507, 0.0]);
        assert_values(Restaurant, "z.masked", &[0.7603, 0.7048]);
        assert_values(Gelu, "gelu", &[-0.0455, -0.1587, 0.0, 0.8413, 1.9545]);
        assert_values(Gelu, "gelu_new", &[-0.0454, -0.1588, 0.0, 0.8412, 1.9546]);
        assert_values(Softmax, "softmax.1", &[0.0117, 0.0317, 0.0861, 0.2341, 0.6364]);
        assert_values(Softmax, "softmax.2", &[0.0580, 0.0956, 0.1577, 0.2600, 0.4287]);
        assert!(Softmax.walk().unwrap()[3].values[4] > 0.99995 - 1e-6);
    }
}
