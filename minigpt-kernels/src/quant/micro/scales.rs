//! What stands beside the integers of a block: factors in f16, and in blocks of 256 a small integer for every 16 or 32 of
//! them, for sixteen columns side by side.
//!
//! A weight is `factor · scale · integer − minimum`, where the minimum is either `factor₂ · min`, or `factor · scale · offset`.
//! So the product of a block needs two integer sums: `Σ scale · integer · x`, and `Σ correction · x`, where a correction is the
//! min, or `scale · offset`.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "vector instructions"))]

use crate::gemm::panel_format::COLUMNS;
use crate::quant::block_panels::HALF;
use half::f16;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Sixteenths of a block of 256.
const SIXTEENTHS: usize = 16;
/// Groups of 32 in a block of 256.
const GROUPS: usize = 8;

/// The scales of one column's block, whatever its format.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColumnScales {
    /// What all is multiplied with; and what the mins are.
    pub factors: [f16; 2],
    /// A scale for each sixteenth of the block. Where a format has one for two of them, it is here twice.
    pub scales: [i8; SIXTEENTHS],
    /// The same of mins.
    pub mins: [i8; SIXTEENTHS],
}

impl Default for ColumnScales {
    fn default() -> Self {
        Self { factors: [f16::ZERO; 2], scales: [0; SIXTEENTHS], mins: [0; SIXTEENTHS] }
    }
}

/// The scales of sixteen columns.
pub trait Scales: Copy + Send + Sync + 'static {
    /// Whether the corrections have a factor of their own.
    const MINS: bool;

    /// The scales of each column.
    fn new(columns: &[ColumnScales; COLUMNS]) -> Self;

    /// The scales of one column.
    fn column(&self, column: usize) -> ColumnScales;

    /// The scales of a column for both sixteens of a group of 32, and its corrections.
    fn group(&self, column: usize, group: usize) -> [[i32; 2]; 2];

    /// The factors of a column.
    fn factors(&self, column: usize) -> [f16; 2];

    /// The scales of eight columns for the first and the second sixteen of a group of 32: each twice as i16.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[cfg(target_arch = "x86_64")]
    unsafe fn scales_avx2(&self, half: usize, group: usize) -> [__m256i; 2];

    /// The corrections of eight columns: those of the first sixteen and of the second, as i16.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[cfg(target_arch = "x86_64")]
    unsafe fn corrections_avx2(&self, half: usize, group: usize) -> __m256i;

    /// The factors of eight columns.
    ///
    /// # Safety
    /// The CPU has AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    unsafe fn factors_avx2(&self, half: usize) -> [__m256; 2];

    /// [`Scales::scales_avx2`] of all sixteen columns, each once as i32.
    ///
    /// # Safety
    /// The CPU has AVX-512 with BW.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,avx512f")]
    unsafe fn scales_512(&self, group: usize) -> [__m512i; 2] {
        // SAFETY: the caller's.
        let [low, high] = unsafe { [self.scales_avx2(0, group), self.scales_avx2(1, group)] };
        [0, 1].map(|sixteen| _mm512_srai_epi32::<16>(joined(low[sixteen], high[sixteen])))
    }

    /// [`Scales::corrections_avx2`] of all sixteen columns.
    ///
    /// # Safety
    /// The CPU has AVX-512 with BW.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,avx512f")]
    unsafe fn corrections_512(&self, group: usize) -> __m512i {
        // SAFETY: the caller's.
        unsafe { joined(self.corrections_avx2(0, group), self.corrections_avx2(1, group)) }
    }

    /// [`Scales::factors_avx2`] of all sixteen columns.
    ///
    /// # Safety
    /// The CPU has AVX-512 and F16C.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c,avx512f")]
    unsafe fn factors_512(&self) -> [__m512; 2] {
        // SAFETY: the caller's.
        let [low, high] = unsafe { [self.factors_avx2(0), self.factors_avx2(1)] };
        [0, 1].map(|i| {
            let halves = [low[i], high[i]].map(|half| _mm256_castps_si256(half));
            _mm512_castsi512_ps(joined(halves[0], halves[1]))
        })
    }
}

