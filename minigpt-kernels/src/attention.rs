//! Attention: `softmax(Q Kᵀ / √d + mask) V`, the one core of the decoder and of the public attention module.
//!
//! The fused form takes a block of query rows at a time against the keys that they may see: its memory grows with the
//! number of keys, never with its square, and what a causal mask hides is not computed. The backward pass keeps one
//! number a query (the logarithm of the softmax's denominator) and recomputes the weights.

use super::matrix::{Matrix, product};
use super::tape::{apply1, apply3, contiguous};
use super::{Dropout, fused, simd, with_floats};
use candle_core::{CpuStorage, CustomOp1, CustomOp3, D, Layout, Result, Shape, Storage, Tensor};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::OnceLock;

/// Query rows that are worked on together.
const BLOCK: usize = 32;
/// Multiplications below which threads cost more than they save.
const SMALL: usize = 1 << 17;

/// Which keys a query may look at.
#[derive(Debug, Clone, Default)]
pub struct Visible {
    causal: Option<Vec<usize>>,
    allowed: Option<Tensor>,
}

impl Visible {
    /// Every key.
    pub fn all() -> Self {
        Self::default()
    }

    /// Query `i` of row `b` sees the keys 0 to `first[b] + i`: those up to its own position.
    pub fn causal(first: &[usize]) -> Self {
        Self { causal: Some(first.to_vec()), allowed: None }
    }

    /// Further only keys where `allowed` (u8, broadcastable to (B, H, Tq, Tk)) is not 0.
    pub fn and(self, allowed: &Tensor) -> Result<Self> {
        let allowed = match &self.allowed {
            Some(other) => (other.ne(0u8)?.broadcast_mul(&allowed.ne(0u8)?))?,
            None => allowed.clone(),
        };
        Ok(Self { allowed: Some(allowed), ..self })
    }

    /// How many of the first keys query `i` of row `b` may see.
    fn limit(&self, b: usize, i: usize, keys: usize) -> usize {
        self.causal.as_ref().map_or(keys, |first| (first[b] + i + 1).min(keys))
    }

    /// 1 where a query may look, 0 elsewhere, broadcastable to (B, H, Tq, Tk); `None` when it may look everywhere.
    fn mask(&self, queries: usize, keys: usize, like: &Tensor) -> Result<Option<Tensor>> {
        let causal = self.causal.as_ref().map(|first| {
            let rows = (0..first.len()).flat_map(|b| (0..queries).map(move |i| (b, i)));
            let mask: Vec<u8> = rows
                .flat_map(|(b, i)| {
                    let limit = self.limit(b, i, keys);
                    (0..keys).map(move |j| u8::from(j < limit))
                })
                .collect();
            Tensor::from_vec(mask, (first.len(), 1, queries, keys), like.device())
        });
        match (causal.transpose()?, &self.allowed) {
            (Some(causal), Some(allowed)) => Ok(Some(causal.broadcast_mul(&allowed.ne(0u8)?)?)),
            (causal, allowed) => Ok(causal.or_else(|| allowed.clone())),
        }
    }
}

/// Attention, fused on the CPU.
///
/// # Shapes
/// - `q`: (B, H, Tq, D); `k`, `v`: (B, H, Tk, D), all with any strides
/// - output: (B, Tq, H, D), as the output projection reads it
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    visible: &Visible,
    dropout: Option<Dropout>,
) -> Result<Tensor> {
    if !fused(q) {
        return Ok(attention_composed(q, k, v, visible, dropout)?.0);
    }
    let op = Attention { n_head: q.dim(1)?, visible: visible.clone(), dropout, log_sums: OnceLock::new() };
    apply3(q, k, v, op)
}

