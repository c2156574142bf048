//! A product with a weight and the cross-entropy of its result, a block of rows at a time, so that the logits of a large
//! vocabulary are never in memory all at once. A recorded pass computes the gradients right away, while the logits exist.

use crate::gemm::matrix::Matrix;
use crate::gemm::{add_product, new_product};
use crate::ops::cross_entropy::{IGNORE, check_targets, cross_entropy};
use crate::ops::linear::{WeightLayout, column_sums, linear};
use crate::tape::{contiguous, is_recording, push_backward};
use crate::{chunks, fused, gradient_buffers, rows_a_task, simd, with_floats};
use candle_core::{Result, Tensor};
use rayon::prelude::*;

/// Logits of a block of rows: 64 MB.
const AT_ONCE: usize = 1 << 24;

/// The definition of [`linear_cross_entropy`].
pub fn linear_cross_entropy_composed(
    x: &Tensor,
    weight: &Tensor,
    layout: WeightLayout,
    bias: Option<&Tensor>,
    targets: &Tensor,
) -> Result<Tensor> {
    cross_entropy(&linear(x, weight, layout, bias)?, targets)
}

/// The sum of −log p(target) over all targets but [`IGNORE`], where the logits are `x · W + b`. It can be differentiated in
/// a recorded pass only where it is fused, on the CPU.
///
/// # Shapes
/// - `x`: (N, C); `weight`: (C, V) or (V, C); `bias`: (V); `targets`: (N), u32
/// - output: a scalar
pub fn linear_cross_entropy(
    x: &Tensor,
    weight: &Tensor,
    layout: WeightLayout,
    bias: Option<&Tensor>,
    targets: &Tensor,
) -> Result<Tensor> {
    let tracked = !is_recording() && (x.track_op() || weight.track_op());
    if !(fused(x) && fused(weight)) || tracked {
        return linear_cross_entropy_composed(x, weight, layout, bias, targets);
    }
    let (x, weight) = (contiguous(x)?, contiguous(weight)?);
    let (rows, width) = x.dims2()?;
    let shape = weight.dims2()?;
    let (inner, vocab_size) = if layout == WeightLayout::InOut { shape } else { (shape.1, shape.0) };
    if inner != width {
        candle_core::bail!("a layer for rows of {inner} got rows of {width}");
    }
    let targets = check_targets(targets, vocab_size)?;
    assert_eq!(targets.len(), rows, "a target for each row");
    let bias_floats = bias.map(|bias| bias.flatten_all()?.to_vec1::<f32>()).transpose()?;
    let (loss, gradients) = with_floats([&x, &weight], |[x, w]| {
        let rows = Rows {
            x: Matrix::new(x, rows, width, width),
            w: layout.in_out(Matrix::new(w, shape.0, shape.1, shape.1)),
            bias: bias_floats.as_deref(),
            targets: &targets,
            layout,
        };
        Ok(rows.loss(is_recording()))
    })?;
    let loss = Tensor::new(loss, x.device())?;
    if let Some(gradients) = gradients {
        record(&loss, gradients, &x, &weight, bias);
    }
    Ok(loss)
}

/// The inputs of a pass.
struct Rows<'a> {
    /// (N, C)
    x: Matrix<'a>,
    /// (C, V)
    w: Matrix<'a>,
    bias: Option<&'a [f32]>,
    targets: &'a [u32],
    layout: WeightLayout,
}

/// The gradients of the sum of all losses.
struct Gradients {
    /// (N, C)
    dx: Vec<f32>,
    /// As the weight is stored.
    dw: Vec<f32>,
    /// (V)
    db: Vec<f32>,
}