/// Sixteen words of two registers.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn joined(low: __m256i, high: __m256i) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// # Safety
/// The CPU has F16C.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn factors_avx2(factors: &[f16; COLUMNS], half: usize) -> __m256 {
    // SAFETY: a half has eight of them.
    unsafe { _mm256_cvtph_ps(_mm_loadu_si128(factors.as_ptr().add(HALF * half).cast())) }
}

/// A factor for a block of 32, whose integers stand for themselves less `OFFSET`.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct Factor<const OFFSET: i16>([f16; COLUMNS]);

impl<const OFFSET: i16> Scales for Factor<OFFSET> {
    const MINS: bool = false;

    fn new(columns: &[ColumnScales; COLUMNS]) -> Self {
        Self(columns.map(|column| column.factors[0]))
    }

    fn column(&self, column: usize) -> ColumnScales {
        ColumnScales { factors: [self.0[column], f16::ZERO], ..ColumnScales::default() }
    }

    #[inline(always)]
    fn group(&self, _column: usize, _group: usize) -> [[i32; 2]; 2] {
        [[1; 2], [i32::from(OFFSET); 2]]
    }

    fn factors(&self, column: usize) -> [f16; 2] {
        [self.0[column], f16::ZERO]
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn scales_avx2(&self, _half: usize, _group: usize) -> [__m256i; 2] {
        [_mm256_set1_epi16(1); 2]
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn corrections_avx2(&self, _half: usize, _group: usize) -> __m256i {
        _mm256_set1_epi16(OFFSET)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn factors_avx2(&self, half: usize) -> [__m256; 2] {
        // SAFETY: the caller's.
        unsafe { [factors_avx2(&self.0, half), _mm256_setzero_ps()] }
    }
}

/// A factor and a minimum, which is added, for a block of 32.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct FactorAndMinimum([[f16; COLUMNS]; 2]);

impl Scales for FactorAndMinimum {
    const MINS: bool = true;

    fn new(columns: &[ColumnScales; COLUMNS]) -> Self {
        Self([0, 1].map(|i| columns.map(|column| column.factors[i])))
    }

    fn column(&self, column: usize) -> ColumnScales {
        ColumnScales { factors: self.factors(column), ..ColumnScales::default() }
    }

    #[inline(always)]
    fn group(&self, _column: usize, _group: usize) -> [[i32; 2]; 2] {
        [[1; 2], [-1; 2]]
    }

    fn factors(&self, column: usize) -> [f16; 2] {
        self.0.map(|factors| factors[column])
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn scales_avx2(&self, _half: usize, _group: usize) -> [__m256i; 2] {
        [_mm256_set1_epi16(1); 2]
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn corrections_avx2(&self, _half: usize, _group: usize) -> __m256i {
        _mm256_set1_epi16(-1)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn factors_avx2(&self, half: usize) -> [__m256; 2] {
        // SAFETY: the caller's.
        unsafe { [factors_avx2(&self.0[0], half), factors_avx2(&self.0[1], half)] }
    }
}

/// A scale and a min from 0 on for every 32 of a block of 256.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct ScalesOf32 {
    factors: [[f16; COLUMNS]; 2],
    /// The scales of each group, then its mins.
    groups: [[[u8; COLUMNS]; 2]; GROUPS],
}

impl ScalesOf32 {
    /// The scales (0) or mins (1) of eight columns, each twice as i16.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn twice(&self, half: usize, group: usize, which: usize) -> __m256i {
        // SAFETY: a half has eight bytes.
        let eight = unsafe { _mm_loadl_epi64(self.groups[group][which].as_ptr().add(HALF * half).cast()) };
        let wide = _mm256_cvtepu8_epi32(eight);
        _mm256_or_si256(wide, _mm256_slli_epi32::<16>(wide))
    }
}

#[cfg(target_arch = "x86_64")]
impl ScalesOf32 {
    /// The scales (0) or mins (1) of all sixteen columns as i32.
    ///
    /// # Safety
    /// The CPU has AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn once_512(&self, group: usize, which: usize) -> __m512i {
        // SAFETY: there are sixteen bytes.
        _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(self.groups[group][which].as_ptr().cast()) })
    }
}

impl Scales for ScalesOf32 {
    const MINS: bool = true;

