//! For AVX-512 with VNNI: an instruction multiplies four integers of all sixteen rows of the panel with the same four
//! activations, and adds the products. `q` are integers, `x` activations in 8 bits:
//!
//! ```text
//! for each row i of the tile, each row w of the panel:
//!     for each block:
//!         for each group and each half of 16 weights:
//!             sum        += scale[w] · (q[w][0]·x[i][0] + … + q[w][15]·x[i][15])
//!             correction += min[w] · (x[i][0] + … + x[i][15])    (min = offset·scale in formats with an offset)
//!         with minimums:    y[i][w] += factor[w]·x_scale[i] · sum − min_factor[w]·x_scale[i] · correction
//!         with an offset:   y[i][w] += factor[w]·x_scale[i] · (sum − correction)
//! ```
#![expect(unsafe_code, reason = "vector instructions")]

use super::{Kernels, check_tile, every_format};
use crate::quant::activations::{EightBitRows, SUMMED};
use crate::quant::block_format::{FORMATS, GROUP, Zero};
use crate::quant::block_panels::{Chunk, ROWS, WORDS, word_mask};
use std::arch::x86_64::*;
use std::ops::Range;

/// The micro-kernels. Only [`Kernels::of`](crate::cpu::Kernels::of) hands them out, after it has asked the CPU.
pub const KERNELS: Kernels = Kernels { tiles: every_format!(tile), tile_rows: [8, 6] };

/// How far ahead weights are prefetched, in bytes. Rows that share a group take so long with it that too few loads are under
/// way, and the planes of a long block are not one stream; one row or two of short blocks read faster without.
const AHEAD: usize = 2048;

fn tile<const F: usize>(panel: &[Chunk], x: &EightBitRows, rows: Range<usize>, y: &mut [[f32; ROWS]]) {
    check_tile::<F>(panel, x, &rows, y);
    // SAFETY: the CPU has AVX-512 BW and VNNI where this table is handed out, and the tile has just been checked.
    unsafe {
        match rows.len() {
            1 => y.copy_from_slice(&tile_of::<F, 1>(panel, x, rows.start)),
            2 => y.copy_from_slice(&tile_of::<F, 2>(panel, x, rows.start)),
            3 => y.copy_from_slice(&tile_of::<F, 3>(panel, x, rows.start)),
            4 => y.copy_from_slice(&tile_of::<F, 4>(panel, x, rows.start)),
            5 => y.copy_from_slice(&tile_of::<F, 5>(panel, x, rows.start)),
            6 => y.copy_from_slice(&tile_of::<F, 6>(panel, x, rows.start)),
            7 => y.copy_from_slice(&tile_of::<F, 7>(panel, x, rows.start)),
            8 => y.copy_from_slice(&tile_of::<F, 8>(panel, x, rows.start)),
            _ => unreachable!("a tile has up to eight rows"),
        }
    }
}

/// `R` rows from `first` on.
///
/// # Safety
/// The tile has been checked.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn tile_of<const F: usize, const R: usize>(
    panel: &[Chunk],
    x: &EightBitRows,
    first: usize,
) -> [[f32; ROWS]; R] {
    let mut y = [_mm512_setzero_ps(); R];
    for (number, block) in panel.chunks_exact(FORMATS[F].panel_block_bytes() / size_of::<Chunk>()).enumerate()
    {
        let block = block.as_ptr().cast::<u8>();
        let at = |i: usize| (first + i) * x.width + number * FORMATS[F].weights();
        let mut sums = [_mm512_setzero_si512(); R];
        let mut corrections = [_mm512_setzero_si512(); R];
        for group in 0..FORMATS[F].groups {
            if const { R > 2 || FORMATS[F].groups > 1 } {
                let (integers, _) = FORMATS[F].word_at(group, 0, 0);
                for line in 0..FORMATS[F].bits[0] + FORMATS[F].bits[1] {
                    _mm_prefetch::<_MM_HINT_T0>(block.wrapping_add(integers + 64 * line + AHEAD).cast());
                }
            }
            // SAFETY: the rows have this block, and `block` is a panel block of this format.
            unsafe {
                let mins = mins::<F>(block, group);
                let negative = _mm512_sub_epi16(_mm512_setzero_si512(), mins);
                for i in 0..R {
                    let totals = x.sums.as_ptr().add((at(i) + group * GROUP) / SUMMED).cast::<i32>();
                    let totals = _mm512_set1_epi32(totals.read_unaligned());
                    // A correction without a factor of its own is where the sum begins.
                    if FORMATS[F].has_minimums() {
                        corrections[i] = _mm512_dpwssd_epi32(corrections[i], mins, totals);
                    } else {
                        sums[i] = _mm512_dpwssd_epi32(sums[i], negative, totals);
                    }
                }
                let x = |i: usize| x.integers.as_ptr().add(at(i) + group * GROUP).cast::<i32>();
                if !FORMATS[F].has_scales() {
                    add_products::<F, R>(&mut sums, block, group, 0..WORDS, x);
                    continue;
                }
                let parts = const { GROUP / FORMATS[F].weights_per_scale() };
                for (part, scale) in scales::<F>(block, group).into_iter().enumerate().take(parts) {
                    let mut products = [_mm512_setzero_si512(); R];
                    let words = part * WORDS / parts..(part + 1) * WORDS / parts;
                    add_products::<F, R>(&mut products, block, group, words, x);
                    for (sum, products) in sums.iter_mut().zip(products) {
                        *sum = _mm512_add_epi32(*sum, _mm512_mullo_epi32(products, scale));
                    }
                }
            }
        }
        // SAFETY: a panel block begins with sixteen factors, and sixteen more if it has minimums.
        let factors =
            |which: usize| unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(block.add(32 * which).cast())) };
        for i in 0..R {
            // SAFETY: the row has this block.
            let scale = unsafe { *x.scales.get_unchecked(at(i) / FORMATS[F].weights()) };
            let scale = _mm512_set1_ps(scale);
            let sum = _mm512_mul_ps(_mm512_mul_ps(factors(0), scale), _mm512_cvtepi32_ps(sums[i]));
            let added = if FORMATS[F].has_minimums() {
                let min_factor = _mm512_mul_ps(factors(1), scale);
                _mm512_sub_ps(sum, _mm512_mul_ps(min_factor, _mm512_cvtepi32_ps(corrections[i])))
            } else {
                sum
            };
            y[i] = _mm512_add_ps(y[i], added);
        }
    }
    y.map(|y| {
        let mut to = [0f32; ROWS];
        // SAFETY: there are sixteen elements.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), y) };
        to
    })
}

