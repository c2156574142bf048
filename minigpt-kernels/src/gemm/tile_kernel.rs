//! The micro-kernels of the matrix product: a tile of the result in registers, for AVX2 and for AVX-512.
//!
//! Each element is one chain of multiply-adds over the inner steps, in their order, so both kernels make the same bits.
#![expect(unsafe_code, reason = "vector instructions")]

use crate::gemm::product::Output;
use std::arch::x86_64::*;
use std::array::from_fn;

/// Rows of `a` as tiles read them: element (i, p) of tile t is `at[t * tile + i * row + p * step]`.
#[derive(Clone, Copy)]
pub struct TileRows {
    pub at: *const f32,
    pub row: usize,
    pub step: usize,
    pub tile: usize,
}

/// A micro-kernel.
pub trait TileKernel {
    /// The size of a tile.
    const ROWS: usize;
    const COLUMNS: usize;

    /// `output = base + scale · a · b` for up to ROWS × COLUMNS elements. `b` is a packed panel of COLUMNS columns.
    ///
    /// # Safety
    /// The CPU has what the kernel is named after. The rows of `a` have as many steps as `b`, and the output and its base
    /// room for as many rows and columns.
    unsafe fn tile(output: Output, size: [usize; 2], scale: f32, a: TileRows, b: &[f32]);
}

/// A tile of 6 × 16 takes 12 of 16 registers, which leaves room for two of `b` and one of `a`.
pub struct Avx2;

/// A tile of 12 × 32 takes 24 of 32 registers.
pub struct Avx512;

impl TileKernel for Avx2 {
    const ROWS: usize = 6;
    const COLUMNS: usize = 16;

    #[target_feature(enable = "avx2,fma")]
    unsafe fn tile(output: Output, [rows, columns]: [usize; 2], scale: f32, a: TileRows, b: &[f32]) {
        // SAFETY: the caller's.
        unsafe {
            match (rows, columns > 8) {
                (1, false) => avx2::<1, 1>(output, columns, scale, a, b),
                (2, false) => avx2::<2, 1>(output, columns, scale, a, b),
                (3, false) => avx2::<3, 1>(output, columns, scale, a, b),
                (4, false) => avx2::<4, 1>(output, columns, scale, a, b),
                (5, false) => avx2::<5, 1>(output, columns, scale, a, b),
                (_, false) => avx2::<6, 1>(output, columns, scale, a, b),
                (1, true) => avx2::<1, 2>(output, columns, scale, a, b),
                (2, true) => avx2::<2, 2>(output, columns, scale, a, b),
                (3, true) => avx2::<3, 2>(output, columns, scale, a, b),
                (4, true) => avx2::<4, 2>(output, columns, scale, a, b),
                (5, true) => avx2::<5, 2>(output, columns, scale, a, b),
                (_, true) => avx2::<6, 2>(output, columns, scale, a, b),
            }
        }
    }
}

impl TileKernel for Avx512 {
    const ROWS: usize = 12;
    const COLUMNS: usize = 32;

    #[target_feature(enable = "avx512f")]
    unsafe fn tile(output: Output, [rows, columns]: [usize; 2], scale: f32, a: TileRows, b: &[f32]) {
        // An edge is made of few kinds of tiles, the largest first.
        let mut i = 0;
        while i < rows {
            // SAFETY: the caller's; these rows are of the tile.
            unsafe {
                let output = output.part(i, 0);
                let a = TileRows { at: a.at.add(i * a.row), ..a };
                i += match (rows - i, columns > 16) {
                    (12.., true) => avx512::<12, 2>(output, columns, scale, a, b),
                    (8.., true) => avx512::<8, 2>(output, columns, scale, a, b),
                    (4.., true) => avx512::<4, 2>(output, columns, scale, a, b),
                    (2.., true) => avx512::<2, 2>(output, columns, scale, a, b),
                    (_, true) => avx512::<1, 2>(output, columns, scale, a, b),
                    (12.., false) => avx512::<12, 1>(output, columns, scale, a, b),
                    (8.., false) => avx512::<8, 1>(output, columns, scale, a, b),
                    (4.., false) => avx512::<4, 1>(output, columns, scale, a, b),
                    (2.., false) => avx512::<2, 1>(output, columns, scale, a, b),
                    (_, false) => avx512::<1, 1>(output, columns, scale, a, b),
                };
            }
        }
    }
}

