//! For AVX2 and F16C, eight elements at a time: `for each line, for each element: wide = f32(line)`.
#![expect(unsafe_code, reason = "vector instructions")]

use super::Kernels;
use crate::gemm::formats::{COLUMNS, PanelLine};
use half::f16;
use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};

/// The micro-kernels. Only [`Kernels::of`](crate::cpu::Kernels::of) hands them out, after it has asked the CPU.
pub const KERNELS: Kernels = Kernels {
    // SAFETY: the CPU has AVX2 and F16C where this table is handed out.
    widen: |lines, wide| unsafe { widen(lines, wide) },
};

#[target_feature(enable = "avx2,f16c")]
fn widen(lines: &[[f16; COLUMNS]], wide: &mut [PanelLine]) {
    for (line, wide) in lines.iter().zip(wide) {
        for half in [0, COLUMNS / 2] {
            // SAFETY: both have eight elements from here on.
            unsafe {
                let eight = _mm256_cvtph_ps(_mm_loadu_si128(line.as_ptr().add(half).cast()));
                _mm256_storeu_ps(wide.as_mut_ptr().add(half), eight);
            }
        }
    }
}
