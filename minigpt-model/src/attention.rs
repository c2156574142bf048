//! Attention as layers: the decoder's causal self-attention, and multi-head attention over any queries, keys and
//! values for whoever builds something else. Both rest on the one core in `minigpt_kernels`.

use crate::config::Config;
use crate::embedding::Rotations;
use crate::error::Error;
use crate::hooks::{BlockSite, Site};
use crate::init::uniform;
use crate::linear::Linear;
use crate::pass::Pass;
use crate::weights::Tensors;
use candle_core::{Device, Result, Tensor, Var};
use minigpt_kernels::{self as ops, AttentionMask, Dropout};

/// The decoder's self-attention: each token looks at itself and at those before it.
#[derive(Debug, Clone)]
pub(crate) struct SelfAttention {
    c_attn: Linear,
    c_proj: Linear,
    n_head: usize,
    dropout: f64,
    rotations: Option<Rotations>,
    layer: usize,
}

impl SelfAttention {
    pub fn load(
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

    /// # Shapes
    /// - `x`: (B, T, C); output: the same
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let (b, t, c) = x.dims3()?;
        let qkv = self.project(x, pass)?; // (B, T, 3·C)
        if let Some(z) = pass.attend(self.layer, &qkv, true) {
            return self.c_proj.forward(&z?);
        }
        let z = match self.is_watched(pass) {
            true => self.attend(&qkv, pass)?,
            false => ops::self_attention(&qkv, self.n_head, &pass.mask(b)?, self.dropout(pass))?,
        };
        let z = pass.at(self.site(BlockSite::Z), z)?; // (B, T, H, D)
        self.c_proj.forward(&ops::reshape(&z, (b, t, c))?)
    }

    /// Only of the tokens that a pass keeps; the others leave their keys and values in the cache.
    ///
    /// # Shapes
    /// - `x`: (N, 1, C); output: (kept, 1, C)
    pub fn forward_kept(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        match pass.attend(self.layer, &self.project(x, pass)?, false) {
            Some(z) => self.c_proj.forward(&z?),
            None => candle_core::bail!("only a pass with a cache can go on with some of its tokens alone"),
        }
    }

    /// Queries, keys and values side by side, rotated where positions are rotary.
    ///
    /// # Shapes
    /// - `x`: (B, T, C); output: (B, T, 3·C)
    fn project(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let qkv = self.c_attn.forward(x)?;
        match &self.rotations {
            Some(rotations) => rotations.apply(&qkv, self.n_head, &pass.starts(x.dim(0)?)),
            None => Ok(qkv),
        }
    }

    /// Attention step by step, where somebody looks at the steps.
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
        let pattern = pass.at(pattern, ops::softmax(&scores)?)?;
        ops::attention_mix(&pattern, &v, dropout)
    }

    /// Whether somebody looks at what the fused operation on the joint projection does not show.
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

/// Multi-head attention over separate queries, keys and values, whose lengths may differ.
///
/// Masks say what may be *seen*: not 0 shows, 0 hides, as in PyTorch's `scaled_dot_product_attention`. Its
/// `nn.MultiheadAttention` has it the other way round, and some code adds −∞ where something is hidden;
/// [`visible_where_zero`] makes masks of ours from both.
///
/// ```
/// use minigpt_model::attention::{Attend, MultiHeadAttention, visible_where_zero};
/// use minigpt_model::{DType, Device, Tensor};
///
/// let attention = MultiHeadAttention::new(8, 2, true)?; // d_model, n_head, bias
/// let query = Tensor::ones((1, 3, 8), DType::F32, &Device::Cpu)?; // (B, Tq, C)
/// let memory = Tensor::ones((1, 5, 8), DType::F32, &Device::Cpu)?; // (B, Tk, C)
///
/// // The last two keys are padding, in the convention of nn.MultiheadAttention: true hides.
/// let hidden = Tensor::new(&[[0u8, 0, 0, 1, 1]], &Device::Cpu)?;
/// let visible = visible_where_zero(&hidden)?;
/// let attend = Attend { key_padding: Some(&visible), weights: true, ..Attend::default() };
/// let (output, weights) = attention.forward(&query, &memory, &memory, &attend)?;
/// assert_eq!(output.dims(), [1, 3, 8]);
/// let row = weights.unwrap().get(0)?.get(0)?.get(0)?.to_vec1::<f32>()?; // batch 0, head 0, query 0
/// assert_eq!(row[3..], [0.0, 0.0]);
/// # Ok::<(), minigpt_model::Error>(())
/// ```
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
#[derive(Debug, Clone, Default)]
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

/// A mask of ours from one whose zeros are visible: PyTorch's `attn_mask` and `key_padding_mask` of booleans, where true
/// hides, or numbers that are added to the scores, 0 or −∞.
pub fn visible_where_zero(mask: &Tensor) -> Result<Tensor> {
    mask.eq(&mask.zeros_like()?)
}

impl MultiHeadAttention {
    /// New layers on the CPU, batch first, whose weights (and biases) are variables drawn as PyTorch's `nn.Linear` draws
    /// them, from seed 0.
    ///
    /// # Errors
    /// The heads do not divide `d_model`.
    pub fn new(d_model: usize, n_head: usize, bias: bool) -> crate::Result<Self> {
        Self::seeded(d_model, n_head, bias, 0, &Device::Cpu)
    }

    /// The same from another seed, on any device.
    pub fn seeded(
        d_model: usize,
        n_head: usize,
        bias: bool,
        seed: u64,
        device: &Device,
    ) -> crate::Result<Self> {
        if d_model == 0 || n_head == 0 || !d_model.is_multiple_of(n_head) {
            return Err(Error::Config(format!("d_model {d_model} is not divisible by n_head {n_head}")));
        }
        let draw = |shape: &[usize], stream: u64| {
            let values = uniform(shape.iter().product(), 1.0 / (d_model as f64).sqrt(), seed, stream);
            Ok::<_, candle_core::Error>(Var::from_vec(values, shape, device)?.into_inner())
        };
        let layer = |number: u64| {
            let weight = draw(&[d_model, d_model], 2 * number)?;
            Ok::<_, candle_core::Error>(Linear::new(
                weight,
                bias.then(|| draw(&[d_model], 2 * number + 1)).transpose()?,
            ))
        };
        Ok(Self {
            q_proj: layer(0)?,
            k_proj: layer(1)?,
            v_proj: layer(2)?,
            out_proj: layer(3)?,
            n_head,
            sequence_first: false,
        })
    }

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
        let mask = attend.combined(q.dim(0)?)?;
        let (y, weights) = if attend.weights {
            let (y, weights) = ops::attention_composed(&q, &k, &v, &mask, attend.dropout.clone())?;
            (y, Some(weights))
        } else {
            (ops::attention(&q, &k, &v, &mask, attend.dropout.clone())?, None)
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
    /// All masks together.
    fn combined(&self, batch: usize) -> Result<AttentionMask> {
        let mut mask =
            if self.causal { AttentionMask::causal(&vec![0; batch]) } else { AttentionMask::all() };
        if let Some(allowed) = self.mask {
            mask = mask.and(allowed)?;
        }
        if let Some(padding) = self.key_padding {
            let (b, keys) = padding.dims2()?;
            mask = mask.and(&padding.reshape((b, 1, 1, keys))?)?;
        }
        Ok(mask)
    }
}
