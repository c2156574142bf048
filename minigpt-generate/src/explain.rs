//! Why a token was chosen: what else could have come, and how open the choice was.

use crate::probabilities::log_softmax;
use crate::processors::weights;
use serde::Serialize;

/// A choice as it was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// How open the choice was, in bits: 0 where one token was certain, n where 2ⁿ were equally likely.
    pub entropy: f64,
    /// The likeliest tokens, likeliest first, and at their end the chosen one if it was not among them.
    pub alternatives: Vec<Alternative>,
}

/// A token that could have been chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Alternative {
    /// The token.
    pub id: u32,
    /// Its probability after penalties, temperature and filters: that with which it is drawn.
    pub probability: f64,
    /// Its probability in the model's own eyes.
    pub model_probability: f64,
    /// Whether it is the one.
    pub chosen: bool,
}

impl Explanation {
    /// How `chosen` came from what the model said and what the processors made of it, with the `k` likeliest tokens.
    pub fn new(model: &[f32], processed: &[f32], chosen: u32, k: usize) -> Self {
        let mut drawn = weights(processed);
        let total: f64 = drawn.iter().sum();
        drawn.iter_mut().for_each(|weight| *weight /= total);
        let own = log_softmax(model);
        let mut ids = likeliest(&drawn, &own, k);
        if !ids.contains(&chosen) {
            ids.push(chosen);
        }
        let alternative = |id: u32| Alternative {
            id,
            probability: drawn[id as usize],
            model_probability: own[id as usize].exp(),
            chosen: id == chosen,
        };
        Self { entropy: entropy(&drawn), alternatives: ids.into_iter().map(alternative).collect() }
    }
}

/// The `k` likeliest tokens; those that the filters took away follow in the model's own order.
fn likeliest(drawn: &[f64], own: &[f64], k: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..drawn.len() as u32).collect();
    let likelier = |a: &u32, b: &u32| {
        let (i, j) = (*a as usize, *b as usize);
        drawn[j].total_cmp(&drawn[i]).then(own[j].total_cmp(&own[i])).then(a.cmp(b))
    };
    if k < order.len() {
        order.select_nth_unstable_by(k, likelier);
        order.truncate(k);
    }
    order.sort_unstable_by(likelier);
    order
}

fn entropy(probabilities: &[f64]) -> f64 {
    // Subtracted from 0 so that certainty is 0, not −0.
    0.0 - probabilities.iter().filter(|&&p| p > 0.0).map(|p| p * p.log2()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: f32 = f32::NEG_INFINITY;

    #[test]
    fn alternatives_are_ranked_by_their_chance_and_then_by_the_model() {
        let model = [0.1f32, 0.2, 0.3, 0.4].map(f32::ln);
        let processed = [NEVER, model[1], NEVER, model[3]];
        let Explanation { entropy, alternatives } = Explanation::new(&model, &processed, 1, 3);
        assert_eq!(alternatives.iter().map(|a| a.id).collect::<Vec<_>>(), [3, 1, 2]);
        assert_eq!(alternatives.iter().map(|a| a.chosen).collect::<Vec<_>>(), [false, true, false]);
        for (a, (probability, own)) in
            alternatives.iter().zip([(2.0 / 3.0, 0.4), (1.0 / 3.0, 0.2), (0.0, 0.3)])
        {
            assert!(
                (a.probability - probability).abs() < 1e-6 && (a.model_probability - own).abs() < 1e-6,
                "{a:?}"
            );
        }
        assert!((entropy - 0.9183).abs() < 1e-4, "{entropy}");
    }

    #[test]
    fn the_chosen_token_is_there_even_if_it_was_unlikely() {
        let logits = [3.0, 2.0, 1.0, 0.0];
        let ids = |chosen| {
            Explanation::new(&logits, &logits, chosen, 2)
                .alternatives
                .iter()
                .map(|a| a.id)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(1), [0, 1]);
        assert_eq!(ids(3), [0, 1, 3]);
    }

    #[test]
    fn entropy_counts_equally_likely_tokens_in_bits() {
        let entropy = |logits: &[f32]| Explanation::new(logits, logits, 0, 1).entropy;
        assert!((entropy(&[1.0; 8]) - 3.0).abs() < 1e-12);
        assert_eq!(entropy(&[1.0, NEVER]), 0.0);
    }
}