    fn new(columns: &[ColumnScales; COLUMNS]) -> Self {
        let factors = [0, 1].map(|i| columns.map(|column| column.factors[i]));
        let group = |group: usize| {
            [columns.map(|c| c.scales[2 * group] as u8), columns.map(|c| c.mins[2 * group] as u8)]
        };
        Self { factors, groups: std::array::from_fn(group) }
    }

    fn column(&self, column: usize) -> ColumnScales {
        let at = |i: usize, which: usize| self.groups[i / 2][which][column] as i8;
        ColumnScales {
            factors: self.factors(column),
            scales: std::array::from_fn(|i| at(i, 0)),
            mins: std::array::from_fn(|i| at(i, 1)),
        }
    }

    #[inline(always)]
    fn group(&self, column: usize, group: usize) -> [[i32; 2]; 2] {
        self.groups[group].map(|both| [i32::from(both[column]); 2])
    }

    fn factors(&self, column: usize) -> [f16; 2] {
        self.factors.map(|factors| factors[column])
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn scales_avx2(&self, half: usize, group: usize) -> [__m256i; 2] {
        // SAFETY: the caller's.
        [unsafe { self.twice(half, group, 0) }; 2]
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn corrections_avx2(&self, half: usize, group: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { self.twice(half, group, 1) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,avx512f")]
    unsafe fn scales_512(&self, group: usize) -> [__m512i; 2] {
        // SAFETY: the caller's.
        [unsafe { self.once_512(group, 0) }; 2]
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,avx512f")]
    unsafe fn corrections_512(&self, group: usize) -> __m512i {
        // SAFETY: the caller's.
        let mins = unsafe { self.once_512(group, 1) };
        _mm512_or_si512(mins, _mm512_slli_epi32::<16>(mins))
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn factors_avx2(&self, half: usize) -> [__m256; 2] {
        // SAFETY: the caller's.
        unsafe { [factors_avx2(&self.factors[0], half), factors_avx2(&self.factors[1], half)] }
    }
}

/// A scale or a min for every 16 of a block of 256: those of the first sixteen of a group and of the second, column by
/// column.
type Pairs = [[[i8; 2]; COLUMNS]; GROUPS];

fn pairs(columns: &[ColumnScales; COLUMNS], of: fn(&ColumnScales) -> [i8; SIXTEENTHS]) -> Pairs {
    let columns = columns.each_ref().map(of);
    std::array::from_fn(|group| columns.map(|column| [column[2 * group], column[2 * group + 1]]))
}

fn of_column(pairs: &Pairs, column: usize) -> [i8; SIXTEENTHS] {
    std::array::from_fn(|i| pairs[i / 2][column][i % 2])
}

/// The pairs of eight columns as i16.
///
/// # Safety
/// The CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pairs_avx2(pairs: &Pairs, half: usize, group: usize) -> __m256i {
    // SAFETY: a half has eight pairs.
    unsafe { _mm256_cvtepi8_epi16(_mm_loadu_si128(pairs[group].as_ptr().add(HALF * half).cast())) }
}

/// The pairs of all sixteen columns as i16.
///
/// # Safety
/// The CPU has AVX-512 with BW.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn pairs_512(pairs: &Pairs, group: usize) -> __m512i {
    // SAFETY: sixteen pairs are 32 bytes.
    unsafe { _mm512_cvtepi8_epi16(_mm256_loadu_si256(pairs[group].as_ptr().cast())) }
}

/// The first of each pair, and the second, as i32.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn each_512(pairs: __m512i) -> [__m512i; 2] {
    [_mm512_srai_epi32::<16>(_mm512_slli_epi32::<16>(pairs)), _mm512_srai_epi32::<16>(pairs)]
}

/// The first of each pair twice, and the second.
///
/// # Safety
/// The CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn each_twice(pairs: __m256i) -> [__m256i; 2] {
    let first = _mm256_setr_epi8(
        0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12,
        13,
    );
    let second = _mm256_add_epi8(first, _mm256_set1_epi8(2));
    [_mm256_shuffle_epi8(pairs, first), _mm256_shuffle_epi8(pairs, second)]
}

/// A scale for every 16 of a block of 256, whose integers stand for themselves less `OFFSET`.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct ScalesOf16<const OFFSET: i16> {
    factors: [f16; COLUMNS],
    scales: Pairs,
}

impl<const OFFSET: i16> Scales for ScalesOf16<OFFSET> {
    const MINS: bool = false;

