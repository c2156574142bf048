//! Packing of contiguous rows: element (i, p) goes to `panel[p * rows + i]`.
#![expect(unsafe_code, reason = "vector instructions")]

use crate::gemm::matrix::Matrix;
use std::arch::x86_64::*;

/// Packs 6, 12 or 16 rows, transposed in squares: of eight rows as long as there are as many, then of four, then of two.
///
/// # Safety
/// The CPU has AVX2, and all elements of the rows lie inside their buffer. Also used for AVX-512.
#[target_feature(enable = "avx2")]
pub unsafe fn interleave(panel: &mut [f32], rows: Matrix) {
    // SAFETY: the caller's.
    unsafe {
        match rows.rows {
            6 => interleave_rows::<6>(panel, rows),
            12 => interleave_rows::<12>(panel, rows),
            16 => interleave_rows::<16>(panel, rows),
            other => unreachable!("panels of {other} rows"),
        }
    }
}

/// # Safety
/// As for [`interleave`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn interleave_rows<const S: usize>(panel: &mut [f32], rows: Matrix) {
    /// Columns that are transposed of some rows before those of the next rows: a cache line.
    const LINE: usize = 16;
    let depth = rows.columns;
    assert!(panel.len() >= S * depth, "room for the panel");
    let lines = depth / LINE * LINE;
    let from = |i: usize, p: usize| rows.data.as_ptr().wrapping_add(i * rows.row_stride + p);
    for line in (0..lines).step_by(LINE) {
        let mut i = 0;
        while i < S {
            let height = if i + 8 <= S { 8 } else { (S - i).min(4) };
            for p in (line..line + LINE).step_by(height.max(4)) {
                // SAFETY: the matrix has these rows and columns, and the panel room for them.
                unsafe {
                    let to = panel.as_mut_ptr().add(p * S + i);
                    match height {
                        8 => transpose_8::<S>(from(i, p), rows.row_stride, to),
                        4 => transpose_4::<S>(from(i, p), rows.row_stride, to),
                        _ => transpose_2::<S>(from(i, p), rows.row_stride, to),
                    }
                }
            }
            i += height;
        }
    }
    for (p, to) in panel[..S * depth].chunks_exact_mut(S).enumerate().skip(lines) {
        to.iter_mut().enumerate().for_each(|(i, to)| *to = rows.row(i)[p]);
    }
}

/// Eight columns of eight rows that are `stride` apart, each column S elements behind the last.
///
/// # Safety
/// The CPU has AVX2; all of these elements can be read and written.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn transpose_8<const S: usize>(from: *const f32, stride: usize, to: *mut f32) {
    // SAFETY: the caller's.
    unsafe {
        let row = |i: usize| _mm256_loadu_ps(from.add(i * stride));
        // Pairs of rows, then groups of four, then the two halves of each.
        let pair =
            |i: usize| (_mm256_unpacklo_ps(row(i), row(i + 1)), _mm256_unpackhi_ps(row(i), row(i + 1)));
        let four = |i: usize| {
            let ((a_low, a_high), (b_low, b_high)) = (pair(i), pair(i + 2));
            [
                _mm256_shuffle_ps::<0x44>(a_low, b_low),
                _mm256_shuffle_ps::<0xee>(a_low, b_low),
                _mm256_shuffle_ps::<0x44>(a_high, b_high),
                _mm256_shuffle_ps::<0xee>(a_high, b_high),
            ]
        };
        for (p, (top, bottom)) in four(0).into_iter().zip(four(4)).enumerate() {
            _mm256_storeu_ps(to.add(p * S), _mm256_permute2f128_ps::<0x20>(top, bottom));
            _mm256_storeu_ps(to.add((p + 4) * S), _mm256_permute2f128_ps::<0x31>(top, bottom));
        }
    }
}

/// The same for four columns of four rows.
///
/// # Safety
/// As for [`transpose_8`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn transpose_4<const S: usize>(from: *const f32, stride: usize, to: *mut f32) {
    // SAFETY: the caller's.
    unsafe {
        let row = |i: usize| _mm_loadu_ps(from.add(i * stride));
        let (a0, a1) = (_mm_unpacklo_ps(row(0), row(1)), _mm_unpackhi_ps(row(0), row(1)));
        let (b0, b1) = (_mm_unpacklo_ps(row(2), row(3)), _mm_unpackhi_ps(row(2), row(3)));
        _mm_storeu_ps(to, _mm_movelh_ps(a0, b0));
        _mm_storeu_ps(to.add(S), _mm_movehl_ps(b0, a0));
        _mm_storeu_ps(to.add(2 * S), _mm_movelh_ps(a1, b1));
        _mm_storeu_ps(to.add(3 * S), _mm_movehl_ps(b1, a1));
    }
}

/// The same for four columns of two rows.
///
/// # Safety
/// As for [`transpose_8`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn transpose_2<const S: usize>(from: *const f32, stride: usize, to: *mut f32) {
    // SAFETY: the caller's.
    unsafe {
        let (first, second) = (_mm_loadu_ps(from), _mm_loadu_ps(from.add(stride)));
        for (p, pairs) in [(0, _mm_unpacklo_ps(first, second)), (2, _mm_unpackhi_ps(first, second))] {
            let pairs = _mm_castps_pd(pairs);
            _mm_storel_pd(to.add(p * S).cast(), pairs);
            _mm_storeh_pd(to.add((p + 1) * S).cast(), pairs);
        }
    }
}
