//! Layer normalisation over the last dimension: zero mean, unit variance, then a learned scale and shift.

use crate::operation::{Input, Keeps, Kept, Operation, apply};
use crate::tape::contiguous;
use crate::{floats, fused, rows_a_task, simd, with_floats};
use candle_core::{D, Result, Shape, Tensor};
use rayon::prelude::*;
use std::sync::OnceLock;

/// The definition of [`layer_norm`].
pub fn layer_norm_composed(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
    let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
    let y = centred.broadcast_div(&(variance + eps)?.sqrt()?)?.broadcast_mul(weight)?;
    match bias {
        Some(bias) => y.broadcast_add(bias),
        None => Ok(y),
    }
}

/// Normalises `x`, fused on the CPU.
///
/// # Shapes
/// - `x`: (…, C); `weight`, `bias`: (C)
/// - output: (…, C)
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    if !fused(x) {
        return layer_norm_composed(x, weight, bias, eps);
    }
    let op = LayerNorm { eps: eps as f32, moments: OnceLock::new() };
    let x = contiguous(x)?;
    match bias {
        Some(bias) => apply(op, &[&x, weight, bias]),
        None => apply(op, &[&x, weight]),
    }
}

struct LayerNorm {
    eps: f32,
    /// Mean and reciprocal standard deviation of each row, kept for the backward pass.
    moments: OnceLock<Vec<(f32, f32)>>,
}

impl LayerNorm {
    fn normalize(&self, x: &[f32], weight: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let c = weight.len();
        let rows = x.len() / c;
        let mut y = vec![0f32; x.len()];
        let mut moments = vec![(0f32, 0f32); rows];
        let task = rows_a_task(c);
        y.par_chunks_mut(task * c).zip(x.par_chunks(task * c)).zip(moments.par_chunks_mut(task)).for_each(
            |((y, x), moments)| {
                simd::vectorized(|| {
                    for ((y, x), moments) in y.chunks_mut(c).zip(x.chunks(c)).zip(moments) {
                        *moments = normalize_row(x, weight, bias, self.eps, y);
                    }
                });
            },
        );
        let _ = self.moments.set(moments);
        y
    }

    /// Gradients of x, weight and bias in one pass over the rows.
    fn gradients(&self, x: &[f32], weight: &[f32], dy: &[f32]) -> Result<(Vec<f32>, Vec<f32>, Vec<f32>)> {
        let c = weight.len();
        let Some(moments) = self.moments.get() else {
            candle_core::bail!("layer norm: backward without a forward pass");
        };
        let mut dx = vec![0f32; x.len()];
        let task = rows_a_task(c);
        let partial: Vec<(Vec<f32>, Vec<f32>)> = dx
            .par_chunks_mut(task * c)
            .zip(x.par_chunks(task * c))
            .zip(dy.par_chunks(task * c))
            .zip(moments.par_chunks(task))
            .map(|(((dx, x), dy), moments)| {
                let (mut dw, mut db) = (vec![0f32; c], vec![0f32; c]);
                simd::vectorized(|| {
                    let rows = dx.chunks_mut(c).zip(x.chunks(c)).zip(dy.chunks(c)).zip(moments);
                    for (((dx, x), dy), &moments) in rows {
                        backward_row(x, weight, dy, moments, dx, &mut dw, &mut db);
                    }
                });
                (dw, db)
            })
            .collect();
        // The parts are added in their order, so the sum does not depend on which thread was first.
        let (mut dw, mut db) = (vec![0f32; c], vec![0f32; c]);
        for (w, b) in &partial {
            dw.iter_mut().zip(w).for_each(|(total, part)| *total += part);
            db.iter_mut().zip(b).for_each(|(total, part)| *total += part);
        }
        Ok((dx, dw, db))
    }
}

#[inline(always)]
fn normalize_row(x: &[f32], weight: &[f32], bias: Option<&[f32]>, eps: f32, y: &mut [f32]) -> (f32, f32) {
    let n = x.len() as f32;
    let mean = simd::sum(x, |x| x) / n;
    let variance = simd::sum(x, |x| (x - mean) * (x - mean)) / n;
    let rstd = 1.0 / (variance + eps).sqrt();
    match bias {
        Some(bias) => {
            for i in 0..x.len() {
                y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
            }
        }
        None => {
            for i in 0..x.len() {
                y[i] = (x[i] - mean) * rstd * weight[i];
            }
        }
    }
    (mean, rstd)
}

/// With x̂ = (x − mean)·rstd and g = dy·w: dx = rstd·(g − mean(g) − x̂·mean(g·x̂)), dw += dy·x̂, db += dy.
#[inline(always)]
fn backward_row(
    x: &[f32],
    weight: &[f32],
    dy: &[f32],
    (mean, rstd): (f32, f32),
    dx: &mut [f32],
    dw: &mut [f32],
    db: &mut [f32],
) {
    let n = x.len();
    let (x, weight, dy, dw, db) = (&x[..n], &weight[..n], &dy[..n], &mut dw[..n], &mut db[..n]);
    for i in 0..n {
        let x_hat = (x[i] - mean) * rstd;
        dw[i] += dy[i] * x_hat;
        db[i] += dy[i];
        dx[i] = dy[i] * weight[i];
    }
    let mean_g = simd::sum(dx, |g| g) / n as f32;
    let mean_gx = simd::sum2(dx, x, |g, x| g * (x - mean)) * rstd / n as f32;
    for i in 0..n {
        dx[i] = rstd * (dx[i] - mean_g - (x[i] - mean) * rstd * mean_gx);
    }
}

