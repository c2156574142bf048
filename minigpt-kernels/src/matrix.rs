//! Matrix products on strided views of a buffer: the building block of everything else.
#![expect(unsafe_code, reason = "the matrix product takes pointers")]

use super::small_batch;
use std::ops::Range;

/// The sizes of a tile of the product on a CPU with AVX2; pieces for threads consist of whole ones.
pub(super) const ROWS: usize = 6;
pub(super) const COLUMNS: usize = 16;

/// A matrix inside somebody's buffer: element (i, j) is `data[i * row + j * column]`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// The buffer.
    pub data: &'a [f32],
    /// How many rows it has.
    pub rows: usize,
    /// How many columns it has.
    pub columns: usize,
    /// From one row to the next.
    pub row: usize,
    /// From one column to the next.
    pub column: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix whose rows are contiguous and `row` elements apart.
    pub fn new(data: &'a [f32], rows: usize, columns: usize, row: usize) -> Self {
        Self { data, rows, columns, row, column: 1 }
    }

    /// The same elements with rows and columns exchanged.
    pub fn t(self) -> Self {
        Self { rows: self.columns, columns: self.rows, row: self.column, column: self.row, ..self }
    }

    /// Some of its rows and columns.
    pub fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(
            rows.end <= self.rows && columns.end <= self.columns,
            "a part that reaches beyond its matrix"
        );
        let start = rows.start * self.row + columns.start * self.column;
        // An empty part may begin behind the last element.
        let data = self.data.get(start..).unwrap_or_default();
        Self { data, rows: rows.len(), columns: columns.len(), ..self }
    }

    fn check(&self) {
        let empty = self.rows == 0 || self.columns == 0;
        let last = || (self.rows - 1) * self.row + (self.columns - 1) * self.column;
        assert!(empty || last() < self.data.len(), "a matrix that reaches beyond its buffer");
    }
}

/// Where a product goes: row `i` begins at `at + i * row`.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub at: *mut f32,
    pub row: usize,
}

impl Target {
    /// The part from a row and a column on.
    ///
    /// # Safety
    /// They lie inside the target.
    pub unsafe fn part(self, row: usize, column: usize) -> Self {
        // SAFETY: the caller's.
        Self { at: unsafe { self.at.add(row * self.row + column) }, ..self }
    }
}

/// What a product is added to: where it begins, and from one row to the next. Rows that are 0 apart are one for all.
pub(super) type Base = Option<(*const f32, usize)>;

/// `dst = scale · a · b`, or `dst += scale · a · b` when `add` is set, on one thread. `dst` holds `a.rows` ×
/// `b.columns` elements.
pub fn product(dst: &mut [f32], add: bool, scale: f32, a: Matrix, b: Matrix) {
    let (m, n) = check(a, b);
    assert_eq!(dst.len(), m * n, "the size of a product");
    if !add && small_batch::suits(a, b) {
        return small_batch::product(dst, scale, a, b);
    }
    let target = Target { at: dst.as_mut_ptr(), row: n };
    let base = add.then_some((target.at.cast_const(), n));
    // SAFETY: `check` made sure that every element of `a` and `b` lies inside its buffer, `dst` has m·n elements, and
    // being borrowed mutably it overlaps neither.
    unsafe { multiply(target, base, scale, a, b) }
}

/// `a · b` in a new buffer, with a bias added to each row if there is one, on the threads of the current pool.
pub fn new_product(a: Matrix, b: Matrix, bias: Option<&[f32]>) -> Vec<f32> {
    let (m, n) = check(a, b);
    assert!(bias.is_none_or(|bias| bias.len() == n), "the size of a bias");
    let mut dst = Vec::with_capacity(m * n);
    let target = Target { at: dst.as_mut_ptr(), row: n };
    // SAFETY: as above; `dst` has room for m·n elements, all of which the product writes without reading them.
    unsafe {
        on_all_threads(Pieces::of(a, b), target, bias.map(|bias| (bias.as_ptr(), 0)), a, b);
        dst.set_len(m * n);
    }
    dst
}

/// `dst += a · b` on the threads of the current pool.
pub fn add_product(dst: &mut [f32], a: Matrix, b: Matrix) {
    let (m, n) = check(a, b);
    assert_eq!(dst.len(), m * n, "the size of a product");
    let target = Target { at: dst.as_mut_ptr(), row: n };
    // SAFETY: as above.
    unsafe { on_all_threads(Pieces::of(a, b), target, Some((target.at.cast_const(), n)), a, b) }
}

/// The size of the product of two matrices that lie inside their buffers.
fn check(a: Matrix, b: Matrix) -> (usize, usize) {
    a.check();
    b.check();
    assert_eq!(b.rows, a.columns, "the inner sizes of a product");
    (a.rows, b.columns)
}

