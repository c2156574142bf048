//! The matrix product by vector instructions, as BLIS does it: the product is made tile by tile, each in registers
//! (`tile_kernel`). For that, both factors are first copied into packed panels (`packing`), in the order in which a tile reads
//! them, a block at a time that stays in the caches. Every element is summed in the same order, whatever the kernel, the
//! tile and the thread that makes it.
#![expect(unsafe_code, reason = "kernels read and write through pointers")]

use crate::gemm::matrix::Matrix;
use crate::gemm::packing::pack;
use crate::gemm::product::{Output, inner_steps};
use crate::gemm::tile_kernel::{Avx2, Avx512, TileKernel, TileRows};
use std::cell::RefCell;

/// Rows of `a` at a time: they stay in the L2 cache,
const HEIGHT: usize = 192;
/// and columns of `b`: in the L3 cache, or in L2 if `a` has few rows.
const WIDTH: usize = 4096;
const FEW_ROWS: usize = 24;
const WIDTH_FOR_FEW_ROWS: usize = 192;

/// With up to so many tiles of columns, packing `a` does not pay if its rows are contiguous.
const NARROW: usize = 16;

/// The packed panels of a block of each factor, reused from call to call.
#[derive(Default)]
struct Panels {
    a: Vec<f32>,
    b: Vec<f32>,
}

thread_local! {
    static PANELS: RefCell<Panels> = RefCell::default();
}

/// `output = base + scale · a · b` on the calling thread, by the kernel of this CPU. With LOWER, tiles that lie above the
/// diagonal are left out.
///
/// # Safety
/// The CPU has AVX2 and FMA, all elements of `a` and `b` lie inside their buffers, and the output and its base have room
/// for `a.rows` × `b.columns` elements, those of the base with values. Only the output and its base may be the same
/// memory.
pub unsafe fn gemm<const LOWER: bool>(output: Output, scale: f32, a: Matrix, b: Matrix) {
    // SAFETY: the caller's; AVX-512 has just been asked for.
    unsafe {
        match crate::simd::has_avx512() {
            true => gemm_by::<Avx512, LOWER, { Avx512::ROWS }, { Avx512::COLUMNS }>(output, scale, a, b),
            false => gemm_by::<Avx2, LOWER, { Avx2::ROWS }, { Avx2::COLUMNS }>(output, scale, a, b),
        }
    }
}

/// The same by a given kernel, whose tiles have R rows and C columns.
///
/// # Safety
/// As for [`gemm`]; the CPU has what the kernel needs.
unsafe fn gemm_by<K: TileKernel, const LOWER: bool, const R: usize, const C: usize>(
    output: Output,
    scale: f32,
    a: Matrix,
    b: Matrix,
) {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    if m == 0 || n == 0 {
        return;
    }
    // Blocks of about the same size, of whole tiles. Without any inner step there is still one block: it copies the base.
    let depth = inner_steps(k).min(k).max(1);
    let height = m.div_ceil(m.div_ceil(HEIGHT)).next_multiple_of(R);
    let most = if m > FEW_ROWS { WIDTH } else { WIDTH_FOR_FEW_ROWS };
    let width = n.div_ceil(n.div_ceil(most)).next_multiple_of(C);
    PANELS.with_borrow_mut(|panels| {
        let grow = |v: &mut Vec<f32>, size| v.resize(v.len().max(size), 0.0);
        grow(&mut panels.a, height * depth);
        grow(&mut panels.b, width * depth);
        for left in (0..n).step_by(width) {
            let columns = width.min(n - left);
            for first in (0..k.max(1)).step_by(depth) {
                let steps = depth.min(k - first);
                let b = b.part(first..first + steps, left..left + columns);
                // SAFETY: the CPU is the caller's promise; the panels have just been made large enough.
                unsafe { pack::<C>(&mut panels.b, b.t()) };
                for top in (0..m).step_by(height) {
                    let rows = height.min(m - top);
                    let a = a.part(top..top + rows, first..first + steps);
                    // SAFETY: as above; the part of the output lies inside of it, and so does that of its base, which
                    // after the first inner steps is the output itself.
                    unsafe {
                        let a = if a.column_stride == 1 && n <= NARROW * C {
                            let row = a.row_stride;
                            TileRows { at: a.data.as_ptr(), row, step: 1, tile: R * row }
                        } else {
                            pack::<R>(&mut panels.a, a);
                            TileRows { at: panels.a.as_ptr(), row: 1, step: R, tile: R * steps }
                        };
                        let output = output.part(top, left);
                        let output = if first > 0 { output.added() } else { output };
                        // How far below the diagonal the block begins.
                        let below = if LOWER { top as isize - left as isize } else { isize::MAX };
                        block::<K>(output, scale, a, &panels.b, [rows, columns, steps], below);
                    }
                }
            }
        }
    });
}