/// A tile of R rows and V registers a row, of which `columns` elements are stored.
///
/// # Safety
/// As for [`TileKernel::tile`].
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<const R: usize, const V: usize>(
    output: Output,
    columns: usize,
    scale: f32,
    a: TileRows,
    b: &[f32],
) {
    const LANES: usize = 8;
    const COLUMNS: usize = Avx2::COLUMNS;
    let mut sums = [[_mm256_setzero_ps(); V]; R];
    let row = a.row;
    for i in 0..R {
        _mm_prefetch::<_MM_HINT_T0>(output.to.wrapping_add(i * output.stride).cast());
        _mm_prefetch::<_MM_HINT_T0>(output.to.wrapping_add(i * output.stride + COLUMNS - 1).cast());
    }
    let mut step = |p: usize, b: *const f32| {
        // SAFETY: the rows have a step `p`, and so has the panel.
        unsafe {
            let a = a.at.add(p * a.step);
            let b: [__m256; V] = from_fn(|v| _mm256_loadu_ps(b.add(v * LANES)));
            for (i, sums) in sums.iter_mut().enumerate() {
                let a = _mm256_broadcast_ss(&*a.add(i * row));
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = _mm256_fmadd_ps(a, b, *sum);
                }
            }
        }
    };
    // Four steps at a time, while prefetching what of `a` comes soon.
    const AT_A_TIME: usize = 4;
    let (many, rest) = b.as_chunks::<{ AT_A_TIME * COLUMNS }>();
    for (p, b) in many.iter().enumerate() {
        let ahead = (p + 2) * AT_A_TIME * a.step;
        _mm_prefetch::<_MM_HINT_T0>(a.at.wrapping_add(ahead).cast());
        for i in 0..AT_A_TIME {
            step(p * AT_A_TIME + i, b[i * COLUMNS..].as_ptr());
        }
    }
    for (p, b) in rest.chunks_exact(COLUMNS).enumerate() {
        step(many.len() * AT_A_TIME + p, b.as_ptr());
    }
    // SAFETY: the caller's.
    unsafe { store_avx2(output, columns, scale, sums) }
}

/// `output = base + scale · sums`, of which each row has `columns` elements.
///
/// # Safety
/// As for [`TileKernel::tile`].
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn store_avx2<const R: usize, const V: usize>(
    output: Output,
    columns: usize,
    scale: f32,
    sums: [[__m256; V]; R],
) {
    const LANES: usize = 8;
    let scale = _mm256_set1_ps(scale);
    let whole = columns == V * LANES;
    for (i, sums) in sums.into_iter().enumerate() {
        // SAFETY: row `i` of the output and of its base has `columns` elements; those of a row of V registers fit `edge`.
        unsafe {
            let to = output.to.add(i * output.stride);
            let from = output.base.map(|(base, stride)| base.add(i * stride));
            let mut edge = [0f32; Avx2::COLUMNS];
            let (to, from) = if whole {
                (to, from)
            } else {
                from.inspect(|from| from.copy_to_nonoverlapping(edge.as_mut_ptr(), columns));
                (edge.as_mut_ptr(), from.map(|_| edge.as_ptr()))
            };
            for (v, sum) in sums.into_iter().enumerate() {
                let y = match from {
                    Some(from) => _mm256_fmadd_ps(sum, scale, _mm256_loadu_ps(from.add(v * LANES))),
                    None => _mm256_mul_ps(sum, scale),
                };
                _mm256_storeu_ps(to.add(v * LANES), y);
            }
            if !whole {
                let to = output.to.add(i * output.stride);
                edge.as_ptr().copy_to_nonoverlapping(to, columns);
            }
        }
    }
}

/// The same for AVX-512: `R` itself is returned, how many rows were made.
///
/// # Safety
/// As for [`TileKernel::tile`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn avx512<const R: usize, const V: usize>(
    output: Output,
    columns: usize,
    scale: f32,
    a: TileRows,
    b: &[f32],
) -> usize {
    const LANES: usize = 16;
    const COLUMNS: usize = Avx512::COLUMNS;
    let mut sums = [[_mm512_setzero_ps(); V]; R];
    let row = a.row;
    for i in 0..R {
        for v in 0..V {
            _mm_prefetch::<_MM_HINT_T0>(output.to.wrapping_add(i * output.stride + v * LANES).cast());
        }
    }
    let mut step = |p: usize, b: *const f32| {
        // SAFETY: the rows have a step `p`, and so has the panel.
        unsafe {
            let a = a.at.add(p * a.step);
            let b: [__m512; V] = from_fn(|v| _mm512_loadu_ps(b.add(v * LANES)));
            for (i, sums) in sums.iter_mut().enumerate() {
                let a = _mm512_set1_ps(*a.add(i * row));
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = _mm512_fmadd_ps(a, b, *sum);
                }
            }
        }
    };
    const AT_A_TIME: usize = 2;
    let (many, rest) = b.as_chunks::<{ AT_A_TIME * COLUMNS }>();
    for (p, b) in many.iter().enumerate() {
        for i in 0..AT_A_TIME {
            step(p * AT_A_TIME + i, b[i * COLUMNS..].as_ptr());
        }
    }
    for (p, b) in rest.chunks_exact(COLUMNS).enumerate() {
        step(many.len() * AT_A_TIME + p, b.as_ptr());
    }
    let scale = _mm512_set1_ps(scale);
    for (i, sums) in sums.into_iter().enumerate() {
        for (v, sum) in sums.into_iter().enumerate() {
            // The lanes of this register that are columns of the output.
            let lanes = columns.saturating_sub(v * LANES).min(LANES);
            let mask = ((1u32 << lanes) - 1) as __mmask16;
            // SAFETY: row `i` of the output and of its base has `columns` elements; others are not touched.
            unsafe {
                let y = match output.base {
                    Some((base, stride)) => {
                        let base = _mm512_maskz_loadu_ps(mask, base.add(i * stride + v * LANES));
                        _mm512_fmadd_ps(sum, scale, base)
                    }
                    None => _mm512_mul_ps(sum, scale),
                };
                _mm512_mask_storeu_ps(output.to.add(i * output.stride + v * LANES), mask, y);
            }
        }
    }
    R
}
