//! Products of two matrices: the entry points, and the one place that chooses a kernel.
//!
//! | entry point | threads | kernel |
//! |---|---|---|
//! | [`linear_product`]: `x · W + b` in a new buffer | all | [`small_batch`] up to [`SMALL_BATCH`] rows where the weight's rows are contiguous, else tiles |
//! | [`new_product`]: `a · b + bias` in a new buffer | all | tiles |
//! | [`add_product`]: `dst += a · b` | all | tiles |
//! | [`product`]: `dst = scale · a · b` or `dst += scale · a · b` | one | [`small_batch`] up to 2 rows, else tiles |
//! | [`symmetric_product`]: `dst = a · b`, known to be symmetric | one | tiles |
//!
//! "Tiles" is [`one_thread`] on each thread's part: `tiles::gemm` on a CPU with AVX2, elsewhere the `gemm` crate. A weight that
//! is kept for inference is laid out as [`panels`], which have their own product.
//!
//! [`linear_product`] sums each element in the same order whatever the number of rows, the same as [`panels`] does; on a CPU
//! without AVX2 only [`in_one_order`].
#![expect(unsafe_code, reason = "threads write disjoint parts of one buffer through pointers")]

use crate::gemm::matrix::Matrix;
use crate::gemm::{panels, small_batch};
use crate::simd;
use std::cell::Cell;

/// Rows of a tile of inference, the part of a product that AVX2 registers hold.
pub const TILE_ROWS: usize = 6;

/// Threads are given whole tiles, whichever the kernel: 12 rows and 32 columns are tiles of both.
const SPLIT_ROWS: usize = 12;
const SPLIT_COLUMNS: usize = 32;

/// A batch of up to so many rows is small: reading the weight then takes longer than multiplying it, and packing it
/// first would not pay.
pub const SMALL_BATCH: usize = 8;

/// Inner steps that are summed at most in one chain before they are added to the rest.
const DEPTH: usize = 384;

/// How many inner steps of `k` are summed in one chain: blocks of about the same size. This and the order inside of a block
/// say how an element of a product is summed, so it depends on nothing but `k`; whole units of every format fit.
pub fn inner_steps(k: usize) -> usize {
    k.div_ceil(k.div_ceil(DEPTH).max(1)).next_multiple_of(32).max(32)
}

/// Where a product goes, and what it is added to.
#[derive(Clone, Copy)]
pub struct Output {
    /// Element (i, j) goes to `to[i * stride + j]`.
    pub to: *mut f32,
    pub stride: usize,
    /// Where the first row of what it is added to begins, and from one row to the next. With a stride of 0, one row
    /// (a bias) is added to all.
    pub base: Option<(*const f32, usize)>,
}

// SAFETY: threads are given parts that don't overlap.
unsafe impl Send for Output {}

impl Output {
    /// An output that is added to what it already holds.
    pub fn added(self) -> Self {
        Self { base: Some((self.to.cast_const(), self.stride)), ..self }
    }

    /// The part from a row and a column on.
    ///
    /// # Safety
    /// They lie inside the output and its base.
    pub unsafe fn part(self, row: usize, column: usize) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let base = self.base.map(|(base, stride)| (base.add(row * stride + column), stride));
            Self { to: self.to.add(row * self.stride + column), base, ..self }
        }
    }
}

/// `x · W + b` in a new buffer, on the threads of the current pool. W is (in, out), `x` has contiguous rows.
pub fn linear_product(x: Matrix, weight: Matrix, bias: Option<&[f32]>) -> Vec<f32> {
    check(x, weight, bias);
    if !simd::is_plain() {
        let small = (1..=SMALL_BATCH).contains(&x.rows) && x.columns > 0 && weight.columns > 0;
        return if small && weight.column_stride == 1 && weight.row_stride == weight.columns {
            small_batch::new_product(x, weight, bias)
        } else {
            new_product(x, weight, bias)
        };
    }
    // The `gemm` crate is faster, but chooses an order that depends on the number of rows.
    if IN_ONE_ORDER.get() { panels::plain_product(x, weight, bias) } else { new_product(x, weight, bias) }
}

thread_local! {
    static IN_ONE_ORDER: Cell<bool> = const { Cell::new(false) };
}

/// Runs a pass on this thread whose products sum each element in the same order whatever the number of rows. On a CPU with
/// AVX2 they always do.
pub fn in_one_order<R>(pass: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            IN_ONE_ORDER.set(self.0);
        }
    }
    let _before = Before(IN_ONE_ORDER.replace(true));
    pass()
}

