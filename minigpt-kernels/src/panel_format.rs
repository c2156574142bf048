//! How the weights of a panel are stored: in f32, f16, bf16, or as Q8_0 blocks. A panel holds sixteen columns of a weight
//! (in, out), side by side for each inner step, so that a product reads it once from front to back.
//!
//! Every format can be expanded to f32 without rounding, so a product that expands a panel first, because many rows share
//! it, has the same result to the bit as one that converts while it multiplies.
#![expect(unsafe_code, reason = "vector instructions")]

use half::{bf16, f16};

/// A block of Q8_0, llama.cpp's format: a scale in f16, then 32 integers of 8 bits.
pub type Q8Block = [u8; 34];
/// Columns of a panel.
pub const COLUMNS: usize = 16;

/// The weights of one inner step in f32.
pub type PanelLine = [f32; COLUMNS];

/// A format of weights. `Self` is a unit: the sixteen columns of a panel for [`PanelFormat::STEPS`] inner steps.
pub trait PanelFormat: Copy + Send + Sync + 'static {
    /// Inner steps of a unit.
    const STEPS: usize;
    /// How many bytes ahead a product asks for weights; 0 where the processor does that better alone.
    const AHEAD: usize;
    /// One column for the steps of a unit, as a weight (out, in) stores it.
    type Source: Copy + Send + Sync + 'static;

    /// The unit of up to sixteen columns; the others are 0.
    fn pack(columns: &[Self::Source]) -> Self;

    /// The weights as f32, step by step.
    fn expand(self, lines: &mut [PanelLine]);

    /// The weights of one column as f32.
    fn column(&self, column: usize, steps: &mut [f32]);

    /// The lines themselves, where a unit is one.
    fn lines(_units: &[Self]) -> Option<&[PanelLine]> {
        None
    }

    /// What all steps of a unit share.
    #[cfg(target_arch = "x86_64")]
    type Shared: Copy;

    /// # Safety
    /// The CPU has AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    unsafe fn shared(&self) -> Self::Shared;

    /// The weights of a step.
    ///
    /// # Safety
    /// The CPU has AVX2, FMA and F16C, and the unit has this step.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load(&self, step: usize, shared: Self::Shared) -> [__m256; 2];
}

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

impl PanelFormat for PanelLine {
    const STEPS: usize = 1;
    const AHEAD: usize = 0;
    type Source = f32;

    fn pack(columns: &[f32]) -> Self {
        let mut line = [0.0; COLUMNS];
        line[..columns.len()].copy_from_slice(columns);
        line
    }

    fn expand(self, lines: &mut [PanelLine]) {
        lines[0] = self;
    }

    fn column(&self, column: usize, steps: &mut [f32]) {
        steps[0] = self[column];
    }

    fn lines(units: &[Self]) -> Option<&[PanelLine]> {
        Some(units)
    }

    #[cfg(target_arch = "x86_64")]
    type Shared = ();

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn shared(&self) {}

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(&self, _step: usize, (): ()) -> [__m256; 2] {
        // SAFETY: a line has sixteen elements.
        unsafe { [_mm256_loadu_ps(self.as_ptr()), _mm256_loadu_ps(self.as_ptr().add(8))] }
    }
}

impl PanelFormat for [f16; COLUMNS] {
    const STEPS: usize = 1;
    const AHEAD: usize = 2048;
    type Source = f16;

    fn pack(columns: &[f16]) -> Self {
        let mut unit = [f16::ZERO; COLUMNS];
        unit[..columns.len()].copy_from_slice(columns);
        unit
    }

    fn expand(self, lines: &mut [PanelLine]) {
        lines[0] = self.map(f16::to_f32);
    }

    fn column(&self, column: usize, steps: &mut [f32]) {
        steps[0] = self[column].to_f32();
    }

    #[cfg(target_arch = "x86_64")]
    type Shared = ();

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn shared(&self) {}

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(&self, _step: usize, (): ()) -> [__m256; 2] {
        // SAFETY: a unit has sixteen elements.
        unsafe {
            let eight = |i: usize| _mm256_cvtph_ps(_mm_loadu_si128(self.as_ptr().add(i).cast()));
            [eight(0), eight(8)]
        }
    }
}

impl PanelFormat for [bf16; COLUMNS] {
    const STEPS: usize = 1;
    const AHEAD: usize = 2048;
    type Source = bf16;

    fn pack(columns: &[bf16]) -> Self {
        let mut unit = [bf16::ZERO; COLUMNS];
        unit[..columns.len()].copy_from_slice(columns);
        unit
    }

    fn expand(self, lines: &mut [PanelLine]) {
        lines[0] = self.map(bf16::to_f32);
    }

    fn column(&self, column: usize, steps: &mut [f32]) {
        steps[0] = self[column].to_f32();
    }

    #[cfg(target_arch = "x86_64")]
    type Shared = ();

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn shared(&self) {}

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(&self, _step: usize, (): ()) -> [__m256; 2] {
        // SAFETY: a unit has sixteen elements.
        unsafe {
            let eight = |i: usize| {
                let half = _mm256_cvtepu16_epi32(_mm_loadu_si128(self.as_ptr().add(i).cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(half))
            };
            [eight(0), eight(8)]
        }
    }
}

/// The Q8_0 blocks of sixteen columns: their scales, then their integers step by step. As many bytes as the blocks have.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct Q8Unit {
    scales: [f16; COLUMNS],
    integers: [[i8; COLUMNS]; 32],
}

impl PanelFormat for Q8Unit {
    const STEPS: usize = 32;
    const AHEAD: usize = 2176;
    type Source = Q8Block;

    fn pack(columns: &[Q8Block]) -> Self {
        let mut unit = Self { scales: [f16::ZERO; COLUMNS], integers: [[0; COLUMNS]; 32] };
        for (column, block) in columns.iter().enumerate() {
            unit.scales[column] = f16::from_le_bytes([block[0], block[1]]);
            for (step, &byte) in block[2..].iter().enumerate() {
                unit.integers[step][column] = byte as i8;
            }
        }
        unit
    }

    #[inline(always)]
    fn expand(self, lines: &mut [PanelLine]) {
        let scales = self.scales.map(f16::to_f32);
        for (line, integers) in lines.iter_mut().zip(&self.integers) {
            for i in 0..COLUMNS {
                line[i] = scales[i] * f32::from(integers[i]);
            }
        }
    }

    fn column(&self, column: usize, steps: &mut [f32]) {
        let scale = self.scales[column].to_f32();
        for (out, integers) in steps.iter_mut().zip(&self.integers) {
            *out = scale * f32::from(integers[column]);
        }
    }

    #[cfg(target_arch = "x86_64")]
    type Shared = [__m256; 2];

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn shared(&self) -> [__m256; 2] {
        // SAFETY: there are sixteen scales.
        unsafe {
            let eight = |i: usize| _mm256_cvtph_ps(_mm_loadu_si128(self.scales.as_ptr().add(i).cast()));
            [eight(0), eight(8)]
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(&self, step: usize, scales: [__m256; 2]) -> [__m256; 2] {
        debug_assert!(step < 32);
        // SAFETY: the caller's, and a step has sixteen integers.
        unsafe {
            let integers = self.integers.get_unchecked(step).as_ptr();
            let eight = |i: usize| {
                let integers = _mm256_cvtepi8_epi32(_mm_loadl_epi64(integers.add(i).cast()));
                _mm256_cvtepi32_ps(integers)
            };
            // A scale of 11 bits times an integer of 8 is exact.
            [_mm256_mul_ps(eight(0), scales[0]), _mm256_mul_ps(eight(8), scales[1])]
        }
    }
}
