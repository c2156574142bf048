//! Attention: `softmax(Q Kᵀ / √D + mask) V`.
//!
//! B: batch rows, H: heads, Tq and Tk: queries and keys (T where both are the same), D: the width of a head, C = H · D. The values
//! may have a width Dv of their own.
//!
//! This file holds the definition, composed from plain candle operations, and the entry points. Then read `one_head.rs`
//! (the fused kernel, forward and backward), `heads.rs` (which head is where, and on which thread) and `mask.rs`. Inference has
//! a key/value cache (`key_values.rs`) and attends to it in `cached.rs`.

mod cache_line;
mod cached;
mod heads;
mod key_values;
mod mask;
pub mod micro;
mod one_head;

pub use key_values::{KeyValues, TokenRun};
pub use mask::AttentionMask;

use crate::operation::apply;
use crate::tape::contiguous;
use crate::{Dropout, fused};
use candle_core::{D, Result, Tensor};
use heads::Attention;

/// The definition of [`attention`]: the output, and the weights (B, H, Tq, Tk) before dropout.
pub fn attention_composed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: &AttentionMask,
    dropout: Option<Dropout>,
) -> Result<(Tensor, Tensor)> {
    let weights = softmax(&attention_scores(q, k, mask)?)?;
    Ok((attention_mix(&weights, v, dropout)?, weights))
}

/// `Q Kᵀ / √D`, negative infinity where a query may not attend.
///
/// # Shapes
/// - `q`: (B, H, Tq, D); `k`: (B, H, Tk, D); output: (B, H, Tq, Tk)
pub fn attention_scores(q: &Tensor, k: &Tensor, mask: &AttentionMask) -> Result<Tensor> {
    let scale = 1.0 / (q.dim(D::Minus1)? as f64).sqrt();
    let (q, k) = (q.contiguous()?, k.contiguous()?);
    let scores = (q.matmul(&k.t()?)? * scale)?;
    let Some(mask) = mask.tensor(q.dim(2)?, k.dim(2)?, &q)? else { return Ok(scores) };
    let hidden = Tensor::full(f32::NEG_INFINITY, scores.shape(), q.device())?.to_dtype(q.dtype())?;
    mask.broadcast_as(scores.shape())?.where_cond(&scores, &hidden)
}

/// Softmax over the last dimension; a row that is entirely masked gives zeros.
pub fn softmax(scores: &Tensor) -> Result<Tensor> {
    let max = scores.max_keepdim(D::Minus1)?.detach().maximum(f64::from(f32::MIN))?;
    let e = scores.broadcast_sub(&max)?.exp()?;
    let sum = e.sum_keepdim(D::Minus1)?.maximum(1e-30)?;
    e.broadcast_div(&sum)
}

/// The values, weighted and summed.
///
/// # Shapes
/// - `weights`: (B, H, Tq, Tk); `v`: (B, H, Tk, Dv); output: (B, Tq, H, Dv)
pub fn attention_mix(weights: &Tensor, v: &Tensor, dropout: Option<Dropout>) -> Result<Tensor> {
    let dropped = match dropout {
        Some(dropout) => (weights * dropout.mask(weights)?)?,
        None => weights.clone(),
    };
    dropped.matmul(&v.contiguous()?)?.transpose(1, 2)?.contiguous()
}

/// Attention, fused on the CPU.
///
/// # Shapes
/// - `q`: (B, H, Tq, D); `k`: (B, H, Tk, D); `v`: (B, H, Tk, Dv), all with any strides
/// - output: (B, Tq, H, Dv), as a projection of all heads together reads it
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: &AttentionMask,
    dropout: Option<Dropout>,
) -> Result<Tensor> {
    if !fused(q) {
        return Ok(attention_composed(q, k, v, mask, dropout)?.0);
    }
    apply(Attention::new(q.dim(1)?, mask, dropout), &[q, k, v])
}

/// Self-attention on the joint projection, whose columns are all queries, then all keys, then all values: the same
/// as [`attention`] on its three parts, but with one gradient for all three.
///
/// # Shapes
/// - `qkv`: (B, T, 3·C); output: (B, T, H, D)
pub fn self_attention(
    qkv: &Tensor,
    n_head: usize,
    mask: &AttentionMask,
    dropout: Option<Dropout>,
) -> Result<Tensor> {
    if !fused(qkv) {
        let [q, k, v] = split_heads(qkv, n_head)?;
        return Ok(attention_composed(&q, &k, &v, mask, dropout)?.0);
    }
    apply(Attention::new(n_head, mask, dropout), &[&contiguous(qkv)?])
}

