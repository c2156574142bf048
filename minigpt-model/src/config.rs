//! What a model is: its sizes and its switches. Names are nanoGPT's where it has one, Hugging Face's
//! otherwise.

use crate::error::{ModelConfigError, Result};
use serde::{Deserialize, Serialize};

pub use minigpt_kernels::Activation;

/// The shape of a decoder, and every choice in which GPT-2's relatives differ.
///
/// The defaults are GPT-2's (124M).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How many different tokens there are.
    pub vocab_size: usize,
    /// The longest context, in tokens.
    pub block_size: usize,
    /// How many blocks.
    pub n_layer: usize,
    /// How many attention heads a block.
    pub n_head: usize,
    /// The width of the residual stream.
    pub n_embd: usize,
    /// The width inside the MLP; 4 · `n_embd` when absent.
    pub n_inner: Option<usize>,
    /// The nonlinearity inside the MLP.
    pub activation_function: Activation,
    /// Where the normalization stands in a block.
    pub norm_position: NormPosition,
    /// How a token learns where it stands.
    pub position_embedding: PositionEmbedding,
    /// Whether token embeddings are multiplied by √`n_embd`.
    pub scale_embeddings: bool,
    /// Whether the projection to queries, keys and values has biases.
    pub qkv_bias: bool,
    /// Whether the attention's output projection has biases.
    pub attn_out_bias: bool,
    /// Whether the MLP's two layers have biases.
    pub mlp_bias: bool,
    /// Whether the norms have biases.
    pub norm_bias: bool,
    /// Whether the output head has biases.
    pub lm_head_bias: bool,
    /// Whether the output head is the token embedding.
    pub tie_word_embeddings: bool,
    /// What keeps a norm from dividing by zero.
    pub layer_norm_epsilon: f64,
    /// Dropout on the sum of the embeddings.
    pub embd_pdrop: f64,
    /// Dropout on attention weights.
    pub attn_pdrop: f64,
    /// Dropout on what attention and MLP add to the residual stream.
    pub resid_pdrop: f64,
    /// The standard deviation of initial weights.
    pub initializer_range: f64,
}

/// Where the normalization stands in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormPosition {
    /// `x + f(norm(x))`, and one more norm after the last block.
    Pre,
    /// `norm(x + f(x))`, and none after the last block.
    Post,
}

/// How a token learns where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PositionEmbedding {
    /// A learned vector a position, added to the token's.
    Learned,
    /// Fixed sines and cosines, added to the token's.
    Sinusoidal,
    /// Queries and keys are rotated by their position.
    Rope,
    /// Nothing says it: only the causal mask tells earlier from later.
    None,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 50_257,
            block_size: 1024,
            n_layer: 12,
            n_head: 12,
            n_embd: 768,
            n_inner: None,
            activation_function: Activation::GeluNew,
            norm_position: NormPosition::Pre,
            position_embedding: PositionEmbedding::Learned,
            scale_embeddings: false,
            qkv_bias: true,
            attn_out_bias: true,
            mlp_bias: true,
            norm_bias: true,
            lm_head_bias: false,
            tie_word_embeddings: true,
            layer_norm_epsilon: 1e-5,
            embd_pdrop: 0.1,
            attn_pdrop: 0.1,
            resid_pdrop: 0.1,
            initializer_range: 0.02,
        }
    }
}

impl Config {
    /// nanoGPT's one switch for the biases of linear layers and norms.
    pub fn with_bias(self, bias: bool) -> Self {
        Self { qkv_bias: bias, attn_out_bias: bias, mlp_bias: bias, norm_bias: bias, ..self }
    }

    /// nanoGPT's one number for dropout everywhere.
    pub fn with_dropout(self, p: f64) -> Self {
        Self { embd_pdrop: p, attn_pdrop: p, resid_pdrop: p, ..self }
    }

    /// The width inside the MLP.
    pub fn inner(&self) -> usize {
        self.n_inner.unwrap_or(4 * self.n_embd)
    }

    /// The width of one attention head.
    pub fn head_width(&self) -> usize {
        self.n_embd / self.n_head
    }

    /// Whether a norm stands after the last block. A post-norm block ends in one already.
    pub fn final_norm(&self) -> bool {
        self.norm_position == NormPosition::Pre
    }

    /// Checks that a model of this shape can exist; the error names the field.
    pub fn validate(&self) -> Result<()> {
        let sizes = [
            ("vocab_size", self.vocab_size, 1 << 30),
            ("block_size", self.block_size, 1 << 24),
            ("n_layer", self.n_layer, 1 << 12),
            ("n_head", self.n_head, 1 << 12),
            ("n_embd", self.n_embd, 1 << 18),
            ("n_inner", self.inner(), 1 << 20),
        ];
        for (name, value, max) in sizes {
            if value == 0 || value > max {
                return Err(ModelConfigError::Size { name, value, max }.into());
            }
        }
        let (n_embd, n_head) = (self.n_embd, self.n_head);
        if !n_embd.is_multiple_of(n_head) {
            return Err(ModelConfigError::Heads { name: "n_embd", width: n_embd, n_head }.into());
        }
        if self.position_embedding == PositionEmbedding::Rope && !self.head_width().is_multiple_of(2) {
            return Err(ModelConfigError::OddHeads { n_embd, n_head }.into());
        }
        self.check_positions()?;
        let dropouts = [
            ("embd_pdrop", self.embd_pdrop),
            ("attn_pdrop", self.attn_pdrop),
            ("resid_pdrop", self.resid_pdrop),
        ];
        for (name, value) in dropouts {
            if !(0.0..1.0).contains(&value) {
                return Err(ModelConfigError::Dropout { name, value }.into());
            }
        }
        let positive =
            [("layer_norm_epsilon", self.layer_norm_epsilon), ("initializer_range", self.initializer_range)];
        for (name, value) in positive {
            if !(value > 0.0 && value < 1.0) {
                return Err(ModelConfigError::Fraction { name, value }.into());
            }
        }
        Ok(())
    }

    /// Refuses contexts that are too long. Learned positions are in the model's file; a longer table that is
    /// computed, or the cache of a context without one, would take memory that no file pays for.
    fn check_positions(&self) -> Result<()> {
        const MOST_BYTES: usize = 256 << 20;
        let width = match self.position_embedding {
            PositionEmbedding::Learned => return Ok(()),
            PositionEmbedding::Sinusoidal | PositionEmbedding::None => self.n_embd,
            PositionEmbedding::Rope => self.head_width(),
        };
        let max = MOST_BYTES / (size_of::<f32>() * width);
        if self.block_size > max {
            return Err(ModelConfigError::Context { block_size: self.block_size, max }.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: &Config) -> String {
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_field() {
        let base = Config::default;
        assert_eq!(refused(&Config { n_embd: 100, ..base() }), "n_embd 100 is not divisible by n_head 12");
        assert!(refused(&Config { n_layer: 0, ..base() }).starts_with("n_layer is 0"));
        assert!(refused(&Config { vocab_size: usize::MAX, ..base() }).starts_with("vocab_size is"));
        assert!(refused(&Config { attn_pdrop: 1.0, ..base() }).starts_with("attn_pdrop is 1"));
        assert!(refused(&Config { embd_pdrop: f64::NAN, ..base() }).starts_with("embd_pdrop is NaN"));
        assert!(refused(&Config { layer_norm_epsilon: 0.0, ..base() }).starts_with("layer_norm_epsilon"));
        let odd = Config { n_embd: 9, n_head: 3, position_embedding: PositionEmbedding::Rope, ..base() };
        assert!(refused(&odd).contains("9 / n_head 3 = 3"));
    }
}
