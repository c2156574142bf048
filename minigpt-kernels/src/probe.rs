//! Pure arithmetic and pure reading, to measure the peak of a CPU: what the speed of everything else can be compared with.
//! Nothing here reads a clock; the caller does.

use crate::cpu::{self, InstructionSet, Kernels};
use crate::simd;

/// Width of the vector registers that [`multiply_adds`] uses, in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lanes {
    /// AVX2 and narrower.
    Eight,
    /// AVX-512.
    Sixteen,
}

/// Makes `rounds` rounds of multiply-adds on values that never leave the registers, on one thread. Returns the number of
/// multiplications and additions.
pub fn multiply_adds(rounds: usize, lanes: Lanes) -> usize {
    let widest = match lanes {
        Lanes::Eight => InstructionSet::Avx2,
        Lanes::Sixteen => InstructionSet::Avx512,
    };
    (Kernels::up_to(widest.min(cpu::kernels().set)).gemm.multiply_adds)(rounds)
}

/// Reads every element once, on one thread, and returns their sum.
pub fn read_all(elements: &[f32]) -> f32 {
    simd::vectorized(|| simd::sum(elements, |x| x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::for_each_instruction_set;

    for_each_instruction_set! {
        fn operations_are_counted(kernels) {
            let multiply_adds = kernels.gemm.multiply_adds;
            assert_eq!(multiply_adds(0), 0);
            let one = multiply_adds(1);
            assert!(one > 0 && multiply_adds(5) == 5 * one);
        }
    }

    #[test]
    fn every_element_is_read() {
        assert_eq!(read_all(&[1.0; 1003]), 1003.0);
    }
}
