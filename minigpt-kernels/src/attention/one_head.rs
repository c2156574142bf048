//! The fused attention of one head of one batch row: forward, and backward beside it.
//!
//! Both work on a block of queries at a time, against the keys that these may see: memory grows with Tk, never with
//! Tq · Tk, and what a causal mask hides is not computed. Between them, only log Σ exp(score) of each query is kept;
//! backward recomputes the weights from it.
//!
//! `s` are scores, `p` the weights (softmax of the scores), `dx` is the gradient of `x`.

use super::mask::MaskView;
use crate::gemm::matrix::Matrix;
use crate::{Dropout, product, simd};
use std::ops::Range;

/// Queries in a block.
const BLOCK: usize = 32;

/// The inputs of one head.
pub struct Head<'a> {
    /// The batch row, and the head in it.
    pub b: usize,
    pub h: usize,
    /// (Tq, D)
    pub q: Matrix<'a>,
    /// (Tk, D)
    pub k: Matrix<'a>,
    /// (Tk, Dv)
    pub v: Matrix<'a>,
    pub mask: MaskView<'a>,
    pub dropout: Option<&'a Dropout>,
}

impl Head<'_> {
    /// `out = dropout(softmax(q · kᵀ / √D)) · v`, and `log_sum[i] = log Σⱼ exp(sᵢⱼ)`.
    ///
    /// # Shapes
    /// - `out`: Tq rows of Dv elements; `log_sum`: (Tq)
    pub fn forward(&self, out: &mut [&mut [f32]], log_sum: &mut [f32]) {
        let (tq, tk, d_v) = (self.q.rows, self.k.rows, self.v.columns);
        let mut p = vec![0f32; BLOCK.min(tq) * tk];
        let mut mixed = vec![0f32; BLOCK.min(tq) * d_v];
        for block in blocks(tq) {
            let (rows, keys) = (block.len(), self.mask.keys(self.b, block.end - 1));
            let v = self.v.part(0..keys, 0..d_v);
            let (p, mixed) = (&mut p[..rows * keys], &mut mixed[..rows * d_v]);

            self.scores(block.clone(), keys, p); // s = q · kᵀ / √D, in `p`
            simd::vectorized(|| {
                for (i, p) in block.clone().zip(p.chunks_mut(keys.max(1))) {
                    log_sum[i] = softmax(p); // p = softmax(s)
                    self.drop_weights(i, p); // p = dropout(p)
                }
            });
            product(mixed, false, 1.0, Matrix::new(p, rows, keys, keys), v); // out = p · v
            for (i, mixed) in block.zip(mixed.chunks(d_v)) {
                out[i].copy_from_slice(mixed);
            }
        }
    }

    /// The gradients of q, k and v, from that of `out`:
    ///
    /// - dv = dropout(p)ᵀ · dout, dp = dropout(dout · vᵀ)
    /// - dsᵢⱼ = pᵢⱼ (dpᵢⱼ − Σⱼ pᵢⱼ dpᵢⱼ), where the sum is also outᵢ · doutᵢ
    /// - dq = ds · k / √D, dk = dsᵀ · q / √D
    ///
    /// # Shapes
    /// - `out`, `dout`: (Tq, Dv); `log_sum`: (Tq)
    /// - `dq`: Tq rows of D elements; `dk`: Tk rows of D; `dv`: Tk rows of Dv
    pub fn backward(
        &self,
        (out, dout, log_sum): (Matrix, Matrix, &[f32]),
        [dq, dk, dv]: [&mut [&mut [f32]]; 3],
    ) {
        let (tq, tk, d, d_v) = (self.q.rows, self.k.rows, self.q.columns, self.v.columns);
        let scale = 1.0 / (d as f32).sqrt();
        let (mut p, mut ds) = (vec![0f32; BLOCK.min(tq) * tk], vec![0f32; BLOCK.min(tq) * tk]);
        let mut dq_block = vec![0f32; BLOCK.min(tq) * d];
        let (mut dk_sum, mut dv_sum) = (vec![0f32; tk * d], vec![0f32; tk * d_v]);
        for block in blocks(tq) {
            let (rows, keys) = (block.len(), self.mask.keys(self.b, block.end - 1));
            let (q, dout_block) = (self.q.part(block.clone(), 0..d), dout.part(block.clone(), 0..d_v));
            let (k, v) = (self.k.part(0..keys, 0..d), self.v.part(0..keys, 0..d_v));
            let (p, ds) = (&mut p[..rows * keys], &mut ds[..rows * keys]);

            self.scores(block.clone(), keys, p); // s, in `p`
            product(ds, false, 1.0, dout_block, v.t()); // dout · vᵀ, in `ds`
            simd::vectorized(|| {
                let rows = p.chunks_mut(keys.max(1)).zip(ds.chunks_mut(keys.max(1)));
                for (i, (p, ds)) in block.clone().zip(rows) {
                    let out_dout = simd::sum2(out.row(i), dout.row(i), |out, dout| out * dout);
                    p.iter_mut().for_each(|s| *s = simd::exp(*s - log_sum[i])); // p = softmax(s)
                    self.drop_weights(i, ds); // dp
                    ds.iter_mut().zip(&*p).for_each(|(dp, p)| *dp = p * (*dp - out_dout) * scale); // ds / √D
                    self.drop_weights(i, p); // p = dropout(p)
                }
            });
            let (p, ds) = (Matrix::new(p, rows, keys, keys), Matrix::new(ds, rows, keys, keys));
            product(&mut dv_sum[..keys * d_v], true, 1.0, p.t(), dout_block); // dv += pᵀ · dout
            product(&mut dk_sum[..keys * d], true, 1.0, ds.t(), q); // dk += dsᵀ · q
            let dq_block = &mut dq_block[..rows * d];
            product(dq_block, false, 1.0, ds, k); // dq = ds · k
            for (i, dq_row) in block.zip(dq_block.chunks(d)) {
                dq[i].copy_from_slice(dq_row);
            }
        }
        for (rows, sum, width) in [(dk, dk_sum, d), (dv, dv_sum, d_v)] {
            rows.iter_mut().zip(sum.chunks(width)).for_each(|(row, sum)| row.copy_from_slice(sum));
        }
    }

    /// s = q · kᵀ / √D of a block of queries against the first `keys` keys, negative infinity where the mask hides.
    fn scores(&self, block: Range<usize>, keys: usize, s: &mut [f32]) {
        let d = self.q.columns;
        let (q, k) = (self.q.part(block.clone(), 0..d), self.k.part(0..keys, 0..d));
        product(s, false, 1.0 / (d as f32).sqrt(), q, k.t());
        for (i, s) in block.zip(s.chunks_mut(keys.max(1))) {
            self.mask.hide(self.b, self.h, i, s);
        }
    }

    /// Applies dropout to the weights of query `i`, or to their gradients: the only code that maps queries to rows of the
    /// dropout mask.
    #[inline(always)]
    fn drop_weights(&self, i: usize, weights: &mut [f32]) {
        if let Some(dropout) = self.dropout {
            dropout.apply(dropout.head_row(self.b, self.h, i), weights);
        }
    }
}

/// Turns the scores of one query into weights and returns log Σ exp(score). A query that may attend
/// nowhere has weights of 0, and infinity for its log-sum, from which backward recomputes weights of 0.
#[inline(always)]
pub(super) fn softmax(row: &mut [f32]) -> f32 {
    let max = simd::max(row);
    if max == f32::NEG_INFINITY {
        row.fill(0.0);
        return f32::INFINITY;
    }
    row.iter_mut().for_each(|x| *x = simd::exp(*x - max));
    let sum = simd::sum(row, |x| x);
    let scale = 1.0 / sum;
    row.iter_mut().for_each(|x| *x *= scale);
    max + sum.ln()
}

fn blocks(tq: usize) -> impl Iterator<Item = Range<usize>> {
    (0..tq).step_by(BLOCK).map(move |start| start..(start + BLOCK).min(tq))
}
