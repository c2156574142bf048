//! The matrix product for AVX2. The result is made tile by tile, each in registers; for that, both factors are first copied
//! into strips in the order in which a tile reads them, a part at a time that stays in the caches. Every number of the
//! result is summed in the same order, whatever the tile and the thread that makes it.
#![expect(unsafe_code, reason = "vector instructions")]

use super::matrix::{Base, COLUMNS, Matrix, ROWS, Target};
use std::arch::x86_64::*;
use std::array::from_fn;
use std::cell::RefCell;

/// Numbers in a register. A tile of 6 × 16 takes 12 of them, which leaves room for two of `b` and one of `a`.
const LANES: usize = 8;
/// Inner steps at a time: a strip of `b` stays in the first cache while all strips of `a` meet it,
const DEPTH: usize = 384;
/// rows of `a` at a time: they stay in the second cache,
const HEIGHT: usize = 32 * ROWS;
/// and columns of `b`: in the third, or in the second if there are few rows to meet them.
const WIDTH: usize = 256 * COLUMNS;
const WIDTH_FOR_FEW: usize = 12 * COLUMNS;

/// So few columns don't pay for a copy of `a`, if its rows are contiguous.
const NARROW: usize = 16 * COLUMNS;

/// Copies of parts of both factors, in strips.
#[derive(Default)]
struct Strips {
    a: Vec<f32>,
    b: Vec<f32>,
}

thread_local! {
    static STRIPS: RefCell<Strips> = RefCell::default();
}

/// Rows of `a` as a tile reads them: element (i, p) is `at[i * row + p * step]`.
#[derive(Clone, Copy)]
struct Rows {
    at: *const f32,
    row: usize,
    step: usize,
    /// From one tile's rows to the next one's.
    tile: usize,
}

/// `target = base + scale · a · b`, on one thread.
///
/// # Safety
/// The CPU has AVX2 and FMA, all elements of `a` and `b` lie inside their buffers, and `target` and `base` have room for
/// `a.rows` × `b.columns` elements, those of `base` with values. Only `base` and `target` may be the same memory.
pub unsafe fn multiply(target: Target, base: Base, scale: f32, a: Matrix, b: Matrix) {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    if m == 0 || n == 0 {
        return;
    }
    // Parts of like size, whole tiles each. Without any inner step there is still one part: it sets what `base` says.
    let depth = k.div_ceil(k.div_ceil(DEPTH).max(1)).max(1);
    let height = m.div_ceil(m.div_ceil(HEIGHT)).next_multiple_of(ROWS);
    let most = if m > 4 * ROWS { WIDTH } else { WIDTH_FOR_FEW };
    let width = n.div_ceil(n.div_ceil(most)).next_multiple_of(COLUMNS);
    STRIPS.with_borrow_mut(|strips| {
        let grow = |v: &mut Vec<f32>, size| v.resize(v.len().max(size), 0.0);
        grow(&mut strips.a, height * depth);
        grow(&mut strips.b, width * depth);
        for left in (0..n).step_by(width) {
            let columns = width.min(n - left);
            for first in (0..k.max(1)).step_by(depth) {
                let steps = depth.min(k - first);
                let b = b.part(first..first + steps, left..left + columns);
                // SAFETY: the CPU is the caller's promise; the strips have just been made large enough.
                unsafe { pack::<COLUMNS>(&mut strips.b, b.t()) };
                for top in (0..m).step_by(height) {
                    let rows = height.min(m - top);
                    let a = a.part(top..top + rows, first..first + steps);
                    // SAFETY: as above; the part of the target lies inside of it, and so does that of its base, which
                    // after the first inner steps is the target itself.
                    unsafe {
                        let a = match a.column == 1 && n <= NARROW {
                            true => Rows { at: a.data.as_ptr(), row: a.row, step: 1, tile: ROWS * a.row },
                            false => {
                                pack::<ROWS>(&mut strips.a, a);
                                Rows { at: strips.a.as_ptr(), row: 1, step: ROWS, tile: ROWS * steps }
                            }
                        };
                        let target = target.part(top, left);
                        let base = match base {
                            _ if first > 0 => Some((target.at.cast_const(), target.row)),
                            base => base.map(|(at, row)| (at.add(top * row + left), row)),
                        };
                        block(target, base, scale, a, &strips.b, [rows, columns, steps]);
                    }
                }
            }
        }
    });
}

