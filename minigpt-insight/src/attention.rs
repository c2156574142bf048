//! Which token looks at which: one layer's attention weights at a time, so that a long text needs the memory of one layer
//! only; and what can be said of a head in three numbers.

use crate::error::Result;
use crate::subject::{Subject, floats};
use candle_core::Tensor;
use minigpt_model::{BlockSite, Hook, Site};
use serde::Serialize;

/// Attention weights of a layer by head, query and key.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerAttention {
    /// The layer.
    pub layer: usize,
    /// `weights[head][query][key]`.
    pub weights: Vec<Vec<Vec<f32>>>,
}

/// What the heads of a model look at in a text, in a few numbers a head, and what flows through all layers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttentionSummary {
    /// By layer and head.
    pub heads: Vec<HeadSummary>,
    /// How much of each key reaches each query through all layers: `rollout[query][key]`. Heads are averaged, the identity
    /// is added for the residual stream, rows are normalised, layers are multiplied through.
    pub rollout: Vec<Vec<f32>>,
}

/// A head in three numbers, means over the queries of a text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HeadSummary {
    /// The layer.
    pub layer: usize,
    /// The head.
    pub head: usize,
    /// How widely a query looks, in bits: the entropy of its weights without those on the first token, which many heads use
    /// as a place to rest; 0 where one key has all.
    pub entropy: f64,
    /// How far back: Σ a·(query − key) / Σ a.
    pub distance: f64,
    /// The share of attention on the first token; that query itself, which has no choice, is left out.
    pub first: f64,
}

/// A hook that shows each layer's attention weights to a function, and keeps none.
struct EachPattern<'a> {
    layers: std::ops::Range<usize>,
    see: &'a mut dyn FnMut(usize, &Tensor) -> Result<()>,
}

impl Hook for EachPattern<'_> {
    fn wants(&self, site: Site) -> bool {
        matches!(site, Site::Block(layer, BlockSite::Pattern) if self.layers.contains(&layer))
    }

    fn at(&mut self, site: Site, x: &Tensor) -> candle_core::Result<Option<Tensor>> {
        if let Site::Block(layer, _) = site {
            (self.see)(layer, x).map_err(candle_core::Error::wrap)?;
        }
        Ok(None)
    }
}

/// Shows the attention weights of every layer of one pass to a function, one layer in memory at a time; the logits (T, V)
/// come back.
///
/// # Shapes
/// - what `see` gets: (H, T, T)
pub fn each_layer(
    subject: &Subject,
    ids: &[u32],
    mut see: impl FnMut(usize, &Tensor) -> Result<()>,
) -> Result<Tensor> {
    subject.check_text(ids)?;
    let mut see = |layer: usize, pattern: &Tensor| see(layer, &pattern.squeeze(0)?);
    subject.logits(ids, &mut EachPattern { layers: 0..subject.config().n_layer, see: &mut see })
}

/// The same over rows of one length.
///
/// # Shapes
/// - what `see` gets: (B, H, T, T); the logits: (B, T, V)
pub(crate) fn each_layer_of_rows(
    subject: &Subject,
    rows: &[Vec<u32>],
    see: &mut dyn FnMut(usize, &Tensor) -> Result<()>,
) -> Result<Tensor> {
    let mut hook = EachPattern { layers: 0..subject.config().n_layer, see };
    let pass = minigpt_model::Pass::new().with_hook(&mut hook);
    Ok(subject.gpt.forward(&subject.gpt.ids(rows)?, &pass)?)
}

/// The attention weights of one layer.
pub fn layer_attention(subject: &Subject, ids: &[u32], layer: usize) -> Result<LayerAttention> {
    subject.check_text(ids)?;
    subject.check_layer(layer)?;
    let mut weights = Vec::new();
    let mut see = |_: usize, pattern: &Tensor| {
        weights = pattern.squeeze(0)?.to_dtype(candle_core::DType::F32)?.to_vec3()?;
        Ok(())
    };
    subject.logits(ids, &mut EachPattern { layers: layer..layer + 1, see: &mut see })?;
    Ok(LayerAttention { layer, weights })
}

