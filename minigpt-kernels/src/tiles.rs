//! The matrix product for AVX2, as BLIS does it: the product is made tile by tile, each in registers. For that, both factors
//! are first copied into packed panels, in the order in which a tile reads them, a block at a time that stays in the
//! caches. Every element is summed in the same order, whatever the tile and the thread that makes it.
#![expect(unsafe_code, reason = "vector instructions")]

use crate::matrix::Matrix;
use crate::product::{Output, TILE_COLUMNS, TILE_ROWS, inner_steps};
use std::arch::x86_64::*;
use std::array::from_fn;
use std::cell::RefCell;

/// f32 in a register. A tile of 6 × 16 takes 12 registers, which leaves room for two of `b` and one of `a`.
const LANES: usize = 8;
/// Rows of `a` at a time: they stay in the L2 cache,
const HEIGHT: usize = 32 * TILE_ROWS;
/// and columns of `b`: in the L3 cache, or in L2 if `a` has at most four tiles of rows.
const WIDTH: usize = 256 * TILE_COLUMNS;
const WIDTH_FOR_FOUR_TILES: usize = 12 * TILE_COLUMNS;

/// With up to so many columns of `b`, packing `a` does not pay if its rows are contiguous.
const NARROW: usize = 16 * TILE_COLUMNS;

/// The packed panels of a block of each factor, reused from call to call.
#[derive(Default)]
struct Panels {
    a: Vec<f32>,
    b: Vec<f32>,
}

thread_local! {
    static PANELS: RefCell<Panels> = RefCell::default();
}

/// Rows of `a` as tiles read them: element (i, p) of tile t is `at[t * tile + i * row + p * step]`.
#[derive(Clone, Copy)]
struct TileRows {
    at: *const f32,
    row: usize,
    step: usize,
    tile: usize,
}

/// `output = base + scale · a · b` on the calling thread.
///
/// # Safety
/// The CPU has AVX2 and FMA, all elements of `a` and `b` lie inside their buffers, and the output and its base have room
/// for `a.rows` × `b.columns` elements, those of the base with values. Only the output and its base may be the same
/// memory.
pub unsafe fn gemm(output: Output, scale: f32, a: Matrix, b: Matrix) {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    if m == 0 || n == 0 {
        return;
    }
    // Blocks of about the same size, of whole tiles. Without any inner step there is still one block: it copies the base.
    // A panel of `b` stays in the L1 cache while all panels of `a` are multiplied with it.
    let depth = inner_steps(k).min(k).max(1);
    let height = m.div_ceil(m.div_ceil(HEIGHT)).next_multiple_of(TILE_ROWS);
    let most = if m > 4 * TILE_ROWS { WIDTH } else { WIDTH_FOR_FOUR_TILES };
    let width = n.div_ceil(n.div_ceil(most)).next_multiple_of(TILE_COLUMNS);
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
                unsafe { pack::<TILE_COLUMNS>(&mut panels.b, b.t()) };
                for top in (0..m).step_by(height) {
                    let rows = height.min(m - top);
                    let a = a.part(top..top + rows, first..first + steps);
                    // SAFETY: as above; the part of the output lies inside of it, and so does that of its base, which
                    // after the first inner steps is the output itself.
                    unsafe {
                        let a = match a.column_stride == 1 && n <= NARROW {
                            true => {
                                let row = a.row_stride;
                                TileRows { at: a.data.as_ptr(), row, step: 1, tile: TILE_ROWS * row }
                            }
                            false => {
                                pack::<TILE_ROWS>(&mut panels.a, a);
                                let (at, step) = (panels.a.as_ptr(), TILE_ROWS);
                                TileRows { at, row: 1, step, tile: TILE_ROWS * steps }
                            }
                        };
                        let output = output.part(top, left);
                        let output = if first > 0 { output.added() } else { output };
                        block(output, scale, a, &panels.b, [rows, columns, steps]);
                    }
                }
            }
        }
    });
}