/// Self-attention on the joint projection, whose columns are all queries, then all keys, then all values: the same
/// as [`attention`] on its three parts, but the gradient comes in one piece.
///
/// # Shapes
/// - `qkv`: (B, T, 3·C); output: (B, T, H, D)
pub fn self_attention(
    qkv: &Tensor,
    n_head: usize,
    visible: &Visible,
    dropout: Option<Dropout>,
) -> Result<Tensor> {
    if !fused(qkv) {
        let [q, k, v] = split_heads(qkv, n_head)?;
        return Ok(attention_composed(&q, &k, &v, visible, dropout)?.0);
    }
    let op = Attention { n_head, visible: visible.clone(), dropout, log_sums: OnceLock::new() };
    apply1(&contiguous(qkv)?, op)
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

/// The definition of [`attention`]: the output, and the weights (B, H, Tq, Tk) before dropout.
pub fn attention_composed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    visible: &Visible,
    dropout: Option<Dropout>,
) -> Result<(Tensor, Tensor)> {
    let weights = softmax(&attention_scores(q, k, visible)?)?;
    Ok((attention_mix(&weights, v, dropout)?, weights))
}

/// `Q Kᵀ / √d`, negative infinity where a query may not look.
///
/// # Shapes
/// - `q`: (B, H, Tq, D); `k`: (B, H, Tk, D); output: (B, H, Tq, Tk)
pub fn attention_scores(q: &Tensor, k: &Tensor, visible: &Visible) -> Result<Tensor> {
    let scale = 1.0 / (q.dim(D::Minus1)? as f64).sqrt();
    let (q, k) = (q.contiguous()?, k.contiguous()?);
    let scores = (q.matmul(&k.t()?)? * scale)?;
    let Some(mask) = visible.mask(q.dim(2)?, k.dim(2)?, &q)? else { return Ok(scores) };
    let hidden = Tensor::full(f32::NEG_INFINITY, scores.shape(), q.device())?.to_dtype(q.dtype())?;
    mask.broadcast_as(scores.shape())?.where_cond(&scores, &hidden)
}

/// Softmax over the last dimension; a row without anything to choose from is all zeros.
pub fn softmax(scores: &Tensor) -> Result<Tensor> {
    let max = scores.max_keepdim(D::Minus1)?.detach().maximum(f64::from(f32::MIN))?;
    let e = scores.broadcast_sub(&max)?.exp()?;
    let sum = e.sum_keepdim(D::Minus1)?.maximum(1e-30)?;
    e.broadcast_div(&sum)
}

/// The values, weighted and summed.
///
/// # Shapes
/// - `weights`: (B, H, Tq, Tk); `v`: (B, H, Tk, D); output: (B, Tq, H, D)
pub fn attention_mix(weights: &Tensor, v: &Tensor, dropout: Option<Dropout>) -> Result<Tensor> {
    let dropped = match dropout {
        Some(dropout) => (weights * dropout.mask(weights)?)?,
        None => weights.clone(),
    };
    dropped.matmul(&v.contiguous()?)?.transpose(1, 2)?.contiguous()
}

struct Attention {
    n_head: usize,
    visible: Visible,
    dropout: Option<Dropout>,
    /// log Σ exp(score) of each query, kept for the backward pass.
    log_sums: OnceLock<Vec<f32>>,
}

/// Rows of one head in an interleaved tensor, ready to be written by one thread.
type HeadRows<'a> = Vec<&'a mut [f32]>;

/// Queries, keys or values: element (b, h, t, d) is `data[b * batch + h * head + t * time + d]`.
#[derive(Clone, Copy)]
struct Heads<'a> {
    data: &'a [f32],
    batch: usize,
    head: usize,
    time: usize,
}

/// One problem to solve: the inputs with their sizes, and the rules.
#[derive(Clone, Copy)]
struct Problem<'a> {
    b: usize,
    h: usize,
    tq: usize,
    tk: usize,
    d: usize,
    q: Heads<'a>,
    k: Heads<'a>,
    v: Heads<'a>,
    visible: &'a Visible,
    /// The mask's elements and its strides in (B, H, Tq, Tk).
    allowed: Option<(&'a [u8], [usize; 4])>,
    dropout: Option<&'a Dropout>,
}

impl<'a> Heads<'a> {
    fn matrix(&self, b: usize, h: usize, rows: Range<usize>, d: usize) -> Matrix<'a> {
        let start = b * self.batch + h * self.head + rows.start * self.time;
        Matrix::new(self.data.get(start..).unwrap_or_default(), rows.len(), d, self.time)
    }
}

