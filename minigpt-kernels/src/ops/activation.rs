//! Activation functions: GELU in its two forms, and ReLU.

use crate::operation::{Input, Keeps, Kept, Operation, apply};
use crate::tape::{contiguous, is_recording, push_backward};
use crate::{chunks, floats, fused, simd, with_floats};
use candle_core::{Result, Shape, Tensor};
use serde::{Deserialize, Serialize};
use std::f32::consts::FRAC_1_SQRT_2;

/// An activation function, under Hugging Face's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// GELU in its tanh form, as GPT-2 has it.
    GeluNew,
    /// GELU by the error function.
    Gelu,
    /// max(x, 0).
    Relu,
}

/// √(2/π), of the tanh form of GELU.
const SQRT_2_OVER_PI: f32 = 0.797_884_6;
/// 1/√(2π), the height of the normal density at 0.
const NORMAL_AT_0: f32 = 0.398_942_3;
const CUBIC: f32 = 0.044_715;

/// The definition of [`activation`].
pub fn activation_composed(x: &Tensor, kind: Activation) -> Result<Tensor> {
    match kind {
        Activation::GeluNew => x.gelu(),
        Activation::Gelu => x.gelu_erf(),
        Activation::Relu => x.relu(),
    }
}

/// Applies `kind` to every element, fused on the CPU.
pub fn activation(x: &Tensor, kind: Activation) -> Result<Tensor> {
    if !fused(x) {
        return activation_composed(x, kind);
    }
    let x = contiguous(x)?;
    if is_recording() { recorded(&x, kind) } else { apply(Elementwise(kind), &[&x]) }
}

/// As an operation of a recorded pass: the slope costs little while the function is computed, and is all that backward needs,
/// so it is kept instead of the input.
fn recorded(x: &Tensor, kind: Activation) -> Result<Tensor> {
    let (y, mut slope) = with_floats([x], |[x]| {
        Ok(match kind {
            Activation::GeluNew => map_with_slope(x, gelu_new_with_slope),
            Activation::Gelu => map_with_slope(x, gelu_with_slope),
            Activation::Relu => map_with_slope(x, relu_with_slope),
        })
    })?;
    let y = Tensor::from_vec(y, x.shape(), x.device())?;
    push_backward("activation", &[x], &y, move |dy| {
        with_floats([dy], |[dy]| {
            chunks::change(&mut slope, |range, slope| {
                slope.iter_mut().zip(&dy[range]).for_each(|(slope, dy)| *slope *= dy);
            });
            Ok(())
        })?;
        Ok(vec![Some(Tensor::from_vec(slope, dy.shape(), dy.device())?)])
    });
    Ok(y)
}

struct Elementwise(Activation);

/// The function and its slope.
#[inline(always)]
fn gelu_new_with_slope(x: f32) -> (f32, f32) {
    let t = simd::tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
    let inner = SQRT_2_OVER_PI * (1.0 + 3.0 * CUBIC * x * x);
    (0.5 * x * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner)
}

#[inline(always)]
fn gelu_with_slope(x: f32) -> (f32, f32) {
    let below = 0.5 * (1.0 + simd::erf(x * FRAC_1_SQRT_2)); // how likely a normal number is below x
    (x * below, below + x * NORMAL_AT_0 * simd::exp(-0.5 * x * x))
}

#[inline(always)]
fn relu_with_slope(x: f32) -> (f32, f32) {
    (if x < 0.0 { 0.0 } else { x }, if x > 0.0 { 1.0 } else { 0.0 })
}

fn map(x: &[f32], f: impl Fn(f32) -> (f32, f32) + Sync) -> Vec<f32> {
    chunks::collect(x.len(), |range| x[range].iter().map(|&x| f(x).0))
}

fn map_with_slope(x: &[f32], f: impl Fn(f32) -> (f32, f32) + Sync) -> (Vec<f32>, Vec<f32>) {
    chunks::collect_two(x.len(), |range| x[range].iter().map(|&x| f(x)))
}

/// The gradient: `slope(x) · dy`.
fn chain(x: &[f32], dy: &[f32], f: impl Fn(f32) -> (f32, f32) + Sync) -> Vec<f32> {
    assert_eq!(x.len(), dy.len(), "a gradient for each element");
    chunks::collect(x.len(), |range| x[range.clone()].iter().zip(&dy[range]).map(|(&x, dy)| f(x).1 * dy))
}

impl Operation for Elementwise {
    const NAME: &'static str = "activation";
    const KEEPS: Keeps = Keeps::Inputs;

    fn forward(&self, inputs: &[Input]) -> Result<(Vec<f32>, Shape)> {
        let (x, layout) = inputs[0];
        let x = floats(x, layout)?;
        let y = match self.0 {
            Activation::GeluNew => map(x, gelu_new_with_slope),
            Activation::Gelu => map(x, gelu_with_slope),
            Activation::Relu => map(x, relu_with_slope),
        };
        Ok((y, layout.shape().clone()))
    }

    fn backward(&self, kept: Kept, dy: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let x = kept.input(0)?;
        let dx = with_floats([x, dy], |[x, dy]| {
            Ok(match self.0 {
                Activation::GeluNew => chain(x, dy, gelu_new_with_slope),
                Activation::Gelu => chain(x, dy, gelu_with_slope),
                Activation::Relu => chain(x, dy, relu_with_slope),
            })
        })?;
        Ok(vec![Some(Tensor::from_vec(dx, x.shape(), x.device())?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_gradients, assert_same, random};
    use candle_core::Device;
    use proptest::prelude::*;

    const ALL: [Activation; 3] = [Activation::GeluNew, Activation::Gelu, Activation::Relu];

    #[test]
    fn gelu_and_relu_give_the_worked_values() -> Result<()> {
        let x = Tensor::new(&[-2f32, -1.0, 0.0, 1.0, 2.0], &Device::Cpu)?;
        let worked = [
            (Activation::Gelu, [-0.0455f32, -0.1587, 0.0, 0.8413, 1.9545]),
            (Activation::GeluNew, [-0.0454, -0.1588, 0.0, 0.8412, 1.9546]),
            (Activation::Relu, [0.0, 0.0, 0.0, 1.0, 2.0]),
        ];
        for (kind, want) in worked {
            for f in [activation, activation_composed] {
                for (y, want) in f(&x, kind)?.to_vec1::<f32>()?.iter().zip(want) {
                    assert!((y - want).abs() < 6e-5, "{kind:?}: {y} is not {want}");
                }
            }
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn fused_equals_composed(n in 0usize..20_000, scale in 0.1f64..8.0, seed: u64) {
            // Not 0 itself, where ReLU has no slope: ours is PyTorch's 0, candle's is 1.
            let x = ((random(&[n], seed) * scale).unwrap() + 1e-7).unwrap();
            for kind in ALL {
                assert_same(
                    std::slice::from_ref(&x),
                    |t| activation(&t[0], kind),
                    |t| activation_composed(&t[0], kind),
                    1e-5,
                );
            }
        }
    }

    #[test]
    fn gradients_equal_finite_differences() {
        for kind in [Activation::GeluNew, Activation::Gelu] {
            assert_gradients(&[random(&[3, 50], 1)], |t| activation(&t[0], kind));
        }
    }

    #[test]
    fn nan_is_not_hidden() -> Result<()> {
        let x = Tensor::new(&[f32::NAN, 1.0], &Device::Cpu)?;
        for kind in ALL {
            assert!(activation(&x, kind)?.to_vec1::<f32>()?[0].is_nan(), "{kind:?}");
        }
        Ok(())
    }
}
