//! For AVX2: an instruction multiplies four integers of each of eight rows of the panel with the same four activations. The
//! halves of a panel are summed one after the other. `q` are integers, `x` activations in 8 bits:
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
use std::array::from_fn;
use std::ops::Range;

/// The micro-kernels. Only [`Kernels::of`](crate::cpu::Kernels::of) hands them out, after it has asked the CPU. With the sums
/// of four rows, the integers of a group fill the registers.
pub const KERNELS: Kernels = Kernels { tiles: every_format!(tile), tile_rows: [4, 4] };

fn tile<const F: usize>(panel: &[Chunk], x: &EightBitRows, rows: Range<usize>, y: &mut [[f32; ROWS]]) {
    check_tile::<F>(panel, x, &rows, y);
    // SAFETY: the CPU has AVX2 and F16C where this table is handed out, and the tile has just been checked.
    unsafe {
        match rows.len() {
            1 => y.copy_from_slice(&tile_of::<F, 1>(panel, x, rows.start)),
            2 => y.copy_from_slice(&tile_of::<F, 2>(panel, x, rows.start)),
            3 => y.copy_from_slice(&tile_of::<F, 3>(panel, x, rows.start)),
            4 => y.copy_from_slice(&tile_of::<F, 4>(panel, x, rows.start)),
            _ => unreachable!("a tile has up to four rows"),
        }
    }
}

/// A block of a row of activations.
#[derive(Clone, Copy)]
struct XBlock {
    integers: *const i8,
    sums: *const i16,
    scale: f32,
}

/// `R` rows from `first` on.
///
/// # Safety
/// The tile has been checked.
#[target_feature(enable = "avx2,f16c")]
unsafe fn tile_of<const F: usize, const R: usize>(
    panel: &[Chunk],
    x: &EightBitRows,
    first: usize,
) -> [[f32; ROWS]; R] {
    let mut y = [[_mm256_setzero_ps(); 2]; R];
    // Without prefetching: it took a third of the speed, since the CPU follows one stream better by itself.
    for (number, block) in panel.chunks_exact(FORMATS[F].panel_block_bytes() / size_of::<Chunk>()).enumerate()
    {
        let block = block.as_ptr().cast::<u8>();
        let rows: [XBlock; R] = from_fn(|i| {
            let at = (first + i) * x.width + number * FORMATS[F].weights();
            // SAFETY: the row has this block.
            unsafe {
                XBlock {
                    integers: x.integers.as_ptr().add(at),
                    sums: x.sums.as_ptr().add(at / SUMMED),
                    scale: *x.scales.get_unchecked(at / FORMATS[F].weights()),
                }
            }
        });
        // SAFETY: the blocks are as long as the panel block.
        let halves = unsafe { [half_block::<F, R>(block, 0, rows), half_block::<F, R>(block, 1, rows)] };
        for i in 0..R {
            for half in 0..2 {
                y[i][half] = _mm256_add_ps(y[i][half], halves[half][i]);
            }
        }
    }
    y.map(|[low, high]| {
        let mut y = [0f32; ROWS];
        // SAFETY: there are sixteen elements.
        unsafe {
            _mm256_storeu_ps(y.as_mut_ptr(), low);
            _mm256_storeu_ps(y.as_mut_ptr().add(8), high);
        }
        y
    })
}

