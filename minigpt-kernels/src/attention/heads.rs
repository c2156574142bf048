//! Attention as an operation of autograd: finds the heads inside tensors and splits them over threads.

use super::mask::AttentionMask;
use super::one_head::Head;
use crate::gemm::matrix::Matrix;
use crate::operation::{Input, Keeps, Kept, Operation};
use crate::{Dropout, floats, with_floats};
use candle_core::{Layout, Result, Shape, Tensor};
use rayon::prelude::*;
use std::sync::OnceLock;

/// Multiply-adds below which waking other threads costs more than it saves.
const ONE_THREAD: usize = 1 << 17;

/// Attention as an operation on q, k and v, or on their joint projection.
pub struct Attention {
    n_head: usize,
    mask: AttentionMask,
    dropout: Option<Dropout>,
    /// log Σ exp(score) of each query, (B, H, Tq), kept for the backward pass.
    log_sum: OnceLock<Vec<f32>>,
}

/// q, k, v, or the output: element (b, h, t, d) is `data[b * strides[0] + h * strides[1] + t * strides[2] + d]`.
#[derive(Clone, Copy)]
struct Heads<'a> {
    data: &'a [f32],
    strides: [usize; 3],
    t: usize,
    d: usize,
}

impl<'a> Heads<'a> {
    /// The (T, D) matrix of one head.
    fn head(&self, b: usize, h: usize) -> Matrix<'a> {
        let start = b * self.strides[0] + h * self.strides[1];
        Matrix::new(self.data.get(start..).unwrap_or_default(), self.t, self.d, self.strides[2])
    }
}

/// The inputs of all heads.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    b: usize,
    h: usize,
    q: Heads<'a>,
    k: Heads<'a>,
    v: Heads<'a>,
}

impl<'a> Inputs<'a> {
    /// From the joint projection (B, T, 3, H, D).
    fn joint(qkv: &'a [f32], (b, t, width): (usize, usize, usize), h: usize) -> Self {
        let (c, d) = (width / 3, width / 3 / h);
        let part = |i: usize| {
            let data = qkv.get(i * c..).unwrap_or_default();
            Heads { data, strides: [t * width, d, width], t, d }
        };
        Self { b, h, q: part(0), k: part(1), v: part(2) }
    }

    /// From q and k (B, H, T, D) and v (B, H, T, Dv), with any strides but the last, which is 1.
    fn separate(parts: [(&'a [f32], &'a Layout); 3]) -> Result<Self> {
        let (b, h, tq, d) = parts[0].1.shape().dims4()?;
        let (bk, hk, tk, dk) = parts[1].1.shape().dims4()?;
        let (bv, hv, tv, dv) = parts[2].1.shape().dims4()?;
        if (bk, hk, dk) != (b, h, d) || (bv, hv, tv) != (b, h, tk) {
            candle_core::bail!("attention of unlike shapes: {:?}", parts.map(|(_, l)| l.shape().clone()));
        }
        if parts.iter().any(|(_, layout)| layout.stride()[3] != 1 && layout.dims()[3] > 1) {
            candle_core::bail!("attention needs heads whose elements are contiguous");
        }
        let heads = |(data, layout): (&'a [f32], &Layout), t, d| {
            let data = data.get(layout.start_offset()..).unwrap_or_default();
            Heads { data, strides: std::array::from_fn(|i| layout.stride()[i]), t, d }
        };
        Ok(Self { b, h, q: heads(parts[0], tq, d), k: heads(parts[1], tk, d), v: heads(parts[2], tk, dv) })
    }

    /// (B, H, Tq, Tk), the shape of the scores.
    fn scores_shape(&self) -> [usize; 4] {
        [self.b, self.h, self.q.t, self.k.t]
    }

    /// Runs `f` on every task, one for each (b, h) in this order; on all threads, unless the whole is too small.
    fn for_each_head<T: Send>(
        &self,
        tasks: impl Iterator<Item = T>,
        f: impl Fn(usize, usize, T) + Send + Sync,
    ) {
        let run = |(i, task)| f(i / self.h, i % self.h, task);
        if self.scores_shape().iter().product::<usize>() * self.q.d < ONE_THREAD {
            tasks.enumerate().for_each(run);
        } else {
            tasks.enumerate().collect::<Vec<_>>().into_par_iter().for_each(run);
        }
    }
}

