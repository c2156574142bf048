//! The small integers of quantised weights, of 2 to 8 bits: 32 inner steps of sixteen columns.
//!
//! Four steps of a column lie in a word, so that a vector instruction multiplies four steps of eight columns with the same
//! four activations. An integer's low bits and its high bits lie in planes of their own, as in the files, and a word holds
//! the bits of as many groups of four steps as fit into its bytes.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "vector instructions"))]

use crate::gemm::panel_format::COLUMNS;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::array::from_fn;

/// Inner steps that share a place in every plane.
pub const STEPS: usize = 32;
/// Four inner steps of a column.
pub const QUADS: usize = STEPS / 4;
/// The columns of an AVX2 register.
pub const HALF: usize = COLUMNS / 2;

/// `BITS` bits of each integer: byte `i` of a word has those of step `i` of each group of four in it.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Plane<const BITS: usize>([[[u32; HALF]; 2]; BITS]);

impl<const BITS: usize> Plane<BITS> {
    const MASK: u32 = 0x0101_0101 * ((1u32 << BITS) - 1);

    /// In which line a group of four steps lies, and how far its bits are shifted there.
    #[inline(always)]
    const fn place(quad: usize) -> (usize, usize) {
        (quad * BITS / 8, quad * BITS % 8)
    }

    /// The groups of four steps of every column; bits that are not of this plane are left out.
    fn new(quads: impl Fn(usize, usize) -> u32) -> Self {
        let mut plane = Self([[[0; HALF]; 2]; BITS]);
        for quad in 0..if BITS > 0 { QUADS } else { 0 } {
            let (line, shift) = Self::place(quad);
            for column in 0..COLUMNS {
                plane.0[line][column / HALF][column % HALF] |= (quads(column, quad) & Self::MASK) << shift;
            }
        }
        plane
    }

    #[inline(always)]
    fn quad(&self, half: usize, column: usize, quad: usize) -> u32 {
        let (line, shift) = Self::place(quad);
        if BITS == 0 { 0 } else { self.0[line][half][column] >> shift & Self::MASK }
    }

    /// # Safety
    /// The CPU has AVX2.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(&self, half: usize, quad: usize) -> __m256i {
        if BITS == 0 {
            return _mm256_setzero_si256();
        }
        let (line, shift) = Self::place(quad);
        // SAFETY: a line has eight words.
        let words = unsafe { _mm256_load_si256(self.0[line][half].as_ptr().cast()) };
        let shifted = _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
        _mm256_and_si256(shifted, _mm256_set1_epi32(Self::MASK as i32))
    }
}

#[cfg(target_arch = "x86_64")]
impl<const BITS: usize> Plane<BITS> {
    /// Four steps of all sixteen columns.
    ///
    /// # Safety
    /// The CPU has AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_512(&self, quad: usize) -> __m512i {
        if BITS == 0 {
            return _mm512_setzero_si512();
        }
        let (line, shift) = Self::place(quad);
        // SAFETY: a line has sixteen words.
        let words = unsafe { _mm512_loadu_si512(self.0[line].as_ptr().cast()) };
        if BITS == 8 {
            return words;
        }
        let shifted = _mm512_srl_epi32(words, _mm_cvtsi32_si128(shift as i32));
        _mm512_and_si512(shifted, _mm512_set1_epi32(Self::MASK as i32))
    }
}

/// Integers of `LOW + HIGH` bits from 0 on.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Integers<const LOW: usize, const HIGH: usize> {
    low: Plane<LOW>,
    high: Plane<HIGH>,
}

/// [`Integers`] of any number of bits.
pub trait SmallIntegers: Copy + Send + Sync + 'static {
    /// How many bits lie in the first plane, and in the second.
    const BITS: [usize; 2];

    /// The integers of each column.
    fn new(columns: &[[u8; STEPS]; COLUMNS]) -> Self;

    /// The integers of one column.
    fn column(&self, column: usize) -> [u8; STEPS];

    /// Four steps of each of eight columns, a byte each.
    fn quads(&self, half: usize, quad: usize) -> [u32; HALF];

    /// All steps of eight columns, four in a vector.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load(&self, half: usize) -> [__m256i; QUADS];

    /// Four steps of all sixteen columns.
    ///
    /// # Safety
    /// The CPU has AVX-512.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load_512(&self, quad: usize) -> __m512i;
}

