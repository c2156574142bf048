//! Dropout whose mask is a function of a key and the element's position: nothing is stored between the forward and the backward
//! pass, and a run can be repeated or resumed exactly.

use crate::operation::{Input, Keeps, Kept, Operation, apply};
use crate::tape::contiguous;
use crate::{floats, fused, rows_a_task, simd, with_floats};
use candle_core::{Result, Shape, Tensor};
use rayon::prelude::*;
use std::sync::Arc;

/// The definition of [`dropout`].
pub fn dropout_composed(x: &Tensor, dropout: &Dropout) -> Result<Tensor> {
    x * dropout.mask(x)?
}

/// Which elements to drop: each with probability `p`, determined by a key, the batch row, and the element's position in it.
#[derive(Debug, Clone)]
pub struct Dropout {
    threshold: u32,
    /// The factor of the elements that stay, 1 / (1 − p), so that the expected value stays the same.
    scale: f32,
    key: u64,
    /// The number of each row in the whole batch. Default: 0, 1, 2, …
    batch_rows: Option<Arc<[usize]>>,
}

impl Dropout {
    /// Dropout with probability `p` in \[0, 1), or `None` if `p` is 0.
    pub fn new(p: f64, key: u64) -> Option<Self> {
        assert!((0.0..1.0).contains(&p), "a dropout probability of {p}");
        let threshold = (p * 2f64.powi(32)) as u32;
        let scale = (1.0 / (1.0 - p)) as f32;
        (threshold > 0).then_some(Self { threshold, scale, key, batch_rows: None })
    }

    /// The same for a part of a batch: row `b` of the part is row `batch_rows[b]` of the batch, and loses the same
    /// elements as there.
    pub fn for_rows(self, batch_rows: Arc<[usize]>) -> Self {
        Self { batch_rows: Some(batch_rows), ..self }
    }

