//! The micro-kernel: a few rows of 8-bit activations times a panel of sixteen columns.
//!
//! The products of a block are summed as integers, which is exact in any order; then each block's sum is scaled and added to
//! those before it, in f32, from the first block to the last. So an element has the same bits beside any rows and columns, and
//! in every kernel.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "vector instructions"))]

use super::scales::Scales;
use crate::gemm::panel_format::COLUMNS;
use crate::quant::activations::{EightBitRows, SUMMED};
use crate::quant::block_format::{BlockFormat, Unit};
use crate::quant::block_panels::{HALF, QUADS, STEPS, SmallIntegers};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::array::from_fn;
use std::ops::Range;

/// The most rows that share what is read of a panel: with their sums, the integers of a group fill the registers.
pub const TILE_ROWS: usize = 4;

/// The same where registers are twice as many and twice as wide, and a block is one group; or several.
#[cfg(target_arch = "x86_64")]
pub const fn vnni_rows<F: BlockFormat>() -> usize {
    if Unit::<F>::STEPS == STEPS { 8 } else { 6 }
}

/// One row times a panel.
pub fn tile_portable<F: BlockFormat>(panel: &[Unit<F>], x: &EightBitRows, row: usize) -> [f32; COLUMNS] {
    let mut y = [0f32; COLUMNS];
    for (block, unit) in panel.iter().enumerate() {
        let first = row * x.width + block * Unit::<F>::STEPS;
        let (mut sums, mut corrections) = ([0i32; COLUMNS], [0i32; COLUMNS]);
        for (group, integers) in unit.groups.as_ref().iter().enumerate() {
            let at = first + group * STEPS;
            let steps = &x.integers[at..at + STEPS];
            let totals = &x.sums[at / SUMMED..][..2];
            for half in 0..2 {
                let products = [0, 1].map(|sixteen| {
                    let mut sums = [0i32; HALF];
                    for (quad, x) in steps[SUMMED * sixteen..][..SUMMED].as_chunks::<4>().0.iter().enumerate()
                    {
                        let words = integers.quads(half, 4 * sixteen + quad);
                        for (i, &x) in x.iter().enumerate() {
                            for column in 0..HALF {
                                sums[column] += (words[column] >> (8 * i) & 255) as i32 * i32::from(x);
                            }
                        }
                    }
                    sums
                });
                for (column, (first, second)) in products[0].iter().zip(&products[1]).enumerate() {
                    let to = half * HALF + column;
                    let [scales, mins] = unit.scales.group(to, group);
                    sums[to] += scales[0] * first + scales[1] * second;
                    corrections[to] += mins[0] * i32::from(totals[0]) + mins[1] * i32::from(totals[1]);
                }
            }
        }
        let scale = x.scales[first / Unit::<F>::STEPS];
        for column in 0..COLUMNS {
            let factors = unit.scales.factors(column).map(|factor| factor.to_f32() * scale);
            y[column] += if F::Scales::MINS {
                factors[0] * sums[column] as f32 - factors[1] * corrections[column] as f32
            } else {
                factors[0] * (sums[column] - corrections[column]) as f32
            };
        }
    }
    y
}

/// `R` rows times a panel, from row `first` on.
///
/// # Safety
/// The CPU has AVX2 and F16C. There are so many rows, and each has the panel's inner steps.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
pub unsafe fn tile_avx2<F: BlockFormat, const R: usize>(
    panel: &[Unit<F>],
    x: &EightBitRows,
    first: usize,
) -> [[f32; COLUMNS]; R] {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    // Asking for weights ahead took a third of the speed: the processor reads one stream ahead better by itself.
    for (block, unit) in panel.iter().enumerate() {
        let rows: [Block; R] = from_fn(|i| {
            let at = (first + i) * x.width + block * Unit::<F>::STEPS;
            debug_assert!(at + Unit::<F>::STEPS <= x.integers.len());
            // SAFETY: the row has this block.
            unsafe {
                Block {
                    integers: x.integers.as_ptr().add(at),
                    sums: x.sums.as_ptr().add(at / SUMMED),
                    scale: *x.scales.get_unchecked(at / Unit::<F>::STEPS),
                }
            }
        });
        // SAFETY: the caller's.
        unsafe {
            let [low, high] = [half_unit::<F, R>(unit, 0, rows), half_unit::<F, R>(unit, 1, rows)];
            for i in 0..R {
                sums[i][0] = _mm256_add_ps(sums[i][0], low[i]);
                sums[i][1] = _mm256_add_ps(sums[i][1], high[i]);
            }
        }
    }
    sums.map(|sums| {
        let mut y = [0f32; COLUMNS];
        // SAFETY: there are sixteen elements.
        unsafe {
            _mm256_storeu_ps(y.as_mut_ptr(), sums[0]);
            _mm256_storeu_ps(y.as_mut_ptr().add(HALF), sums[1]);
        }
        y
    })
}

/// A block of a row.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Block {
    integers: *const i8,
    sums: *const i16,
    scale: f32,
}

