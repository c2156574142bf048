//! Micro-kernels of attention, one file per instruction set.

#[cfg(target_arch = "x86_64")]
pub mod avx2;
pub mod portable;

use crate::gemm::formats::{COLUMNS, PanelLine};
use half::f16;

/// The micro-kernels of an instruction set.
pub struct Kernels {
    /// Converts keys or values in f16 to f32, which is exact.
    pub widen: fn(lines: &[[f16; COLUMNS]], wide: &mut [PanelLine]),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::for_each_instruction_set;

    for_each_instruction_set! {
        fn every_f16_becomes_the_same_f32(kernels) {
            let numbers: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
            let lines: &[[f16; COLUMNS]] = numbers.as_chunks().0;
            let mut wide = vec![[0f32; COLUMNS]; lines.len()];
            (kernels.attention.widen)(lines, &mut wide);
            for (number, wide) in numbers.iter().zip(wide.as_flattened()) {
                assert!(number.to_f32() == *wide || number.is_nan() && wide.is_nan(), "{number} became {wide}");
            }
        }
    }
}