/// The product of rows of `a` with the strips of `b`.
///
/// # Safety
/// As for [`multiply`].
#[target_feature(enable = "avx2,fma")]
unsafe fn block(
    target: Target,
    base: Base,
    scale: f32,
    a: Rows,
    b: &[f32],
    [rows, columns, depth]: [usize; 3],
) {
    for j in (0..columns).step_by(COLUMNS) {
        let b = &b[j * depth..][..COLUMNS * depth];
        for i in (0..rows).step_by(ROWS) {
            let tile = Tile { rows: ROWS.min(rows - i), columns: COLUMNS.min(columns - j), scale };
            // SAFETY: the tile lies inside the target, and its rows inside of `a`.
            unsafe {
                let base = base.map(|(at, row)| (at.add(i * row + j), row));
                let a = Rows { at: a.at.wrapping_add(i / ROWS * a.tile), ..a };
                tile.multiply(target.part(i, j), base, a, b);
            }
        }
    }
}

/// A tile, at the edges of the result a smaller one.
#[derive(Clone, Copy)]
struct Tile {
    rows: usize,
    columns: usize,
    scale: f32,
}

impl Tile {
    /// # Safety
    /// As for [`multiply`].
    #[target_feature(enable = "avx2,fma")]
    unsafe fn multiply(self, target: Target, base: Base, a: Rows, b: &[f32]) {
        // SAFETY: the caller's.
        unsafe {
            match (self.rows, self.columns > LANES) {
                (1, false) => self.sum::<1, 1>(target, base, a, b),
                (2, false) => self.sum::<2, 1>(target, base, a, b),
                (3, false) => self.sum::<3, 1>(target, base, a, b),
                (4, false) => self.sum::<4, 1>(target, base, a, b),
                (5, false) => self.sum::<5, 1>(target, base, a, b),
                (_, false) => self.sum::<6, 1>(target, base, a, b),
                (1, true) => self.sum::<1, 2>(target, base, a, b),
                (2, true) => self.sum::<2, 2>(target, base, a, b),
                (3, true) => self.sum::<3, 2>(target, base, a, b),
                (4, true) => self.sum::<4, 2>(target, base, a, b),
                (5, true) => self.sum::<5, 2>(target, base, a, b),
                (_, true) => self.sum::<6, 2>(target, base, a, b),
            }
        }
    }

