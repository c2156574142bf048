//! Multi-head attention over separate queries, keys and values, as a building block for other models.

use crate::error::ModelConfigError;
use crate::init::uniform;
use crate::linear::Linear;
use candle_core::{Device, Result, Tensor, Var};
use minigpt_kernels::{self as ops, AttentionMask, Dropout};

/// Multi-head attention over separate queries, keys and values, whose lengths may differ.
///
/// In masks, 0 hides a key and anything else shows it, as in PyTorch's `scaled_dot_product_attention`. In the
/// boolean masks of PyTorch's `nn.MultiheadAttention` it is the other way round, and additive masks have −∞
/// for hidden keys: [`visible_where_zero`] converts both.
///
/// # Example
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
    /// Projects the output of all heads.
    pub out_proj: Linear,
    /// The number of heads. `q_proj` and `k_proj` have `n_head · d_k` outputs, `v_proj` has `n_head · d_v`.
    pub n_head: usize,
    /// Whether inputs and output are (T, B, C) rather than (B, T, C).
    pub sequence_first: bool,
}

/// Options of a forward pass: masks, dropout, and whether to return the attention weights.
#[derive(Debug, Clone, Default)]
pub struct Attend<'a> {
    /// Whether query `i` sees only the keys 0 to `i`.
    pub causal: bool,
    /// u8, (Tq, Tk) or broadcastable to (B, H, Tq, Tk): 0 where a key is hidden from a query.
    pub mask: Option<&'a Tensor>,
    /// u8, (B, Tk): 0 where a key is padding.
    pub key_padding: Option<&'a Tensor>,
    /// Dropout on the attention weights.
    pub dropout: Option<Dropout>,
    /// Whether to return the attention weights.
    pub weights: bool,
}

/// Converts a mask in which 0 means visible: a boolean `attn_mask` or `key_padding_mask` of PyTorch's
/// `nn.MultiheadAttention`, or an additive mask of 0 and −∞.
pub fn visible_where_zero(mask: &Tensor) -> Result<Tensor> {
    mask.eq(&mask.zeros_like()?)
}

impl MultiHeadAttention {
    /// Creates an attention module on the CPU, batch first, with `d_k = d_v = d_model / n_head`. Weights and
    /// biases are variables, initialized like PyTorch's `nn.Linear`, from seed 0.
    ///
    /// # Errors
    /// `d_model` is not divisible by `n_head`.
    pub fn new(d_model: usize, n_head: usize, bias: bool) -> crate::Result<Self> {
        Self::seeded(d_model, n_head, bias, 0, &Device::Cpu)
    }

    /// Like [`new`](Self::new), with any seed and on any device.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn seeded(
        d_model: usize,
        n_head: usize,
        bias: bool,
        seed: u64,
        device: &Device,
    ) -> crate::Result<Self> {
        if d_model == 0 || n_head == 0 || !d_model.is_multiple_of(n_head) {
            return Err(ModelConfigError::Heads { name: "d_model", width: d_model, n_head }.into());
        }
        let width = d_model / n_head;
        Self::with_widths([d_model, n_head, width, width], bias, seed, device)
    }

    /// Creates an attention module whose heads have queries and keys of width `d_k` and values of width
    /// `d_v`, both independent of `d_model`: the projections have `n_head · d_k` and `n_head · d_v` outputs,
    /// and the output projection leads back to `d_model`.
    ///
    /// # Errors
    /// A width is 0.
    ///
    /// # Example
    /// ```
    /// use minigpt_model::attention::{Attend, MultiHeadAttention};
    /// use minigpt_model::{DType, Device, Tensor};
    ///
    /// let [d_model, n_head, d_k, d_v] = [10, 3, 4, 2];
    /// let attention = MultiHeadAttention::with_widths([d_model, n_head, d_k, d_v], true, 0, &Device::Cpu)?;
    /// let x = Tensor::ones((1, 5, d_model), DType::F32, &Device::Cpu)?;
    /// let (output, _) = attention.forward(&x, &x, &x, &Attend { causal: true, ..Attend::default() })?;
    /// assert_eq!(output.dims(), [1, 5, d_model]);
    /// # Ok::<(), minigpt_model::Error>(())
    /// ```
    pub fn with_widths(
        [d_model, n_head, d_k, d_v]: [usize; 4],
        bias: bool,
        seed: u64,
        device: &Device,
    ) -> crate::Result<Self> {
        if [d_model, n_head, d_k, d_v].contains(&0) {
            return Err(ModelConfigError::Widths { d_model, n_head, d_k, d_v }.into());
        }
        let layer = |number: u64, width_in: usize, width_out: usize| {
            let bound = 1.0 / (width_in as f64).sqrt();
            let draw = |shape: &[usize], stream: u64| {
                let values = uniform(shape.iter().product(), bound, seed, stream);
                Ok::<_, candle_core::Error>(Var::from_vec(values, shape, device)?.into_inner())
            };
            let weight = draw(&[width_in, width_out], 2 * number)?;
            let bias = bias.then(|| draw(&[width_out], 2 * number + 1)).transpose()?;
            Ok::<_, candle_core::Error>(Linear::new(weight, bias))
        };
        Ok(Self {
            q_proj: layer(0, d_model, n_head * d_k)?,
            k_proj: layer(1, d_model, n_head * d_k)?,
            v_proj: layer(2, d_model, n_head * d_v)?,
            out_proj: layer(3, n_head * d_v, d_model)?,
            n_head,
            sequence_first: false,
        })
    }

    /// Returns the output and, if [`Attend::weights`] is set, the attention weights before dropout. For a
    /// query that sees no key, the output of every head is 0.
    ///
    /// # Shapes
    /// - `query`: (B, Tq, C); `key`, `value`: (B, Tk, C); or with `sequence_first` (T, B, C)
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
        let y = y.flatten_from(2)?; // (B, Tq, H·Dv)
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
