//! Rotary positions: queries and keys are rotated by an angle that grows with their position, so that their
//! product depends on how far apart they are.

use crate::operation::{Input, Keeps, Kept, Operation, apply};
use crate::tape::contiguous;
use crate::{floats, fused, rows_a_task, with_floats};
use candle_core::{D, Result, Shape, Tensor};
use rayon::prelude::*;

/// The definition of [`rope`].
pub fn rope_composed(
    qkv: &Tensor,
    n_head: usize,
    cos: &Tensor,
    sin: &Tensor,
    first: &[usize],
) -> Result<Tensor> {
    let (b, t, width) = qkv.dims3()?;
    let half = cos.dim(1)?;
    let ids = Tensor::new(positions(first, t, cos.dim(0)?), cos.device())?;
    let table = |table: &Tensor| table.index_select(&ids, 0)?.reshape((b, t, 1, 1, half));
    let (cos, sin) = (table(cos)?, table(sin)?);
    let x = qkv.reshape((b, t, 3, n_head, 2 * half))?;
    let qk = x.narrow(2, 0, 2)?;
    let (low, high) = (qk.narrow(D::Minus1, 0, half)?, qk.narrow(D::Minus1, half, half)?);
    let rotated = Tensor::cat(
        &[
            (low.broadcast_mul(&cos)? - high.broadcast_mul(&sin)?)?,
            (high.broadcast_mul(&cos)? + low.broadcast_mul(&sin)?)?,
        ],
        D::Minus1,
    )?;
    Tensor::cat(&[rotated, x.narrow(2, 2, 1)?], 2)?.reshape((b, t, width))
}

/// Rotates the queries and keys inside the joint projection `qkv`, fused on the CPU. Element `i` of a head pairs with
/// element `i + D/2` (the "rotate half" convention of Llama and GPT-NeoX).
///
/// # Shapes
/// - `qkv`: (B, T, 3·C); `cos`, `sin`: (positions, D/2); `first`: the position of each row's first token, B of them
/// - output: (B, T, 3·C)
pub fn rope(qkv: &Tensor, n_head: usize, cos: &Tensor, sin: &Tensor, first: &[usize]) -> Result<Tensor> {
    if !fused(qkv) {
        return rope_composed(qkv, n_head, cos, sin, first);
    }
    let op = Rope { n_head, cos: cos.clone(), sin: sin.clone(), first: first.to_vec() };
    apply(op, &[&contiguous(qkv)?])
}

/// The positions of `t` tokens in each batch row, counted from the row's first position. Positions beyond `size`, which only
/// padding can have, become the last one.
pub fn positions(first: &[usize], t: usize, size: usize) -> Vec<u32> {
    first.iter().flat_map(|&p| (p..p + t).map(|p| p.min(size - 1) as u32)).collect()
}

struct Rope {
    n_head: usize,
    cos: Tensor,
    sin: Tensor,
    first: Vec<usize>,
}

impl Rope {
    /// Rotates by the angle of each position, or by its negative (`sign` −1), which is the backward pass.
    fn rotate(&self, qkv: &[f32], (b, t, width): (usize, usize, usize), sign: f32) -> Result<Vec<f32>> {
        let (size, half) = self.cos.dims2()?;
        let positions = positions(&self.first, t, size);
        let mut y = qkv.to_vec();
        let task = rows_a_task(width);
        assert_eq!(self.first.len(), b, "a first position for each row");
        with_floats([&self.cos, &self.sin], |[cos, sin]| {
            y.par_chunks_mut(task * width).enumerate().for_each(|(i, rows)| {
                for (j, row) in rows.chunks_mut(width).enumerate() {
                    let at = positions[i * task + j] as usize * half;
                    let (cos, sin) = (&cos[at..at + half], &sin[at..at + half]);
                    for head in row.chunks_mut(2 * half).take(2 * self.n_head) {
                        rotate_head(head, cos, sin, sign);
                    }
                }
            });
            Ok(())
        })?;
        Ok(y)
    }
}

fn rotate_head(head: &mut [f32], cos: &[f32], sin: &[f32], sign: f32) {
    let (low, high) = head.split_at_mut(cos.len());
    for (((low, high), &cos), &sin) in low.iter_mut().zip(high).zip(cos).zip(sin) {
        let sin = sign * sin;
        (*low, *high) = (*low * cos - *high * sin, *high * cos + *low * sin);
    }
}

impl Operation for Rope {
    const NAME: &'static str = "rope";
    const KEEPS: Keeps = Keeps::Nothing;

    fn forward(&self, inputs: &[Input]) -> Result<(Vec<f32>, Shape)> {
        let (qkv, layout) = inputs[0];
        Ok((self.rotate(floats(qkv, layout)?, layout.shape().dims3()?, 1.0)?, layout.shape().clone()))
    }

    fn backward(&self, _: Kept, dy: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let shape = dy.dims3()?;
        let dx = with_floats([dy], |[dy]| self.rotate(dy, shape, -1.0))?;
        Ok(vec![Some(Tensor::from_vec(dx, shape, dy.device())?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_gradients, assert_same, random};
    use proptest::prelude::*;

    fn tables(positions: usize, half: usize) -> (Tensor, Tensor) {
        let angles = random(&[positions, half], 3);
        (angles.cos().unwrap(), angles.sin().unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn fused_equals_composed(first in prop::collection::vec(0usize..19, 1..4), t in 1usize..8, h in 1usize..4, half in 1usize..9) {
            let (cos, sin) = tables(20, half);
            let qkv = random(&[first.len(), t, 3 * h * 2 * half], 5);
            assert_same(&[qkv], |x| rope(&x[0], h, &cos, &sin, &first), |x| rope_composed(&x[0], h, &cos, &sin, &first), 1e-5);
        }
    }

    #[test]
    fn gradients_equal_finite_differences() {
        let (cos, sin) = tables(20, 3);
        assert_gradients(&[random(&[2, 5, 36], 1)], |x| rope(&x[0], 2, &cos, &sin, &[0, 7]));
    }
}