/// What a block of `R` rows adds to eight columns.
///
/// # Safety
/// The CPU has AVX2 and F16C, and the blocks are as long as the unit.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn half_unit<F: BlockFormat, const R: usize>(
    unit: &Unit<F>,
    half: usize,
    rows: [Block; R],
) -> [__m256; R] {
    let mut sums = [_mm256_setzero_si256(); R];
    let mut corrections = [_mm256_setzero_si256(); R];
    for (group, integers) in unit.groups.as_ref().iter().enumerate() {
        // SAFETY: the caller's.
        unsafe {
            let weights = integers.load(half);
            if const { is_whole_bytes::<F>() } {
                for i in 0..R {
                    let x = rows[i].integers.add(group * STEPS).cast::<i32>();
                    sums[i] = _mm256_add_epi32(sums[i], signed_products(weights, x));
                }
                continue;
            }
            let scales = unit.scales.scales_avx2(half, group);
            let correction = unit.scales.corrections_avx2(half, group);
            for i in 0..R {
                let x = rows[i].integers.add(group * STEPS).cast::<i32>();
                // Two products of an integer and an activation in each i16.
                let products: [__m256i; 8] = from_fn(|quad| {
                    _mm256_maddubs_epi16(weights[quad], _mm256_set1_epi32(x.add(quad).read_unaligned()))
                });
                sums[i] = _mm256_add_epi32(sums[i], scaled::<F>(products, scales));
                let totals = rows[i].sums.add(group * STEPS / SUMMED).cast::<i32>().read_unaligned();
                let totals = _mm256_madd_epi16(correction, _mm256_set1_epi32(totals));
                corrections[i] = _mm256_add_epi32(corrections[i], totals);
            }
        }
    }
    // SAFETY: the caller's.
    let factors = unsafe { unit.scales.factors_avx2(half) };
    from_fn(|i| {
        let scale = _mm256_set1_ps(rows[i].scale);
        let [factor, min] = factors.map(|factor| _mm256_mul_ps(factor, scale));
        if F::Scales::MINS {
            let sum = _mm256_mul_ps(factor, _mm256_cvtepi32_ps(sums[i]));
            _mm256_sub_ps(sum, _mm256_mul_ps(min, _mm256_cvtepi32_ps(corrections[i])))
        } else {
            let sum = _mm256_sub_epi32(sums[i], corrections[i]);
            _mm256_mul_ps(factor, _mm256_cvtepi32_ps(sum))
        }
    })
}

/// Whether integers fill their bytes. Two products of such an integer, which is never negative, don't fit into i16, so what
/// they stand for is multiplied instead, and nothing has to be corrected.
#[cfg(target_arch = "x86_64")]
const fn is_whole_bytes<F: BlockFormat>() -> bool {
    let [low, high] = <F::Integers as SmallIntegers>::BITS;
    low + high == 8
}

/// The products of a group of eight columns with what whole bytes stand for, summed for each column.
///
/// # Safety
/// The CPU has AVX2, and there are 32 activations.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn signed_products(weights: [__m256i; 8], x: *const i32) -> __m256i {
    let (ones, sign) = (_mm256_set1_epi16(1), _mm256_set1_epi8(i8::MIN));
    let mut sum = _mm256_setzero_si256();
    for (quad, weight) in weights.into_iter().enumerate() {
        let weight = _mm256_xor_si256(weight, sign);
        // SAFETY: the caller's.
        let x = _mm256_set1_epi32(unsafe { x.add(quad).read_unaligned() });
        // |w| · (x with the sign of w); two of them are 2 · 128 · 127 at most.
        let products = _mm256_maddubs_epi16(_mm256_abs_epi8(weight), _mm256_sign_epi8(x, weight));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(products, ones));
    }
    sum
}