/// `a · b` in a new buffer, with a bias added to each row if there is one, on the threads of the current pool.
pub fn new_product(a: Matrix, b: Matrix, bias: Option<&[f32]>) -> Vec<f32> {
    let (m, n) = check(a, b, bias);
    let mut dst = Vec::with_capacity(m * n);
    let base = bias.map(|bias| (bias.as_ptr(), 0));
    // SAFETY: `check` made sure that every element of `a`, `b` and the bias lies inside its buffer; `dst` has room for
    // m·n elements, all of which the product writes without reading them.
    unsafe {
        all_threads(parts(a, b), Output { to: dst.as_mut_ptr(), stride: n, base }, a, b);
        dst.set_len(m * n);
    }
    dst
}

/// `dst += a · b` on the threads of the current pool.
pub fn add_product(dst: &mut [f32], a: Matrix, b: Matrix) {
    let (m, n) = check(a, b, None);
    assert_eq!(dst.len(), m * n, "the size of a product");
    let output = Output { to: dst.as_mut_ptr(), stride: n, base: None }.added();
    // SAFETY: `check` made sure of `a` and `b`, `dst` has m·n elements, and being borrowed mutably it overlaps neither.
    unsafe { all_threads(parts(a, b), output, a, b) }
}

/// `dst = scale · a · b`, or `dst += scale · a · b` when `add` is set, on the calling thread. `dst` holds `a.rows` ×
/// `b.columns` elements.
pub fn product(dst: &mut [f32], add: bool, scale: f32, a: Matrix, b: Matrix) {
    let (m, n) = check(a, b, None);
    assert_eq!(dst.len(), m * n, "the size of a product");
    if !add && small_batch::suits_one_thread(a, b) {
        return small_batch::product_on_one_thread(dst, scale, a, b);
    }
    let output = Output { to: dst.as_mut_ptr(), stride: n, base: None };
    // SAFETY: as for `add_product`.
    unsafe { one_thread::<false>(if add { output.added() } else { output }, scale, a, b) }
}

/// `dst = a · b` on the calling thread, where the product is known to be symmetric: about half of it is computed, and
/// mirrored.
pub fn symmetric_product(dst: &mut [f32], a: Matrix, b: Matrix) {
    let (m, n) = check(a, b, None);
    assert!(m == n && dst.len() == n * n, "the size of a symmetric product");
    let output = Output { to: dst.as_mut_ptr(), stride: n, base: None };
    // SAFETY: as for `add_product`.
    unsafe { one_thread::<true>(output, 1.0, a, b) }
    // In squares, so that both sides stay in the cache.
    const SQUARE: usize = 16;
    for (top, left) in (0..n).step_by(SQUARE).flat_map(|i| (i..n).step_by(SQUARE).map(move |j| (i, j))) {
        for i in top..(top + SQUARE).min(n) {
            for j in left.max(i + 1)..(left + SQUARE).min(n) {
                dst[i * n + j] = dst[j * n + i];
            }
        }
    }
}

/// The size of a product whose factors lie inside their buffers and fit each other.
fn check(a: Matrix, b: Matrix, bias: Option<&[f32]>) -> (usize, usize) {
    a.check();
    b.check();
    assert_eq!(b.rows, a.columns, "the inner sizes of a product");
    assert!(bias.is_none_or(|bias| bias.len() == b.columns), "the size of a bias");
    (a.rows, b.columns)
}

/// Into how many parts a product is split: two a thread, so that a thread that is held up is helped by the others;
/// but none that is too small to wake a thread for.
fn parts(a: Matrix, b: Matrix) -> usize {
    /// Multiply-adds that are worth waking another thread for.
    const WORTH_A_THREAD: usize = 1 << 18;
    let threads = rayon::current_num_threads();
    let most = if threads == 1 { 1 } else { 2 * threads };
    most.min(a.rows * b.columns * a.columns / WORTH_A_THREAD)
}

/// Halves the product along its longer side until there are enough parts: each part packs only what it needs of the
/// longer factor.
///
/// # Safety
/// As for [`one_thread`].
unsafe fn all_threads(parts: usize, output: Output, a: Matrix, b: Matrix) {
    if parts <= 1 {
        // SAFETY: the caller's.
        return unsafe { one_thread::<false>(output, 1.0, a, b) };
    }
    let (m, n, k) = (a.rows, b.columns, a.columns);
    let (row, column, [a, a_rest], [b, b_rest]) = if m > n {
        let row = (m / 2).next_multiple_of(SPLIT_ROWS).min(m);
        (row, 0, [a.part(0..row, 0..k), a.part(row..m, 0..k)], [b, b])
    } else {
        let column = (n / 2).next_multiple_of(SPLIT_COLUMNS).min(n);
        (0, column, [a, a], [b.part(0..k, 0..column), b.part(0..k, column..n)])
    };
    // SAFETY: the second half begins inside what the caller vouches for.
    let rest = unsafe { output.part(row, column) };
    let parts = parts.div_ceil(2);
    rayon::join(
        // SAFETY: the caller's, and both halves write different elements.
        move || unsafe { all_threads(parts, output, a, b) },
        // SAFETY: the same.
        move || unsafe { all_threads(parts, rest, a_rest, b_rest) },
    );
}

