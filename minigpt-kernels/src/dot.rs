//! Dot products of a row of weights with rows of f32: what a product with a small batch consists of. The weights may be f32,
//! f16, bf16 or Q8_0 blocks; each format has a kernel for AVX2 and the same in plain Rust.
#![expect(unsafe_code, reason = "vector instructions")]

use super::simd;
use half::{bf16, f16};

/// A block of Q8_0, llama.cpp's format: a scale in f16, then 32 integers of 8 bits.
pub type Q8Block = [u8; 34];

/// A format of weights that are multiplied as they are stored. `Self` is one block of it.
pub trait WeightFormat: Copy + Send + Sync + 'static {
    /// Elements in a block.
    const BLOCK_SIZE: usize;

    /// Converts to f32.
    fn dequantize(weights: &[Self], out: &mut [f32]);

    /// The dot product in plain Rust.
    fn dot_portable(weights: &[Self], x: &[f32]) -> f32;

    /// # Safety
    /// The CPU has AVX2, FMA and F16C, and there are as many weights as elements of `x`.
    #[cfg(target_arch = "x86_64")]
    unsafe fn dot_avx2(weights: &[Self], x: &[f32]) -> f32;
}

/// The dot product of a row of weights with a row of as many elements.
pub fn dot<W: WeightFormat>(weights: &[W], x: &[f32]) -> f32 {
    assert_eq!(weights.len() * W::BLOCK_SIZE, x.len(), "rows of one length");
    #[cfg(target_arch = "x86_64")]
    if simd::has_avx2() {
        // SAFETY: just asked and asserted.
        return unsafe { W::dot_avx2(weights, x) };
    }
    W::dot_portable(weights, x)
}

/// The dot products of a row of weights with rows of as many elements, which begin `stride` elements apart in `x`.
pub fn dot_rows(weights: &[f32], x: &[f32], stride: usize, y: &mut [f32]) {
    let at = |i: usize| &x[i * stride..][..weights.len()];
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if simd::has_avx2() {
        for y in y.as_chunks_mut::<4>().0 {
            // SAFETY: just asked; the rows are of one length.
            *y = unsafe { avx2::dot_four(weights, std::array::from_fn(|i| at(done + i))) };
            done += 4;
        }
    }
    for (i, y) in y.iter_mut().enumerate().skip(done) {
        *y = dot(weights, at(i));
    }
}

impl WeightFormat for f32 {
    const BLOCK_SIZE: usize = 1;

    fn dequantize(weights: &[Self], out: &mut [f32]) {
        out.copy_from_slice(weights);
    }

    fn dot_portable(weights: &[Self], x: &[f32]) -> f32 {
        simd::sum2(weights, x, |w, x| w * x)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn dot_avx2(weights: &[Self], x: &[f32]) -> f32 {
        // SAFETY: eight elements are read only where there are eight.
        unsafe { avx2::dot_by_lanes(x.len(), |i| avx2::load(weights, i), |i| weights[i], x) }
    }
}

impl WeightFormat for f16 {
    const BLOCK_SIZE: usize = 1;

    fn dequantize(weights: &[Self], out: &mut [f32]) {
        half::slice::HalfFloatSliceExt::convert_to_f32_slice(weights, out);
    }

    fn dot_portable(weights: &[Self], x: &[f32]) -> f32 {
        weights.iter().zip(x).map(|(w, x)| w.to_f32() * x).sum()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn dot_avx2(weights: &[Self], x: &[f32]) -> f32 {
        // SAFETY: eight elements are read only where there are eight.
        unsafe { avx2::dot_by_lanes(x.len(), |i| avx2::load_f16(weights, i), |i| weights[i].to_f32(), x) }
    }
}

impl WeightFormat for bf16 {
    const BLOCK_SIZE: usize = 1;

    fn dequantize(weights: &[Self], out: &mut [f32]) {
        weights.iter().zip(out).for_each(|(w, out)| *out = w.to_f32());
    }

    fn dot_portable(weights: &[Self], x: &[f32]) -> f32 {
        weights.iter().zip(x).map(|(w, x)| w.to_f32() * x).sum()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn dot_avx2(weights: &[Self], x: &[f32]) -> f32 {
        // SAFETY: eight elements are read only where there are eight.
        unsafe { avx2::dot_by_lanes(x.len(), |i| avx2::load_bf16(weights, i), |i| weights[i].to_f32(), x) }
    }
}

impl WeightFormat for Q8Block {
    const BLOCK_SIZE: usize = 32;

    fn dequantize(weights: &[Self], out: &mut [f32]) {
        simd::vectorized(|| {
            for (block, out) in weights.iter().zip(out.as_chunks_mut::<32>().0) {
                let scale = scale(block);
                for i in 0..32 {
                    out[i] = f32::from(block[2 + i] as i8) * scale;
                }
            }
        });
    }