impl Operation for LayerNorm {
    const NAME: &'static str = "layer-norm";
    const KEEPS: Keeps = Keeps::Inputs;

    fn forward(&self, inputs: &[Input]) -> Result<(Vec<f32>, Shape)> {
        let (x, weight) = (inputs[0], inputs[1]);
        let bias = inputs.get(2).map(|(bias, layout)| floats(bias, layout)).transpose()?;
        let y = self.normalize(floats(x.0, x.1)?, floats(weight.0, weight.1)?, bias);
        Ok((y, x.1.shape().clone()))
    }

    fn backward(&self, kept: Kept, dy: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let (x, weight) = (kept.input(0)?, kept.input(1)?);
        let (dx, dw, db) = with_floats([x, weight, dy], |[x, weight, dy]| self.gradients(x, weight, dy))?;
        let mut gradients = vec![
            Some(Tensor::from_vec(dx, x.shape(), x.device())?),
            Some(Tensor::from_vec(dw, weight.shape(), x.device())?),
        ];
        if kept.count() == 3 {
            gradients.push(Some(Tensor::from_vec(db, weight.shape(), x.device())?));
        }
        Ok(gradients)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_gradients, assert_same, random};
    use candle_core::Device;
    use proptest::prelude::*;

    #[test]
    fn normalising_six_unlike_values_gives_the_worked_example() -> Result<()> {
        let x = Tensor::new(&[[0.1f32, 0.3, 98.5, 123.7, 0.2, 201.3]], &Device::Cpu)?;
        let (weight, bias) = (x.ones_like()?.squeeze(0)?, x.zeros_like()?.squeeze(0)?);
        let mean = x.mean_all()?.to_scalar::<f32>()?;
        assert!((mean - 70.6833).abs() < 1e-4);
        for norm in [layer_norm, layer_norm_composed] {
            let y = norm(&x, &weight, Some(&bias), 1e-5)?.squeeze(0)?.to_vec1::<f32>()?;
            for (y, want) in y.iter().zip([-0.9170, -0.9144, 0.3614, 0.6888, -0.9157, 1.6969]) {
                assert!((y - want).abs() < 1e-4, "{y} is not {want}");
            }
            // The standard deviation shows in the distance of two results: (x₁ − x₀) / std.
            let std = (201.3 - 0.1) / (y[5] - y[0]);
            assert!((std - 76.9729).abs() < 1e-3, "std {std}");
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn fused_equals_composed(rows in 0usize..40, c in 1usize..70, bias: bool, seed: u64) {
            let inputs = [random(&[rows, c], seed), random(&[c], seed ^ 1), random(&[c], seed ^ 2)];
            // With a small eps, a row of two nearly equal values would magnify rounding errors.
            const EPS: f64 = 1e-2;
            let n = if bias { 3 } else { 2 };
            assert_same(
                &inputs[..n],
                |t| layer_norm(&t[0], &t[1], t.get(2), EPS),
                |t| layer_norm_composed(&t[0], &t[1], t.get(2), EPS),
                2e-4,
            );
        }
    }

    #[test]
    fn many_rows_over_several_tasks_equal_composed() {
        let inputs = [random(&[3, 700, 33], 5), random(&[33], 6), random(&[33], 7)];
        assert_same(
            &inputs,
            |t| layer_norm(&t[0], &t[1], t.get(2), 1e-5),
            |t| layer_norm_composed(&t[0], &t[1], t.get(2), 1e-5),
            1e-4,
        );
    }

    #[test]
    fn a_backward_pass_without_the_state_of_a_forward_pass_is_an_error() {
        let op = LayerNorm { eps: 1e-5, moments: OnceLock::new() };
        let (x, weight) = (random(&[2, 5], 1), random(&[5], 2));
        assert!(op.backward(Kept::new(&[&x, &weight], None), &x).is_err());
        op.normalize(&[0.0; 10], &[1.0; 5], None);
        assert!(op.backward(Kept::new(&[&x], None), &x).is_err());
        assert!(op.backward(Kept::new(&[&x, &weight], None), &x).is_ok());
    }

    #[test]
    fn gradients_equal_finite_differences() {
        let inputs = [random(&[3, 5, 17], 5), random(&[17], 6), random(&[17], 7)];
        assert_gradients(&inputs, |t| layer_norm(&t[0], &t[1], t.get(2), 1e-5));
        assert_gradients(&inputs[..2], |t| layer_norm(&t[0], &t[1], None, 1e-5));
    }
}
