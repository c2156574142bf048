//! Random tokens, repeated: a text in which nothing but its own first half says what comes next, so that a head that copies
//! can't hide behind what it knows about language.

use crate::error::{InvalidRequest, Result, Undefined};
use crate::subject::Subject;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// Tokens of one half at most.
const LONGEST: usize = 50;
/// Numbers that a pass over all sequences may take.
const MOST_NUMBERS: usize = 1 << 25;
/// Sequences at most.
const MOST_SEQUENCES: usize = 8;

/// Which tokens to draw, and how far apart they repeat.
#[derive(Debug, Clone, Copy, Default)]
pub struct RepeatOptions<'a> {
    /// Tokens that no text has in its middle: padding, separators.
    pub never: &'a [u32],
    /// The distance L at which tokens repeat. Default: 50, or half of the context if that is less.
    pub distance: Option<usize>,
    /// Random seed for the tokens and the baseline's weights.
    pub seed: u64,
}

/// Sequences of random tokens from a model's own vocabulary, each twice in a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepeatedTokens {
    /// The distance L at which tokens repeat: the length of a half.
    pub distance: usize,
    /// The sequences, 2·L tokens each.
    pub sequences: Vec<Vec<u32>>,
}

impl RepeatedTokens {
    /// Sequences for a model: up to eight of them, fewer where the vocabulary is large, so that their logits stay small. No
    /// token stands twice in a half, unless the vocabulary is smaller than it.
    pub fn for_model(subject: &Subject, options: RepeatOptions) -> Result<Self> {
        let config = subject.config();
        let most = config.block_size / 2;
        let distance = options.distance.unwrap_or(LONGEST.min(most));
        if options.distance.is_some_and(|distance| distance < 2 || distance > most) {
            return Err(InvalidRequest::RepeatDistance { distance, most }.into());
        }
        let ids = 0..config.vocab_size as u32;
        let drawn: Vec<u32> = ids.filter(|id| !options.never.contains(id)).collect();
        if distance < 2 || drawn.is_empty() {
            return Err(Undefined::ContextTooShort { block_size: config.block_size }.into());
        }
        let a_row = 2 * distance * (config.vocab_size + 8 * config.n_embd + 2 * config.n_head * distance);
        let count = (MOST_NUMBERS / a_row).clamp(1, MOST_SEQUENCES);
        let mut random = ChaCha8Rng::seed_from_u64(options.seed);
        let sequences = (0..count).map(|_| {
            let half = half(&drawn, distance, &mut random);
            [half.clone(), half].concat()
        });
        Ok(Self { distance, sequences: sequences.collect() })
    }
}

fn half(drawn: &[u32], length: usize, random: &mut ChaCha8Rng) -> Vec<u32> {
    if drawn.len() < length {
        return (0..length).map(|_| drawn[random.random_range(0..drawn.len())]).collect();
    }
    let mut drawn = drawn.to_vec();
    let (chosen, _) = drawn.partial_shuffle(random, length);
    chosen.to_vec()
}