/// What a block of `R` rows adds to half of a panel's rows.
///
/// # Safety
/// `block` is a panel block of format `F`, and the rows have as many integers.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn half_block<const F: usize, const R: usize>(
    block: *const u8,
    half: usize,
    rows: [XBlock; R],
) -> [__m256; R] {
    let mut sums = [_mm256_setzero_si256(); R];
    let mut corrections = [_mm256_setzero_si256(); R];
    for group in 0..FORMATS[F].groups {
        // SAFETY: the caller's.
        unsafe {
            let weights = words::<F>(block, half, group);
            if const { FORMATS[F].bits[0] == 8 } {
                for i in 0..R {
                    let x = rows[i].integers.add(group * GROUP).cast::<i32>();
                    sums[i] = _mm256_add_epi32(sums[i], signed_products(weights, x));
                }
                continue;
            }
            let (scales, mins) = (scales::<F>(block, half, group), mins::<F>(block, half, group));
            for i in 0..R {
                let x = rows[i].integers.add(group * GROUP).cast::<i32>();
                // Two products of an integer and an activation in each i16.
                let products: [__m256i; WORDS] = from_fn(|word| {
                    _mm256_maddubs_epi16(weights[word], _mm256_set1_epi32(x.add(word).read_unaligned()))
                });
                sums[i] = _mm256_add_epi32(sums[i], scaled::<F>(products, scales));
                let totals = rows[i].sums.add(group * GROUP / SUMMED).cast::<i32>().read_unaligned();
                let totals = _mm256_madd_epi16(mins, _mm256_set1_epi32(totals));
                corrections[i] = _mm256_add_epi32(corrections[i], totals);
            }
        }
    }
    // SAFETY: a panel block begins with sixteen factors, and sixteen more if it has minimums.
    let factors =
        |which: usize| unsafe { _mm256_cvtph_ps(_mm_loadu_si128(block.add(32 * which + 16 * half).cast())) };
    from_fn(|i| {
        let scale = _mm256_set1_ps(rows[i].scale);
        let factor = _mm256_mul_ps(factors(0), scale);
        if FORMATS[F].has_minimums() {
            let min_factor = _mm256_mul_ps(factors(1), scale);
            let sum = _mm256_mul_ps(factor, _mm256_cvtepi32_ps(sums[i]));
            _mm256_sub_ps(sum, _mm256_mul_ps(min_factor, _mm256_cvtepi32_ps(corrections[i])))
        } else {
            _mm256_mul_ps(factor, _mm256_cvtepi32_ps(_mm256_sub_epi32(sums[i], corrections[i])))
        }
    })
}

/// The words of a group of half of the rows.
///
/// # Safety
/// `block` is a panel block of format `F`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn words<const F: usize>(block: *const u8, half: usize, group: usize) -> [__m256i; WORDS] {
    let [low_bits, high_bits] = const { FORMATS[F].bits };
    let plane = |plane: usize, bits: usize, word: usize| {
        let (at, shift) = FORMATS[F].word_at(group, plane, word);
        // SAFETY: the caller's; panel blocks are aligned.
        let lanes = unsafe { _mm256_load_si256(block.add(at + 32 * half).cast()) };
        let shifted = _mm256_srl_epi32(lanes, _mm_cvtsi32_si128(shift as i32));
        _mm256_and_si256(shifted, _mm256_set1_epi32(word_mask(bits) as i32))
    };
    from_fn(|word| {
        let low = plane(0, low_bits, word);
        if high_bits == 0 {
            return low;
        }
        let shift = _mm_cvtsi32_si128(low_bits as i32);
        _mm256_or_si256(low, _mm256_sll_epi32(plane(1, high_bits, word), shift))
    })
}

/// Scales or minimums of half of the rows, as i16: those of the first and the second sixteen weights of a group side by side.
///
/// # Safety
/// They are at `at`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pairs<const F: usize>(at: *const u8, half: usize) -> __m256i {
    // SAFETY: the caller's; a row has one or two bytes.
    unsafe {
        if FORMATS[F].weights_per_scale() == 32 {
            let once = _mm256_cvtepu8_epi32(_mm_loadl_epi64(at.add(8 * half).cast()));
            _mm256_or_si256(once, _mm256_slli_epi32::<16>(once))
        } else {
            _mm256_cvtepi8_epi16(_mm_loadu_si128(at.add(16 * half).cast()))
        }
    }
}

