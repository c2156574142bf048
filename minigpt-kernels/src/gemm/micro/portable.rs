//! Plain Rust over fixed groups of lanes, which the compiler vectorizes.

use super::{CHAINS, Kernels};
use crate::simd;
use std::hint::black_box;

/// The portable micro-kernels.
pub const KERNELS: Kernels = Kernels { multiply_adds };

fn multiply_adds(rounds: usize) -> usize {
    const LANES: usize = 8;
    // A black box, or the compiler would find out that all chains compute the same.
    let (a, b, start) = black_box((0.999, 0.001, [[0.5f32; LANES]; CHAINS]));
    // A variable of its own, or the values might stay in memory.
    let mut chains = start;
    for _ in 0..rounds {
        for x in chains.as_flattened_mut() {
            *x = simd::multiply_add(*x, a, b);
        }
    }
    black_box(chains);
    2 * rounds * CHAINS * LANES
}
