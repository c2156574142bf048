//! How the weights of a panel are stored: in f32, f16, bf16, or as Q8_0 blocks. A panel holds sixteen columns of a weight
//! (in, out), side by side for each inner step, so that a product reads it once from front to back.
//!
//! A chain of multiply-adds is slower than memory: one row needs the sums of two panels under way to keep up. Where weights are
//! narrower than f32, two panels from two places are more than the processor's prefetcher follows, so a unit holds two of them
//! side by side and one row reads one stream.
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

/// A format of weights. `Self` is a unit: [`PanelFormat::SIDES`] panels of sixteen columns for [`PanelFormat::STEPS`] inner steps.
pub trait PanelFormat: Copy + Send + Sync + 'static {
    /// Panels of a unit: 1 or 2.
    const SIDES: usize;
    /// Inner steps of a unit.
    const STEPS: usize;
    /// One column for the steps of a unit, as a weight (out, in) stores it.
    type Source: Copy + Send + Sync + 'static;

    /// The unit of up to [`PanelFormat::SIDES`] · 16 columns; the others are 0.
    fn pack(columns: &[Self::Source]) -> Self;

    /// The weights of one panel as f32, step by step.
    fn expand(&self, side: usize, lines: &mut [PanelLine]);

    /// The weights of one column as f32.
    fn column(&self, column: usize, steps: &mut [f32]);

    /// The block of one column, where a unit is made of blocks that can be multiplied in another way.
    fn block(&self, _column: usize) -> Option<Q8Block> {
        None
    }

    /// The lines themselves, where a unit is one.
    fn lines(_units: &[Self]) -> Option<&[PanelLine]> {
        None
    }

    /// What all steps of one panel of a unit share.
    #[cfg(target_arch = "x86_64")]
    type Shared: Copy;

    /// # Safety
    /// The CPU has AVX2, FMA and F16C, and the unit has this side.
    #[cfg(target_arch = "x86_64")]
    unsafe fn shared(&self, side: usize) -> Self::Shared;

    /// The weights of a step.
    ///
    /// # Safety
    /// The CPU has AVX2, FMA and F16C, and the unit has this side and step.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load(&self, side: usize, step: usize, shared: Self::Shared) -> [__m256; 2];

    /// The same in one register.
    ///
    /// # Safety
    /// As for [`PanelFormat::load`], and the CPU has AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f")]
    unsafe fn load_512(&self, side: usize, step: usize, shared: Self::Shared) -> __m512 {
        // SAFETY: the caller's.
        unsafe { joined(self.load(side, step, shared)) }
    }
}

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Sixteen lanes of two registers.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn joined([low, high]: [__m256; 2]) -> __m512 {
    let low = _mm512_castps_pd(_mm512_castps256_ps512(low));
    _mm512_castpd_ps(_mm512_insertf64x4::<1>(low, _mm256_castps_pd(high)))
}

impl PanelFormat for PanelLine {
    const SIDES: usize = 1;
    const STEPS: usize = 1;
    type Source = f32;

    fn pack(columns: &[f32]) -> Self {
        let mut line = [0.0; COLUMNS];
        line[..columns.len()].copy_from_slice(columns);
        line
    }

