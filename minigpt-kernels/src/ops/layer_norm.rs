//! Layer normalisation over the last dimension: zero mean, unit variance, then a learned scale and shift.

use crate::tape::{apply2, apply3, contiguous};
use crate::{floats, fused, rows_a_task, simd, with_floats};
use candle_core::{CpuStorage, CustomOp2, CustomOp3, D, Layout, Result, Shape, Tensor};
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
    match bias {
        Some(bias) => apply3(&contiguous(x)?, weight, bias, op),
        None => apply2(&contiguous(x)?, weight, op),
    }
}

struct LayerNorm {
    eps: f32,
    /// Mean and reciprocal standard deviation of each row, kept for the backward pass.
    moments: OnceLock<Vec<(f32, f32)>>,
}

impl LayerNorm {
    fn forward(&self, x: &[f32], weight: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
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
        // Written once: an operation object runs forward once.
        let _ = self.moments.set(moments);
        y
    }

    /// Gradients of x, weight and bias in one pass over the rows.
    fn backward(&self, x: &[f32], weight: &[f32], dy: &[f32]) -> Result<(Vec<f32>, Vec<f32>, Vec<f32>)> {
        let c = weight.len();
        let Some(moments) = self.moments.get() else {
            candle_core::bail!("layer norm: backward before forward");
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

    fn gradients(&self, x: &Tensor, weight: &Tensor, dy: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
        let (dx, dw, db) = with_floats([x, weight, dy], |[x, weight, dy]| self.backward(x, weight, dy))?;
        Ok((
            Tensor::from_vec(dx, x.shape(), x.device())?,
            Tensor::from_vec(dw, weight.shape(), x.device())?,
            Tensor::from_vec(db, weight.shape(), x.device())?,
        ))
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

impl CustomOp3 for LayerNorm {
    fn name(&self) -> &'static str {
        "layer-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let bias = floats(bias, bias_layout)?;
        let y = self.forward(floats(x, x_layout)?, floats(weight, weight_layout)?, Some(bias));
        Ok((CpuStorage::F32(y), x_layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _bias: &Tensor,
        _y: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (dx, dw, db) = self.gradients(x, weight, dy)?;
        Ok((Some(dx), Some(dw), Some(db)))
    }
}

impl CustomOp2 for LayerNorm {
    fn name(&self) -> &'static str {
        "layer-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let y = self.forward(floats(x, x_layout)?, floats(weight, weight_layout)?, None);
        Ok((CpuStorage::F32(y), x_layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _y: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (dx, dw, _db) = self.gradients(x, weight, dy)?;
        Ok((Some(dx), Some(dw)))
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
    fn gradients_equal_finite_differences() {
        let inputs = [random(&[3, 5, 17], 5), random(&[17], 6), random(&[17], 7)];
        assert_gradients(&inputs, |t| layer_norm(&t[0], &t[1], t.get(2), 1e-5));
        assert_gradients(&inputs[..2], |t| layer_norm(&t[0], &t[1], None, 1e-5));
    }
}
