//! Attention as layers: the decoder's causal self-attention, and multi-head attention over any queries, keys and
//! values for whoever builds something else. Both rest on the one core in `ops::attention`.

use crate::block::Context;
use crate::config::{Config, PositionEmbedding};
use crate::embedding::Rotations;
use crate::linear::Linear;
use crate::weights::Tensors;
use candle_core::{Result, Tensor};
use minigpt_kernels::{self as ops, AttentionMask, Dropout};

/// The decoder's self-attention: each token looks at itself and at those before it.
#[derive(Debug, Clone)]
pub(crate) struct SelfAttention {
    c_attn: Linear,
    c_proj: Linear,
    n_head: usize,
    dropout: f64,
    rotations: Option<Rotations>,
}

impl SelfAttention {
    pub fn take(weights: &dyn Tensors, name: &str, config: &Config) -> Result<Self> {
        let c_attn = Linear::take(weights, &format!("{name}.c_attn"))?;
        let rotations = match config.position_embedding {
            PositionEmbedding::Rope => {
                let (dtype, device) = (c_attn.weight().dtype(), c_attn.weight().device());
                Some(Rotations::new(config.block_size, config.head_width(), dtype, device)?)
            }
            _ => None,
        };
        Ok(Self {
            c_attn,
            c_proj: Linear::take(weights, &format!("{name}.c_proj"))?,
            n_head: config.n_head,
            dropout: config.attn_pdrop,
            rotations,
        })
    }

    /// # Shapes
    /// - `x`: (B, T, C); output: the same, or (B, 1, C) where only the last tokens leave
    pub fn forward(&self, x: &Tensor, layer: usize, context: &mut Context) -> Result<Tensor> {
        let (b, _, c) = x.dims3()?;
        let mut qkv = self.c_attn.forward(x)?; // (B, T, 3·C)
        if let Some(rotations) = &self.rotations {
            qkv = rotations.apply(&qkv, self.n_head, &context.first)?;
        }
        let dropout = context.dropout(layer, 0, self.dropout);
        let y = self.mix(&qkv, layer, dropout, context)?; // (B, T, H, D)
        self.c_proj.forward(&ops::reshape(&y, (b, y.dim(1)?, c))?)
    }

    /// Attention with the cache when there is one, and with the weights kept when somebody traces them.
    fn mix(
        &self,
        qkv: &Tensor,
        layer: usize,
        dropout: Option<Dropout>,
        context: &mut Context,
    ) -> Result<Tensor> {
        let traced = context.trace.as_ref().is_some_and(|trace| trace.attention.is_some());
        if context.cache.is_none() && !traced {
            return ops::self_attention(qkv, self.n_head, &context.visible, dropout);
        }
        let [q, mut k, mut v] = ops::split_heads(qkv, self.n_head)?;
        let (q, visible) = (context.leaving(layer, &q, 2)?, context.visible(layer));
        if let Some(cache) = &context.cache {
            (k, v) = cache.append(layer, &k, &v, &context.lengths)?;
        }
        if !traced {
            return ops::attention(&q, &k, &v, &visible, dropout);
        }
        let (y, weights) = ops::attention_composed(&q, &k, &v, &visible, dropout)?;
        if let Some(trace) = &mut context.trace {
            trace.keep_attention(&weights);
        }
        Ok(y)
    }
}

/// Multi-head attention over separate queries, keys and values, whose lengths may differ.
#[derive(Debug, Clone)]
pub struct MultiHeadAttention {
    /// Projects the queries.
    pub q_proj: Linear,
    /// Projects the keys.
    pub k_proj: Linear,
    /// Projects the values.
    pub v_proj: Linear,
    /// Projects what the heads found.
    pub out_proj: Linear,
    /// How many heads; each is `d_model / n_head` wide.
    pub n_head: usize,
    /// Whether inputs and output are (T, B, C) rather than (B, T, C).
    pub sequence_first: bool,
}

/// What a query may look at, and what else to do on the way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attend<'a> {
    /// Query `i` sees the keys 0 to `i` only.
    pub causal: bool,
    /// u8, (Tq, Tk) or broadcastable to (B, H, Tq, Tk): not 0 where a query may look.
    pub mask: Option<&'a Tensor>,
    /// u8, (B, Tk): not 0 where a key is real, 0 where it is padding.
    pub key_padding: Option<&'a Tensor>,
    /// Dropout on the attention weights.
    pub dropout: Option<Dropout>,
    /// Whether to return the attention weights.
    pub weights: bool,
}

impl MultiHeadAttention {
    /// The output and, if asked for, the attention weights before dropout. Rows that may look nowhere mix nothing: the
    /// heads give zeros.
    ///
    /// # Shapes
    /// - `query`: (B, Tq, C); `key`, `value`: (B, Tk, C); with `sequence_first` (T, B, C)
    /// - output: (B, Tq, C) or (Tq, B, C); weights: (B, H, Tq, Tk)
    pub fn forward(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        attend: &Attend,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let q = self.heads(&self.q_proj.forward(query)?)?;
        let k = self.heads(&self.k_proj.forward(key)?)?;
        let v = self.heads(&self.v_proj.forward(value)?)?;
        let visible = attend.visible(q.dim(0)?)?;
        let (y, weights) = if attend.weights {
            let (y, weights) = ops::attention_composed(&q, &k, &v, &visible, attend.dropout)?;
            (y, Some(weights))
        } else {
            (ops::attention(&q, &k, &v, &visible, attend.dropout)?, None)
        };
        let y = y.flatten_from(2)?; // (B, Tq, C)
        let y = if self.sequence_first { y.transpose(0, 1)?.contiguous()? } else { y };
        Ok((self.out_proj.forward(&y)?, weights))
    }

    /// (B, T, C) or (T, B, C) → (B, H, T, D), without copying.
    fn heads(&self, x: &Tensor) -> Result<Tensor> {
        let (first, second, c) = x.dims3()?;
        let x = x.reshape((first, second, self.n_head, c / self.n_head))?;
        if self.sequence_first { x.permute((1, 2, 0, 3)) } else { x.transpose(1, 2) }
    }
}

impl Attend<'_> {
    fn visible(&self, batch: usize) -> Result<AttentionMask> {
        let mut visible =
            if self.causal { AttentionMask::causal(&vec![0; batch]) } else { AttentionMask::all() };
        if let Some(mask) = self.mask {
            visible = visible.and(mask)?;
        }
        if let Some(padding) = self.key_padding {
            let (b, keys) = padding.dims2()?;
            visible = visible.and(&padding.reshape((b, 1, 1, keys))?)?;
        }
        Ok(visible)
    }
}