impl Problem<'_> {
    fn is_small(&self) -> bool {
        self.b * self.h * self.tq * self.tk * self.d < SMALL
    }

    /// The output (B, Tq, H, D) and the log-sums (B, H, Tq).
    fn forward(&self) -> (Vec<f32>, Vec<f32>) {
        let mut out = vec![0f32; self.b * self.tq * self.h * self.d];
        let mut log_sums = vec![0f32; self.b * self.h * self.tq];
        if !out.is_empty() {
            let rows = interleaved(&mut out, self.b, self.tq, self.h, self.d);
            let tasks = rows.into_iter().zip(log_sums.chunks_mut(self.tq)).enumerate();
            in_parallel(self.is_small(), tasks, |(i, (mut out, log_sums))| {
                self.forward_head(i / self.h, i % self.h, &mut out, log_sums);
            });
        }
        (out, log_sums)
    }

    fn forward_head(&self, b: usize, h: usize, out: &mut [&mut [f32]], log_sums: &mut [f32]) {
        let mut weights = vec![0f32; BLOCK.min(self.tq) * self.tk];
        let mut mixed = vec![0f32; BLOCK.min(self.tq) * self.d];
        for rows in blocks(self.tq) {
            let keys = self.visible.limit(b, rows.end - 1, self.tk);
            let weights = &mut weights[..rows.len() * keys];
            let mixed = &mut mixed[..rows.len() * self.d];
            self.scores(b, h, rows.clone(), keys, weights);
            simd::vectorized(|| {
                for (i, row) in rows.clone().zip(weights.chunks_mut(keys.max(1))) {
                    log_sums[i] = softmax_row(row);
                    if let Some(dropout) = self.dropout {
                        dropout.apply(dropout.head_row(b, h, i), row);
                    }
                }
            });
            let weights = Matrix::new(weights, rows.len(), keys, keys);
            product(mixed, false, 1.0, weights, self.v.matrix(b, h, 0..keys, self.d));
            for (i, mixed) in rows.zip(mixed.chunks(self.d)) {
                out[i].copy_from_slice(mixed);
            }
        }
    }

    /// Scaled scores of the query rows against the first `keys` keys; negative infinity where a query may not look.
    fn scores(&self, b: usize, h: usize, rows: Range<usize>, keys: usize, scores: &mut [f32]) {
        let scale = 1.0 / (self.d as f32).sqrt();
        let (q, k) = (self.q.matrix(b, h, rows.clone(), self.d), self.k.matrix(b, h, 0..keys, self.d));
        product(scores, false, scale, q, k.t());
        for (i, row) in rows.zip(scores.chunks_mut(keys.max(1))) {
            row[self.visible.limit(b, i, self.tk)..].fill(f32::NEG_INFINITY);
            if let Some((allowed, [sb, sh, si, sj])) = self.allowed {
                let start = b * sb + h * sh + i * si;
                for (j, score) in row.iter_mut().enumerate() {
                    if allowed[start + j * sj] == 0 {
                        *score = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }

    /// Gradients of one head, written row by row into `dq`, `dk` and `dv`.
    fn backward_head(
        &self,
        (b, h): (usize, usize),
        (out, dout, log_sums): (Heads, Heads, &[f32]),
        [mut dq, mut dk, mut dv]: [HeadRows; 3],
    ) {
        let (d, scale) = (self.d, 1.0 / (self.d as f32).sqrt());
        let block = BLOCK.min(self.tq);
        let (mut p, mut ds) = (vec![0f32; block * self.tk], vec![0f32; block * self.tk]);
        let mut dq_block = vec![0f32; block * d];
        let (mut dk_sum, mut dv_sum) = (vec![0f32; self.tk * d], vec![0f32; self.tk * d]);
        for rows in blocks(self.tq) {
            let keys = self.visible.limit(b, rows.end - 1, self.tk);
            let (p, ds) = (&mut p[..rows.len() * keys], &mut ds[..rows.len() * keys]);
            let (q, k) = (self.q.matrix(b, h, rows.clone(), d), self.k.matrix(b, h, 0..keys, d));
            let (v, dout_rows) = (self.v.matrix(b, h, 0..keys, d), dout.matrix(b, h, rows.clone(), d));
            self.scores(b, h, rows.clone(), keys, p);
            product(ds, false, 1.0, dout_rows, v.t());
            simd::vectorized(|| {
                for (r, i) in rows.clone().enumerate() {
                    let at = |x: &Heads| b * x.batch + h * x.head + i * x.time;
                    let delta =
                        simd::sum2(&out.data[at(&out)..][..d], &dout.data[at(&dout)..][..d], |o, g| o * g);
                    let (p, ds) = (&mut p[r * keys..(r + 1) * keys], &mut ds[r * keys..(r + 1) * keys]);
                    let dropout = self.dropout.map(|x| (x, x.head_row(b, h, i)));
                    softmax_backward_row(p, ds, log_sums[i], delta, scale, dropout);
                }
            });
            let (p, ds) = (Matrix::new(p, rows.len(), keys, keys), Matrix::new(ds, rows.len(), keys, keys));
            product(&mut dv_sum[..keys * d], true, 1.0, p.t(), dout_rows);
            product(&mut dk_sum[..keys * d], true, 1.0, ds.t(), q);
            let dq_block = &mut dq_block[..rows.len() * d];
            product(dq_block, false, 1.0, ds, k);
            for (i, row) in rows.zip(dq_block.chunks(d)) {
                dq[i].copy_from_slice(row);
            }
        }
        for (sums, rows) in [(&dk_sum, &mut dk), (&dv_sum, &mut dv)] {
            rows.iter_mut().zip(sums.chunks(d)).for_each(|(row, sum)| row.copy_from_slice(sum));
        }
    }

    /// Gradients of all heads: `rows` holds those of dq, dk and dv for each (b, h).
    fn backward(&self, out: &[f32], dout: &[f32], log_sums: &[f32], rows: Vec<[HeadRows; 3]>) {
        let heads =
            |data| Heads { data, batch: self.tq * self.h * self.d, head: self.d, time: self.h * self.d };
        let (out, dout) = (heads(out), heads(dout));
        let tasks = rows.into_iter().zip(log_sums.chunks(self.tq.max(1))).enumerate();
        in_parallel(self.is_small(), tasks, |(i, (rows, log_sums))| {
            self.backward_head((i / self.h, i % self.h), (out, dout, log_sums), rows);
        });
    }
}

/// Runs the tasks on all threads, or one after the other when they are too small for that.
fn in_parallel<T: Send>(small: bool, tasks: impl Iterator<Item = T>, f: impl Fn(T) + Send + Sync) {
    if small {
        tasks.for_each(f);
    } else {
        tasks.collect::<Vec<_>>().into_par_iter().for_each(f);
    }
}

fn blocks(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(BLOCK).map(move |start| start..(start + BLOCK).min(rows))
}

/// Turns scores into weights and returns log Σ exp(score). Nothing to look at: zeros, and infinity.
#[inline(always)]
fn softmax_row(row: &mut [f32]) -> f32 {
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

/// From the scores in `p` and d weights in `ds`: the weights as they met the values in `p`, d scores in `ds`.
#[inline(always)]
fn softmax_backward_row(
    p: &mut [f32],
    ds: &mut [f32],
    log_sum: f32,
    delta: f32,
    scale: f32,
    dropout: Option<(&Dropout, u64)>,
) {
    p.iter_mut().for_each(|x| *x = simd::exp(*x - log_sum));
    if let Some((dropout, row)) = dropout {
        dropout.apply(row, ds);
    }
    ds.iter_mut().zip(p.iter()).for_each(|(ds, p)| *ds = p * (*ds - delta) * scale);
    if let Some((dropout, row)) = dropout {
        dropout.apply(row, p);
    }
}

/// Splits (B, T, H, D) into the rows of each (b, h).
fn interleaved(data: &mut [f32], b: usize, t: usize, h: usize, d: usize) -> Vec<HeadRows<'_>> {
    let mut heads: Vec<HeadRows> = (0..b * h).map(|_| Vec::with_capacity(t)).collect();
    for (i, row) in data.chunks_mut(d).enumerate() {
        heads[i / (t * h) * h + i % h].push(row);
    }
    heads
}

impl Attention {
    /// Gives `f` the mask's elements and strides, if there is a mask.
    fn with_allowed<R>(
        &self,
        shape: [usize; 4],
        f: impl FnOnce(Option<(&[u8], [usize; 4])>) -> R,
    ) -> Result<R> {
        let Some(allowed) = &self.visible.allowed else { return Ok(f(None)) };
        let allowed = allowed.broadcast_as(&shape[..])?;
        let (storage, layout) = allowed.storage_and_layout();
        let Storage::Cpu(storage) = &*storage else { candle_core::bail!("the mask is not on the CPU") };
        let data = &storage.as_slice::<u8>()?[layout.start_offset()..];
        let strides = layout.stride();
        Ok(f(Some((data, [strides[0], strides[1], strides[2], strides[3]]))))
    }

    fn forward(&self, problem: Problem) -> Result<(CpuStorage, Shape)> {
        let shape = (problem.b, problem.tq, problem.h, problem.d);
        let sizes = [problem.b, problem.h, problem.tq, problem.tk];
        let (out, log_sums) = self.with_allowed(sizes, |allowed| Problem { allowed, ..problem }.forward())?;
        // Written once: an operation object runs forward once.
        let _ = self.log_sums.set(log_sums);
        Ok((CpuStorage::F32(out), shape.into()))
    }

    fn backward(&self, problem: Problem, out: &[f32], dout: &[f32], rows: Vec<[HeadRows; 3]>) -> Result<()> {
        let log_sums = self.log_sums.get().map_or(&[][..], Vec::as_slice);
        let sizes = [problem.b, problem.h, problem.tq, problem.tk];
        self.with_allowed(sizes, |allowed| Problem { allowed, ..problem }.backward(out, dout, log_sums, rows))
    }

    /// The problem inside a joint projection.
    fn joint<'a>(&'a self, qkv: &'a [f32], (b, t, width): (usize, usize, usize)) -> Problem<'a> {
        let (c, h) = (width / 3, self.n_head);
        let part = |i: usize| Heads {
            data: qkv.get(i * c..).unwrap_or_default(),
            batch: t * width,
            head: c / h,
            time: width,
        };
        let (q, k, v) = (part(0), part(1), part(2));
        let (visible, dropout) = (&self.visible, self.dropout.as_ref());
        Problem { b, h, tq: t, tk: t, d: c / h, q, k, v, visible, allowed: None, dropout }
    }

    /// The problem of three tensors (B, H, T, D).
    fn separate<'a>(&'a self, parts: [(&'a [f32], &'a Layout); 3]) -> Result<Problem<'a>> {
        let [q, k, v] = parts.map(|(data, layout)| {
            let stride = layout.stride();
            let data = data.get(layout.start_offset()..).unwrap_or_default();
            Heads { data, batch: stride[0], head: stride[1], time: stride[2] }
        });
        let (b, h, tq, d) = parts[0].1.shape().dims4()?;
        let (bk, hk, tk, dk) = parts[1].1.shape().dims4()?;
        if (bk, hk, dk) != (b, h, d) || parts[1].1.shape() != parts[2].1.shape() {
            candle_core::bail!("attention of unlike shapes: {:?}", parts.map(|(_, l)| l.shape().clone()));
        }
        if parts.iter().any(|(_, layout)| layout.stride()[3] != 1 && d > 1) {
            candle_core::bail!("attention needs heads whose elements are contiguous");
        }
        let (visible, dropout) = (&self.visible, self.dropout.as_ref());
        Ok(Problem { b, h, tq, tk, d, q, k, v, visible, allowed: None, dropout })
    }
}

impl CustomOp1 for Attention {
    fn name(&self) -> &'static str {
        "self-attention"
    }

    fn cpu_fwd(&self, qkv: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.forward(self.joint(super::floats(qkv, layout)?, layout.shape().dims3()?))
    }

    fn bwd(&self, qkv: &Tensor, out: &Tensor, dout: &Tensor) -> Result<Option<Tensor>> {
        let (b, t, width) = qkv.dims3()?;
        let h = self.n_head;
        let mut dqkv = vec![0f32; b * t * width];
        // (B, T, 3, H, D): the rows of (b, part · H + h).
        let mut parts = interleaved(&mut dqkv, b, t, 3 * h, width / 3 / h).into_iter();
        let mut rows = Vec::with_capacity(b * h);
        for _ in 0..b {
            let mut next = || parts.by_ref().take(h).collect::<Vec<_>>();
            let (q, k, v) = (next(), next(), next());
            rows.extend(q.into_iter().zip(k).zip(v).map(|((q, k), v)| [q, k, v]));
        }
        with_floats([qkv, out, dout], |[qkv, out, dout]| {
            self.backward(self.joint(qkv, (b, t, width)), out, dout, rows)
        })?;
        Tensor::from_vec(dqkv, (b, t, width), qkv.device()).map(Some)
    }
}

