//! Copies a matrix into packed panels, in the order in which a tile of a product reads it.
#![expect(unsafe_code, reason = "vector instructions")]

use crate::gemm::matrix::Matrix;
use std::arch::x86_64::*;

/// Copies a matrix into packed panels of S rows: column by column, S elements each. The last panel is filled up with zeros.
///
/// # Safety
/// The CPU has AVX2, and all elements of the matrix lie inside its buffer.
#[target_feature(enable = "avx2")]
pub unsafe fn pack<const S: usize>(panels: &mut [f32], matrix: Matrix) {
    let (whole, depth) = (matrix.rows / S, matrix.columns);
    // SAFETY: the caller's; each of these panels has S rows.
    unsafe {
        match (matrix.row_stride, matrix.column_stride) {
            (1, _) => pack_columns::<S>(panels, matrix, whole),
            (_, 1) => {
                for (i, panel) in panels[..whole * S * depth].chunks_exact_mut((S * depth).max(1)).enumerate()
                {
                    pack_rows::<S>(panel, matrix.part(i * S..(i + 1) * S, 0..depth));
                }
            }
            _ => {
                for (i, panel) in panels[..whole * S * depth].chunks_exact_mut((S * depth).max(1)).enumerate()
                {
                    pack_element_by_element::<S>(panel, matrix.part(i * S..(i + 1) * S, 0..depth));
                }
            }
        }
    }
    if whole * S < matrix.rows {
        let panel = &mut panels[whole * S * depth..][..S * depth];
        pack_element_by_element::<S>(panel, matrix.part(whole * S..matrix.rows, 0..depth));
    }
}

/// A panel of up to S rows, element by element.
fn pack_element_by_element<const S: usize>(panel: &mut [f32], matrix: Matrix) {
    for (p, to) in panel.as_chunks_mut::<S>().0.iter_mut().enumerate() {
        for (i, to) in to.iter_mut().enumerate() {
            *to = if i < matrix.rows {
                matrix.data[i * matrix.row_stride + p * matrix.column_stride]
            } else {
                0.0
            };
        }
    }
}

/// Whole panels of a matrix whose columns are contiguous.
///
/// # Safety
/// There are `whole` panels, and all elements of the matrix lie inside its buffer.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pack_columns<const S: usize>(panels: &mut [f32], matrix: Matrix, whole: usize) {
    /// Columns that go into all panels before the next do, so that both reads and writes stay close together.
    const AT_A_TIME: usize = 8;
    let depth = matrix.columns;
    assert!(panels.len() >= whole * S * depth, "room for all panels");
    for first in (0..depth).step_by(AT_A_TIME) {
        for i in 0..whole {
            for p in first..(first + AT_A_TIME).min(depth) {
                // SAFETY: column `p` has S elements for panel `i`, whose step `p` has room for them.
                unsafe {
                    let from = matrix.data.as_ptr().add(p * matrix.column_stride + i * S);
                    let to = panels.as_mut_ptr().add((i * depth + p) * S);
                    from.copy_to_nonoverlapping(to, S);
                }
            }
        }
    }
}

/// A whole panel of a matrix whose rows are contiguous, transposed in squares: of eight rows as long as there are as many,
/// then of four, then of two.
///
/// # Safety
/// The CPU has AVX2, and the matrix has S rows, all of whose elements lie inside its buffer.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pack_rows<const S: usize>(panel: &mut [f32], matrix: Matrix) {
    /// Columns that are transposed of some rows before those of the next rows: a cache line.
    const LINE: usize = 16;
    let depth = matrix.columns;
    assert!(panel.len() >= S * depth, "room for the panel");
    let lines = depth / LINE * LINE;
    let from = |i: usize, p: usize| matrix.data.as_ptr().wrapping_add(i * matrix.row_stride + p);
    let to = panel.as_mut_ptr();
    for line in (0..lines).step_by(LINE) {
        let mut i = 0;
        while i < S {
            let rows = if i + 8 <= S { 8 } else { (S - i).min(4) };
            for p in (line..line + LINE).step_by(rows.max(4)) {
                // SAFETY: the matrix has these rows and columns, and the panel room for them.
                unsafe {
                    let to = to.add(p * S + i);
                    match rows {
                        8 => transpose_8::<S>(from(i, p), matrix.row_stride, to),
                        4 => transpose_4::<S>(from(i, p), matrix.row_stride, to),
                        _ => transpose_2::<S>(from(i, p), matrix.row_stride, to),
                    }
                }
            }
            i += rows;
        }
    }
    pack_element_by_element::<S>(&mut panel[lines * S..S * depth], matrix.part(0..S, lines..depth));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cpu_has_avx2, elements};

    fn assert_packed<const S: usize>(rows: usize, columns: usize, transposed: bool) {
        let data = elements(rows * columns, 1);
        let matrix = if transposed {
            Matrix::new(&data, columns, rows, rows).t()
        } else {
            Matrix::new(&data, rows, columns, columns)
        };
        let mut panels = vec![7f32; rows.next_multiple_of(S) * columns];
        // SAFETY: the CPU has AVX2, as the test has asked; the matrix lies inside its buffer.
        unsafe { pack::<S>(&mut panels, matrix) };
        for (at, &got) in panels.iter().enumerate() {
            let (panel, p, i) = (at / (S * columns), at / S % columns, at % S);
            let row = panel * S + i;
            let want =
                if row < rows { data[row * matrix.row_stride + p * matrix.column_stride] } else { 0.0 };
            assert_eq!(got, want, "panels of {S}: row {row}, column {p}");
        }
    }

    #[test]
    fn every_element_has_its_place_in_panels_of_every_width() {
        if !cpu_has_avx2("every_element_has_its_place_in_panels_of_every_width") {
            return;
        }
        for (rows, columns) in [(1, 1), (12, 16), (33, 35), (64, 64), (70, 21)] {
            for transposed in [false, true] {
                assert_packed::<6>(rows, columns, transposed);
                assert_packed::<12>(rows, columns, transposed);
                assert_packed::<16>(rows, columns, transposed);
                assert_packed::<32>(rows, columns, transposed);
            }
        }
    }
}
