//! Dot products of a row with rows, all f32: what attention with a few queries consists of. A kernel for AVX2, and the same
//! in plain Rust.
#![expect(unsafe_code, reason = "vector instructions")]

use super::simd;

/// The dot products of a row with rows of as many elements, which begin `stride` elements apart in `x`.
pub fn dot_rows(row: &[f32], x: &[f32], stride: usize, y: &mut [f32]) {
    let at = |i: usize| &x[i * stride..][..row.len()];
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if simd::has_avx2() {
        for y in y.as_chunks_mut::<4>().0 {
            // SAFETY: just asked; the rows are of one length.
            *y = unsafe { avx2::dot_four(row, std::array::from_fn(|i| at(done + i))) };
            done += 4;
        }
    }
    for (i, y) in y.iter_mut().enumerate().skip(done) {
        *y = simd::vectorized(|| simd::sum2(row, at(i), |a, b| a * b));
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    /// How far ahead the row is prefetched, in bytes.
    const AHEAD: usize = 2048;

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn load(x: &[f32], i: usize) -> __m256 {
        debug_assert!(i + 8 <= x.len());
        // SAFETY: there are eight elements from `i` on.
        unsafe { _mm256_loadu_ps(x.as_ptr().add(i)) }
    }

    /// The dot products of one row with four rows.
    ///
    /// # Safety
    /// AVX2 and FMA; all rows are of one length.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn dot_four(row: &[f32], x: [&[f32]; 4]) -> [f32; 4] {
        let mut sums = [[_mm256_setzero_ps(); 2]; 4];
        let whole = row.len() / 16 * 16;
        for i in (0..whole).step_by(16) {
            _mm_prefetch::<_MM_HINT_T0>(row.as_ptr().wrapping_add(i + AHEAD / 4).cast());
            let w = [load(row, i), load(row, i + 8)];
            for (sums, x) in sums.iter_mut().zip(x) {
                sums[0] = _mm256_fmadd_ps(w[0], load(x, i), sums[0]);
                sums[1] = _mm256_fmadd_ps(w[1], load(x, i + 8), sums[1]);
            }
        }
        let mut y = sums.map(|[a, b]| total(_mm256_add_ps(a, b)));
        for (y, x) in y.iter_mut().zip(x) {
            *y += (whole..row.len()).map(|i| row[i] * x[i]).sum::<f32>();
        }
        y
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn total(sum: __m256) -> f32 {
        let mut lanes = [0f32; 8];
        // SAFETY: `lanes` has room for eight.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
        ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::elements;
    use super::*;

    #[cfg(target_arch = "x86_64")]
    use super::super::testing::cpu_has_avx2;

    #[test]
    fn rows_together_are_the_rows_one_by_one() {
        for (width, rows) in [(1, 4), (16, 3), (33, 4), (100, 9), (0, 2)] {
            let (w, x) = (elements(width, 1), elements(width * rows, 2));
            let mut y = vec![0f32; rows];
            dot_rows(&w, &x, width, &mut y);
            let row = |i: usize| &x[i * width..(i + 1) * width];
            let assert_row = |i: usize, y: f32| {
                let one: f64 = w.iter().zip(row(i)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                assert!((f64::from(y) - one).abs() <= 1e-5 * (1.0 + one.abs()), "{y} is not {one}");
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
}
