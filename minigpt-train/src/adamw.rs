//! AdamW: each number moves by its smoothed gradient over the root of its smoothed square, and decays a little by
//! itself. Matrices decay; norms and biases don't.

use crate::error::Result;
use crate::gradients::Gradients;
use candle_core::{CpuStorage, DType, InplaceOp2, InplaceOp3, Layout, Tensor, Var};
use minigpt_model::Parameter;
use rayon::prelude::*;

/// Numbers that make a piece of work for a thread.
const TASK: usize = 1 << 14;

/// AdamW's constants, under PyTorch's names.
#[derive(Debug, Clone, Copy)]
pub struct AdamWConfig {
    /// How much of the gradient's smoothed mean stays each step.
    pub beta1: f64,
    /// How much of its smoothed square stays each step.
    pub beta2: f64,
    /// What keeps the division from exploding.
    pub eps: f64,
    /// The share of a matrix that decays each step, times the learning rate.
    pub weight_decay: f64,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.1 }
    }
}

/// The optimiser with its two moments of each parameter.
#[derive(Debug)]
pub struct AdamW {
    config: AdamWConfig,
    slots: Vec<Slot>,
    step: u64,
}

#[derive(Debug)]
struct Slot {
    parameter: Var,
    decay: f64,
    m: Tensor,
    v: Tensor,
}

impl AdamW {
    /// An optimiser for the parameters of a trainable model.
    pub fn new(parameters: &[Parameter], config: AdamWConfig) -> Result<Self> {
        let slot = |p: &Parameter| {
            let decay = if p.tensor.rank() >= 2 { config.weight_decay } else { 0.0 };
            let zeros = || p.tensor.zeros_like().map(|z| z.detach());
            Ok(Slot { parameter: Var::from_tensor(&p.tensor)?, decay, m: zeros()?, v: zeros()? })
        };
        let slots = parameters.iter().map(slot).collect::<candle_core::Result<_>>()?;
        Ok(Self { config, slots, step: 0 })
    }

    /// One step along gradients multiplied with `scale`, at a learning rate.
    pub fn step(&mut self, gradients: &Gradients, scale: f64, learning_rate: f64) -> Result<()> {
        self.step += 1;
        let AdamWConfig { beta1, beta2, eps, .. } = self.config;
        // Young moments are too small; this is how much.
        let correction1 = 1.0 - beta1.powf(self.step as f64);
        let correction2 = 1.0 - beta2.powf(self.step as f64);
        for (slot, gradient) in self.slots.iter().zip(gradients.tensors()) {
            let update = Update {
                beta1,
                beta2,
                eps,
                scale,
                rate: learning_rate / correction1,
                root_correction2: correction2.sqrt(),
                keep: 1.0 - learning_rate * slot.decay,
            };
            update.apply(slot, gradient)?;
        }
        Ok(())
    }
}

/// What one step does to each number:
/// `m = β₁m + (1−β₁)g`, `v = β₂v + (1−β₂)g²`, `p = keep·p − rate · m / (√v / √correction₂ + ε)`.
#[derive(Debug, Clone, Copy)]
struct Update {
    beta1: f64,
    beta2: f64,
    eps: f64,
    scale: f64,
    rate: f64,
    root_correction2: f64,
    keep: f64,
}

impl Update {
    fn apply(&self, slot: &Slot, gradient: &Tensor) -> Result<()> {
        if slot.parameter.device().is_cpu() && slot.parameter.dtype() == DType::F32 {
            self.apply_fused(slot, &gradient.contiguous()?)
        } else {
            self.apply_composed(slot, gradient)
        }
    }

    fn apply_composed(&self, slot: &Slot, gradient: &Tensor) -> Result<()> {
        let g = (gradient * self.scale)?;
        let m = ((&slot.m * self.beta1)? + (&g * (1.0 - self.beta1))?)?;
        let v = ((&slot.v * self.beta2)? + (g.sqr()? * (1.0 - self.beta2))?)?;
        let denominator = ((v.sqrt()? / self.root_correction2)? + self.eps)?;
        let moved = (slot.parameter.as_detached_tensor() * self.keep)? - ((&m / denominator)? * self.rate)?;
        slot.parameter.set(&moved?)?;
        slot.m.slice_set(&m, 0, 0)?;
        slot.v.slice_set(&v, 0, 0)?;
        Ok(())
    }