/// The product of rows of `a` with the panels of `b`, tile by tile; those at the edges are smaller.
///
/// # Safety
/// As for [`gemm`].
#[target_feature(enable = "avx2,fma")]
unsafe fn block(output: Output, scale: f32, a: TileRows, b: &[f32], [rows, columns, depth]: [usize; 3]) {
    for j in (0..columns).step_by(TILE_COLUMNS) {
        let b = &b[j * depth..][..TILE_COLUMNS * depth];
        let columns = TILE_COLUMNS.min(columns - j);
        for i in (0..rows).step_by(TILE_ROWS) {
            // SAFETY: the tile lies inside the output, and its rows inside of `a`.
            unsafe {
                let output = output.part(i, j);
                let a = TileRows { at: a.at.wrapping_add(i / TILE_ROWS * a.tile), ..a };
                match (rows - i, columns > LANES) {
                    (1, false) => tile::<1, 1>(output, columns, scale, a, b),
                    (2, false) => tile::<2, 1>(output, columns, scale, a, b),
                    (3, false) => tile::<3, 1>(output, columns, scale, a, b),
                    (4, false) => tile::<4, 1>(output, columns, scale, a, b),
                    (5, false) => tile::<5, 1>(output, columns, scale, a, b),
                    (_, false) => tile::<6, 1>(output, columns, scale, a, b),
                    (1, true) => tile::<1, 2>(output, columns, scale, a, b),
                    (2, true) => tile::<2, 2>(output, columns, scale, a, b),
                    (3, true) => tile::<3, 2>(output, columns, scale, a, b),
                    (4, true) => tile::<4, 2>(output, columns, scale, a, b),
                    (5, true) => tile::<5, 2>(output, columns, scale, a, b),
                    (_, true) => tile::<6, 2>(output, columns, scale, a, b),
                }
            }
        }
    }
}

