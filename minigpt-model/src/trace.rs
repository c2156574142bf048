//! A look inside a forward pass: attention weights and hidden states, kept only when somebody asks.

use candle_core::Tensor;

/// What to keep of a forward pass, and where it is kept.
#[derive(Debug, Default)]
pub struct Trace {
    /// Attention weights (B, H, Tq, Tk), one a layer, if they were asked for.
    pub attention: Option<Vec<Tensor>>,
    /// The residual stream (B, T, C) after the embedding and after each block, if it was asked for.
    pub hidden: Option<Vec<Tensor>>,
}

impl Trace {
    /// Keeps attention weights.
    pub fn attention() -> Self {
        Self { attention: Some(Vec::new()), hidden: None }
    }

    /// Keeps hidden states.
    pub fn hidden() -> Self {
        Self { attention: None, hidden: Some(Vec::new()) }
    }

    /// Keeps both.
    pub fn all() -> Self {
        Self { attention: Some(Vec::new()), hidden: Some(Vec::new()) }
    }

    pub(crate) fn keep_hidden(&mut self, x: &Tensor) {
        if let Some(hidden) = &mut self.hidden {
            hidden.push(x.detach());
        }
    }

    pub(crate) fn keep_attention(&mut self, weights: &Tensor) {
        if let Some(attention) = &mut self.attention {
            attention.push(weights.detach());
        }
    }
}