    /// A tile of R rows and V registers a row.
    ///
    /// # Safety
    /// As for [`multiply`].
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn sum<const R: usize, const V: usize>(self, target: Target, base: Base, a: Rows, b: &[f32]) {
        let mut sums = [[_mm256_setzero_ps(); V]; R];
        let row = a.row;
        for i in 0..R {
            _mm_prefetch::<_MM_HINT_T0>(target.at.wrapping_add(i * target.row).cast());
            _mm_prefetch::<_MM_HINT_T0>(target.at.wrapping_add(i * target.row + COLUMNS - 1).cast());
        }
        let mut step = |p: usize, b: *const f32| {
            // SAFETY: step `p` of the rows is there, and so is that of the strip.
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
        // Four steps at a time, and what `a` will be asked for soon.
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
        unsafe { self.store(target, base, sums) }
    }

    /// # Safety
    /// As for [`multiply`].
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn store<const R: usize, const V: usize>(
        self,
        target: Target,
        base: Base,
        sums: [[__m256; V]; R],
    ) {
        let scale = _mm256_set1_ps(self.scale);
        let whole = self.columns == V * LANES;
        for (i, sums) in sums.into_iter().enumerate() {
            // SAFETY: row `i` of the target and of its base has `columns` elements; a row of V registers has them too.
            unsafe {
                let to = target.at.add(i * target.row);
                let from = base.map(|(at, row)| at.add(i * row));
                let mut edge = [0f32; COLUMNS];
                let (to, from) = match whole {
                    true => (to, from),
                    false => {
                        from.inspect(|from| from.copy_to_nonoverlapping(edge.as_mut_ptr(), self.columns));
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
                    let to = target.at.add(i * target.row);
                    edge.as_ptr().copy_to_nonoverlapping(to, self.columns);
                }
            }
        }
    }
}

/// Copies a matrix into strips of S rows: column by column, S numbers each. What the last strip lacks is zero.
///
/// # Safety
/// The CPU has AVX2, and all elements of the matrix lie inside its buffer.
#[target_feature(enable = "avx2")]
unsafe fn pack<const S: usize>(strips: &mut [f32], matrix: Matrix) {
    let (whole, depth) = (matrix.rows / S, matrix.columns);
    // SAFETY: the caller's; the rows of each strip are there.
    unsafe {
        match (matrix.row, matrix.column) {
            (1, _) => pack_along::<S>(strips, matrix, whole),
            (_, 1) => {
                for (i, strip) in strips[..whole * S * depth].chunks_exact_mut((S * depth).max(1)).enumerate()
                {
                    pack_across::<S>(strip, matrix.part(i * S..(i + 1) * S, 0..depth));
                }
            }
            _ => {
                for (i, strip) in strips[..whole * S * depth].chunks_exact_mut((S * depth).max(1)).enumerate()
                {
                    pack_slowly::<S>(strip, matrix.part(i * S..(i + 1) * S, 0..depth));
                }
            }
        }
    }
    if whole * S < matrix.rows {
        let strip = &mut strips[whole * S * depth..][..S * depth];
        pack_slowly::<S>(strip, matrix.part(whole * S..matrix.rows, 0..depth));
    }
}

/// A strip of up to S rows, element by element.
fn pack_slowly<const S: usize>(strip: &mut [f32], matrix: Matrix) {
    for (p, to) in strip.as_chunks_mut::<S>().0.iter_mut().enumerate() {
        for (i, to) in to.iter_mut().enumerate() {
            *to = if i < matrix.rows { matrix.data[i * matrix.row + p * matrix.column] } else { 0.0 };
        }
    }
}

/// Whole strips of a matrix whose columns are contiguous.
///
/// # Safety
/// There are `whole` strips, and all elements of the matrix lie inside its buffer.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pack_along<const S: usize>(strips: &mut [f32], matrix: Matrix, whole: usize) {
    /// Columns that go into all strips before the next do, so that what is read and what is written lies together.
    const AT_A_TIME: usize = 8;
    let depth = matrix.columns;
    assert!(strips.len() >= whole * S * depth, "room for all strips");
    for first in (0..depth).step_by(AT_A_TIME) {
        for i in 0..whole {
            for p in first..(first + AT_A_TIME).min(depth) {
                // SAFETY: column `p` has S numbers for strip `i`, whose step `p` has room for them.
                unsafe {
                    let from = matrix.data.as_ptr().add(p * matrix.column + i * S);
                    let to = strips.as_mut_ptr().add((i * depth + p) * S);
                    from.copy_to_nonoverlapping(to, S);
                }
            }
        }
    }
}

/// A whole strip of a matrix whose rows are contiguous: turned in squares.
///
/// # Safety
/// The matrix has S rows, all of whose elements lie inside its buffer.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pack_across<const S: usize>(strip: &mut [f32], matrix: Matrix) {
    const SQUARE: usize = 4;
    /// Columns that are taken of some rows before the next rows' are: a cache line.
    const LINE: usize = 4 * SQUARE;
    let depth = matrix.columns;
    assert!(strip.len() >= S * depth, "room for the strip");
    let squares = depth / SQUARE * SQUARE;
    for line in (0..squares).step_by(LINE) {
        let columns = || (line..(line + LINE).min(squares)).step_by(SQUARE);
        for i in (0..S / 4 * 4).step_by(4) {
            for p in columns() {
                // SAFETY: four columns of four rows are there, and room for them.
                unsafe {
                    let load = |i: usize| _mm_loadu_ps(matrix.data.as_ptr().add(i * matrix.row + p));
                    let to = strip.as_mut_ptr().add(p * S + i);
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
                // SAFETY: four columns of two rows are there, and room for them.
                unsafe {
                    let load = |i: usize| _mm_loadu_ps(matrix.data.as_ptr().add(i * matrix.row + p));
                    let to = strip.as_mut_ptr().add(p * S + i);
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
    pack_slowly::<S>(&mut strip[squares * S..S * depth], matrix.part(0..S, squares..depth));
}

#[cfg(test)]
mod tests {
    use super::super::simd;
    use super::*;
    use proptest::prelude::*;

    fn numbers(n: usize, seed: u64) -> Vec<f32> {
        super::super::testing::random(&[n], seed).to_vec1().unwrap()
    }

    /// What the product is by definition.
    fn by_definition(a: Matrix, b: Matrix) -> Vec<f64> {
        let at = |m: &Matrix, i: usize, j: usize| f64::from(m.data[i * m.row + j * m.column]);
        let sum = |i, j| (0..a.columns).map(|p| at(&a, i, p) * at(&b, p, j)).sum();
        (0..a.rows).flat_map(|i| (0..b.columns).map(move |j| (i, j))).map(|(i, j)| sum(i, j)).collect()
    }

    fn assert_product(
        [m, k, n]: [usize; 3],
        [turn_a, turn_b]: [bool; 2],
        base: usize,
        scale: f32,
        seed: u64,
    ) {
        if !simd::has_avx2() {
            return;
        }
        let (a, b) = (numbers(m * k, seed), numbers(k * n, seed ^ 1));
        let a = if turn_a { Matrix::new(&a, k, m, m).t() } else { Matrix::new(&a, m, k, k) };
        let b = if turn_b { Matrix::new(&b, n, k, k).t() } else { Matrix::new(&b, k, n, n) };
        // Two columns more than the product has, which must stay as they are.
        let row = n + 2;
        let (before, bias) = (numbers(m * row, seed ^ 2), numbers(n, seed ^ 3));
        let mut after = before.clone();
        let target = Target { at: after.as_mut_ptr(), row };
        let onto = match base {
            0 => None,
            1 => Some((bias.as_ptr(), 0)),
            _ => Some((target.at.cast_const(), row)),
        };
        // SAFETY: just asked; all have the sizes that they should have.
        unsafe { multiply(target, onto, scale, a, b) };
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
            turned: [bool; 2], base in 0usize..3, scale in -2f32..2.0, seed: u64
        ) {
            assert_product([m, k, n], turned, base, scale, seed);
        }
    }

    #[test]
    fn parts_that_don_t_fit_the_caches_make_up_the_whole() {
        for turned in [[false, false], [false, true], [true, false], [true, true]] {
            assert_product([HEIGHT + 7, 2 * DEPTH + 5, 19], turned, 1, 0.5, 1);
            assert_product([7, DEPTH + 1, WIDTH + 21], turned, 2, 1.0, 2);
        }
    }

    #[test]
    fn neither_tile_nor_neighbours_change_a_sum() {
        if !simd::has_avx2() {
            return;
        }
        let (m, k, n) = (13, 500, 41);
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let (a, b) = (Matrix::new(&a, m, k, k), Matrix::new(&b, k, n, n));
        let product = |a: Matrix, b: Matrix| {
            let mut y = vec![0f32; a.rows * b.columns];
            // SAFETY: just asked; all have the sizes that they should have.
            unsafe { multiply(Target { at: y.as_mut_ptr(), row: b.columns }, None, 1.0, a, b) };
            y
        };
        let whole = product(a, b);
        for (i, j) in [(0, 0), (5, 7), (12, 40), (6, 16)] {
            assert_eq!(product(a.part(i..i + 1, 0..k), b.part(0..k, j..j + 1)), [whole[i * n + j]]);
        }
    }
}
