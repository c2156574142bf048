//! Random numbers that never change: ChaCha8 by name, keyed by seed and purpose.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Draws with replacement.
pub(crate) struct Draws(ChaCha8Rng);

impl Draws {
    /// A stream of its own for each seed and purpose.
    pub fn new(seed: u64, purpose: u8) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[24] = purpose;
        Self(ChaCha8Rng::from_seed(key))
    }

    /// One of some numbers, each equally likely but for a part in 2⁶⁴.
    pub fn of(&mut self, numbers: &[f64]) -> f64 {
        numbers[(self.0.next_u64() % numbers.len() as u64) as usize]
    }

    /// A place below `count`.
    pub fn place(&mut self, count: usize) -> usize {
        (self.0.next_u64() % count as u64) as usize
    }

    /// A number from the normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let mut uniform = || ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        let (radius, angle) = ((-2.0 * uniform().ln()).sqrt(), std::f64::consts::TAU * uniform());
        radius * angle.cos()
    }
}