/// Queries, keys and values as views of the joint projection.
///
/// # Shapes
/// - `qkv`: (B, T, 3·C); outputs: (B, H, T, D)
pub fn split_heads(qkv: &Tensor, n_head: usize) -> Result<[Tensor; 3]> {
    let (b, t, width) = qkv.dims3()?;
    let parts = qkv.reshape((b, t, 3, n_head, width / 3 / n_head))?;
    let part = |i| parts.narrow(2, i, 1)?.squeeze(2)?.transpose(1, 2);
    Ok([part(0)?, part(1)?, part(2)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_gradients, assert_same, random, relative_difference};
    use candle_core::Device;
    use proptest::prelude::*;

    fn assert_close(got: &Tensor, want: &[f32]) {
        let got = got.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert!((got - want).abs() < 6e-5, "{got} is not {want}");
        }
    }

    /// One head of one row.
    fn head<const M: usize, const N: usize>(rows: &[[f32; N]; M]) -> Tensor {
        Tensor::new(rows, &Device::Cpu).unwrap().unsqueeze(0).unwrap().unsqueeze(0).unwrap()
    }

    #[test]
    fn a_causal_head_mixes_only_what_came_before() -> Result<()> {
        let q = head(&[[0.8, 0.6, 0.4, 0.2], [0.3, 0.9, 0.5, 0.3], [0.4, 0.3, 0.8, 0.6]]);
        let k = head(&[[0.9, 0.7, 0.5, 0.3], [0.4, 0.8, 0.6, 0.2], [0.5, 0.4, 0.9, 0.7]]);
        let v = head(&[[1.2, 0.8, 0.6, 0.4], [0.5, 1.3, 0.7, 0.3], [0.6, 0.5, 1.4, 0.9]]);
        let mask = AttentionMask::causal(&[0]);
        let (out, weights) = attention_composed(&q, &k, &v, &mask, None)?;
        assert_close(&weights, &[1., 0., 0., 0.5050, 0.4950, 0., 0.3231, 0.2997, 0.3772]);
        let want = [1.2, 0.8, 0.6, 0.4, 0.8535, 1.0475, 0.6495, 0.3505, 0.7639, 0.8367, 0.9318, 0.5586];
        assert_close(&out, &want);
        assert_close(&attention(&q, &k, &v, &mask, None)?, &want);
        Ok(())
    }

    #[test]
    fn one_query_over_three_keys_with_and_without_the_third() -> Result<()> {
        let (q, k) = (head(&[[0.9, 0.8]]), head(&[[0.1, 0.3], [0.9, 0.5], [0.3, 0.1]]));
        let v = head(&[[0.5, 0.9], [0.9, 0.6], [0.7, 0.8]]);
        let scores = q.matmul(&k.t()?)?;
        assert_close(&scores, &[0.33, 1.21, 0.35]);
        assert_close(&softmax(&scores)?, &[0.2257, 0.5441, 0.2302]);
        let (out, weights) = attention_composed(&q, &k, &v, &AttentionMask::all(), None)?;
        assert_close(&weights, &[0.2579, 0.4805, 0.2616]);
        assert_close(&out, &[0.7445, 0.7297]);
        assert_close(&attention(&q, &k, &v, &AttentionMask::all(), None)?, &[0.7445, 0.7297]);

        let two = AttentionMask::all().and(&Tensor::new(&[[[[1u8, 1, 0]]]], &Device::Cpu)?)?;
        let (out, weights) = attention_composed(&q, &k, &v, &two, None)?;
        assert_close(&weights, &[0.3493, 0.6507, 0.0]);
        assert_close(&out, &[0.7603, 0.7048]);
        assert_close(&attention(&q, &k, &v, &two, None)?, &[0.7603, 0.7048]);
        Ok(())
    }

    #[test]
    fn softmax_sharpens_as_the_temperature_falls() -> Result<()> {
        let x = Tensor::new(&[1f32, 2.0, 3.0, 4.0, 5.0], &Device::Cpu)?;
        assert_close(&softmax(&x)?, &[0.0117, 0.0317, 0.0861, 0.2341, 0.6364]);
        assert_close(&softmax(&(&x / 2.0)?)?, &[0.0580, 0.0956, 0.1577, 0.2600, 0.4287]);
        let coldest = softmax(&(&x / 0.1)?)?.to_vec1::<f32>()?[4];
        assert!((coldest - 0.99995).abs() < 1e-5);
        Ok(())
    }

    fn random_mask(shape: &[usize], seed: u64) -> Tensor {
        random(shape, seed).gt(-0.5f32).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn fused_equals_composed(
            b in 1usize..3, h in 1usize..4, tq in 1usize..70, tk in 1usize..70, d in 1usize..20, d_v in 1usize..20,
            causal: bool, masked: bool, drop: bool, seed: u64,
        ) {
            let inputs = [random(&[b, h, tq, d], seed), random(&[b, h, tk, d], seed ^ 1), random(&[b, h, tk, d_v], seed ^ 2)];
            let first: Vec<usize> = (0..b).map(|i| (seed as usize % 7) * i).collect();
            let mut mask = if causal { AttentionMask::causal(&first) } else { AttentionMask::all() };
            if masked {
                mask = mask.and(&random_mask(&[b, 1, 1, tk], seed)).unwrap();
                mask = mask.and(&random_mask(&[1, 1, tq, tk], seed ^ 9)).unwrap();
            }
            let dropout = drop.then(|| Dropout::new(0.3, seed).unwrap());
            assert_same(
                &inputs,
                |t| attention(&t[0], &t[1], &t[2], &mask, dropout.clone()),
                |t| Ok(attention_composed(&t[0], &t[1], &t[2], &mask, dropout.clone())?.0),
                1e-4,
            );
        }

        #[test]
        fn joint_self_attention_equals_its_three_parts(
            b in 1usize..3, t in 1usize..50, h in 1usize..4, d in 1usize..9, drop: bool, seed: u64,
        ) {
            let mask = AttentionMask::causal(&vec![0; b]);
            let dropout = drop.then(|| Dropout::new(0.3, seed).unwrap());
            assert_same(
                &[random(&[b, t, 3 * h * d], seed)],
                |x| self_attention(&x[0], h, &mask, dropout.clone()),
                |x| {
                    let [q, k, v] = split_heads(&x[0], h)?;
                    Ok(attention_composed(&q, &k, &v, &mask, dropout.clone())?.0)
                },
                1e-4,
            );
        }
    }

    #[test]
    fn gradients_equal_finite_differences() {
        let inputs = [random(&[2, 2, 5, 6], 1), random(&[2, 2, 7, 6], 2), random(&[2, 2, 7, 4], 3)];
        let dropout = Dropout::new(0.2, 4);
        for mask in [
            AttentionMask::all(),
            AttentionMask::causal(&[0, 2]).and(&random_mask(&[2, 1, 5, 7], 3)).unwrap(),
        ] {
            assert_gradients(&inputs, |t| attention(&t[0], &t[1], &t[2], &mask, dropout.clone()));
        }
        let causal = AttentionMask::causal(&[0, 0]);
        assert_gradients(&[random(&[2, 5, 36], 1)], |t| self_attention(&t[0], 2, &causal, dropout.clone()));
    }

    #[test]
    fn no_queries_give_an_empty_output() -> Result<()> {
        let (q, k) = (random(&[2, 3, 0, 4], 1), random(&[2, 3, 5, 4], 2));
        assert_eq!(attention(&q, &k, &k, &AttentionMask::all(), None)?.dims(), [2, 0, 3, 4]);
        Ok(())
    }

    #[test]
    fn a_query_without_keys_gives_zeros() -> Result<()> {
        let [q, k, v] = [1, 2, 3].map(|seed| random(&[1, 1, 2, 4], seed));
        let mask = AttentionMask::all().and(&Tensor::new(&[[0u8, 0], [1, 0]], &Device::Cpu)?)?;
        for out in [attention(&q, &k, &v, &mask, None)?, attention_composed(&q, &k, &v, &mask, None)?.0] {
            assert_eq!(out.narrow(1, 0, 1)?.flatten_all()?.to_vec1::<f32>()?, [0.0; 4]);
            assert!(
                relative_difference(&out.narrow(1, 1, 1)?.flatten_all()?, &v.narrow(2, 0, 1)?.flatten_all()?)
                    < 1e-6
            );
        }
        Ok(())
    }
}
