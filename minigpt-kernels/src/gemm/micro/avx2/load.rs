//! Elements of a packed weight as f32, by AVX2 and F16C.
#![expect(unsafe_code, reason = "vector instructions")]

use crate::gemm::formats::{COLUMNS, PanelFormat, PanelLine, Q8Unit};
use half::{bf16, f16};
use std::arch::x86_64::*;

/// A format that AVX2 converts to f32.
pub trait Load: PanelFormat {
    /// What all steps of one panel of a unit share.
    type Shared: Copy;

    /// # Safety
    /// The CPU has AVX2 and F16C, and the unit has this side.
    unsafe fn shared(&self, side: usize) -> Self::Shared;

    /// The weights of a step.
    ///
    /// # Safety
    /// The CPU has AVX2 and F16C, and the unit has this side and step.
    unsafe fn load(&self, side: usize, step: usize, shared: Self::Shared) -> [__m256; 2];
}

impl Load for PanelLine {
    type Shared = ();

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn shared(&self, _side: usize) {}

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load(&self, _side: usize, _step: usize, (): ()) -> [__m256; 2] {
        // SAFETY: a line has sixteen elements.
        unsafe { [_mm256_loadu_ps(self.as_ptr()), _mm256_loadu_ps(self.as_ptr().add(8))] }
    }
}

impl Load for [[f16; COLUMNS]; 2] {
    type Shared = ();

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn shared(&self, _side: usize) {}

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load(&self, side: usize, _step: usize, (): ()) -> [__m256; 2] {
        // SAFETY: the caller's, and a side has sixteen elements.
        unsafe {
            let side = self.get_unchecked(side).as_ptr();
            let eight = |i: usize| _mm256_cvtph_ps(_mm_loadu_si128(side.add(i).cast()));
            [eight(0), eight(8)]
        }
    }
}

impl Load for [[bf16; COLUMNS]; 2] {
    type Shared = ();

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn shared(&self, _side: usize) {}

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load(&self, side: usize, _step: usize, (): ()) -> [__m256; 2] {
        // SAFETY: the caller's, and a side has sixteen elements.
        unsafe {
            let side = self.get_unchecked(side).as_ptr();
            let eight = |i: usize| {
                let half = _mm256_cvtepu16_epi32(_mm_loadu_si128(side.add(i).cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(half))
            };
            [eight(0), eight(8)]
        }
    }
}

impl Load for Q8Unit {
    /// The scales.
    type Shared = [__m256; 2];

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn shared(&self, side: usize) -> [__m256; 2] {
        // SAFETY: the caller's, and a side has sixteen scales.
        unsafe {
            let scales = self.scales.get_unchecked(side).as_ptr();
            let eight = |i: usize| _mm256_cvtph_ps(_mm_loadu_si128(scales.add(i).cast()));
            [eight(0), eight(8)]
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load(&self, side: usize, step: usize, scales: [__m256; 2]) -> [__m256; 2] {
        debug_assert!(step < 32);
        // SAFETY: the caller's, and a step of a side has sixteen integers.
        unsafe {
            let integers = self.integers.get_unchecked(step).get_unchecked(side).as_ptr();
            let eight = |i: usize| _mm256_cvtepi8_epi32(_mm_loadl_epi64(integers.add(i).cast()));
            let floats = |i: usize| _mm256_cvtepi32_ps(eight(i));
            [_mm256_mul_ps(floats(0), scales[0]), _mm256_mul_ps(floats(8), scales[1])]
        }
    }
}
