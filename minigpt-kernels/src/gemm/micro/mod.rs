//! Micro-kernels of matrix products: the innermost loops, one file per instruction set.

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod portable;

/// Chains of multiply-adds that do not depend on each other: enough to hide the latency of one, few enough for the registers.
pub const CHAINS: usize = 12;

/// The floating-point micro-kernels of an instruction set.
pub struct Kernels {
    /// Makes that many rounds of multiply-adds on values that never leave the registers. Returns the number of
    /// multiplications and additions.
    pub multiply_adds: fn(rounds: usize) -> usize,
}
