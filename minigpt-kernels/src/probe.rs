//! Nothing but arithmetic, and nothing but reading: how fast a CPU could be if a model were only that. Whoever holds a
//! clock can compare a model with them.

use super::simd;
use std::hint::black_box;

/// Chains of multiply-adds that don't wait for each other: enough to hide how long one takes, few enough for registers.
const CHAINS: usize = 12;

/// How many numbers a chain has: those of one vector register, of which a CPU has 8 or 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lanes {
    /// AVX2 and narrower.
    Eight,
    /// AVX-512.
    Sixteen,
}

/// Makes `rounds` rounds of multiply-adds on numbers that never leave the registers, on one thread. Returns how many
/// multiplications and additions that was.
pub fn multiply_adds(rounds: usize, lanes: Lanes) -> usize {
    match lanes {
        Lanes::Eight => chains::<8>(rounds),
        Lanes::Sixteen => chains::<16>(rounds),
    }
}

fn chains<const LANES: usize>(rounds: usize) -> usize {
    // A black box, or the compiler would find out that all chains compute the same.
    let (a, b, start) = black_box((0.999, 0.001, [[0.5f32; LANES]; CHAINS]));
    black_box(simd::vectorized(|| {
        // A variable of this closure, or the numbers might stay in memory.
        let mut chains = start;
        for _ in 0..rounds {
            for chain in &mut chains {
                for x in chain {
                    *x = x.mul_add(a, b);
                }
            }
        }
        chains
    }));
    2 * rounds * CHAINS * LANES
}

/// Reads every number once, on one thread, and returns their sum.
pub fn read_all(numbers: &[f32]) -> f32 {
    simd::vectorized(|| simd::sum(numbers, |x| x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_and_every_number_is_read() {
        assert_eq!(multiply_adds(0, Lanes::Eight), 0);
        assert_eq!(multiply_adds(5, Lanes::Sixteen), 2 * 5 * 12 * 16);
        assert_eq!(read_all(&[1.0; 1003]), 1003.0);
    }
}