impl Rows<'_> {
    /// The sum of all losses and, if asked for, its gradients.
    fn loss(&self, with_gradients: bool) -> (f32, Option<Gradients>) {
        let (n, width, vocab_size) = (self.x.rows, self.x.columns, self.w.columns);
        let at_once = (AT_ONCE / vocab_size.max(1)).next_multiple_of(64);
        let mut losses = vec![0f32; n];
        let mut gradients = None;
        for first in (0..n).step_by(at_once) {
            let rows = first..(first + at_once).min(n);
            let x = self.x.part(rows.clone(), 0..width);
            let mut logits = new_product(x, &self.w, self.bias);
            let targets = &self.targets[rows.clone()];
            losses_and_slopes(&mut logits, vocab_size, targets, &mut losses[rows], with_gradients);
            if with_gradients {
                self.add_gradients(&mut gradients, x, &logits);
            }
        }
        (losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() as f32, gradients)
    }

    /// dx = dlogits · Wᵀ of these rows, behind those before; dW += xᵀ · dlogits.
    fn add_gradients(&self, gradients: &mut Option<Gradients>, x: Matrix, dlogits: &[f32]) {
        let vocab_size = self.w.columns;
        let db = || self.bias.map_or_else(Vec::new, |_| column_sums(dlogits, vocab_size));
        let dlogits = Matrix::new(dlogits, x.rows, vocab_size, vocab_size);
        let mut dx = new_product(dlogits, &self.w.t(), None);
        let (left, right) = match self.layout {
            WeightLayout::InOut => (x.t(), dlogits),
            WeightLayout::OutIn => (dlogits.t(), x),
        };
        match gradients {
            None => {
                dx.reserve_exact((self.x.rows - x.rows) * x.columns);
                *gradients = Some(Gradients { dx, dw: new_product(left, &right, None), db: db() });
            }
            Some(sum) => {
                sum.dx.extend(dx);
                add_product(&mut sum.dw, left, right);
                sum.db.iter_mut().zip(db()).for_each(|(sum, db)| *sum += db);
            }
        }
    }
}

/// −log p(target) of each row of logits and, if asked for, d loss / d logit in their place: p − 1 at the target, p elsewhere,
/// 0 where the target does not count.
fn losses_and_slopes(
    logits: &mut [f32],
    vocab_size: usize,
    targets: &[u32],
    losses: &mut [f32],
    slopes: bool,
) {
    let task = rows_a_task(vocab_size);
    let rows = logits.par_chunks_mut(task * vocab_size).zip(targets.par_chunks(task));
    rows.zip(losses.par_chunks_mut(task)).for_each(|((rows, targets), losses)| {
        simd::vectorized(|| {
            for ((row, &target), loss) in rows.chunks_mut(vocab_size).zip(targets).zip(losses) {
                if target == IGNORE {
                    row.fill(0.0);
                    continue;
                }
                let (max, logit) = (simd::max(row), row[target as usize]);
                if !slopes {
                    *loss = simd::sum(row, |x| simd::exp(x - max)).ln() + (max - logit);
                    continue;
                }
                row.iter_mut().for_each(|x| *x = simd::exp(*x - max));
                let sum = simd::sum(row, |x| x);
                // In this order a small loss keeps its digits beside large logits.
                *loss = sum.ln() + (max - logit);
                let scale = 1.0 / sum;
                row.iter_mut().for_each(|x| *x *= scale);
                row[target as usize] -= 1.0;
            }
        });
    });
}