    fn apply_fused(&self, slot: &Slot, gradient: &Tensor) -> Result<()> {
        let (scale, beta1, beta2) = (self.scale as f32, self.beta1 as f32, self.beta2 as f32);
        let (fresh1, fresh2) = ((1.0 - self.beta1) as f32, (1.0 - self.beta2) as f32);
        slot.m.inplace_op2(gradient, &Each2(|m: &mut f32, g: f32| *m = beta1 * *m + fresh1 * (g * scale)))?;
        let square = |v: &mut f32, g: f32| *v = beta2 * *v + fresh2 * (g * scale) * (g * scale);
        slot.v.inplace_op2(gradient, &Each2(square))?;
        let (eps, rate, keep) = (self.eps as f32, self.rate as f32, self.keep as f32);
        let unbias = (1.0 / self.root_correction2) as f32;
        let turn = |p: &mut f32, m: f32, v: f32| *p = keep * *p - rate * m / (v.sqrt() * unbias + eps);
        slot.parameter.inplace_op3(&slot.m, &slot.v, &Each3(turn))?;
        Ok(())
    }
}

/// Changes each number of one tensor by that of another.
struct Each2<F>(F);

/// Changes each number of one tensor by those of two others.
struct Each3<F>(F);

fn floats<'a>(storage: &'a CpuStorage, layout: &Layout) -> candle_core::Result<&'a [f32]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<f32>()?[start..end]),
        None => candle_core::bail!("the optimiser needs contiguous tensors"),
    }
}

fn floats_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> candle_core::Result<&'a mut [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(data), Some((start, end))) => Ok(&mut data[start..end]),
        _ => candle_core::bail!("the optimiser needs contiguous f32 tensors"),
    }
}

impl<F: Fn(&mut f32, f32) + Sync> InplaceOp2 for Each2<F> {
    fn name(&self) -> &'static str {
        "adamw-moment"
    }

    fn cpu_fwd(
        &self,
        x: &mut CpuStorage,
        x_layout: &Layout,
        y: &CpuStorage,
        y_layout: &Layout,
    ) -> candle_core::Result<()> {
        let (x, y) = (floats_mut(x, x_layout)?, floats(y, y_layout)?);
        x.par_chunks_mut(TASK).zip(y.par_chunks(TASK)).for_each(|(x, y)| {
            x.iter_mut().zip(y).for_each(|(x, &y)| self.0(x, y));
        });
        Ok(())
    }
}

impl<F: Fn(&mut f32, f32, f32) + Sync> InplaceOp3 for Each3<F> {
    fn name(&self) -> &'static str {
        "adamw-move"
    }

    fn cpu_fwd(
        &self,
        x: &mut CpuStorage,
        x_layout: &Layout,
        y: &CpuStorage,
        y_layout: &Layout,
        z: &CpuStorage,
        z_layout: &Layout,
    ) -> candle_core::Result<()> {
        let (x, y, z) = (floats_mut(x, x_layout)?, floats(y, y_layout)?, floats(z, z_layout)?);
        x.par_chunks_mut(TASK).zip(y.par_chunks(TASK)).zip(z.par_chunks(TASK)).for_each(|((x, y), z)| {
            x.iter_mut().zip(y).zip(z).for_each(|((x, &y), &z)| self.0(x, y, z));
        });
        Ok(())
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
            let slot = || Slot {
                parameter: Var::from_tensor(&numbers(1)).unwrap(),
                decay: 0.0,
                m: numbers(2),
                v: numbers(3).sqr().unwrap(),
            };
            let update = Update { beta1: 0.9, beta2: 0.99, eps: 1e-8, scale, rate: 1e-2, root_correction2: 0.3, keep };
            let (fused, composed, gradient) = (slot(), slot(), numbers(5));
            update.apply_fused(&fused, &gradient).unwrap();
            update.apply_composed(&composed, &gradient).unwrap();
            for (a, b) in [(fused.parameter.as_tensor(), composed.parameter.as_tensor()), (&fused.m, &composed.m), (&fused.v, &composed.v)] {
                let difference = (a - b).unwrap().abs().unwrap().max(0).unwrap().to_scalar::<f32>().unwrap();
                prop_assert!(difference < 1e-5, "{difference}");
            }
        }
    }
}