    fn expand(&self, _side: usize, lines: &mut [PanelLine]) {
        lines[0] = *self;
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
    unsafe fn shared(&self, _side: usize) {}

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(&self, _side: usize, _step: usize, (): ()) -> [__m256; 2] {
        // SAFETY: a line has sixteen elements.
        unsafe { [_mm256_loadu_ps(self.as_ptr()), _mm256_loadu_ps(self.as_ptr().add(8))] }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f")]
    unsafe fn load_512(&self, _side: usize, _step: usize, (): ()) -> __m512 {
        // SAFETY: a line has sixteen elements.
        unsafe { _mm512_loadu_ps(self.as_ptr()) }
    }
}

impl PanelFormat for [[f16; COLUMNS]; 2] {
    const SIDES: usize = 2;
    const STEPS: usize = 1;
    type Source = f16;

    fn pack(columns: &[f16]) -> Self {
        let mut unit = [[f16::ZERO; COLUMNS]; 2];
        unit.as_flattened_mut()[..columns.len()].copy_from_slice(columns);
        unit
    }

    fn expand(&self, side: usize, lines: &mut [PanelLine]) {
        lines[0] = self[side].map(f16::to_f32);
    }

    fn column(&self, column: usize, steps: &mut [f32]) {
        steps[0] = self.as_flattened()[column].to_f32();
    }

    #[cfg(target_arch = "x86_64")]
    type Shared = ();

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn shared(&self, _side: usize) {}

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(&self, side: usize, _step: usize, (): ()) -> [__m256; 2] {
        // SAFETY: the caller's, and a side has sixteen elements.
        unsafe {
            let side = self.get_unchecked(side).as_ptr();
            let eight = |i: usize| _mm256_cvtph_ps(_mm_loadu_si128(side.add(i).cast()));
            [eight(0), eight(8)]
        }
    }
}

impl PanelFormat for [[bf16; COLUMNS]; 2] {
    const SIDES: usize = 2;
    const STEPS: usize = 1;
    type Source = bf16;

    fn pack(columns: &[bf16]) -> Self {
        let mut unit = [[bf16::ZERO; COLUMNS]; 2];
        unit.as_flattened_mut()[..columns.len()].copy_from_slice(columns);
        unit
    }

    fn expand(&self, side: usize, lines: &mut [PanelLine]) {
        lines[0] = self[side].map(bf16::to_f32);
    }

    fn column(&self, column: usize, steps: &mut [f32]) {
        steps[0] = self.as_flattened()[column].to_f32();
    }

    #[cfg(target_arch = "x86_64")]
    type Shared = ();

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn shared(&self, _side: usize) {}

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
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

/// The Q8_0 blocks of 32 columns: their scales, then their integers step by step. As many bytes as the blocks have.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct Q8Unit {
    scales: [[f16; COLUMNS]; 2],
    integers: [[[i8; COLUMNS]; 2]; 32],
}

impl PanelFormat for Q8Unit {
    const SIDES: usize = 2;
    const STEPS: usize = 32;
    type Source = Q8Block;

    fn pack(columns: &[Q8Block]) -> Self {
        let mut unit = Self { scales: [[f16::ZERO; COLUMNS]; 2], integers: [[[0; COLUMNS]; 2]; 32] };
        for (column, block) in columns.iter().enumerate() {
            unit.scales.as_flattened_mut()[column] = f16::from_le_bytes([block[0], block[1]]);
            for (integers, &byte) in unit.integers.iter_mut().zip(&block[2..]) {
                integers.as_flattened_mut()[column] = byte as i8;
            }
        }
        unit
    }

    #[inline(always)]
    fn expand(&self, side: usize, lines: &mut [PanelLine]) {
        let scales = self.scales[side].map(f16::to_f32);
        for (line, integers) in lines.iter_mut().zip(&self.integers) {
            for i in 0..COLUMNS {
                line[i] = scales[i] * f32::from(integers[side][i]);
            }
        }
    }

    fn block(&self, column: usize) -> Option<Q8Block> {
        let mut block = [0; size_of::<Q8Block>()];
        block[..2].copy_from_slice(&self.scales.as_flattened()[column].to_le_bytes());
        for (byte, integers) in block[2..].iter_mut().zip(&self.integers) {
            *byte = integers.as_flattened()[column] as u8;
        }
        Some(block)
    }

    fn column(&self, column: usize, steps: &mut [f32]) {
        let scale = self.scales.as_flattened()[column].to_f32();
        for (out, integers) in steps.iter_mut().zip(&self.integers) {
            *out = scale * f32::from(integers.as_flattened()[column]);
        }
    }

    #[cfg(target_arch = "x86_64")]
    type Shared = [__m256; 2];

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn shared(&self, side: usize) -> [__m256; 2] {
        // SAFETY: the caller's, and a side has sixteen scales.
        unsafe {
            let scales = self.scales.get_unchecked(side).as_ptr();
            let eight = |i: usize| _mm256_cvtph_ps(_mm_loadu_si128(scales.add(i).cast()));
            [eight(0), eight(8)]
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(&self, side: usize, step: usize, scales: [__m256; 2]) -> [__m256; 2] {
        debug_assert!(step < 32);
        // SAFETY: the caller's, and a step of a side has sixteen integers.
        unsafe {
            let integers = self.integers.get_unchecked(step).get_unchecked(side).as_ptr();
            let eight = |i: usize| {
                let integers = _mm256_cvtepi8_epi32(_mm_loadl_epi64(integers.add(i).cast()));
                _mm256_cvtepi32_ps(integers)
            };
            // A scale of 11 bits times an integer of 8 is exact.
            [_mm256_mul_ps(eight(0), scales[0]), _mm256_mul_ps(eight(8), scales[1])]
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avx512f")]
    unsafe fn load_512(&self, side: usize, step: usize, scales: [__m256; 2]) -> __m512 {
        debug_assert!(step < 32);
        // SAFETY: the caller's, and a step of a side has sixteen integers.
        let integers = unsafe { self.integers.get_unchecked(step).get_unchecked(side).as_ptr() };
        // SAFETY: the same.
        let integers = _mm512_cvtepi8_epi32(unsafe { _mm_loadu_si128(integers.cast()) });
        _mm512_mul_ps(_mm512_cvtepi32_ps(integers), joined(scales))
    }
}
