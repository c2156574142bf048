//! Which models a sweep trains: one depth, growing widths, each with the learning rate that suits its width.

use minigpt_model::Config;
use minigpt_model::parameters::Count;
use serde::{Deserialize, Serialize};

/// Layers of every model: what grows is the width, so that one rule for the rate holds.
const LAYERS: usize = 4;
/// Widths to choose from, each about half as wide again as the last: two to three times the parameters.
pub(super) const WIDTHS: [usize; 11] = [16, 24, 40, 56, 88, 128, 192, 288, 448, 640, 960];
/// AdamW's rate at the width of reference, for embeddings, head and norms.
const RATE: f64 = 4e-3;
const REFERENCE: f64 = 128.0;
/// Muon's rate for the matrices. Its steps have the same spectral norm at every width, so the rate is the same too.
const MUON_RATE: f64 = 0.032;

/// A model of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepSize {
    /// Layers.
    pub n_layer: usize,
    /// Heads.
    pub n_head: usize,
    /// Width.
    pub n_embd: usize,
    /// N: matrices and head, without embeddings.
    pub parameters: u64,
    /// All parameters.
    pub parameters_total: u64,
    /// AdamW's learning rate: 0.004·√(128 / width).
    pub learning_rate: f64,
    /// Muon's rate over that, so that Muon's own is the same for every width.
    pub muon_ratio: f64,
    /// Memory that training takes.
    pub train_bytes: u64,
    /// Whether several runs of it at once, on a thread each, are faster than one after another on all threads: measured.
    pub side_by_side: bool,
    /// Seconds of one step in that mode.
    pub seconds_per_step: f64,
}

impl SweepSize {
    /// A model of this width, its speed not yet known.
    pub(super) fn new(n_embd: usize, base: &Config, batch_size: usize) -> Self {
        let n_head =
            (1..=(n_embd / 16).max(1)).rev().find(|heads| n_embd.is_multiple_of(*heads)).unwrap_or(1);
        let config = Config { n_layer: LAYERS, n_head, n_embd, ..base.clone() };
        let count = Count::of(&config);
        // A tied head is the token embedding once more.
        let head = if count.head > 0 { count.head } else { count.token_embedding };
        let learning_rate = RATE * (REFERENCE / n_embd as f64).sqrt();
        Self {
            n_layer: LAYERS,
            n_head,
            n_embd,
            parameters: count.attention + count.mlp + head,
            parameters_total: count.total,
            learning_rate,
            muon_ratio: MUON_RATE / learning_rate,
            train_bytes: minigpt_model::plan::Plan::new(&config, batch_size, config.block_size).train_bytes,
            side_by_side: false,
            seconds_per_step: 0.0,
        }
    }

    /// The same model of another configuration.
    pub(super) fn config(&self, base: &Config) -> Config {
        let Self { n_layer, n_head, n_embd, .. } = *self;
        Config { n_layer, n_head, n_embd, ..base.clone() }
    }

    /// Changes of the sweep's settings for this size.
    pub(super) fn changes(&self) -> Vec<String> {
        vec![
            format!("model.n_layer={}", self.n_layer),
            format!("model.n_head={}", self.n_head),
            format!("model.n_embd={}", self.n_embd),
            format!("train.learning_rate={}", self.learning_rate),
            format!("train.muon_ratio={}", self.muon_ratio),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_matrices_and_the_head_and_learn_slower_the_wider_they_are() {
        let base = Config { vocab_size: 65, block_size: 64, ..Config::preset("shakespeare-cpu").unwrap() };
        let sizes = WIDTHS.map(|width| SweepSize::new(width, &base, 12));
        assert_eq!(sizes[5].parameters, 12 * 4 * 128 * 128 + 65 * 128);
        assert!(sizes[5].parameters_total > sizes[5].parameters);
        assert!((sizes[5].learning_rate - 4e-3).abs() < 1e-12);
        for pair in sizes.windows(2) {
            let ratio = pair[1].parameters as f64 / pair[0].parameters as f64;
            assert!((1.7..3.0).contains(&ratio), "{ratio} from width {}", pair[0].n_embd);
            assert!(pair[1].learning_rate < pair[0].learning_rate);
            let muon = |size: &SweepSize| size.learning_rate * size.muon_ratio;
            assert!((muon(&pair[0]) - muon(&pair[1])).abs() < 1e-12);
            assert!(pair[1].n_embd.is_multiple_of(pair[1].n_head));
        }
    }
}
