//! Micro-kernels for AVX2.
#![expect(unsafe_code, reason = "vector instructions")]

use super::{CHAINS, Kernels};
use std::arch::x86_64::*;
use std::hint::black_box;

/// The micro-kernels. Only [`Kernels::of`](crate::cpu::Kernels::of) hands them out, after it has asked the CPU.
pub const KERNELS: Kernels = Kernels {
    // SAFETY: the CPU has AVX2 where this table is handed out.
    multiply_adds: |rounds| unsafe { multiply_adds(rounds) },
};

#[target_feature(enable = "avx2,fma")]
fn multiply_adds(rounds: usize) -> usize {
    let (a, b) = (_mm256_set1_ps(black_box(0.999)), _mm256_set1_ps(black_box(0.001)));
    let mut chains = [_mm256_set1_ps(black_box(0.5)); CHAINS];
    for _ in 0..rounds {
        for chain in &mut chains {
            *chain = _mm256_fmadd_ps(*chain, a, b);
        }
    }
    black_box(chains);
    2 * rounds * CHAINS * 8
}