/// Adds the products of some words of a group with `R` rows, of which `x` gives the activations of the group.
///
/// # Safety
/// `block` is a panel block of format `F`, and the rows have the activations of these words.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn add_products<const F: usize, const R: usize>(
    sums: &mut [__m512i; R],
    block: *const u8,
    group: usize,
    words: Range<usize>,
    x: impl Fn(usize) -> *const i32,
) {
    let [low_bits, high_bits] = const { FORMATS[F].bits };
    let plane = |plane: usize, bits: usize, word: usize| {
        let (at, shift) = FORMATS[F].word_at(group, plane, word);
        // SAFETY: the caller's.
        let lanes = unsafe { _mm512_loadu_si512(block.add(at).cast()) };
        if bits == 8 {
            return lanes;
        }
        let shifted = _mm512_srl_epi32(lanes, _mm_cvtsi32_si128(shift as i32));
        _mm512_and_si512(shifted, _mm512_set1_epi32(word_mask(bits) as i32))
    };
    for word in words {
        let mut weights = plane(0, low_bits, word);
        if high_bits > 0 {
            let high = plane(1, high_bits, word);
            weights = _mm512_or_si512(weights, _mm512_sll_epi32(high, _mm_cvtsi32_si128(low_bits as i32)));
        }
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the caller's.
            let x = unsafe { x(i).add(word).read_unaligned() };
            *sum = _mm512_dpbusd_epi32(*sum, weights, _mm512_set1_epi32(x));
        }
    }
}

/// The scales of the first and of the second sixteen weights of a group, as i32.
///
/// # Safety
/// `block` is a panel block of format `F`, which has scales.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn scales<const F: usize>(block: *const u8, group: usize) -> [__m512i; 2] {
    // SAFETY: the caller's; a row has one or two bytes.
    unsafe {
        let at = block.add(FORMATS[F].scales_at(group));
        if FORMATS[F].weights_per_scale() == 32 {
            return [_mm512_cvtepu8_epi32(_mm_loadu_si128(at.cast())); 2];
        }
        let pairs = _mm512_cvtepi8_epi16(_mm256_loadu_si256(at.cast()));
        [_mm512_srai_epi32::<16>(_mm512_slli_epi32::<16>(pairs)), _mm512_srai_epi32::<16>(pairs)]
    }
}

/// What the sums of the first and of the second sixteen activations of a group are multiplied with, as i16.
///
/// # Safety
/// `block` is a panel block of format `F`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn mins<const F: usize>(block: *const u8, group: usize) -> __m512i {
    // SAFETY: the caller's; a row has one or two bytes.
    let pairs = |at: usize| unsafe {
        if FORMATS[F].weights_per_scale() == 32 {
            let once = _mm512_cvtepu8_epi32(_mm_loadu_si128(block.add(at).cast()));
            _mm512_or_si512(once, _mm512_slli_epi32::<16>(once))
        } else {
            _mm512_cvtepi8_epi16(_mm256_loadu_si256(block.add(at).cast()))
        }
    };
    match (FORMATS[F].zero, FORMATS[F].has_scales()) {
        (Zero::Minimum, true) => pairs(FORMATS[F].mins_at(group)),
        (Zero::Minimum, false) => _mm512_set1_epi16(-1),
        (Zero::Offset(offset), true) => {
            _mm512_mullo_epi16(pairs(FORMATS[F].scales_at(group)), _mm512_set1_epi16(offset))
        }
        (Zero::Offset(offset), false) => _mm512_set1_epi16(offset),
    }
}
