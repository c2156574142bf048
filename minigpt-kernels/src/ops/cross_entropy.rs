//! Cross-entropy: −log of the probability that the logits give to each target, summed over all targets that count.

use crate::operation::{Input, Keeps, Kept, Operation, apply};
use crate::tape::contiguous;
use crate::{floats, fused, rows_a_task, simd, with_floats};
use candle_core::{D, DType, Result, Shape, Tensor};
use rayon::prelude::*;
use std::sync::OnceLock;

/// A target that does not count: padding, or a position without a target.
///
/// `minigpt-data`, which does not know this crate, writes the same number into its batches (`minigpt_data::IGNORE`);
/// `minigpt-train` asserts that both are equal when it is compiled.
pub const IGNORE: u32 = u32::MAX;

/// The definition of [`cross_entropy`].
pub fn cross_entropy_composed(logits: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let counts = targets.ne(IGNORE)?;
    let targets = counts.where_cond(targets, &targets.zeros_like()?)?;
    let shifted = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?.detach())?;
    let log_sum = shifted.exp()?.sum(D::Minus1)?.log()?;
    let picked = shifted.gather(&targets.unsqueeze(1)?, 1)?.squeeze(1)?;
    ((log_sum - picked)? * counts.to_dtype(logits.dtype())?)?.to_dtype(DType::F32)?.sum_all()
}

/// The sum of −log p(target) over all targets but [`IGNORE`], fused on the CPU.
///
/// # Shapes
/// - `logits`: (N, V); `targets`: (N), u32
/// - output: a scalar
pub fn cross_entropy(logits: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let ids = check_targets(targets, logits.dim(1)?)?;
    if fused(logits) {
        apply(CrossEntropy { targets: ids, log_sums: OnceLock::new() }, &[&contiguous(logits)?])
    } else {
        cross_entropy_composed(logits, targets)
    }
}

/// The targets. Returns an error unless each is in the vocabulary or [`IGNORE`].
pub(crate) fn check_targets(targets: &Tensor, vocab_size: usize) -> Result<Vec<u32>> {
    let ids = targets.to_vec1::<u32>()?;
    if let Some(id) = ids.iter().find(|&&id| id != IGNORE && id as usize >= vocab_size) {
        candle_core::bail!("target {id} is outside of a vocabulary of {vocab_size}");
    }
    Ok(ids)
}

/// The largest logit, and log Σ exp(logit − largest): in two parts, so that nothing overflows and no digits are lost.
pub fn log_sum_exp(logits: &[f32]) -> (f32, f64) {
    /// Logits summed in f32; the sums of chunks are added in f64.
    const CHUNK: usize = 1024;
    simd::vectorized(|| {
        let max = simd::max(logits);
        let chunk = |x: &[f32]| f64::from(simd::sum(x, |x| simd::exp(x - max)));
        (max, logits.chunks(CHUNK).map(chunk).sum::<f64>().ln())
    })
}

struct CrossEntropy {
    targets: Vec<u32>,
    /// log Σ exp(logit) of each row, kept for the backward pass.
    log_sums: OnceLock<Vec<f32>>,
}

impl CrossEntropy {
    fn loss(&self, logits: &[f32], vocab_size: usize) -> f32 {
        let mut log_sums = vec![0f32; self.targets.len()];
        let mut losses = vec![0f32; self.targets.len()];
        let task = rows_a_task(vocab_size);
        let outputs = log_sums.par_chunks_mut(task).zip(losses.par_chunks_mut(task));
        let inputs = logits.par_chunks(task * vocab_size).zip(self.targets.par_chunks(task));
        outputs.zip(inputs).for_each(|((log_sums, losses), (rows, targets))| {
            simd::vectorized(|| {
                let rows = rows.chunks(vocab_size).zip(targets);
                for ((log_sum, loss), (row, &target)) in log_sums.iter_mut().zip(losses).zip(rows) {
                    let max = simd::max(row);
                    let log_rest = simd::sum(row, |x| simd::exp(x - max)).ln();
                    *log_sum = max + log_rest;
                    if target != IGNORE {
                        // In this order a small loss keeps its digits beside large logits.
                        *loss = log_rest + (max - row[target as usize]);
                    }
                }
            });
        });
        let _ = self.log_sums.set(log_sums);
        losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() as f32
    }

    /// d loss / d logit = p − 1 at the target, p elsewhere, 0 where the target does not count.
    fn gradient(&self, logits: &[f32], vocab_size: usize, dy: f32) -> Result<Vec<f32>> {
        let Some(log_sums) = self.log_sums.get() else {
            candle_core::bail!("cross-entropy: backward without a forward pass");
        };
        let mut dx = vec![0f32; logits.len()];
        let task = rows_a_task(vocab_size);
        dx.par_chunks_mut(task * vocab_size)
            .zip(logits.par_chunks(task * vocab_size))
            .zip(log_sums.par_chunks(task).zip(self.targets.par_chunks(task)))
            .for_each(|((dx, logits), (sums, targets))| {
                simd::vectorized(|| {
                    let rows = dx.chunks_mut(vocab_size).zip(logits.chunks(vocab_size));
                    for ((dx, logits), (&sum, &target)) in rows.zip(sums.iter().zip(targets)) {
                        if target == IGNORE {
                            continue;
                        }
                        for (dx, &logit) in dx.iter_mut().zip(logits) {
                            *dx = dy * simd::exp(logit - sum);
                        }
                        dx[target as usize] -= dy;
                    }
                });
            });
        Ok(dx)
    }
}