/// The rows of one head inside a tensor of all heads, to be written by one thread.
type Rows<'a> = Vec<&'a mut [f32]>;

/// Splits (B, T, H, D) into the rows of each (b, h).
fn rows_of_bthd(data: &mut [f32], [b, t, h, d]: [usize; 4]) -> Vec<Rows<'_>> {
    let mut heads: Vec<Rows> = (0..b * h).map(|_| Vec::with_capacity(t)).collect();
    for (i, row) in data.chunks_mut(d).enumerate() {
        heads[i / (t * h) * h + i % h].push(row);
    }
    heads
}

/// Splits (B, H, T, D) into the rows of each (b, h).
fn rows_of_bhtd(data: &mut [f32], t: usize, d: usize) -> Vec<Rows<'_>> {
    data.chunks_mut((t * d).max(1)).map(|head| head.chunks_mut(d).collect()).collect()
}

impl Attention {
    pub fn new(n_head: usize, mask: &AttentionMask, dropout: Option<Dropout>) -> Self {
        Self { n_head, mask: mask.clone(), dropout, log_sum: OnceLock::new() }
    }

    /// The output (B, Tq, H, Dv).
    fn attend(&self, inputs: Inputs) -> Result<(Vec<f32>, Shape)> {
        let Inputs { b, h, q, k, v } = inputs;
        let mut out = vec![0f32; b * q.t * h * v.d];
        let mut log_sum = vec![0f32; b * h * q.t];
        if !out.is_empty() {
            let rows = rows_of_bthd(&mut out, [b, q.t, h, v.d]);
            self.mask.with_view(inputs.scores_shape(), |mask| {
                inputs.for_each_head(
                    rows.into_iter().zip(log_sum.chunks_mut(q.t)),
                    |b, h, (mut out, log_sum)| {
                        let (q, k, v) = (q.head(b, h), k.head(b, h), v.head(b, h));
                        Head { b, h, q, k, v, mask, dropout: self.dropout.as_ref() }
                            .forward(&mut out, log_sum);
                    },
                );
            })?;
        }
        let _ = self.log_sum.set(log_sum);
        Ok((out, (b, q.t, h, v.d).into()))
    }

    /// Writes the gradients of each head into its rows of dq, dk and dv.
    fn gradients(&self, inputs: Inputs, out: &[f32], dout: &[f32], rows: Vec<[Rows; 3]>) -> Result<()> {
        let Inputs { h, q, k, v, .. } = inputs;
        let bthd = |data| Heads { data, strides: [q.t * h * v.d, v.d, h * v.d], t: q.t, d: v.d };
        let (out, dout) = (bthd(out), bthd(dout));
        let Some(log_sum) = self.log_sum.get() else {
            candle_core::bail!("attention: backward without a forward pass");
        };
        self.mask.with_view(inputs.scores_shape(), |mask| {
            let tasks = rows.into_iter().zip(log_sum.chunks(q.t.max(1)));
            inputs.for_each_head(tasks, |b, h, ([mut dq, mut dk, mut dv], log_sum)| {
                let (q, k, v) = (q.head(b, h), k.head(b, h), v.head(b, h));
                Head { b, h, q, k, v, mask, dropout: self.dropout.as_ref() }
                    .backward((out.head(b, h), dout.head(b, h), log_sum), [&mut dq, &mut dk, &mut dv]);
            });
        })
    }
}

impl Operation for Attention {
    const NAME: &'static str = "attention";
    const KEEPS: Keeps = Keeps::InputsAndOutput;

