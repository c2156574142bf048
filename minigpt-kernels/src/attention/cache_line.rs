//! What keys and values are kept in: lines of a panel, sixteen numbers in f32 or f16.
#![expect(unsafe_code, reason = "vector instructions")]

use crate::gemm::panel_format::{COLUMNS, PanelLine};
use crate::simd;
use half::f16;

/// A line of a panel, as it is kept.
pub trait CacheLine: Copy + Send + Sync {
    const ZERO: Self;

    fn set(&mut self, at: usize, value: f32);

    /// The first `length` of every `stride` lines, in f32, and how far apart they are then.
    fn widened<'a>(
        lines: &'a [Self],
        stride: usize,
        length: usize,
        buffer: &'a mut Vec<PanelLine>,
    ) -> (&'a [PanelLine], usize);
}

impl CacheLine for PanelLine {
    const ZERO: Self = [0.0; COLUMNS];

    fn set(&mut self, at: usize, value: f32) {
        self[at] = value;
    }

    fn widened<'a>(
        lines: &'a [Self],
        stride: usize,
        _length: usize,
        _buffer: &'a mut Vec<PanelLine>,
    ) -> (&'a [PanelLine], usize) {
        (lines, stride)
    }
}

impl CacheLine for [f16; COLUMNS] {
    const ZERO: Self = [f16::ZERO; COLUMNS];

    fn set(&mut self, at: usize, value: f32) {
        self[at] = f16::from_f32(value);
    }

    fn widened<'a>(
        lines: &'a [Self],
        stride: usize,
        length: usize,
        buffer: &'a mut Vec<PanelLine>,
    ) -> (&'a [PanelLine], usize) {
        let parts = || lines.chunks(stride.max(1)).map(|part| &part[..length]);
        let count = parts().map(<[_]>::len).sum();
        buffer.resize(buffer.len().max(count), [0.0; COLUMNS]);
        let wide = &mut buffer[..count];
        for (part, wide) in parts().zip(wide.chunks_mut(length.max(1))) {
            widen(part, wide);
        }
        (wide, length)
    }
}

fn widen(lines: &[[f16; COLUMNS]], wide: &mut [PanelLine]) {
    #[cfg(target_arch = "x86_64")]
    if simd::has_avx2() {
        // SAFETY: just asked.
        return unsafe { widen_f16c(lines, wide) };
    }
    lines.iter().zip(wide).for_each(|(line, wide)| *wide = line.map(f16::to_f32));
}

/// # Safety
/// The CPU has AVX2 and F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn widen_f16c(lines: &[[f16; COLUMNS]], wide: &mut [PanelLine]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
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