/// `output = base + scale · a · b` on the calling thread. With LOWER, only what lies on and below the diagonal is sure to be
/// there.
///
/// # Safety
/// All elements of `a` and `b` lie inside their buffers, and the output and its base have room for `a.rows` ×
/// `b.columns` elements, those of the base with values. Only the output and its base may be the same memory.
unsafe fn one_thread<const LOWER: bool>(output: Output, scale: f32, a: Matrix, b: Matrix) {
    #[cfg(target_arch = "x86_64")]
    if simd::has_avx2() {
        // SAFETY: just asked; the rest is the caller's.
        return unsafe { crate::gemm::tiles::gemm::<LOWER>(output, scale, a, b) };
    }
    // SAFETY: the caller's.
    unsafe { gemm_portable(output, scale, a, b) }
}

/// The product by the `gemm` crate, for a CPU without AVX2.
///
/// # Safety
/// As for [`one_thread`].
unsafe fn gemm_portable(output: Output, scale: f32, a: Matrix, b: Matrix) {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    // SAFETY: the caller's.
    unsafe {
        if let Some((base, stride)) = output.base.filter(|(base, _)| !std::ptr::eq(*base, output.to)) {
            (0..m).for_each(|i| {
                base.add(i * stride).copy_to_nonoverlapping(output.to.add(i * output.stride), n);
            });
        }
        gemm::gemm(
            m,
            n,
            k,
            output.to,
            1,
            output.stride as isize,
            output.base.is_some(),
            a.data.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
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
    #[cfg(target_arch = "x86_64")]
    use crate::testing::cpu_has_avx2;
    use crate::testing::elements;

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
        assert_eq!(linear_product(a, b, Some(&[1.0, 2.0])), [1.0, 2.0, 1.0, 2.0]);
        let mut dst = [7.0; 4];
        add_product(&mut dst, a, b);
        assert_eq!(dst, [7.0; 4]);
    }

    #[test]
    #[should_panic(expected = "beyond its buffer")]
    fn a_view_that_is_too_large_is_refused() {
        product(&mut [0.0; 4], false, 1.0, Matrix::new(&[0.0; 3], 2, 2, 2), Matrix::new(&[0.0; 4], 2, 2, 2));
    }

    #[test]
    fn half_of_a_symmetric_product_is_mirrored() {
        for (n, k) in [(1, 3), (5, 2), (64, 70), (130, 40), (300, 400)] {
            let x = elements(n * k, 1);
            let x = Matrix::new(&x, n, k, k);
            let (mut half, mut whole) = (vec![7f32; n * n], vec![7f32; n * n]);
            symmetric_product(&mut half, x, x.t());
            product(&mut whole, false, 1.0, x, x.t());
            for (half, whole) in half.iter().zip(&whole) {
                assert!((half - whole).abs() <= 1e-5 * (1.0 + whole.abs()), "{n}: {half} is not {whole}");
            }
        }
    }

    /// Both kernels are called directly, so that each run tests both, whichever the dispatch would choose.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn both_kernels_make_the_same_product() {
        if !cpu_has_avx2("both_kernels_make_the_same_product") {
            return;
        }
        let (m, k, n) = (13, 40, 37);
        let (a, b, bias) = (elements(m * k, 1), elements(k * n, 2), elements(n, 3));
        let (a, b) = (Matrix::new(&a, m, k, k), Matrix::new(&b, n, k, k).t());
        for base in [None, Some((bias.as_ptr(), 0))] {
            let (mut tiles, mut portable) = (vec![7f32; m * n], vec![7f32; m * n]);
            let output = |y: &mut Vec<f32>| Output { to: y.as_mut_ptr(), stride: n, base };
            // SAFETY: the CPU has AVX2, and all have the sizes that they should have.
            unsafe {
                crate::gemm::tiles::gemm::<false>(output(&mut tiles), 0.5, a, b);
                gemm_portable(output(&mut portable), 0.5, a, b);
            }
            for (tiles, portable) in tiles.iter().zip(portable) {
                assert!(
                    (tiles - portable).abs() <= 1e-5 * (1.0 + portable.abs()),
                    "{tiles} is not {portable}"
                );
            }
        }
    }
}
