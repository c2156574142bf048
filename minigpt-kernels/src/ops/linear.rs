//! The product of a layer with its weight and, if it has one, its bias: `x · W + b`.

use crate::gemm::matrix::Matrix;
use crate::gemm::{add_product, new_product};
use crate::operation::{Input, Keeps, Kept, Operation, apply};
use crate::tape::contiguous;
use crate::{floats, fused, gradient_buffers, matrix, simd, with_floats};
use candle_core::{Result, Shape, Tensor};

/// How a weight is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightLayout {
    /// (in, out), as GPT-2 stores its layers.
    InOut,
    /// (out, in), as PyTorch stores its layers, and as a tied embedding table is stored.
    OutIn,
}

/// The definition of [`linear`].
pub fn linear_composed(
    x: &Tensor,
    weight: &Tensor,
    layout: WeightLayout,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let y = match layout {
        WeightLayout::InOut => x.matmul(weight)?,
        WeightLayout::OutIn => x.matmul(&weight.t()?)?,
    };
    match bias {
        Some(bias) => y.broadcast_add(bias),
        None => Ok(y),
    }
}

/// `x · W + b`, fused on the CPU.
///
/// # Shapes
/// - `x`: (rows, in); `weight`: (in, out) or (out, in); `bias`: (out)
/// - output: (rows, out)
pub fn linear(x: &Tensor, weight: &Tensor, layout: WeightLayout, bias: Option<&Tensor>) -> Result<Tensor> {
    if !(fused(x) && fused(weight)) {
        return linear_composed(x, weight, layout, bias);
    }
    let (x, weight, op) = (contiguous(x)?, contiguous(weight)?, Linear { layout });
    match bias {
        Some(bias) => apply(op, &[&x, &weight, bias]),
        None => apply(op, &[&x, &weight]),
    }
}

impl WeightLayout {
    /// The weight as (in, out), however it is stored.
    pub(crate) fn in_out(self, weight: Matrix<'_>) -> Matrix<'_> {
        if self == Self::InOut { weight } else { weight.t() }
    }
}

struct Linear {
    layout: WeightLayout,
}

/// `x · W + b` for a weight (in, out), or an error if they don't fit.
pub(crate) fn forward(x: Matrix, weight: Matrix, bias: Option<&[f32]>) -> Result<Vec<f32>> {
    if x.columns != weight.rows {
        candle_core::bail!("a layer for rows of {} got rows of {}", weight.rows, x.columns);
    }
    Ok(new_product(x, &weight, bias))
}

impl Linear {
    /// dx = dy · Wᵀ, and dW = xᵀ · dy in the shape in which W is stored, unless [`gradient_buffers`] collects it.
    fn gradients(&self, x: &Tensor, weight: &Tensor, dy: &Tensor) -> Result<(Tensor, Option<Tensor>)> {
        let (rows, width) = x.dims2()?;
        let (shape, out) = (weight.dims2()?, dy.dim(1)?);
        let (dx, dw) = with_floats([x, weight, dy], |[x, w, dy]| {
            let (x, dy) = (Matrix::new(x, rows, width, width), Matrix::new(dy, rows, out, out));
            let (left, right) = match self.layout {
                WeightLayout::InOut => (x.t(), dy),
                WeightLayout::OutIn => (dy.t(), x),
            };
            let w = self.layout.in_out(Matrix::new(w, shape.0, shape.1, shape.1));
            let dx = new_product(dy, &w.t(), None);
            if !gradient_buffers::collects(weight) {
                return Ok((dx, Some(new_product(left, &right, None))));
            }
            gradient_buffers::accumulate(weight, |before| match before {
                None => new_product(left, &right, None),
                Some(mut sum) => {
                    add_product(&mut sum, left, right);
                    sum
                }
            });
            Ok((dx, None))
        })?;
        let dw = dw.map(|dw| Tensor::from_vec(dw, shape, x.device())).transpose()?;
        Ok((Tensor::from_vec(dx, (rows, width), x.device())?, dw))
    }
}

impl Operation for Linear {
    const NAME: &'static str = "linear";
    const KEEPS: Keeps = Keeps::Inputs;