/// Every head in a few numbers, and the rollout.
pub fn attention_summary(subject: &Subject, ids: &[u32]) -> Result<AttentionSummary> {
    let t = ids.len();
    let (mut heads, mut rollout) = (Vec::new(), identity(t));
    each_layer(subject, ids, |layer, pattern| {
        let weights = floats(pattern)?;
        let patterns = weights.chunks(t * t);
        heads.extend(patterns.enumerate().map(|(head, pattern)| summarize(layer, head, pattern, t)));
        rollout = roll(&weights, &rollout, t);
        Ok(())
    })?;
    Ok(AttentionSummary { heads, rollout: rollout.chunks(t).map(<[f32]>::to_vec).collect() })
}

/// One head's weights (T, T) in three numbers.
pub(crate) fn summarize(layer: usize, head: usize, pattern: &[f32], t: usize) -> HeadSummary {
    let (mut entropy, mut first, mut far, mut all) = (0.0, 0.0, 0.0, 0.0);
    for (query, weights) in pattern.chunks(t).enumerate() {
        let weights: Vec<f64> = weights[..=query].iter().map(|&a| f64::from(a)).collect();
        far += weights.iter().enumerate().map(|(key, a)| a * (query - key) as f64).sum::<f64>();
        all += weights.iter().sum::<f64>();
        if query == 0 {
            continue;
        }
        first += weights[0];
        let rest: f64 = weights[1..].iter().sum();
        let shares = weights[1..].iter().map(|a| a / rest).filter(|&p| p > 0.0);
        entropy += 0.0 - shares.map(|p| p * p.log2()).sum::<f64>();
    }
    let queries = (t - 1).max(1) as f64;
    HeadSummary { layer, head, entropy: entropy / queries, distance: far / all, first: first / queries }
}

/// What flows through one more layer: its heads averaged, with the identity, times what flowed before.
fn roll(weights: &[f32], before: &[f32], t: usize) -> Vec<f32> {
    let heads = (weights.len() / (t * t)) as f32;
    let mut after = vec![0f32; t * t];
    for (query, row) in after.chunks_mut(t).enumerate() {
        for key in 0..=query {
            let mean: f32 =
                weights.chunks(t * t).map(|pattern| pattern[query * t + key]).sum::<f32>() / heads;
            // Weights sum to 1, and the identity adds another 1: half of it is the normalised row.
            let share = (mean + f32::from(u8::from(query == key))) / 2.0;
            for (after, before) in row.iter_mut().zip(&before[key * t..(key + 1) * t]) {
                *after += share * before;
            }
        }
    }
    after
}

fn identity(t: usize) -> Vec<f32> {
    (0..t * t).map(|at| f32::from(u8::from(at / t == at % t))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_in_three_numbers() {
        // Query 2 spreads evenly over keys 1 and 2 and rests half of its weight on the first.
        let pattern = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.5, 0.25, 0.25];
        let HeadSummary { entropy, distance, first, .. } = summarize(0, 0, &pattern, 3);
        assert!((entropy - 0.5).abs() < 1e-12, "nothing is left of query 1, one bit of query 2: {entropy}");
        assert!((first - 0.75).abs() < 1e-12);
        assert!((distance - (1.0 + 2.0 * 0.5 + 0.25) / 3.0).abs() < 1e-12);
    }

    #[test]
    fn rollout_multiplies_through() {
        // Both layers look at the token before only.
        let pattern = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        let once = roll(&pattern, &identity(3), 3);
        assert_eq!(once, [1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.5, 0.5]);
        let twice = roll(&pattern, &once, 3);
        assert_eq!(twice[6..], [0.25, 0.5, 0.25]);
    }
}