/// The micro-kernel: a tile of R rows and V registers a row, of which `columns` elements are stored.
///
/// # Safety
/// As for [`gemm`].
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn tile<const R: usize, const V: usize>(
    output: Output,
    columns: usize,
    scale: f32,
    a: TileRows,
    b: &[f32],
) {
    let mut sums = [[_mm256_setzero_ps(); V]; R];
    let row = a.row;
    for i in 0..R {
        _mm_prefetch::<_MM_HINT_T0>(output.to.wrapping_add(i * output.stride).cast());
        _mm_prefetch::<_MM_HINT_T0>(output.to.wrapping_add(i * output.stride + TILE_COLUMNS - 1).cast());
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
    let (many, rest) = b.as_chunks::<{ AT_A_TIME * TILE_COLUMNS }>();
    for (p, b) in many.iter().enumerate() {
        let ahead = (p + 2) * AT_A_TIME * a.step;
        _mm_prefetch::<_MM_HINT_T0>(a.at.wrapping_add(ahead).cast());
        for i in 0..AT_A_TIME {
            step(p * AT_A_TIME + i, b[i * TILE_COLUMNS..].as_ptr());
        }
    }
    for (p, b) in rest.chunks_exact(TILE_COLUMNS).enumerate() {
        step(many.len() * AT_A_TIME + p, b.as_ptr());
    }
    // SAFETY: the caller's.
    unsafe { store(output, columns, scale, sums) }
}

/// `output = base + scale · sums`, of which each row has `columns` elements.
///
/// # Safety
/// As for [`gemm`].
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn store<const R: usize, const V: usize>(
    output: Output,
    columns: usize,
    scale: f32,
    sums: [[__m256; V]; R],
) {
    let scale = _mm256_set1_ps(scale);
    let whole = columns == V * LANES;
    for (i, sums) in sums.into_iter().enumerate() {
        // SAFETY: row `i` of the output and of its base has `columns` elements; those of a row of V registers fit `edge`.
        unsafe {
            let to = output.to.add(i * output.stride);
            let from = output.base.map(|(base, stride)| base.add(i * stride));
            let mut edge = [0f32; TILE_COLUMNS];
            let (to, from) = match whole {
                true => (to, from),
                false => {
                    from.inspect(|from| from.copy_to_nonoverlapping(edge.as_mut_ptr(), columns));
                    (edge.as_mut_ptr(), from.map(|_| edge.as_ptr()))
                }
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

/// A whole panel of a matrix whose rows are contiguous, transposed in squares of 4 × 4.
///
/// # Safety
/// The matrix has S rows, all of whose elements lie inside its buffer.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pack_rows<const S: usize>(panel: &mut [f32], matrix: Matrix) {
    const SQUARE: usize = 4;
    /// Columns that are transposed of four rows before those of the next rows: a cache line.
    const LINE: usize = 4 * SQUARE;
    let depth = matrix.columns;
    assert!(panel.len() >= S * depth, "room for the panel");
    let squares = depth / SQUARE * SQUARE;
    for line in (0..squares).step_by(LINE) {
        let columns = || (line..(line + LINE).min(squares)).step_by(SQUARE);
        for i in (0..S / 4 * 4).step_by(4) {
            for p in columns() {
                // SAFETY: the matrix has four columns of four rows from here on, and the panel room for them.
                unsafe {
                    let load = |i: usize| _mm_loadu_ps(matrix.data.as_ptr().add(i * matrix.row_stride + p));
                    let to = panel.as_mut_ptr().add(p * S + i);
                    let (r0, r1, r2, r3) = (load(i), load(i + 1), load(i + 2), load(i + 3));
                    let (a0, a1) = (_mm_unpacklo_ps(r0, r1), _mm_unpackhi_ps(r0, r1));
                    let (b0, b1) = (_mm_unpacklo_ps(r2, r3), _mm_unpackhi_ps(r2, r3));
                    _mm_storeu_ps(to, _mm_movelh_ps(a0, b0));
                    _mm_storeu_ps(to.add(S), _mm_movehl_ps(b0, a0));
                    _mm_storeu_ps(to.add(2 * S), _mm_movelh_ps(a1, b1));
                    _mm_storeu_ps(to.add(3 * S), _mm_movehl_ps(b1, a1));
                }
            }
        }
        // Two rows are left of six.
        for i in (S / 4 * 4..S).step_by(2) {
            for p in columns() {
                // SAFETY: the matrix has four columns of two rows from here on, and the panel room for them.
                unsafe {
                    let load = |i: usize| _mm_loadu_ps(matrix.data.as_ptr().add(i * matrix.row_stride + p));
                    let to = panel.as_mut_ptr().add(p * S + i);
                    let (low, high) =
                        (_mm_unpacklo_ps(load(i), load(i + 1)), _mm_unpackhi_ps(load(i), load(i + 1)));
                    for (step, pairs) in [(0, low), (2, high)] {
                        let pairs = _mm_castps_pd(pairs);
                        _mm_storel_pd(to.add(step * S).cast(), pairs);
                        _mm_storeh_pd(to.add((step + 1) * S).cast(), pairs);
                    }
                }
            }
        }
    }
    pack_element_by_element::<S>(&mut panel[squares * S..S * depth], matrix.part(0..S, squares..depth));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cpu_has_avx2, elements};
    use proptest::prelude::*;

    // These call the AVX2 kernel directly, whatever the dispatch would choose.

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
        if !cpu_has_avx2("a product by tiles") {
            return;
        }
        let (a, b) = (elements(m * k, seed), elements(k * n, seed ^ 1));
        let a = if transpose_a { Matrix::new(&a, k, m, m).t() } else { Matrix::new(&a, m, k, k) };
        let b = if transpose_b { Matrix::new(&b, n, k, k).t() } else { Matrix::new(&b, k, n, n) };
        // Two columns more than the product has, which must stay as they are.
        let row = n + 2;
        let (before, bias) = (elements(m * row, seed ^ 2), elements(n, seed ^ 3));
        let mut after = before.clone();
        let output = Output { to: after.as_mut_ptr(), stride: row, base: None };
        let output = match base {
            0 => output,
            1 => Output { base: Some((bias.as_ptr(), 0)), ..output },
            _ => output.added(),
        };
        // SAFETY: the CPU has AVX2; all have the sizes that they should have.
        unsafe { gemm(output, scale, a, b) };
        let product = by_definition(a, b);
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
        if !cpu_has_avx2("neither_tile_nor_neighbours_change_a_sum") {
            return;
        }
        let (m, k, n) = (13, 500, 41);
        let (a, b) = (elements(m * k, 1), elements(k * n, 2));
        let (a, b) = (Matrix::new(&a, m, k, k), Matrix::new(&b, k, n, n));
        let product = |a: Matrix, b: Matrix| {
            let mut y = vec![0f32; a.rows * b.columns];
            let output = Output { to: y.as_mut_ptr(), stride: b.columns, base: None };
            // SAFETY: the CPU has AVX2; all have the sizes that they should have.
            unsafe { gemm(output, 1.0, a, b) };
            y
        };
        let whole = product(a, b);
        for (i, j) in [(0, 0), (5, 7), (12, 40), (6, 16)] {
            assert_eq!(product(a.part(i..i + 1, 0..k), b.part(0..k, j..j + 1)), [whole[i * n + j]]);
        }
    }
}
