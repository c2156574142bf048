//! The cost of a model before it is trained: parameters, memory and arithmetic.

use crate::config::Config;
use crate::parameters::Count;
use serde::Serialize;

/// Bytes of an f32.
const F32: u64 = 4;

/// The cost of training with a given batch size and context.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// Parameters, in all and by part.
    pub parameters: Count,
    /// Rows per batch.
    pub batch_size: usize,
    /// Tokens per row.
    pub block_size: usize,
    /// Memory for training.
    pub train_bytes: u64,
    /// The same by part.
    pub train_memory: Memory,
    /// Weights and one row's cache, as f32.
    pub inference_bytes: u64,
    /// Keys and values of one row at full context.
    pub cache_bytes: u64,
    /// Multiplications and additions of a forward pass, per token.
    pub forward_flops_per_token: u64,
    /// The same for a forward and a backward pass.
    pub train_flops_per_token: u64,
    /// The same for a batch.
    pub train_flops_per_step: u64,
    /// The compute-optimal number of training tokens, 20 per parameter (Hoffmann et al. 2022).
    pub optimal_tokens: u64,
}

/// Training memory by part, in bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Memory {
    /// The parameters.
    pub weights: u64,
    /// Their gradients.
    pub gradients: u64,
    /// AdamW's two moments.
    pub moments: u64,
    /// Activations kept for the backward pass, and the largest temporaries: an estimate.
    pub activations: u64,
}

/// The cost of attention for one row, forward. It grows with the square of the context, all else linearly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AttentionCost {
    /// Tokens in the row.
    pub block_size: usize,
    /// Multiplications and additions in all layers, for scores and for mixing values.
    pub flops: u64,
    /// Their share of the whole forward pass.
    pub share: f64,
    /// The attention weights (H, T, T) of one layer as f32. They are only in memory if a hook wants them.
    pub weights_bytes: u64,
}

impl AttentionCost {
    /// The cost for a context.
    pub fn new(config: &Config, block_size: usize) -> Self {
        let (t, pairs) = (block_size as u64, (block_size as u64).saturating_mul(block_size as u64));
        let flops = pairs.saturating_mul(4 * (config.n_layer * config.n_embd) as u64);
        let all = forward_flops_per_token(config, block_size).saturating_mul(t);
        Self {
            block_size,
            flops,
            share: flops as f64 / all.max(1) as f64,
            weights_bytes: pairs.saturating_mul(F32 * config.n_head as u64),
        }
    }
}

/// The part of attention's FLOPs that a causal mask makes unnecessary: the pairs of a token and a later one,
/// for one row in `layers` layers, forward. [`AttentionCost`] counts them, as is usual; the kernels skip
/// them.
pub fn masked_flops(config: &Config, layers: usize, block_size: usize) -> u64 {
    let pairs = (block_size as u64).saturating_mul(block_size.saturating_sub(1) as u64) / 2;
    pairs.saturating_mul(4 * (layers * config.n_embd) as u64)
}

impl Plan {
    /// Computes the cost for a valid configuration.
    pub fn new(config: &Config, batch_size: usize, block_size: usize) -> Self {
        let parameters = Count::of(config);
        let weights = F32 * parameters.total;
        let tokens = (batch_size as u64).saturating_mul(block_size as u64);
        let memory = Memory {
            weights,
            gradients: weights,
            moments: 2 * weights,
            activations: tokens.saturating_mul(F32 * activations_per_token(config)),
        };
        let cache_bytes = F32 * 2 * (config.n_layer * config.n_embd * config.block_size) as u64;
        let forward = forward_flops_per_token(config, block_size);
        let optimal_tokens = 20 * parameters.total;
        Self {
            parameters,
            batch_size,
            block_size,
            train_bytes: (4 * weights).saturating_add(memory.activations),
            train_memory: memory,
            inference_bytes: weights + cache_bytes,
            cache_bytes,
            forward_flops_per_token: forward,
            train_flops_per_token: forward.saturating_mul(3),
            train_flops_per_step: tokens.saturating_mul(forward.saturating_mul(3)),
            optimal_tokens,
        }
    }
}

/// Two operations per weight of a matrix product, and four per pair of tokens and element of the width. The
/// backward pass costs twice the forward pass.
fn forward_flops_per_token(config: &Config, block_size: usize) -> u64 {
    let [l, c, inner, v, t] =
        [config.n_layer, config.n_embd, config.inner(), config.vocab_size, block_size].map(|n| n as u64);
    let products = l * (4 * c * c + 2 * c * inner) + v * c;
    (2 * products).saturating_add((4 * l * c).saturating_mul(t))
}

/// Numbers kept for each token: in a block the two norms, qkv, the mixed heads, two projections, two sums and
/// the two sides of the activation; around the blocks the embedding, the final norm, the logits and their
/// gradient.
fn activations_per_token(config: &Config) -> u64 {
    let [l, c, inner, v] =
        [config.n_layer, config.n_embd, config.inner(), config.vocab_size].map(|n| n as u64);
    l * (10 * c + 2 * inner) + 2 * c + 2 * v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_costs_about_six_operations_a_parameter_and_token() {
        let plan = Plan::new(&Config::default(), 1, 1024);
        let ratio = plan.train_flops_per_token as f64 / plan.parameters.total as f64;
        assert!((6.0..7.0).contains(&ratio), "{ratio}"); // 6 for the weights, the rest for attention
        assert_eq!(
            plan.train_flops_per_token,
            6 * (12 * 12 * 768 * 768 + 50_257 * 768) + 12 * 12 * 768 * 1024
        );
    }

    #[test]
    fn attention_grows_with_the_square_of_the_context() {
        let [one, two] = [1024, 2048].map(|t| AttentionCost::new(&Config::default(), t));
        assert_eq!((two.flops, two.weights_bytes), (4 * one.flops, 4 * one.weights_bytes));
        assert_eq!(one.flops, 4 * 12 * 768 * 1024 * 1024);
        assert_eq!(one.weights_bytes, 4 * 12 * 1024 * 1024);
        assert!(0.1 < one.share && one.share < two.share && two.share < 0.3, "{one:?} {two:?}");
    }

    #[test]
    fn a_mask_hides_nearly_half_of_attention() {
        let config = Config::default();
        assert_eq!(masked_flops(&config, 12, 1), 0);
        let (masked, all) = (masked_flops(&config, 12, 1024), AttentionCost::new(&config, 1024).flops);
        assert_eq!(all - 2 * masked, 4 * 12 * 768 * 1024, "twice that, and the pairs of a token with itself");
    }

    #[test]
    fn gpt3_needs_terabytes_and_does_not_overflow() {
        let plan = Plan::new(&Config::preset("gpt3").unwrap(), 32, 2048);
        assert_eq!(plan.train_memory.weights, 4 * 174_604_259_328);
        assert!(plan.train_bytes > 2_700_000_000_000);
    }
}