/// The scales of the first and of the second sixteen weights of a group, of half of the rows: each twice as i16.
///
/// # Safety
/// `block` is a panel block of format `F`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn scales<const F: usize>(block: *const u8, half: usize, group: usize) -> [__m256i; 2] {
    if !FORMATS[F].has_scales() {
        return [_mm256_set1_epi16(1); 2];
    }
    // SAFETY: the caller's.
    let pairs = unsafe { pairs::<F>(block.add(FORMATS[F].scales_at(group)), half) };
    if FORMATS[F].weights_per_scale() == 32 {
        return [pairs; 2];
    }
    let first = _mm256_set1_epi64x(0x0504_0504_0100_0100);
    let first = _mm256_add_epi8(first, _mm256_set_epi64x(0x0808_0808_0808_0808, 0, 0x0808_0808_0808_0808, 0));
    let second = _mm256_add_epi8(first, _mm256_set1_epi8(2));
    [_mm256_shuffle_epi8(pairs, first), _mm256_shuffle_epi8(pairs, second)]
}

/// What the sums of the first and of the second sixteen activations of a group are multiplied with, as i16.
///
/// # Safety
/// `block` is a panel block of format `F`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn mins<const F: usize>(block: *const u8, half: usize, group: usize) -> __m256i {
    let has_scales = FORMATS[F].has_scales();
    // SAFETY: the caller's.
    unsafe {
        match FORMATS[F].zero {
            Zero::Minimum if has_scales => pairs::<F>(block.add(FORMATS[F].mins_at(group)), half),
            Zero::Minimum => _mm256_set1_epi16(-1),
            Zero::Offset(offset) if has_scales => {
                let scales = pairs::<F>(block.add(FORMATS[F].scales_at(group)), half);
                _mm256_mullo_epi16(scales, _mm256_set1_epi16(offset))
            }
            Zero::Offset(offset) => _mm256_set1_epi16(offset),
        }
    }
}

/// The sums of a group's products, each times its scale.
#[inline]
#[target_feature(enable = "avx2")]
fn scaled<const F: usize>(p: [__m256i; WORDS], scales: [__m256i; 2]) -> __m256i {
    let add = |a, b| _mm256_add_epi16(a, b);
    let times = |sums, half: usize| _mm256_madd_epi16(sums, scales[half]);
    let twos = [0, 2, 4, 6].map(|i| add(p[i], p[i + 1]));
    match const { words_together::<F>() } {
        2 => {
            let first = _mm256_add_epi32(times(twos[0], 0), times(twos[1], 0));
            _mm256_add_epi32(first, _mm256_add_epi32(times(twos[2], 1), times(twos[3], 1)))
        }
        4 => _mm256_add_epi32(times(add(twos[0], twos[1]), 0), times(add(twos[2], twos[3]), 1)),
        _ => times(add(add(twos[0], twos[1]), add(twos[2], twos[3])), 0),
    }
}

/// How many words' products may be added before they are scaled: as long as they share a scale and fit into i16.
const fn words_together<const F: usize>() -> usize {
    let [low, high] = FORMATS[F].bits;
    let most = ((1usize << (low + high)) - 1) * 127 * 2;
    let mut words = FORMATS[F].weights_per_scale() / 4;
    while words * most > i16::MAX as usize {
        words /= 2;
    }
    words
}

/// The sums of a group's products where integers are whole bytes. Two products of such an unsigned integer don't fit into i16,
/// so what it stands for is multiplied, and nothing has to be corrected.
///
/// # Safety
/// There are 32 activations.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn signed_products(weights: [__m256i; WORDS], x: *const i32) -> __m256i {
    let (ones, sign) = (_mm256_set1_epi16(1), _mm256_set1_epi8(i8::MIN));
    let mut sum = _mm256_setzero_si256();
    for (word, weight) in weights.into_iter().enumerate() {
        let weight = _mm256_xor_si256(weight, sign);
        // SAFETY: the caller's.
        let x = _mm256_set1_epi32(unsafe { x.add(word).read_unaligned() });
        // |w| · (x with the sign of w); two of them are 2 · 128 · 127 at most.
        let products = _mm256_maddubs_epi16(_mm256_abs_epi8(weight), _mm256_sign_epi8(x, weight));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(products, ones));
    }
    sum
}
