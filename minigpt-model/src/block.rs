//! A block: attention, then the MLP, each added to the residual stream, with the norms before or after.

use crate::attention::SelfAttention;
use crate::cache::Cache;
use crate::config::{Config, NormPosition};
use crate::linear::Norm;
use crate::mlp::Mlp;
use crate::trace::Trace;
use crate::weights::Tensors;
use candle_core::{Result, Tensor};
use minigpt_kernels::{self as ops, AttentionMask, Dropout};

/// What a forward pass carries from layer to layer beside the residual stream.
pub(crate) struct Context<'a> {
    /// The position of each row's first token.
    pub first: Vec<usize>,
    /// How many tokens of each row are real; the rest is padding.
    pub lengths: Vec<usize>,
    pub visible: AttentionMask,
    pub cache: Option<&'a Cache>,
    pub trace: Option<&'a mut Trace>,
    /// The key of this pass's dropout; none outside of training.
    pub key: Option<u64>,
    /// The layer that only the last real token of each row leaves: the others gave it their keys and values, and
    /// nobody asks for more of them.
    pub last_only: Option<usize>,
}

/// The places where a block drops something, beside the embedding.
const PLACES: u64 = 3;

impl Context<'_> {
    /// What of `x` leaves a layer: all of it, or the last real token of each row.
    ///
    /// # Shapes
    /// - `x`: (B, …, T, …), T being dimension `time`; output: the same, or with T = 1
    pub fn leaving(&self, layer: usize, x: &Tensor, time: usize) -> Result<Tensor> {
        if self.last_only != Some(layer) {
            return Ok(x.clone());
        }
        let last = |(row, &n): (usize, &usize)| x.narrow(0, row, 1)?.narrow(time, n.saturating_sub(1), 1);
        let rows = self.lengths.iter().enumerate().map(last).collect::<Result<Vec<_>>>()?;
        if let [row] = &rows[..] { Ok(row.clone()) } else { Tensor::cat(&rows, 0) }
    }

    /// What those may see that leave a layer.
    pub fn visible(&self, layer: usize) -> AttentionMask {
        if self.last_only != Some(layer) {
            return self.visible.clone();
        }
        let last = |(first, n): (&usize, &usize)| first + n.saturating_sub(1);
        AttentionMask::causal(&self.first.iter().zip(&self.lengths).map(last).collect::<Vec<_>>())
    }

    /// Dropout for place 0 (attention weights), 1 (attention's output) or 2 (the MLP's output) of a layer.
    pub fn dropout(&self, layer: usize, place: u64, p: f64) -> Option<Dropout> {
        Dropout::new(p, ops::place(self.key?, 1 + PLACES * layer as u64 + place))
    }

    /// Dropout for the embedding.
    pub fn embedding_dropout(&self, p: f64) -> Option<Dropout> {
        Dropout::new(p, ops::place(self.key?, 0))
    }
}

/// Applies dropout where there is any.
pub(crate) fn drop(x: Tensor, dropout: Option<Dropout>) -> Result<Tensor> {
    match dropout {
        Some(dropout) => ops::dropout(&x, dropout),
        None => Ok(x),
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Block {
    ln_1: Norm,
    attn: SelfAttention,
    ln_2: Norm,
    mlp: Mlp,
    norm_position: NormPosition,
    dropout: f64,
}

impl Block {
    pub fn take(weights: &dyn Tensors, name: &str, config: &Config) -> Result<Self> {
        Ok(Self {
            ln_1: Norm::take(weights, &format!("{name}.ln_1"), config.layer_norm_epsilon)?,
            attn: SelfAttention::take(weights, &format!("{name}.attn"), config)?,
            ln_2: Norm::take(weights, &format!("{name}.ln_2"), config.layer_norm_epsilon)?,
            mlp: Mlp::take(weights, &format!("{name}.mlp"), config)?,
            norm_position: config.norm_position,
            dropout: config.resid_pdrop,
        })
    }

    /// # Shapes
    /// - `x`: (B, T, C); output: the same, or (B, 1, C) where only the last tokens leave
    pub fn forward(&self, x: &Tensor, layer: usize, context: &mut Context) -> Result<Tensor> {
        let attn_dropout = context.dropout(layer, 1, self.dropout);
        let mlp_dropout = context.dropout(layer, 2, self.dropout);
        match self.norm_position {
            NormPosition::Pre => {
                let found = drop(self.attn.forward(&self.ln_1.forward(x)?, layer, context)?, attn_dropout)?;
                let x = ops::add(&context.leaving(layer, x, 1)?, &found)?;
                ops::add(&x, &drop(self.mlp.forward(&self.ln_2.forward(&x)?)?, mlp_dropout)?)
            }
            NormPosition::Post => {
                let found = drop(self.attn.forward(x, layer, context)?, attn_dropout)?;
                let x = ops::add(&context.leaving(layer, x, 1)?, &found)?;
                let x = self.ln_1.forward(&x)?;
                self.ln_2.forward(&ops::add(&x, &drop(self.mlp.forward(&x)?, mlp_dropout)?)?)
            }
        }
    }
}