    fn forward(&self, inputs: &[Input]) -> Result<(Vec<f32>, Shape)> {
        match inputs {
            [(qkv, layout)] => {
                self.attend(Inputs::joint(floats(qkv, layout)?, layout.shape().dims3()?, self.n_head))
            }
            [q, k, v] => self.attend(Inputs::separate([
                (q.0.as_slice()?, q.1),
                (k.0.as_slice()?, k.1),
                (v.0.as_slice()?, v.1),
            ])?),
            _ => candle_core::bail!("attention of {} inputs", inputs.len()),
        }
    }

    fn backward(&self, kept: Kept, dout: &Tensor) -> Result<Vec<Option<Tensor>>> {
        let out = kept.output()?;
        if kept.count() == 1 {
            Ok(vec![Some(self.joint_gradient(kept.input(0)?, out, dout)?)])
        } else {
            self.separate_gradients([kept.input(0)?, kept.input(1)?, kept.input(2)?], out, dout)
        }
    }
}

impl Attention {
    /// The gradient of the joint projection.
    fn joint_gradient(&self, qkv: &Tensor, out: &Tensor, dout: &Tensor) -> Result<Tensor> {
        let (b, t, width) = qkv.dims3()?;
        let h = self.n_head;
        let mut dqkv = vec![0f32; b * t * width];
        // (B, T, 3·H, D): of each batch row first the heads of dq, then those of dk and of dv.
        let mut heads = rows_of_bthd(&mut dqkv, [b, t, 3 * h, width / 3 / h]).into_iter();
        let mut rows = Vec::with_capacity(b * h);
        for _ in 0..b {
            let mut next = || heads.by_ref().take(h).collect::<Vec<_>>();
            let (dq, dk, dv) = (next(), next(), next());
            rows.extend(dq.into_iter().zip(dk).zip(dv).map(|((dq, dk), dv)| [dq, dk, dv]));
        }
        with_floats([qkv, out, dout], |[qkv, out, dout]| {
            self.gradients(Inputs::joint(qkv, (b, t, width), h), out, dout, rows)
        })?;
        Tensor::from_vec(dqkv, (b, t, width), qkv.device())
    }

    /// The gradients of q, k and v.
    fn separate_gradients(
        &self,
        inputs @ [q, k, v]: [&Tensor; 3],
        out: &Tensor,
        dout: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        let [mut dq, mut dk, mut dv] = inputs.map(|x| vec![0f32; x.elem_count()]);
        let (tq, tk, d, d_v) = (q.dim(2)?, k.dim(2)?, q.dim(3)?, v.dim(3)?);
        let rows = rows_of_bhtd(&mut dq, tq, d).into_iter();
        let rows = rows.zip(rows_of_bhtd(&mut dk, tk, d)).zip(rows_of_bhtd(&mut dv, tk, d_v));
        let rows = rows.map(|((dq, dk), dv)| [dq, dk, dv]).collect();
        let [q_layout, k_layout, v_layout] = &inputs.map(|x| Layout::contiguous(x.shape()));
        with_floats([q, k, v, out, dout], |[q, k, v, out, dout]| {
            self.gradients(Inputs::separate([(q, q_layout), (k, k_layout), (v, v_layout)])?, out, dout, rows)
        })?;
        let gradients = [dq, dk, dv].into_iter().zip(inputs);
        gradients.map(|(dx, x)| Tensor::from_vec(dx, x.shape(), x.device()).map(Some)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::random;

    #[test]
    fn a_backward_pass_without_the_state_of_a_forward_pass_is_an_error() {
        let (qkv, out) = (random(&[1, 2, 12], 1), random(&[1, 2, 2, 2], 2));
        let op = Attention::new(2, &AttentionMask::all(), None);
        assert!(op.backward(Kept::new(&[&qkv], Some(&out)), &out).is_err(), "no sums");
        op.attend(Inputs::joint(&[0.0; 24], (1, 2, 12), 2)).unwrap();
        assert!(op.backward(Kept::new(&[&qkv], None), &out).is_err(), "no output");
        assert!(op.backward(Kept::new(&[], Some(&out)), &out).is_err(), "no inputs");
        assert!(op.backward(Kept::new(&[&qkv], Some(&out)), &out).is_ok());
    }
}
