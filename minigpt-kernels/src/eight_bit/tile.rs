//! The micro-kernel: a few rows of 8-bit activations times a panel of sixteen columns.
//!
//! The products of a block are summed as integers, which is exact in any order; then each block's sum is scaled and added to
//! those before it, in f32, from the first block to the last. So an element has the same bits beside any rows and columns, and
//! in both kernels.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "vector instructions"))]

use super::COLUMNS;
use super::formats::{BlockFormat, Unit};
use super::integers::{HALF, STEPS, SmallIntegers};
use super::rows::{EightBitRows, SUMMED};
use super::scales::Scales;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::array::from_fn;

/// The most rows that share what is read of a panel: with their sums, the integers of a group fill the registers.
pub const TILE_ROWS: usize = 4;

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
            y[column] += match F::Scales::MINS {
                true => factors[0] * sums[column] as f32 - factors[1] * corrections[column] as f32,
                false => factors[0] * (sums[column] - corrections[column]) as f32,
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
        match F::Scales::MINS {
            true => {
                let sum = _mm256_mul_ps(factor, _mm256_cvtepi32_ps(sums[i]));
                _mm256_sub_ps(sum, _mm256_mul_ps(min, _mm256_cvtepi32_ps(corrections[i])))
            }
            false => {
                let sum = _mm256_sub_epi32(sums[i], corrections[i]);
                _mm256_mul_ps(factor, _mm256_cvtepi32_ps(sum))
            }
        }
    })
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
