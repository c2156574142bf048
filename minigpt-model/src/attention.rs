//! Causal self-attention, and attention as a plain function.

use crate::config::Config;
use crate::embedding::Rotations;
use crate::hooks::{BlockSite, Site};
use crate::linear::Linear;
use crate::pass::Pass;
use crate::weights::Tensors;
use candle_core::{Result, Tensor};
use minigpt_kernels::{self as ops, AttentionMask, Dropout};

pub use crate::multi_head_attention::{Attend, MultiHeadAttention, visible_where_zero};

/// Scaled dot-product attention: `softmax(Q Kᵀ / √D) V`, causal or over all keys.
///
/// # Shapes
/// - `q`: (B, H, Tq, D); `k`: (B, H, Tk, D); `v`: (B, H, Tk, Dv); output: (B, H, Tq, Dv)
///
/// # Example
/// ```
/// use minigpt_model::attention::scaled_dot_product_attention;
/// use minigpt_model::{Device, Tensor};
///
/// let q = Tensor::new(&[[[[0.9f32, 0.8]]]], &Device::Cpu)?; // one batch row, one head, one query
/// let k = Tensor::new(&[[[[0.1f32, 0.3], [0.9, 0.5], [0.3, 0.1]]]], &Device::Cpu)?; // three keys
/// let v = Tensor::new(&[[[[0.5f32, 0.9], [0.9, 0.6], [0.7, 0.8]]]], &Device::Cpu)?;
/// let y = scaled_dot_product_attention(&q, &k, &v, false)?.flatten_all()?.to_vec1::<f32>()?;
/// assert!((y[0] - 0.7445).abs() < 1e-4 && (y[1] - 0.7297).abs() < 1e-4);
/// # Ok::<(), minigpt_model::Error>(())
/// ```
pub fn scaled_dot_product_attention(q: &Tensor, k: &Tensor, v: &Tensor, causal: bool) -> Result<Tensor> {
    let mask = if causal { AttentionMask::causal(&vec![0; q.dim(0)?]) } else { AttentionMask::all() };
    ops::attention(q, k, v, &mask, None)?.transpose(1, 2) // (B, H, Tq, Dv)
}

/// Causal self-attention: each token attends to itself and to the tokens before it.
///
/// # Example
/// ```
/// use minigpt_model::{CausalSelfAttention, Device, Linear, Pass, Tensor};
///
/// // One head of width 1. Queries and keys are 0, so a token attends equally to all that it sees; values are the input.
/// let c_attn = Linear::new(Tensor::new(&[[0f32, 0.0, 1.0]], &Device::Cpu)?, None); // (C, 3·C)
/// let c_proj = Linear::new(Tensor::new(&[[1f32]], &Device::Cpu)?, None);
/// let attention = CausalSelfAttention::new(c_attn, c_proj, 1);
/// let x = Tensor::new(&[[[1f32], [3.0], [5.0]]], &Device::Cpu)?; // (B, T, C)
/// let y = attention.forward(&x, &Pass::new())?.flatten_all()?.to_vec1::<f32>()?;
/// assert_eq!(y, [1.0, 2.0, 3.0]); // running means
/// # Ok::<(), minigpt_model::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CausalSelfAttention {
    c_attn: Linear,
    c_proj: Linear,
    n_head: usize,
    dropout: f64,
    rotations: Option<Rotations>,
    layer: usize,
}

impl CausalSelfAttention {
    /// Creates attention with `n_head` heads from the joint projection to queries, keys and values (C → 3·C)
    /// and the output projection (C → C), without rotary positions and without dropout.
    pub fn new(c_attn: Linear, c_proj: Linear, n_head: usize) -> Self {
        Self { c_attn, c_proj, n_head, dropout: 0.0, rotations: None, layer: 0 }
    }

    pub(crate) fn load(
        weights: &dyn Tensors,
        layer: usize,
        config: &Config,
        rotations: Option<Rotations>,
    ) -> Result<Self> {
        Ok(Self {
            c_attn: Linear::load(weights, &format!("h.{layer}.attn.c_attn"))?,
            c_proj: Linear::load(weights, &format!("h.{layer}.attn.c_proj"))?,
            n_head: config.n_head,
            dropout: config.attn_pdrop,
            rotations,
            layer,
        })
    }

    /// Computes the attention output of each token, or, in the last block of a cached pass, of the tokens
    /// whose logits are needed.
    ///
    /// # Shapes
    /// - `x`: (B, T, C); output: (B, T, C)
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let (b, t, c) = x.dims3()?;
        let qkv = self.c_attn.forward(x)?; // (B, T, 3·C)
        let qkv = match &self.rotations {
            Some(rotations) => rotations.apply(&qkv, self.n_head, &pass.starts(b))?,
            None => qkv,
        };
        if let Some(z) = pass.attend(self.layer, &qkv) {
            return self.c_proj.forward(&z?); // over the cache
        }
        let z = if self.is_watched(pass) {
            self.attend(&qkv, pass)?
        } else {
            ops::self_attention(&qkv, self.n_head, &pass.mask(b)?, self.dropout(pass))?
        };
        let z = pass.at(self.site(BlockSite::Z), z)?; // (B, T, H, D)
        let z = ops::reshape(&z, (b, t, c))?; // the heads side by side: (B, T, C)
        self.c_proj.forward(&z)
    }

    /// Computes attention step by step, for hooks that watch the steps.
    ///
    /// # Shapes
    /// - `qkv`: (B, T, 3·C); output: (B, T, H, D)
    fn attend(&self, qkv: &Tensor, pass: &Pass) -> Result<Tensor> {
        let [q, k, v] = ops::split_heads(qkv, self.n_head)?; // (B, H, T, D)
        let q = pass.at(self.site(BlockSite::Q), q)?;
        let k = pass.at(self.site(BlockSite::K), k)?;
        let v = pass.at(self.site(BlockSite::V), v)?;
        let mask = pass.mask(q.dim(0)?)?;
        let dropout = self.dropout(pass);
        let (scores, pattern) = (self.site(BlockSite::Scores), self.site(BlockSite::Pattern));
        if !(pass.wants(scores) || pass.wants(pattern)) {
            return ops::attention(&q, &k, &v, &mask, dropout);
        }
        let scores = pass.at(scores, ops::attention_scores(&q, &k, &mask)?)?; // (B, H, T, Tk)
        let pattern = pass.at(pattern, ops::softmax(&scores)?)?; // (B, H, T, Tk)
        ops::attention_mix(&pattern, &v, dropout)
    }

    /// Whether a hook wants a step that is hidden inside the fused operation.
    fn is_watched(&self, pass: &Pass) -> bool {
        use BlockSite::{K, Pattern, Q, Scores, V};
        [Q, K, V, Scores, Pattern].into_iter().any(|site| pass.wants(self.site(site)))
    }

    fn dropout(&self, pass: &Pass) -> Option<Dropout> {
        pass.dropout(self.site(BlockSite::Pattern), self.dropout)
    }

    fn site(&self, site: BlockSite) -> Site {
        Site::Block(self.layer, site)
    }
}