impl CustomOp3 for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        k: &CpuStorage,
        k_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let parts = [
            (q.as_slice::<f32>()?, q_layout),
            (k.as_slice::<f32>()?, k_layout),
            (v.as_slice::<f32>()?, v_layout),
        ];
        self.forward(self.separate(parts)?)
    }

    fn bwd(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        out: &Tensor,
        dout: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (q, k, v) = (q.contiguous()?, k.contiguous()?, v.contiguous()?);
        let mut grads = [&q, &k, &v].map(|x| vec![0f32; x.elem_count()]);
        let d = q.dim(3)?;
        let [dq, dk, dv] = &mut grads;
        let heads = |data, t: usize| -> Vec<HeadRows> { rows_of_heads(data, t, d) };
        let (tq, tk) = (q.dim(2)?, k.dim(2)?);
        let rows = heads(dq, tq).into_iter().zip(heads(dk, tk)).zip(heads(dv, tk));
        let rows = rows.map(|((q, k), v)| [q, k, v]).collect();
        let [ql, kl, vl] = &[&q, &k, &v].map(|x| Layout::contiguous(x.shape()));
        with_floats([&q, &k, &v, out, dout], |[q, k, v, out, dout]| {
            self.backward(self.separate([(q, ql), (k, kl), (v, vl)])?, out, dout, rows)
        })?;
        let [dq, dk, dv] = grads;
        Ok((
            Some(Tensor::from_vec(dq, q.shape(), q.device())?),
            Some(Tensor::from_vec(dk, k.shape(), k.device())?),
            Some(Tensor::from_vec(dv, v.shape(), v.device())?),
        ))
    }
}

