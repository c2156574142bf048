//! AdamW: each number moves by its smoothed gradient over the root of its smoothed square, and decays a little by
//! itself. Matrices decay; norms and biases don't.

use crate::flat::{self, TASK};
use candle_core::{DType, Result, Tensor, Var};
use rayon::prelude::*;

/// What one step does to each number:
/// `m = β₁m + (1−β₁)g`, `v = β₂v + (1−β₂)g²`, `p = keep·p − rate · m / (√v / √correction₂ + ε)`.
#[derive(Debug, Clone, Copy)]
pub struct Update {
    pub beta1: f64,
    pub beta2: f64,
    pub eps: f64,
    /// What the gradient is multiplied with first.
    pub scale: f64,
    pub rate: f64,
    pub root_correction2: f64,
    pub keep: f64,
}

impl Update {
    /// Changes a parameter and its two moments in place.
    pub fn apply(&self, parameter: &Var, m: &Tensor, v: &Tensor, gradient: &Tensor) -> Result<()> {
        if parameter.device().is_cpu() && parameter.dtype() == DType::F32 {
            self.apply_fused(parameter, m, v, &gradient.contiguous()?)
        } else {
            self.apply_composed(parameter, m, v, gradient)
        }
    }

    fn apply_composed(
        &self,
        parameter: &Var,
        old_m: &Tensor,
        old_v: &Tensor,
        gradient: &Tensor,
    ) -> Result<()> {
        let g = (gradient * self.scale)?;
        let m = ((old_m * self.beta1)? + (&g * (1.0 - self.beta1))?)?;
        let v = ((old_v * self.beta2)? + (g.sqr()? * (1.0 - self.beta2))?)?;
        let denominator = ((v.sqrt()? / self.root_correction2)? + self.eps)?;
        let moved = (parameter.as_detached_tensor() * self.keep)? - ((&m / denominator)? * self.rate)?;
        parameter.set(&moved?)?;
        old_m.slice_set(&m, 0, 0)?;
        old_v.slice_set(&v, 0, 0)
    }

    /// All in one pass over the four.
    fn apply_fused(&self, parameter: &Var, m: &Tensor, v: &Tensor, gradient: &Tensor) -> Result<()> {
        flat::read(gradient, |g| {
            flat::change(parameter, |p| {
                flat::change(m, |m| {
                    flat::change(v, |v| {
                        let moments = m.par_chunks_mut(TASK).zip(v.par_chunks_mut(TASK));
                        let values = p.par_chunks_mut(TASK).zip(g.par_chunks(TASK));
                        values.zip(moments).for_each(|((p, g), (m, v))| self.apply_chunk(p, m, v, g));
                        Ok(())
                    })
                })
            })
        })
    }

    fn apply_chunk(&self, p: &mut [f32], m: &mut [f32], v: &mut [f32], g: &[f32]) {
        let (scale, beta1, beta2) = (self.scale as f32, self.beta1 as f32, self.beta2 as f32);
        let (fresh1, fresh2) = ((1.0 - self.beta1) as f32, (1.0 - self.beta2) as f32);
        let (eps, rate, keep) = (self.eps as f32, self.rate as f32, self.keep as f32);
        let unbias = (1.0 / self.root_correction2) as f32;
        for (((p, m), v), g) in p.iter_mut().zip(m).zip(v).zip(g) {
            let g = g * scale;
            *m = beta1 * *m + fresh1 * g;
            *v = beta2 * *v + fresh2 * g * g;
            *p = keep * *p - rate * *m / (v.sqrt() * unbias + eps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn fused_equals_composed(n in 1usize..40_000, scale in 0.01f64..1.0, keep in 0.9f64..1.0) {
            let numbers = |k: usize| {
                let data: Vec<f32> = (0..n).map(|i| ((i * k) as f32 * 0.37).sin()).collect();
                Tensor::from_vec(data, n, &Device::Cpu).unwrap()
            };
            let state = || (Var::from_tensor(&numbers(1)).unwrap(), numbers(2), numbers(3).sqr().unwrap());
            let update = Update { beta1: 0.9, beta2: 0.99, eps: 1e-8, scale, rate: 1e-2, root_correction2: 0.3, keep };
            let (fused, composed, gradient) = (state(), state(), numbers(5));
            update.apply_fused(&fused.0, &fused.1, &fused.2, &gradient).unwrap();
            update.apply_composed(&composed.0, &composed.1, &composed.2, &gradient).unwrap();
            for (a, b) in [(fused.0.as_tensor(), composed.0.as_tensor()), (&fused.1, &composed.1), (&fused.2, &composed.2)] {
                let difference = (a - b).unwrap().abs().unwrap().max(0).unwrap().to_scalar::<f32>().unwrap();
                prop_assert!(difference < 1e-5, "{difference}");
            }
        }
    }
}