impl Operation for CrossEntropy {
    const NAME: &'static str = "cross-entropy";
    const KEEPS: Keeps = Keeps::Inputs;

    fn forward(&self, inputs: &[Input]) -> Result<(Vec<f32>, Shape)> {
        let (logits, layout) = inputs[0];
        let (_, vocab_size) = layout.shape().dims2()?;
        Ok((vec![self.loss(floats(logits, layout)?, vocab_size)], ().into()))
    }

    fn backward(&self, kept: Kept, dy: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let (logits, dy) = (kept.input(0)?, dy.to_scalar::<f32>()?);
        let dx = with_floats([logits], |[x]| self.gradient(x, logits.dim(1)?, dy))?;
        Ok(vec![Some(Tensor::from_vec(dx, logits.shape(), logits.device())?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_gradients, assert_same, random};
    use candle_core::Device;
    use proptest::prelude::*;

    fn targets(n: usize, vocab_size: usize, seed: usize) -> Tensor {
        let ids = (0..n).map(|i| {
            if (i + seed).is_multiple_of(3) { IGNORE } else { ((i * 7 + seed) % vocab_size) as u32 }
        });
        Tensor::from_iter(ids, &Device::Cpu).unwrap()
    }

    #[test]
    fn equal_logits_lose_log_v_per_token() -> Result<()> {
        let loss = cross_entropy(
            &random(&[4, 50], 1).zeros_like()?,
            &Tensor::new(&[0u32, 49, 7, IGNORE], &Device::Cpu)?,
        )?;
        assert!((loss.to_scalar::<f32>()? - 3.0 * 50f32.ln()).abs() < 1e-5);
        Ok(())
    }

    #[test]
    fn the_logarithm_of_a_sum_keeps_its_digits() {
        let logits: Vec<f32> = (0..3001).map(|i| 700.0 + (i % 17) as f32).collect();
        let (max, rest) = log_sum_exp(&logits);
        let want = logits.iter().map(|&x| f64::from(x - 716.0).exp()).sum::<f64>().ln();
        assert_eq!(max, 716.0);
        assert!((rest - want).abs() < 1e-6, "{rest} is not {want}");
        assert_eq!(log_sum_exp(&[1.0, f32::NEG_INFINITY]), (1.0, 0.0));
    }

    #[test]
    fn a_target_outside_of_the_vocabulary_is_an_error() {
        let targets = Tensor::new(&[5u32], &Device::Cpu).unwrap();
        let error = cross_entropy(&random(&[1, 5], 1), &targets).unwrap_err().to_string();
        assert!(error.contains("target 5 is outside of a vocabulary of 5"), "{error}");
    }

    #[test]
    fn a_nan_logit_gives_a_nan_loss() -> Result<()> {
        let logits = Tensor::new(&[[0f32, f32::NAN, 1.0]], &Device::Cpu)?;
        let loss = cross_entropy(&logits, &Tensor::new(&[2u32], &Device::Cpu)?)?;
        assert!(loss.to_scalar::<f32>()?.is_nan());
        Ok(())
    }

    #[test]
    fn a_backward_pass_without_the_state_of_a_forward_pass_is_an_error() {
        let op = CrossEntropy { targets: vec![1], log_sums: OnceLock::new() };
        let (logits, dy) = (random(&[1, 5], 1), Tensor::new(1f32, &Device::Cpu).unwrap());
        assert!(op.backward(Kept::new(&[&logits], None), &dy).is_err(), "no sums");
        op.loss(&[0.0; 5], 5);
        assert!(op.backward(Kept::new(&[], None), &dy).is_err(), "no logits");
        assert!(op.backward(Kept::new(&[&logits], None), &dy).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn fused_equals_composed(n in 1usize..60, v in 1usize..300, scale in 0.1f64..30.0, seed in 0usize..1000) {
            let logits = (random(&[n, v], seed as u64) * scale).unwrap();
            let targets = targets(n, v, seed);
            assert_same(
                &[logits],
                |t| cross_entropy(&t[0], &targets),
                |t| cross_entropy_composed(&t[0], &targets),
                1e-4,
            );
        }
    }

    #[test]
    fn gradients_equal_finite_differences() {
        let targets = targets(6, 40, 1);
        assert_gradients(&[random(&[6, 40], 1)], |t| cross_entropy(&t[0], &targets));
    }
}
