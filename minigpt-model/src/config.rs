//! What a model is: its sizes and its switches. Names are nanoGPT's where it has one, Hugging Face's
//! otherwise.

use crate::error::{ModelConfigError, Result};
use minigpt_settings::{Section, settings};
use serde::{Deserialize, Serialize};
use std::ops::Bound::Excluded;

pub use minigpt_kernels::Activation;

settings! {
    /// The shape of a decoder, and every choice in which GPT-2's relatives differ.
    ///
    /// The defaults are GPT-2's (124M).
    pub struct Config in "model" {
        /// Vocabulary size. If the data has a tokenizer, the tokenizer decides.
        #[zh = "词表大小。有分词器时由分词器决定。"]
        vocab_size: usize = 50_257, 1..=1 << 30;
        /// Maximum context length in tokens.
        #[zh = "上下文的最大长度（词元数）。"]
        block_size: usize = 1024, 1..=1 << 24;
        /// Number of transformer blocks.
        #[zh = "Transformer 层（block）数。"]
        n_layer: usize = 12, 1..=1 << 12;
        /// Number of attention heads per block; `n_embd` must be divisible by it.
        #[zh = "每层的注意力头数；`n_embd` 必须能被它整除。"]
        n_head: usize = 12, 1..=1 << 12;
        /// Width of the residual stream (embedding dimension).
        #[zh = "残差流的宽度（嵌入维度）。"]
        n_embd: usize = 768, 1..=1 << 18;
        /// Hidden width of the MLP. Default: four times `n_embd`.
        #[zh = "MLP 的隐藏层宽度；默认为 `n_embd` 的四倍。"]
        n_inner: Option<usize> = None, 1..=1 << 20;
        /// Activation function of the MLP; `gelu_new` is GPT-2's tanh approximation of GELU.
        #[zh = "MLP 的激活函数；`gelu_new` 是 GPT-2 所用的 GELU 的 tanh 近似。"]
        activation_function: Activation = Activation::GeluNew;
        /// Whether normalization comes before attention and MLP (`pre`, as in GPT-2) or after the residual addition (`post`).
        #[zh = "归一化的位置：在注意力和 MLP 之前（`pre`，同 GPT-2）或在残差相加之后（`post`）。"]
        norm_position: NormPosition = NormPosition::Pre;
        /// Type of position embedding.
        #[zh = "位置编码的类型。"]
        position_embedding: PositionEmbedding = PositionEmbedding::Learned;
        /// Whether to multiply token embeddings by the square root of `n_embd`.
        #[zh = "词嵌入是否乘以 `n_embd` 的平方根。"]
        scale_embeddings: bool = false;
        /// Whether the query, key and value projection has a bias.
        #[zh = "查询、键、值投影是否带偏置。"]
        qkv_bias: bool = true;
        /// Whether the output projection of attention has a bias.
        #[zh = "注意力的输出投影是否带偏置。"]
        attn_out_bias: bool = true;
        /// Whether the linear layers of the MLP have a bias.
        #[zh = "MLP 的线性层是否带偏置。"]
        mlp_bias: bool = true;
        /// Whether the norms have a bias.
        #[zh = "归一化层是否带偏置。"]
        norm_bias: bool = true;
        /// Whether the output head has a bias.
        #[zh = "输出层是否带偏置。"]
        lm_head_bias: bool = false;
        /// Whether the output head shares its weights with the token embedding.
        #[zh = "输出层是否与词嵌入共用权重。"]
        tie_word_embeddings: bool = true;
        /// Epsilon of the norms, which avoids division by zero.
        #[zh = "归一化的 epsilon，用来防止除以零。"]
        layer_norm_epsilon: f64 = 1e-5, (Excluded(0.0), Excluded(1.0));
        /// Dropout on the sum of token and position embeddings.
        #[zh = "词嵌入与位置嵌入之和的 dropout。"]
        embd_pdrop: f64 = 0.1, 0.0..1.0;
        /// Dropout on attention weights.
        #[zh = "注意力权重的 dropout。"]
        attn_pdrop: f64 = 0.1, 0.0..1.0;
        /// Dropout on the outputs of attention and MLP, before the residual addition.
        #[zh = "注意力与 MLP 输出的 dropout，在残差相加之前。"]
        resid_pdrop: f64 = 0.1, 0.0..1.0;
        /// Standard deviation of the initial weights.
        #[zh = "初始权重的标准差。"]
        initializer_range: f64 = 0.02, (Excluded(0.0), Excluded(1.0));
    }
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
        self.check_ranges().map_err(ModelConfigError::from)?;
        let (n_embd, n_head) = (self.n_embd, self.n_head);
        if !n_embd.is_multiple_of(n_head) {
            return Err(ModelConfigError::Heads { name: "n_embd", width: n_embd, n_head }.into());
        }
        if self.position_embedding == PositionEmbedding::Rope && !self.head_width().is_multiple_of(2) {
            return Err(ModelConfigError::OddHeads { n_embd, n_head }.into());
        }
        self.check_positions()
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