/// `R` rows times a panel, from row `first` on, by instructions that multiply four integers of each of sixteen columns.
///
/// # Safety
/// The CPU has AVX2, F16C and AVX-512 with BW and VNNI. There are so many rows, and each has the panel's inner steps.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vnni")]
pub unsafe fn tile_vnni<F: BlockFormat, const R: usize>(
    panel: &[Unit<F>],
    x: &EightBitRows,
    first: usize,
) -> [[f32; COLUMNS]; R] {
    /// Bytes from what is used to what is asked for. Rows that share a group take so long with it that too few loads are under
    /// way by themselves, and the planes of a long block are not one stream; one row or two of short blocks read faster without.
    const AHEAD: usize = 2048;
    let ahead = const { R > 2 || Unit::<F>::STEPS > STEPS };
    let mut y = [_mm512_setzero_ps(); R];
    for (block, unit) in panel.iter().enumerate() {
        let at = |i: usize| (first + i) * x.width + block * Unit::<F>::STEPS;
        debug_assert!(at(R - 1) + Unit::<F>::STEPS <= x.integers.len());
        let mut sums = [_mm512_setzero_si512(); R];
        let mut corrections = [_mm512_setzero_si512(); R];
        // SAFETY: the rows have this block; the rest is the caller's.
        unsafe {
            for (group, integers) in unit.groups.as_ref().iter().enumerate() {
                for line in (0..if ahead { size_of_val(integers) } else { 0 }).step_by(64) {
                    let at = std::ptr::from_ref(integers).cast::<i8>().wrapping_add(AHEAD + line);
                    _mm_prefetch::<_MM_HINT_T0>(at);
                }
                let correction = unit.scales.corrections_512(group);
                let negative = _mm512_sub_epi16(_mm512_setzero_si512(), correction);
                for i in 0..R {
                    let totals = x.sums.as_ptr().add((at(i) + group * STEPS) / SUMMED).cast::<i32>();
                    let totals = _mm512_set1_epi32(totals.read_unaligned());
                    // A correction without a factor of its own is where the sum begins.
                    if F::Scales::MINS {
                        corrections[i] = _mm512_dpwssd_epi32(corrections[i], correction, totals);
                    } else {
                        sums[i] = _mm512_dpwssd_epi32(sums[i], negative, totals);
                    }
                }
                let steps = |i: usize| x.integers.as_ptr().add(at(i) + group * STEPS).cast::<i32>();
                if Unit::<F>::STEPS == STEPS {
                    add_products(&mut sums, integers, 0..QUADS, steps);
                    continue;
                }
                let scales = unit.scales.scales_512(group);
                let parts = const { if F::SCALED < STEPS { STEPS / F::SCALED } else { 1 } };
                for (part, scale) in scales.into_iter().enumerate().take(parts) {
                    let mut products = [_mm512_setzero_si512(); R];
                    let quads = part * QUADS / parts..(part + 1) * QUADS / parts;
                    add_products(&mut products, integers, quads, steps);
                    for (sum, products) in sums.iter_mut().zip(products) {
                        *sum = _mm512_add_epi32(*sum, _mm512_mullo_epi32(products, scale));
                    }
                }
            }
            let factors = unit.scales.factors_512();
            for (i, y) in y.iter_mut().enumerate() {
                let scale = _mm512_set1_ps(*x.scales.get_unchecked(at(i) / Unit::<F>::STEPS));
                let [factor, min] = factors.map(|factor| _mm512_mul_ps(factor, scale));
                let added = if F::Scales::MINS {
                    _mm512_sub_ps(
                        _mm512_mul_ps(factor, _mm512_cvtepi32_ps(sums[i])),
                        _mm512_mul_ps(min, _mm512_cvtepi32_ps(corrections[i])),
                    )
                } else {
                    _mm512_mul_ps(factor, _mm512_cvtepi32_ps(sums[i]))
                };
                *y = _mm512_add_ps(*y, added);
            }
        }
    }
    y.map(|y| {
        let mut to = [0f32; COLUMNS];
        // SAFETY: there are sixteen elements.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), y) };
        to
    })
}

/// Adds the products of some steps of sixteen columns with those of `R` rows.
///
/// # Safety
/// The CPU has AVX-512 with VNNI, and the rows have these steps, four in a word.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn add_products<I: SmallIntegers, const R: usize>(
    sums: &mut [__m512i; R],
    integers: &I,
    quads: Range<usize>,
    steps: impl Fn(usize) -> *const i32,
) {
    for quad in quads {
        // SAFETY: the caller's.
        unsafe {
            let weights = integers.load_512(quad);
            for (i, sum) in sums.iter_mut().enumerate() {
                let x = _mm512_set1_epi32(steps(i).add(quad).read_unaligned());
                *sum = _mm512_dpbusd_epi32(*sum, weights, x);
            }
        }
    }
}

/// How many products of a group may be added before they are scaled: as long as they share a scale and fit into i16.
#[cfg(target_arch = "x86_64")]
const fn together<F: BlockFormat>() -> usize {
    let [low, high] = <F::Integers as SmallIntegers>::BITS;
    let most = ((1usize << (low + high)) - 1) * 127 * 2;
    let mut together = F::SCALED / 4;
    while together * most > i16::MAX as usize {
        together /= 2;
    }
    together
}

/// The products of a group of eight columns, each times its scale, summed for each column.
///
/// # Safety
/// The CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn scaled<F: BlockFormat>(p: [__m256i; 8], scales: [__m256i; 2]) -> __m256i {
    let twos = [0, 2, 4, 6].map(|i| _mm256_add_epi16(p[i], p[i + 1]));
    match const { together::<F>() } {
        2 => {
            let first = _mm256_add_epi32(
                _mm256_madd_epi16(twos[0], scales[0]),
                _mm256_madd_epi16(twos[1], scales[0]),
            );
            let second = _mm256_add_epi32(
                _mm256_madd_epi16(twos[2], scales[1]),
                _mm256_madd_epi16(twos[3], scales[1]),
            );
            _mm256_add_epi32(first, second)
        }
        4 => _mm256_add_epi32(
            _mm256_madd_epi16(_mm256_add_epi16(twos[0], twos[1]), scales[0]),
            _mm256_madd_epi16(_mm256_add_epi16(twos[2], twos[3]), scales[1]),
        ),
        _ => {
            let fours = [_mm256_add_epi16(twos[0], twos[1]), _mm256_add_epi16(twos[2], twos[3])];
            _mm256_madd_epi16(_mm256_add_epi16(fours[0], fours[1]), scales[0])
        }
    }
}