impl<const LOW: usize, const HIGH: usize> SmallIntegers for Integers<LOW, HIGH> {
    const BITS: [usize; 2] = [LOW, HIGH];

    fn new(columns: &[[u8; STEPS]; COLUMNS]) -> Self {
        let word = |column: usize, quad: usize| u32::from_le_bytes(columns[column].as_chunks().0[quad]);
        Self { low: Plane::new(word), high: Plane::new(|column, quad| word(column, quad) >> LOW) }
    }

    fn column(&self, column: usize) -> [u8; STEPS] {
        let quads: [[u8; 4]; QUADS] =
            from_fn(|quad| self.quads(column / HALF, quad)[column % HALF].to_le_bytes());
        from_fn(|step| quads[step / 4][step % 4])
    }

    #[inline(always)]
    fn quads(&self, half: usize, quad: usize) -> [u32; HALF] {
        from_fn(|column| self.low.quad(half, column, quad) | self.high.quad(half, column, quad) << LOW)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(&self, half: usize) -> [__m256i; QUADS] {
        let shift = _mm_cvtsi32_si128(LOW as i32);
        // SAFETY: the caller's.
        from_fn(|quad| unsafe {
            let low = self.low.load(half, quad);
            match HIGH {
                0 => low,
                _ => _mm256_or_si256(low, _mm256_sll_epi32(self.high.load(half, quad), shift)),
            }
        })
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_512(&self, quad: usize) -> __m512i {
        // SAFETY: the caller's.
        unsafe {
            let low = self.low.load_512(quad);
            match HIGH {
                0 => low,
                _ => {
                    let shift = _mm_cvtsi32_si128(LOW as i32);
                    _mm512_or_si512(low, _mm512_sll_epi32(self.high.load_512(quad), shift))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_kept<I: SmallIntegers>() {
        let most = (1u32 << I::BITS.iter().sum::<usize>()) - 1;
        let columns: [[u8; STEPS]; COLUMNS] =
            from_fn(|c| from_fn(|s| ((c * 37 + s * 101 + c * s) as u32 % (most + 1)) as u8));
        let integers = I::new(&columns);
        for (column, want) in columns.iter().enumerate() {
            assert_eq!(integers.column(column), *want);
        }
        #[cfg(target_arch = "x86_64")]
        if crate::testing::cpu_has_avx2("integers_are_kept_in_every_number_of_bits") {
            for half in 0..2 {
                // SAFETY: the CPU has AVX2, and a vector is eight words.
                let vectors = unsafe {
                    I::load(&integers, half).map(|vector| std::mem::transmute::<__m256i, [u32; HALF]>(vector))
                };
                assert_eq!(vectors, from_fn(|quad| integers.quads(half, quad)));
            }
            for quad in 0..if std::arch::is_x86_feature_detected!("avx512f") { QUADS } else { 0 } {
                // SAFETY: the CPU has AVX-512, and a vector is sixteen words.
                let vector =
                    unsafe { std::mem::transmute::<__m512i, [[u32; HALF]; 2]>(I::load_512(&integers, quad)) };
                assert_eq!(vector, [0, 1].map(|half| integers.quads(half, quad)));
            }
        }
    }

    #[test]
    fn integers_are_kept_in_every_number_of_bits() {
        assert_kept::<Integers<2, 0>>();
        assert_kept::<Integers<2, 1>>();
        assert_kept::<Integers<4, 0>>();
        assert_kept::<Integers<4, 1>>();
        assert_kept::<Integers<4, 2>>();
        assert_kept::<Integers<8, 0>>();
    }
}