/// Halves the product along its longer side until there are enough pieces for all threads: each piece copies only what
/// it needs of the longer factor.
///
/// # Safety
/// As for [`multiply`].
unsafe fn on_all_threads(pieces: Pieces, target: Target, base: Base, a: Matrix, b: Matrix) {
    let Some(half) = pieces.half() else {
        // SAFETY: the caller's.
        return unsafe { multiply(target, base, 1.0, a, b) };
    };
    let (m, n, k) = (a.rows, b.columns, a.columns);
    let (down, along) = match m > n {
        true => ((m / 2).next_multiple_of(ROWS).min(m), 0),
        false => (0, (n / 2).next_multiple_of(COLUMNS).min(n)),
    };
    let (a, b) = match m > n {
        true => ([a.part(0..down, 0..k), a.part(down..m, 0..k)], [b, b]),
        false => ([a, a], [b.part(0..k, 0..along), b.part(0..k, along..n)]),
    };
    // SAFETY: both halves lie inside what the caller vouches for, and they don't overlap.
    let (far, far_base) =
        unsafe { (target.part(down, along), base.map(|(at, row)| (at.add(down * row + along), row))) };
    let (near, far) = (Shared(target, base), Shared(far, far_base));
    rayon::join(
        // SAFETY: the caller's, and both write different elements.
        move || unsafe { near.run(half, a[0], b[0]) },
        // SAFETY: the same.
        move || unsafe { far.run(half, a[1], b[1]) },
    );
}

/// What a thread works on while others work beside it.
#[derive(Clone, Copy)]
struct Shared(Target, Base);

// SAFETY: threads are given parts that don't overlap.
unsafe impl Send for Shared {}

impl Shared {
    /// # Safety
    /// As for [`multiply`].
    unsafe fn run(self, pieces: Pieces, a: Matrix, b: Matrix) {
        // SAFETY: the caller's.
        unsafe { on_all_threads(pieces, self.0, self.1, a, b) }
    }
}

/// Into how many pieces a product is cut.
#[derive(Clone, Copy)]
struct Pieces(usize);

impl Pieces {
    /// A few for each thread, so that one that is held up is helped by the others; but no small ones.
    fn of(a: Matrix, b: Matrix) -> Self {
        /// Multiply-adds that are worth waking another thread for.
        const WORTH_A_THREAD: usize = 1 << 18;
        let threads = rayon::current_num_threads();
        let most = if threads == 1 { 1 } else { 2 * threads };
        Self(most.min(a.rows * b.columns * a.columns / WORTH_A_THREAD))
    }

    fn half(self) -> Option<Self> {
        (self.0 > 1).then_some(Self(self.0.div_ceil(2)))
    }
}

/// `target = base + scale · a · b`, on one thread: by tiles on a CPU that has what they need, elsewhere by the `gemm` crate.
///
/// # Safety
/// All elements of `a` and `b` lie inside their buffers, and `target` and `base` have room for `a.rows` × `b.columns`
/// elements, those of `base` with values. Only `base` and `target` may be the same memory.
unsafe fn multiply(target: Target, base: Base, scale: f32, a: Matrix, b: Matrix) {
    #[cfg(target_arch = "x86_64")]
    if super::simd::has_avx2() {
        // SAFETY: just asked; the rest is the caller's.
        return unsafe { super::tiles::multiply(target, base, scale, a, b) };
    }
    // SAFETY: the caller's.
    unsafe { multiply_portable(target, base, scale, a, b) }
}

/// # Safety
/// As for [`multiply`].
unsafe fn multiply_portable(target: Target, base: Base, scale: f32, a: Matrix, b: Matrix) {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    // SAFETY: the caller's.
    unsafe {
        if let Some((from, row)) = base.filter(|(from, _)| !std::ptr::eq(*from, target.at)) {
            (0..m).for_each(|i| {
                from.add(i * row).copy_to_nonoverlapping(target.at.add(i * target.row), n);
            });
        }
        gemm::gemm(
            m,
            n,
            k,
            target.at,
            1,
            target.row as isize,
            base.is_some(),
            a.data.as_ptr(),
            a.column as isize,
            a.row as isize,
            b.data.as_ptr(),
            b.column as isize,
            b.row as isize,
            1.0,
            scale,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_strided_and_transposed_views() {
        let a = [1.0, 2.0, 9.0, 3.0, 4.0, 9.0]; // 2 × 2, rows three apart
        let b = [5.0, 6.0, 7.0, 8.0];
        let (a, b) = (Matrix::new(&a, 2, 2, 3), Matrix::new(&b, 2, 2, 2));
        let mut dst = [1.0; 4];
        product(&mut dst, false, 2.0, a, b);
        assert_eq!(dst, [38.0, 44.0, 86.0, 100.0]);
        product(&mut dst, true, 1.0, a.t(), b);
        assert_eq!(dst, [38.0 + 26.0, 44.0 + 30.0, 86.0 + 38.0, 100.0 + 44.0]);
    }

    #[test]
    fn an_empty_inner_size_gives_zeros() {
        let mut dst = [7.0; 4];
        let (a, b) = (Matrix::new(&[], 2, 0, 0), Matrix::new(&[], 0, 2, 2));
        product(&mut dst, false, 1.0, a, b);
        assert_eq!(dst, [0.0; 4]);
        assert_eq!(new_product(a, b, None), [0.0; 4]);
        assert_eq!(new_product(a, b, Some(&[1.0, 2.0])), [1.0, 2.0, 1.0, 2.0]);
        let mut dst = [7.0; 4];
        add_product(&mut dst, a, b);
        assert_eq!(dst, [7.0; 4]);
    }

    #[test]
    #[should_panic(expected = "beyond its buffer")]
    fn a_view_that_is_too_large_is_refused() {
        product(&mut [0.0; 4], false, 1.0, Matrix::new(&[0.0; 3], 2, 2, 2), Matrix::new(&[0.0; 4], 2, 2, 2));
    }
}