    fn dot_portable(weights: &[Self], x: &[f32]) -> f32 {
        let part = |(block, x): (&Self, &[f32; 32])| {
            let sum: f32 = block[2..].iter().zip(x).map(|(&q, x)| f32::from(q as i8) * x).sum();
            scale(block) * sum
        };
        weights.iter().zip(x.as_chunks::<32>().0).map(part).sum()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn dot_avx2(weights: &[Self], x: &[f32]) -> f32 {
        // SAFETY: `x` has 32 elements for each block.
        unsafe { avx2::dot_q8(weights, x) }
    }
}

/// A block's scale as f32. The bits of an f16 in the places of an f32 have a wrong exponent bias, which an exact product
/// corrects.
#[inline(always)]
fn scale(block: &Q8Block) -> f32 {
    const BIAS: f32 = f32::from_bits((127 + 112) << 23);
    let bits = u32::from(u16::from_le_bytes([block[0], block[1]]));
    f32::from_bits((bits & 0x8000) << 16 | (bits & 0x7fff) << 13) * BIAS
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::Q8Block;
    use half::{bf16, f16};
    use std::arch::x86_64::*;

    /// The dot product in four independent sums of eight lanes, so that no addition waits for the one before.
    ///
    /// # Safety
    /// AVX2 and FMA; `eight(i)` may be called wherever `x` has eight elements from `i` on, `one(i)` for the rest.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn dot_by_lanes(
        length: usize,
        eight: impl Fn(usize) -> __m256,
        one: impl Fn(usize) -> f32,
        x: &[f32],
    ) -> f32 {
        let mut sums = [_mm256_setzero_ps(); 4];
        let whole = length / 32 * 32;
        for i in (0..whole).step_by(32) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                let i = i + 8 * lane;
                *sum = _mm256_fmadd_ps(eight(i), load(x, i), *sum);
            }
        }
        let rest: f32 = (whole..length).map(|i| one(i) * x[i]).sum();
        total(sums) + rest
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub fn load(x: &[f32], i: usize) -> __m256 {
        debug_assert!(i + 8 <= x.len());
        // SAFETY: there are eight elements from `i` on.
        unsafe { _mm256_loadu_ps(x.as_ptr().add(i)) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub fn load_f16(x: &[f16], i: usize) -> __m256 {
        debug_assert!(i + 8 <= x.len());
        // SAFETY: there are eight elements from `i` on.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(x.as_ptr().add(i).cast())) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub fn load_bf16(x: &[bf16], i: usize) -> __m256 {
        debug_assert!(i + 8 <= x.len());
        // SAFETY: there are eight elements from `i` on.
        let half = unsafe { _mm_loadu_si128(x.as_ptr().add(i).cast()) };
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(half)))
    }

    /// How far ahead weights are prefetched, in bytes.
    const AHEAD: usize = 2048;

