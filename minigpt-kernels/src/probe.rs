//! Pure arithmetic and pure reading, to measure the peak of a CPU: what the speed of everything else can be compared with.
//! Nothing here reads a clock; the caller does.

#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "vector instructions"))]

use super::simd;
use std::hint::black_box;

/// Chains of multiply-adds that do not depend on each other: enough to hide the latency of one, few enough for the registers.
const CHAINS: usize = 12;

/// How many f32 a chain has: as many as a vector register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lanes {
    /// AVX2 and narrower.
    Eight,
    /// AVX-512.
    Sixteen,
}

/// Makes `rounds` rounds of multiply-adds on values that never leave the registers, on one thread. Returns how many
/// multiplications and additions that was.
pub fn multiply_adds(rounds: usize, lanes: Lanes) -> usize {
    match lanes {
        Lanes::Eight => chains::<8>(rounds),
        #[cfg(target_arch = "x86_64")]
        Lanes::Sixteen if simd::has_avx512() => {
            // SAFETY: just asked.
            unsafe { chains_avx512(rounds) }
        }
        Lanes::Sixteen => chains::<16>(rounds),
    }
}

/// [`chains`] of the widest registers, which the compiler does not choose by itself.
///
/// # Safety
/// The CPU has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn chains_avx512(rounds: usize) -> usize {
    use std::arch::x86_64::*;
    let (a, b) = (_mm512_set1_ps(black_box(0.999)), _mm512_set1_ps(black_box(0.001)));
    let mut chains = [_mm512_set1_ps(black_box(0.5)); CHAINS];
    for _ in 0..rounds {
        for chain in &mut chains {
            *chain = _mm512_fmadd_ps(*chain, a, b);
        }
    }
    black_box(chains);
    2 * rounds * CHAINS * 16
}

fn chains<const LANES: usize>(rounds: usize) -> usize {
    // A black box, or the compiler would find out that all chains compute the same.
    let (a, b, start) = black_box((0.999, 0.001, [[0.5f32; LANES]; CHAINS]));
    black_box(simd::vectorized(|| {
        // A variable of this closure, or the values might stay in memory.
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

/// Reads every element once, on one thread, and returns their sum.
pub fn read_all(elements: &[f32]) -> f32 {
    simd::vectorized(|| simd::sum(elements, |x| x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_and_every_element_is_read() {
        assert_eq!(multiply_adds(0, Lanes::Eight), 0);
        assert_eq!(multiply_adds(5, Lanes::Sixteen), 2 * 5 * 12 * 16);
        assert_eq!(read_all(&[1.0; 1003]), 1003.0);
    }
}