/// Records the operation: backward scales the computed gradients by the gradient of the sum.
fn record(loss: &Tensor, gradients: Gradients, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) {
    let (x_shape, weight_kept, device) = (x.shape().clone(), weight.clone(), x.device().clone());
    let has_bias = bias.is_some();
    let backward = move |dy: &Tensor| {
        let (dy, Gradients { mut dx, mut dw, mut db }) = (dy.to_scalar::<f32>()?, gradients);
        if dy != 1.0 {
            for gradient in [&mut dx, &mut dw, &mut db] {
                chunks::change(gradient, |_, part| part.iter_mut().for_each(|x| *x *= dy));
            }
        }
        let dx = Tensor::from_vec(dx, x_shape, &device)?;
        let db = has_bias.then(|| Tensor::from_vec(db.clone(), db.len(), &device)).transpose()?;
        if !gradient_buffers::collects(&weight_kept) {
            let dw = Tensor::from_vec(dw, weight_kept.shape(), &device)?;
            return Ok(vec![Some(dx), Some(dw), db]);
        }
        gradient_buffers::accumulate(&weight_kept, |before| match before {
            None => dw,
            Some(before) => {
                chunks::change(&mut dw, |range, part| {
                    part.iter_mut().zip(&before[range]).for_each(|(dw, before)| *dw += before);
                });
                dw
            }
        });
        Ok(vec![Some(dx), None, db])
    };
    match bias {
        Some(bias) => push_backward("linear-cross-entropy", &[x, weight, bias], loss, backward),
        None => push_backward("linear-cross-entropy", &[x, weight], loss, backward),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::random;
    use crate::{record, scale};
    use candle_core::{Device, Var};
    use proptest::prelude::*;

    /// Loss and gradients in a recorded pass, the loss times two so that its gradient is not 1.
    fn pass(inputs: &[Var], f: impl Fn(&[Var]) -> Result<Tensor>) -> (f32, Vec<Vec<f32>>) {
        let (loss, tape) = record(|| scale(&f(inputs)?, 2.0));
        let loss = loss.unwrap();
        let mut gradients = tape.backward(&loss).unwrap();
        let gradients = inputs.iter().map(|input| gradients.remove(input).unwrap()).collect();
        (loss.to_scalar().unwrap(), gradients)
    }

    fn assert_same_as_composed(
        [rows, width, vocab_size]: [usize; 3],
        layout: WeightLayout,
        bias: bool,
        seed: u64,
    ) {
        let weight = if layout == WeightLayout::InOut { [width, vocab_size] } else { [vocab_size, width] };
        let mut inputs = vec![random(&[rows, width], seed), random(&weight, seed ^ 1)];
        inputs.extend(bias.then(|| random(&[vocab_size], seed ^ 2)));
        let inputs: Vec<Var> = inputs.iter().map(|x| Var::from_tensor(x).unwrap()).collect();
        let target = |i: usize| if i % 5 == 3 { IGNORE } else { (i * 7 % vocab_size) as u32 };
        let targets: Vec<u32> = (0..rows).map(target).collect();
        let targets = Tensor::new(targets, &Device::Cpu).unwrap();
        type Loss = fn(&Tensor, &Tensor, WeightLayout, Option<&Tensor>, &Tensor) -> Result<Tensor>;
        let run =
            |f: Loss| pass(&inputs, |t| f(&t[0], &t[1], layout, t.get(2).map(Var::as_tensor), &targets));
        let (loss, gradients) = run(linear_cross_entropy);
        let (want, want_gradients) = run(linear_cross_entropy_composed);
        assert!((loss - want).abs() <= 1e-5 * want.abs(), "{loss} is not {want}");
        for (got, want) in gradients.iter().zip(&want_gradients) {
            assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(want) {
                assert!((got - want).abs() <= 1e-4 * (1.0 + want.abs()), "{got} is not {want}");
            }
        }
        // Without gradients: the same loss.
        let plain: Vec<Tensor> = inputs.iter().map(|x| x.as_detached_tensor()).collect();
        let alone = linear_cross_entropy(&plain[0], &plain[1], layout, plain.get(2), &targets).unwrap();
        assert!((2.0 * alone.to_scalar::<f32>().unwrap() - want).abs() <= 1e-5 * want.abs());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn fused_equals_composed(
            rows in 1usize..40, width in 1usize..30, vocab_size in 1usize..70, out_in: bool, bias: bool, seed: u64
        ) {
            let layout = if out_in { WeightLayout::OutIn } else { WeightLayout::InOut };
            assert_same_as_composed([rows, width, vocab_size], layout, bias, seed);
        }
    }

    #[test]
    fn logits_that_are_made_in_several_parts_equal_composed() {
        let vocab_size = AT_ONCE / 64;
        for layout in [WeightLayout::InOut, WeightLayout::OutIn] {
            assert_same_as_composed([130, 3, vocab_size], layout, true, 5);
        }
    }

    #[test]
    fn a_tied_table_gets_both_of_its_gradients() {
        let table = Var::from_tensor(&random(&[9, 6], 1)).unwrap();
        let ids = Tensor::new(&[3u32, 8, 3, 0], &Device::Cpu).unwrap();
        let run = |f: &dyn Fn(&Tensor) -> Result<Tensor>| {
            pass(std::slice::from_ref(&table), |t| f(&crate::embedding(&t[0], &ids)?)).1.remove(0)
        };
        let layout = WeightLayout::OutIn;
        let got = run(&|x| linear_cross_entropy(x, &table, layout, None, &ids));
        let want = run(&|x| linear_cross_entropy_composed(x, &table, layout, None, &ids));
        for (got, want) in got.iter().zip(want) {
            assert!((got - want).abs() <= 1e-5 * (1.0 + want.abs()), "{got} is not {want}");
        }
    }

    #[test]
    fn wrong_rows_and_targets_are_refused() {
        let (x, weight) = (random(&[2, 3], 1), random(&[4, 3], 2));
        let loss = |targets: &[u32], layout| {
            let targets = Tensor::new(targets, &Device::Cpu).unwrap();
            linear_cross_entropy(&x, &weight, layout, None, &targets)
        };
        assert!(loss(&[0, 3], WeightLayout::OutIn).is_ok());
        assert!(loss(&[0, 4], WeightLayout::OutIn).is_err());
        assert!(loss(&[0, 3], WeightLayout::InOut).is_err());
    }
}