    /// # Safety
    /// AVX2, FMA and F16C; `x` has 32 elements for each block.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn dot_q8(blocks: &[Q8Block], x: &[f32]) -> f32 {
        let mut sum = _mm256_setzero_ps();
        for (block, x) in blocks.iter().zip(x.as_chunks::<32>().0) {
            _mm_prefetch::<_MM_HINT_T0>(block.as_ptr().wrapping_add(AHEAD).cast());
            let eight = |lane: usize| {
                // SAFETY: 8 · lane + 8 ≤ 32 integers lie behind the two bytes of the scale.
                let q = unsafe { _mm_loadl_epi64(block.as_ptr().add(2 + 8 * lane).cast()) };
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q))
            };
            // Summed before they are scaled, so that there is one scaling for all four.
            let low = _mm256_fmadd_ps(eight(1), load(x, 8), _mm256_mul_ps(eight(0), load(x, 0)));
            let high = _mm256_fmadd_ps(eight(3), load(x, 24), _mm256_mul_ps(eight(2), load(x, 16)));
            let bits = _mm_cvtsi32_si128(i32::from(u16::from_le_bytes([block[0], block[1]])));
            let scale = _mm256_broadcastss_ps(_mm_cvtph_ps(bits));
            sum = _mm256_fmadd_ps(scale, _mm256_add_ps(low, high), sum);
        }
        total([sum, _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()])
    }

    /// The dot products of one row of weights with four rows.
    ///
    /// # Safety
    /// AVX2 and FMA; all rows are of one length.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn dot_four(weights: &[f32], x: [&[f32]; 4]) -> [f32; 4] {
        let mut sums = [[_mm256_setzero_ps(); 2]; 4];
        let whole = weights.len() / 16 * 16;
        for i in (0..whole).step_by(16) {
            _mm_prefetch::<_MM_HINT_T0>(weights.as_ptr().wrapping_add(i + AHEAD / 4).cast());
            let w = [load(weights, i), load(weights, i + 8)];
            for (sums, x) in sums.iter_mut().zip(x) {
                sums[0] = _mm256_fmadd_ps(w[0], load(x, i), sums[0]);
                sums[1] = _mm256_fmadd_ps(w[1], load(x, i + 8), sums[1]);
            }
        }
        let mut y = sums.map(|[a, b]| total([a, b, _mm256_setzero_ps(), _mm256_setzero_ps()]));
        for (y, x) in y.iter_mut().zip(x) {
            *y += (whole..weights.len()).map(|i| weights[i] * x[i]).sum::<f32>();
        }
        y
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn total(sums: [__m256; 4]) -> f32 {
        let sum = _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
        let mut lanes = [0f32; 8];
        // SAFETY: `lanes` has room for eight.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
        ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{elements, random};
    use super::*;
    use candle_core::quantized::{GgmlDType, QTensor};

    #[cfg(target_arch = "x86_64")]
    use super::super::testing::cpu_has_avx2;

    /// Both kernels, called directly, and the dispatch against the sum in f64 of the weights as f32.
    fn check<W: WeightFormat>(weights: &[W], x: &[f32]) {
        let mut plain = vec![0f32; x.len()];
        W::dequantize(weights, &mut plain);
        let want: f64 = plain.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
        let size: f64 = plain.iter().zip(x).map(|(w, x)| f64::from((w * x).abs())).sum();
        let mut results = vec![dot(weights, x), W::dot_portable(weights, x)];
        #[cfg(target_arch = "x86_64")]
        if cpu_has_avx2("the dot products of AVX2") {
            // SAFETY: just asked; the callers give as many weights as elements.
            results.push(unsafe { W::dot_avx2(weights, x) });
        }
        for got in results {
            assert!(
                (f64::from(got) - want).abs() <= 1e-6 * (size + 1e-9),
                "{got} is not {want}, of {}",
                x.len()
            );
        }
    }

    #[test]
    fn every_format_gives_the_dot_product_of_the_weights_as_f32() {
        for n in [0, 1, 7, 8, 31, 32, 33, 64, 100, 768, 1000] {
            let (w, x) = (elements(n, 1), elements(n, 2));
            check(&w, &x);
            check(&w.iter().map(|&w| f16::from_f32(w)).collect::<Vec<_>>(), &x);
            check(&w.iter().map(|&w| bf16::from_f32(w)).collect::<Vec<_>>(), &x);
        }
        for n in [32, 64, 768] {
            let w = QTensor::quantize(&random(&[n], 1), GgmlDType::Q8_0).unwrap();
            let bytes = w.data().unwrap().into_owned();
            check::<Q8Block>(bytes.as_chunks().0, &elements(n, 2));
            let mut ours = vec![0f32; n];
            Q8Block::dequantize(bytes.as_chunks().0, &mut ours);
            let theirs = w.dequantize(&candle_core::Device::Cpu).unwrap().to_vec1::<f32>().unwrap();
            assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn rows_together_are_the_rows_one_by_one() {
        for (width, rows) in [(1, 4), (16, 3), (33, 4), (100, 9), (0, 2)] {
            let (w, x) = (elements(width, 1), elements(width * rows, 2));
            let mut y = vec![0f32; rows];
            dot_rows(&w, &x, width, &mut y);
            let row = |i: usize| &x[i * width..(i + 1) * width];
            let assert_row = |i: usize, y: f32| {
                let one = f32::dot_portable(&w, row(i));
                assert!((y - one).abs() <= 1e-5 * (1.0 + one.abs()), "{y} is not {one}");
            };
            y.iter().enumerate().for_each(|(i, &y)| assert_row(i, y));
            #[cfg(target_arch = "x86_64")]
            if rows >= 4 && cpu_has_avx2("four rows together") {
                // SAFETY: just asked; the rows are of one length.
                let four = unsafe { avx2::dot_four(&w, std::array::from_fn(row)) };
                four.iter().enumerate().for_each(|(i, &y)| assert_row(i, y));
            }
        }
    }

    #[test]
    fn scales_are_what_the_half_crate_says() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            if half.is_finite() {
                let mut block = [0; 34];
                block[..2].copy_from_slice(&bits.to_le_bytes());
                assert_eq!(scale(&block), half.to_f32());
            }
        }
    }

    #[test]
    #[should_panic(expected = "rows of one length")]
    fn rows_of_unequal_lengths_are_a_mistake() {
        dot(&[1.0f32, 2.0], &[1.0]);
    }
}