/// Splits (B, H, T, D) into the rows of each (b, h).
fn rows_of_heads(data: &mut [f32], t: usize, d: usize) -> Vec<HeadRows<'_>> {
    data.chunks_mut((t * d).max(1)).map(|head| head.chunks_mut(d).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_gradients, assert_same, random, relative_difference};
    use super::*;
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
        let visible = Visible::causal(&[0]);
        let (out, weights) = attention_composed(&q, &k, &v, &visible, None)?;
        assert_close(&weights, &[1., 0., 0., 0.5050, 0.4950, 0., 0.3231, 0.2997, 0.3772]);
        let want = [1.2, 0.8, 0.6, 0.4, 0.8535, 1.0475, 0.6495, 0.3505, 0.7639, 0.8367, 0.9318, 0.5586];
        assert_close(&out, &want);
        assert_close(&attention(&q, &k, &v, &visible, None)?, &want);
        Ok(())
    }

    #[test]
    fn one_query_over_three_keys_with_and_without_the_third() -> Result<()> {
        let (q, k) = (head(&[[0.9, 0.8]]), head(&[[0.1, 0.3], [0.9, 0.5], [0.3, 0.1]]));
        let v = head(&[[0.5, 0.9], [0.9, 0.6], [0.7, 0.8]]);
        let scores = q.matmul(&k.t()?)?;
        assert_close(&scores, &[0.33, 1.21, 0.35]);
        assert_close(&softmax(&scores)?, &[0.2257, 0.5441, 0.2302]);
        let (out, weights) = attention_composed(&q, &k, &v, &Visible::all(), None)?;
        assert_close(&weights, &[0.2579, 0.4805, 0.2616]);
        assert_close(&out, &[0.7445, 0.7297]);
        assert_close(&attention(&q, &k, &v, &Visible::all(), None)?, &[0.7445, 0.7297]);

        let two = Visible::all().and(&Tensor::new(&[[[[1u8, 1, 0]]]], &Device::Cpu)?)?;
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
            b in 1usize..3, h in 1usize..4, tq in 1usize..70, tk in 1usize..70, d in 1usize..20,
            causal: bool, masked: bool, drop: bool, seed: u64,
        ) {
            let inputs = [random(&[b, h, tq, d], seed), random(&[b, h, tk, d], seed ^ 1), random(&[b, h, tk, d], seed ^ 2)];
            let first: Vec<usize> = (0..b).map(|i| (seed as usize % 7) * i).collect();
            let mut visible = if causal { Visible::causal(&first) } else { Visible::all() };
            if masked {
                visible = visible.and(&random_mask(&[b, 1, 1, tk], seed)).unwrap();
                visible = visible.and(&random_mask(&[1, 1, tq, tk], seed ^ 9)).unwrap();
            }
            let dropout = drop.then(|| Dropout::new(0.3, seed).unwrap());
            assert_same(
                &inputs,
                |t| attention(&t[0], &t[1], &t[2], &visible, dropout.clone()),
                |t| Ok(attention_composed(&t[0], &t[1], &t[2], &visible, dropout.clone())?.0),
                1e-4,
            );
        }

        #[test]
        fn joint_self_attention_equals_its_three_parts(
            b in 1usize..3, t in 1usize..50, h in 1usize..4, d in 1usize..9, drop: bool, seed: u64,
        ) {
            let visible = Visible::causal(&vec![0; b]);
            let dropout = drop.then(|| Dropout::new(0.3, seed).unwrap());
            assert_same(
                &[random(&[b, t, 3 * h * d], seed)],
                |x| self_attention(&x[0], h, &visible, dropout.clone()),
                |x| {
                    let [q, k, v] = split_heads(&x[0], h)?;
                    Ok(attention_composed(&q, &k, &v, &visible, dropout.clone())?.0)
                },
                1e-4,
            );
        }
    }

    #[test]
    fn gradients_equal_finite_differences() {
        let inputs = [random(&[2, 2, 5, 6], 1), random(&[2, 2, 7, 6], 2), random(&[2, 2, 7, 6], 3)];
        let dropout = Dropout::new(0.2, 4);
        for visible in [Visible::all(), Visible::causal(&[0, 2]).and(&random_mask(&[2, 1, 5, 7], 3)).unwrap()]
        {
            assert_gradients(&inputs, |t| attention(&t[0], &t[1], &t[2], &visible, dropout.clone()));
        }
        let causal = Visible::causal(&[0, 0]);
        assert_gradients(&[random(&[2, 5, 36], 1)], |t| self_attention(&t[0], 2, &causal, dropout.clone()));
    }

    #[test]
    fn no_queries_give_an_empty_output() -> Result<()> {
        let (q, k) = (random(&[2, 3, 0, 4], 1), random(&[2, 3, 5, 4], 2));
        assert_eq!(attention(&q, &k, &k, &Visible::all(), None)?.dims(), [2, 0, 3, 4]);
        Ok(())
    }

    #[test]
    fn a_query_that_may_look_nowhere_gives_zeros() -> Result<()> {
        let [q, k, v] = [1, 2, 3].map(|seed| random(&[1, 1, 2, 4], seed));
        let visible = Visible::all().and(&Tensor::new(&[[0u8, 0], [1, 0]], &Device::Cpu)?)?;
        for out in [attention(&q, &k, &v, &visible, None)?, attention_composed(&q, &k, &v, &visible, None)?.0]
        {
            assert_eq!(out.narrow(1, 0, 1)?.flatten_all()?.to_vec1::<f32>()?, [0.0; 4]);
            assert!(
                relative_difference(&out.narrow(1, 1, 1)?.flatten_all()?, &v.narrow(2, 0, 1)?.flatten_all()?)
                    < 1e-6
            );
        }
        Ok(())
    }
}