/// The product of rows of `a` with the panels of `b`, tile by tile; those at the edges are smaller. A panel of `b` stays in
/// the caches while all tiles of `a` are multiplied with it. Row i and column j are on the diagonal where j = i + `below`;
/// tiles that lie beyond it are left out.
///
/// # Safety
/// As for [`gemm_by`].
unsafe fn block<K: TileKernel>(
    output: Output,
    scale: f32,
    a: TileRows,
    b: &[f32],
    [rows, columns, depth]: [usize; 3],
    below: isize,
) {
    for j in (0..columns).step_by(K::COLUMNS) {
        let b = &b[j * depth..][..K::COLUMNS * depth];
        // The first tile that has an element on the diagonal or below it in this column.
        let first = usize::try_from((j as isize).saturating_sub(below)).unwrap_or(0) / K::ROWS * K::ROWS;
        for i in (first..rows).step_by(K::ROWS) {
            let size = [K::ROWS.min(rows - i), K::COLUMNS.min(columns - j)];
            let a = TileRows { at: a.at.wrapping_add(i / K::ROWS * a.tile), ..a };
            // SAFETY: the tile lies inside the output, and its rows inside of `a`.
            unsafe { K::tile(output.part(i, j), size, scale, a, b) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cpu_has_avx2, elements};
    use proptest::prelude::*;

    // These call each kernel directly, whatever the dispatch would choose.

    /// `gemm` by each kernel that this CPU has.
    fn kernels(test: &str) -> Vec<unsafe fn(Output, f32, Matrix, Matrix)> {
        let mut kernels: Vec<unsafe fn(Output, f32, Matrix, Matrix)> = Vec::new();
        if cpu_has_avx2(test) {
            kernels.push(gemm_by::<Avx2, false, { Avx2::ROWS }, { Avx2::COLUMNS }>);
            if std::arch::is_x86_feature_detected!("avx512f") {
                kernels.push(gemm_by::<Avx512, false, { Avx512::ROWS }, { Avx512::COLUMNS }>);
            }
        }
        kernels
    }

    /// What the product is by definition.
    fn by_definition(a: Matrix, b: Matrix) -> Vec<f64> {
        let at = |m: &Matrix, i: usize, j: usize| f64::from(m.data[i * m.row_stride + j * m.column_stride]);
        let sum = |i, j| (0..a.columns).map(|p| at(&a, i, p) * at(&b, p, j)).sum();
        (0..a.rows).flat_map(|i| (0..b.columns).map(move |j| (i, j))).map(|(i, j)| sum(i, j)).collect()
    }

    fn assert_product(
        [m, k, n]: [usize; 3],
        [transpose_a, transpose_b]: [bool; 2],
        base: usize,
        scale: f32,
        seed: u64,
    ) {
        let (a, b) = (elements(m * k, seed), elements(k * n, seed ^ 1));
        let a = if transpose_a { Matrix::new(&a, k, m, m).t() } else { Matrix::new(&a, m, k, k) };
        let b = if transpose_b { Matrix::new(&b, n, k, k).t() } else { Matrix::new(&b, k, n, n) };
        // Two columns more than the product has, which must stay as they are.
        let row = n + 2;
        let (before, bias) = (elements(m * row, seed ^ 2), elements(n, seed ^ 3));
        let product = by_definition(a, b);
        let mut results = kernels("a product by tiles").into_iter().map(|gemm| {
            let mut after = before.clone();
            let output = Output { to: after.as_mut_ptr(), stride: row, base: None };
            let output = match base {
                0 => output,
                1 => Output { base: Some((bias.as_ptr(), 0)), ..output },
                _ => output.added(),
            };
            // SAFETY: the CPU has this kernel; all have the sizes that they should have.
            unsafe { gemm(output, scale, a, b) };
            after
        });
        let Some(after) = results.next() else { return };
        assert!(results.all(|other| other == after), "all kernels make the same bits");
        for i in 0..m {
            for j in 0..row {
                let (got, old) = (after[i * row + j], before[i * row + j]);
                if j >= n {
                    assert_eq!(got, old, "outside of the product");
                    continue;
                }
                let base = [0.0, bias[j], old][base];
                let want = f64::from(base) + f64::from(scale) * product[i * n + j];
                let near = 1e-5 * (1.0 + (k as f64).sqrt());
                assert!((f64::from(got) - want).abs() < near, "({i}, {j}): {got} is not {want}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn tiles_make_what_the_definition_says(
            m in 0usize..30, k in 0usize..40, n in 0usize..70,
            transposed: [bool; 2], base in 0usize..3, scale in -2f32..2.0, seed: u64
        ) {
            assert_product([m, k, n], transposed, base, scale, seed);
        }
    }

    #[test]
    fn parts_that_don_t_fit_the_caches_make_up_the_whole() {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            assert_product([HEIGHT + 7, 773, 19], transposed, 1, 0.5, 1);
            assert_product([7, 385, WIDTH + 21], transposed, 2, 1.0, 2);
        }
    }

    #[test]
    fn neither_tile_nor_neighbours_change_a_sum() {
        let (m, k, n) = (13, 500, 41);
        let (a, b) = (elements(m * k, 1), elements(k * n, 2));
        let (a, b) = (Matrix::new(&a, m, k, k), Matrix::new(&b, k, n, n));
        for gemm in kernels("neither_tile_nor_neighbours_change_a_sum") {
            let product = |a: Matrix, b: Matrix| {
                let mut y = vec![0f32; a.rows * b.columns];
                let output = Output { to: y.as_mut_ptr(), stride: b.columns, base: None };
                // SAFETY: the CPU has this kernel; all have the sizes that they should have.
                unsafe { gemm(output, 1.0, a, b) };
                y
            };
            let whole = product(a, b);
            for (i, j) in [(0, 0), (5, 7), (12, 40), (6, 16)] {
                assert_eq!(product(a.part(i..i + 1, 0..k), b.part(0..k, j..j + 1)), [whole[i * n + j]]);
            }
        }
    }
}