    /// The key of token `t` in batch row `b`, for [`Dropout::apply`].
    #[inline(always)]
    pub(crate) fn row(&self, b: usize, t: usize) -> u64 {
        let b = self.batch_rows.as_ref().map_or(b, |rows| rows[b]);
        mix(place(self.key, b as u64).wrapping_add((t as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// The key of query `i` of head `h` in batch row `b`. It does not depend on the length of the rows, which differs from one
    /// part of a batch to the next.
    #[inline(always)]
    pub(crate) fn head_row(&self, b: usize, h: usize, i: usize) -> u64 {
        self.row(b, h << 32 | i)
    }

    /// The factor of the element in column `column`: 0 or 1 / (1 − p).
    #[inline(always)]
    fn factor(&self, row: u64, column: usize) -> f32 {
        let mut x = (column as u32).wrapping_add(row as u32);
        x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d) ^ (row >> 32) as u32;
        x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x ^= x >> 16;
        if x < self.threshold { 0.0 } else { self.scale }
    }

    /// Multiplies one row by its factors.
    #[inline(always)]
    pub(crate) fn apply(&self, row: u64, values: &mut [f32]) {
        for (column, value) in values.iter_mut().enumerate() {
            *value *= self.factor(row, column);
        }
    }

    /// The factors for a tensor of this shape: (B, …, columns), or (B, H, T, columns) with heads.
    pub(crate) fn mask(&self, like: &Tensor) -> Result<Tensor> {
        let columns = like.dims().last().copied().unwrap_or(1);
        let (batch, heads) = (like.dims().first().copied().unwrap_or(1), heads(like.dims()));
        let rows = like.elem_count() / columns.max(1);
        let tokens = (rows / (batch * heads).max(1)).max(1);
        let mut factors = vec![1f32; like.elem_count()];
        for (row, factors) in factors.chunks_mut(columns.max(1)).enumerate() {
            let (b, h, t) = (row / tokens / heads, row / tokens % heads, row % tokens);
            self.apply(self.head_row(b, h, t), factors);
        }
        Tensor::from_vec(factors, like.shape(), like.device())?.to_dtype(like.dtype())
    }
}

/// How many heads a tensor of this shape has: (B, H, T, columns) has H, anything else one.
fn heads(dims: &[usize]) -> usize {
    if let [_, heads, _, _] = dims { *heads } else { 1 }
}

/// A key for a place in the model, made from the key of the whole forward pass.
pub fn place(key: u64, place: u64) -> u64 {
    mix(key ^ mix(place.wrapping_add(1)))
}

/// The finaliser of SplitMix64: every input bit reaches every output bit.
#[inline(always)]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Drops elements of `x`, fused on the CPU.
///
/// # Shapes
/// - `x`, output: (B, …, columns)
pub fn dropout(x: &Tensor, dropout: &Dropout) -> Result<Tensor> {
    if !fused(x) {
        return dropout_composed(x, dropout);
    }
    apply(Drop(dropout.clone()), &[&contiguous(x)?])
}

struct Drop(Dropout);

impl Drop {
    fn run(&self, x: &[f32], dims: &[usize]) -> Vec<f32> {
        let (batch, columns) =
            (dims.first().copied().unwrap_or(1).max(1), dims.last().copied().unwrap_or(1).max(1));
        let tokens = (x.len() / columns / batch).max(1);
        let mut y = x.to_vec();
        let task = rows_a_task(columns);
        y.par_chunks_mut(task * columns).enumerate().for_each(|(i, rows)| {
            simd::vectorized(|| {
                for (j, values) in rows.chunks_mut(columns).enumerate() {
                    let row = i * task + j;
                    self.0.apply(self.0.row(row / tokens, row % tokens), values);
                }
            });
        });
        y
    }
}

impl Operation for Drop {
    const NAME: &'static str = "dropout";
    const KEEPS: Keeps = Keeps::Nothing;

    fn forward(&self, inputs: &[Input]) -> Result<(Vec<f32>, Shape)> {
        let (x, layout) = inputs[0];
        Ok((self.run(floats(x, layout)?, layout.dims()), layout.shape().clone()))
    }

    /// The gradient passes where the element did.
    fn backward(&self, _: Kept, dy: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let dx = with_floats([dy], |[dy_floats]| Ok(self.run(dy_floats, dy.dims())))?;
        Ok(vec![Some(Tensor::from_vec(dx, dy.shape(), dy.device())?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_gradients, assert_same, random};
    use candle_core::{DType, Device};
    use proptest::prelude::*;

    #[test]
    fn a_probability_of_zero_is_no_dropout() {
        assert!(Dropout::new(0.0, 1).is_none());
    }

    /// The factors of `rows` tokens of one batch row.
    fn factors(p: f64, key: u64, rows: usize, columns: usize) -> Vec<f32> {
        let ones = Tensor::ones((1, rows, columns), DType::F32, &Device::Cpu).unwrap();
        let y = dropout(&ones, &Dropout::new(p, key).unwrap()).unwrap();
        y.flatten_all().unwrap().to_vec1().unwrap()
    }

    #[test]
    fn the_dropped_share_is_p_and_the_expected_sum_stays() {
        for p in [0.1, 0.2, 0.5, 0.9] {
            let factors = factors(p, 7, 1000, 333);
            let n = factors.len() as f64;
            let dropped = factors.iter().filter(|&&f| f == 0.0).count() as f64 / n;
            let mean = factors.iter().map(|&f| f64::from(f)).sum::<f64>() / n;
            assert!((dropped - p).abs() < 5.0 * (p * (1.0 - p) / n).sqrt(), "{p}: {dropped}");
            assert!((mean - 1.0).abs() < 0.03, "{p}: {mean}");
        }
    }

    #[test]
    fn neighbours_keys_and_rows_are_independent() {
        let bits = |key, rows, columns| factors(0.5, key, rows, columns);
        let agreement = |a: &[f32], b: &[f32]| {
            let n = a.len().min(b.len());
            a.iter().zip(b).filter(|(a, b)| a == b).count() as f64 / n as f64
        };
        let a = bits(1, 500, 256);
        assert!((agreement(&a, &bits(2, 500, 256)) - 0.5).abs() < 0.01);
        assert!((agreement(&a, &a[1..]) - 0.5).abs() < 0.01);
        assert!((agreement(&a, &a[256..]) - 0.5).abs() < 0.01);
        assert_eq!(a, bits(1, 500, 256));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn fused_equals_composed(rows in 0usize..300, columns in 1usize..90, p in 0.01f64..0.9, key: u64) {
            let d = Dropout::new(p, key).unwrap();
            for shape in [vec![rows, columns], vec![2, rows, columns]] {
                assert_same(&[random(&shape, key)], |t| dropout(&t[0], &d), |t| dropout_composed(&t[0], &d), 0.0);
            }
        }
    }

    #[test]
    fn a_row_loses_the_same_elements_in_any_part_of_a_batch() {
        let whole = random(&[6, 5, 8], 1);
        let d = Dropout::new(0.4, 9).unwrap();
        let all = dropout(&whole, &d).unwrap().to_vec3::<f32>().unwrap();
        let rows = [4u32, 0, 5];
        let part = whole.index_select(&Tensor::new(&rows, &Device::Cpu).unwrap(), 0).unwrap();
        // Shorter rows, too: a part is only as long as its longest row.
        let part = part.narrow(1, 0, 3).unwrap();
        let d = d.for_rows(Arc::new([4, 0, 5]));
        let part = dropout(&part, &d).unwrap().to_vec3::<f32>().unwrap();
        for (part, row) in part.iter().zip(rows) {
            assert_eq!(part[..], all[row as usize][..3]);
        }
    }

    #[test]
    fn gradients_equal_finite_differences() {
        let d = Dropout::new(0.3, 3).unwrap();
        assert_gradients(&[random(&[2, 3, 50], 1)], |t| dropout(&t[0], &d));
    }
}
