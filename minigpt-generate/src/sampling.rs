//! From logits to one token: the likeliest, or one drawn at random.

use crate::processors::weights;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The likeliest token, of equals the one with the lowest id; none if all are forbidden.
pub fn argmax(logits: &[f32]) -> Option<u32> {
    let mut best = None;
    for (id, &x) in logits.iter().enumerate() {
        if x > best.map_or(f32::NEG_INFINITY, |(_, best)| best) {
            best = Some((id, x));
        }
    }
    best.map(|(id, _)| id as u32)
}

/// Random draws of one text. ChaCha8 by name, so that a seed means the same text in every version, and a stream of its
/// own for each text, so that no text depends on how many others are written.
#[derive(Debug, Clone)]
pub struct Sampler(ChaCha8Rng);

impl Sampler {
    /// The draws of the text with the number `stream`.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    /// A token, drawn with its probability; none if all are forbidden. Uses up one random number.
    pub fn draw(&mut self, logits: &[f32]) -> Option<u32> {
        let weights = weights(logits);
        let total = weights.iter().sum::<f64>();
        let goal = self.0.random::<f64>() * total;
        let mut sum = 0.0;
        // The sum passes the goal at a token that has a weight, for the goal is below the total: strictly, so that a
        // forbidden token is not drawn even if the goal is 0.
        let drawn = weights.iter().position(|weight| {
            sum += weight;
            sum > goal
        });
        drawn.map(|id| id as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: f32 = f32::NEG_INFINITY;

    /// Pearson's statistic: how far counts are from what the probabilities promise.
    fn chi_square(counts: &[usize], probabilities: &[f64]) -> f64 {
        let n = counts.iter().sum::<usize>() as f64;
        counts.iter().zip(probabilities).map(|(&count, p)| (count as f64 - n * p).powi(2) / (n * p)).sum()
    }

    fn counts(logits: &[f32], n: usize) -> Vec<usize> {
        let mut sampler = Sampler::new(1, 0);
        let mut counts = vec![0; logits.len()];
        (0..n).for_each(|_| counts[sampler.draw(logits).unwrap() as usize] += 1);
        counts
    }

    fn softmax(logits: &[f32]) -> Vec<f64> {
        let weights = weights(logits);
        let total: f64 = weights.iter().sum();
        weights.iter().map(|w| w / total).collect()
    }

    /// With 7 degrees of freedom a statistic above 40.5 has a chance of one in a million.
    const LIMIT: f64 = 40.5;
    const LOGITS: [f32; 8] = [0.0, 1.5, -2.0, 0.3, 2.0, -0.7, 1.0, -4.0];

    #[test]
    fn tokens_are_drawn_as_often_as_they_are_likely() {
        let statistic = chi_square(&counts(&LOGITS, 40_000), &softmax(&LOGITS));
        assert!(statistic < LIMIT, "{statistic}");
    }

    #[test]
    fn the_statistic_notices_a_slightly_wrong_temperature() {
        let warmer = LOGITS.map(|x| x / 1.05);
        let statistic = chi_square(&counts(&warmer, 40_000), &softmax(&LOGITS));
        assert!(statistic > LIMIT, "{statistic}");
    }

    #[test]
    fn a_forbidden_token_is_never_drawn() {
        let counts = counts(&[NEVER, 0.0, NEVER, 0.0, NEVER], 1000);
        assert_eq!([counts[0], counts[2], counts[4]], [0; 3]);
        assert_eq!(Sampler::new(0, 0).draw(&[NEVER; 3]), None);
        assert_eq!(Sampler::new(0, 0).draw(&[]), None);
    }

    #[test]
    fn a_seed_and_a_stream_always_mean_the_same_draws() {
        let draws = |seed, stream| {
            let mut sampler = Sampler::new(seed, stream);
            (0..12).map(|_| sampler.draw(&LOGITS).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(draws(42, 0), [4, 6, 4, 4, 1, 1, 1, 4, 4, 1, 4, 6]);
        assert_ne!(draws(42, 0), draws(42, 1));
        assert_ne!(draws(42, 0), draws(43, 0));
    }

    #[test]
    fn the_likeliest_is_the_first_of_equals() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0, NEVER]), Some(1));
        assert_eq!(argmax(&[NEVER, NEVER]), None);
    }
}