    fn new(columns: &[ColumnScales; COLUMNS]) -> Self {
        Self {
            factors: columns.map(|column| column.factors[0]),
            scales: pairs(columns, |column| column.scales),
        }
    }

    fn column(&self, column: usize) -> ColumnScales {
        let scales = of_column(&self.scales, column);
        ColumnScales { factors: self.factors(column), scales, ..ColumnScales::default() }
    }

    #[inline(always)]
    fn group(&self, column: usize, group: usize) -> [[i32; 2]; 2] {
        let scales = self.scales[group][column].map(i32::from);
        [scales, scales.map(|scale| scale * i32::from(OFFSET))]
    }

    fn factors(&self, column: usize) -> [f16; 2] {
        [self.factors[column], f16::ZERO]
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn scales_avx2(&self, half: usize, group: usize) -> [__m256i; 2] {
        // SAFETY: the caller's.
        unsafe { each_twice(pairs_avx2(&self.scales, half, group)) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn corrections_avx2(&self, half: usize, group: usize) -> __m256i {
        const { assert!(OFFSET.count_ones() == 1, "an offset that is a shift") };
        let shift = _mm_cvtsi32_si128(OFFSET.trailing_zeros() as i32);
        // SAFETY: the caller's.
        _mm256_sll_epi16(unsafe { pairs_avx2(&self.scales, half, group) }, shift)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512bw")]
    unsafe fn scales_512(&self, group: usize) -> [__m512i; 2] {
        // SAFETY: the caller's.
        each_512(unsafe { pairs_512(&self.scales, group) })
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512bw")]
    unsafe fn corrections_512(&self, group: usize) -> __m512i {
        let shift = _mm_cvtsi32_si128(OFFSET.trailing_zeros() as i32);
        // SAFETY: the caller's.
        _mm512_sll_epi16(unsafe { pairs_512(&self.scales, group) }, shift)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn factors_avx2(&self, half: usize) -> [__m256; 2] {
        // SAFETY: the caller's.
        unsafe { [factors_avx2(&self.factors, half), _mm256_setzero_ps()] }
    }
}

/// A scale and a min for every 16 of a block of 256.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct ScalesAndMinsOf16 {
    factors: [[f16; COLUMNS]; 2],
    scales: Pairs,
    mins: Pairs,
}

impl Scales for ScalesAndMinsOf16 {
    const MINS: bool = true;

    fn new(columns: &[ColumnScales; COLUMNS]) -> Self {
        Self {
            factors: [0, 1].map(|i| columns.map(|column| column.factors[i])),
            scales: pairs(columns, |column| column.scales),
            mins: pairs(columns, |column| column.mins),
        }
    }

    fn column(&self, column: usize) -> ColumnScales {
        let (scales, mins) = (of_column(&self.scales, column), of_column(&self.mins, column));
        ColumnScales { factors: self.factors(column), scales, mins }
    }

    #[inline(always)]
    fn group(&self, column: usize, group: usize) -> [[i32; 2]; 2] {
        [self.scales[group][column].map(i32::from), self.mins[group][column].map(i32::from)]
    }

    fn factors(&self, column: usize) -> [f16; 2] {
        self.factors.map(|factors| factors[column])
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn scales_avx2(&self, half: usize, group: usize) -> [__m256i; 2] {
        // SAFETY: the caller's.
        unsafe { each_twice(pairs_avx2(&self.scales, half, group)) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn corrections_avx2(&self, half: usize, group: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { pairs_avx2(&self.mins, half, group) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512bw")]
    unsafe fn scales_512(&self, group: usize) -> [__m512i; 2] {
        // SAFETY: the caller's.
        each_512(unsafe { pairs_512(&self.scales, group) })
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512bw")]
    unsafe fn corrections_512(&self, group: usize) -> __m512i {
        // SAFETY: the caller's.
        unsafe { pairs_512(&self.mins, group) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn factors_avx2(&self, half: usize) -> [__m256; 2] {
        // SAFETY: the caller's.
        unsafe { [factors_avx2(&self.factors[0], half), factors_avx2(&self.factors[1], half)] }
    }
}