    fn forward(&self, inputs: &[Input]) -> Result<(Vec<f32>, Shape)> {
        let x = matrix(inputs[0].0, inputs[0].1)?;
        let weight = self.layout.in_out(matrix(inputs[1].0, inputs[1].1)?);
        let bias = inputs.get(2).map(|(bias, layout)| floats(bias, layout)).transpose()?;
        Ok((forward(x, weight, bias)?, (x.rows, weight.columns).into()))
    }

    fn backward(&self, kept: Kept, dy: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let (dx, dw) = self.gradients(kept.input(0)?, kept.input(1)?, dy)?;
        let mut gradients = vec![Some(dx), dw];
        if kept.count() == 3 {
            gradients.push(Some(bias_gradient(dy, kept.input(2)?.shape())?));
        }
        Ok(gradients)
    }
}

fn bias_gradient(dy: &Tensor, shape: &Shape) -> Result<Tensor> {
    let db = with_floats([dy], |[dy]| Ok(column_sums(dy, shape.elem_count())))?;
    Tensor::from_vec(db, shape, dy.device())
}

pub(crate) fn column_sums(x: &[f32], columns: usize) -> Vec<f32> {
    let mut sums = vec![0f32; columns];
    simd::vectorized(|| {
        for row in x.chunks(columns.max(1)) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
    });
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_gradients, assert_same, random};
    use proptest::prelude::*;

    fn inputs(rows: usize, width: usize, out: usize, layout: WeightLayout, seed: u64) -> [Tensor; 3] {
        let weight = if layout == WeightLayout::InOut { [width, out] } else { [out, width] };
        [random(&[rows, width], seed), random(&weight, seed ^ 1), random(&[out], seed ^ 2)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn fused_equals_composed(
            rows in 1usize..40, width in 1usize..50, out in 1usize..70, out_in: bool, bias: bool, seed: u64
        ) {
            let layout = if out_in { WeightLayout::OutIn } else { WeightLayout::InOut };
            let inputs = inputs(rows, width, out, layout, seed);
            assert_same(
                &inputs[..if bias { 3 } else { 2 }],
                |t| linear(&t[0], &t[1], layout, t.get(2)),
                |t| linear_composed(&t[0], &t[1], layout, t.get(2)),
                1e-4,
            );
        }
    }

    #[test]
    fn products_large_enough_for_several_threads_equal_composed() {
        for layout in [WeightLayout::InOut, WeightLayout::OutIn] {
            assert_same(
                &inputs(130, 140, 150, layout, 3),
                |t| linear(&t[0], &t[1], layout, t.get(2)),
                |t| linear_composed(&t[0], &t[1], layout, t.get(2)),
                1e-4,
            );
        }
    }

    #[test]
    fn gradients_equal_finite_differences() {
        for layout in [WeightLayout::InOut, WeightLayout::OutIn] {
            assert_gradients(&inputs(5, 7, 6, layout, 3), |t| linear(&t[0], &t[1], layout, t.get(2)));
        }
    }

    #[test]
    fn collected_gradients_are_those_of_candle() {
        for layout in [WeightLayout::InOut, WeightLayout::OutIn] {
            let [x, weight, _] = inputs(5, 7, 6, layout, 3);
            let weight = candle_core::Var::from_tensor(&weight).unwrap();
            // Used twice, so that the second gradient is added to the first.
            let y = |x: &Tensor| linear(x, &weight, layout, None).unwrap().sqr().unwrap().sum_all().unwrap();
            let loss = (y(&x) + y(&(&x * 2.0).unwrap())).unwrap();
            let want = loss.backward().unwrap().remove(&weight).unwrap();
            let (store, mut buffers) = gradient_buffers::collect(|| loss.backward().unwrap());
            let got = buffers.remove(&weight).unwrap();
            assert_eq!(got.len(), want.elem_count());
            assert!(store.get(&weight).is_none() && buffers.remove(&weight).is_none());
            for (got, want) in got.iter().zip(want.flatten_all().unwrap().to_vec1::<f32>().unwrap()) {
                assert!((got - want).abs() <= 1e-4 * (1.0 + want.abs()));
            }
        }
    }

    #[test]
    fn rows_of_the_wrong_width_are_refused() {
        let [x, weight, _] = inputs(2, 3, 4, WeightLayout::InOut, 1);
        assert!(linear(&x, &weight.t().unwrap(), WeightLayout::InOut, None).is_err());
    }
}
