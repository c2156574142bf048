//! What the model thinks comes next: logits as probabilities, and the likeliest tokens.

use minigpt_kernels::log_sum_exp;
use serde::Serialize;

/// A token that could come next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Candidate {
    /// The token.
    pub id: u32,
    /// How likely it is, from 0 to 1.
    pub probability: f64,
    /// The logarithm of that.
    pub logprob: f64,
}

/// The logarithm of each token's probability.
pub fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let (max, log_sum) = log_sum_exp(logits);
    logits.iter().map(|&x| f64::from(x) - f64::from(max) - log_sum).collect()
}

/// The logarithm of one token's probability.
pub fn logprob(logits: &[f32], id: u32) -> f64 {
    let (max, log_sum) = log_sum_exp(logits);
    f64::from(logits[id as usize]) - f64::from(max) - log_sum
}

/// The `k` likeliest tokens, likeliest first; of equals, the lower id first.
pub fn candidates(logits: &[f32], k: usize) -> Vec<Candidate> {
    let log_probs = log_softmax(logits);
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    let likelier =
        |a: &u32, b: &u32| log_probs[*b as usize].total_cmp(&log_probs[*a as usize]).then(a.cmp(b));
    if k < order.len() {
        order.select_nth_unstable_by(k, likelier);
        order.truncate(k);
    }
    order.sort_unstable_by(likelier);
    let candidate = |id: u32| {
        let logprob = log_probs[id as usize];
        Candidate { id, probability: logprob.exp(), logprob }
    };
    order.into_iter().map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softmax_of_one_to_five_gives_the_worked_example() {
        let candidates = candidates(&[1.0, 2.0, 3.0, 4.0, 5.0], 9);
        let ids: Vec<u32> = candidates.iter().map(|c| c.id).collect();
        assert_eq!(ids, [4, 3, 2, 1, 0]);
        for (candidate, want) in candidates.iter().zip([0.6364, 0.2341, 0.0861, 0.0317, 0.0117]) {
            assert!((candidate.probability - want).abs() < 5e-5, "{candidate:?}");
        }
    }

    #[test]
    fn the_best_few_come_first_and_equals_by_id() {
        let ids = |logits: &[f32], k| candidates(logits, k).iter().map(|c| c.id).collect::<Vec<_>>();
        assert_eq!(ids(&[0.0, 7.0, 7.0, 9.0, 7.0], 3), [3, 1, 2]);
        assert_eq!(ids(&[1.0, 2.0], 0), [0u32; 0]);
    }

    #[test]
    fn huge_logits_do_not_overflow() {
        let log_probs = log_softmax(&[1e30, -1e30, 1e30]);
        assert!((log_probs[0] - 0.5f64.ln()).abs() < 1e-12);
        assert_eq!(log_probs[1].exp(), 0.0);
        assert_eq!(logprob(&[1e30, -1e30, 1e30], 0), log_probs[0]);
    }
}
