//! Matrix products on strided views of a buffer: the building block of everything else.
#![expect(unsafe_code, reason = "the matrix product takes pointers")]

use gemm::Parallelism;

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

    fn check(&self) {
        let empty = self.rows == 0 || self.columns == 0;
        let last = || (self.rows - 1) * self.row + (self.columns - 1) * self.column;
        assert!(empty || last() < self.data.len(), "a matrix that reaches beyond its buffer");
    }
}

/// `dst = scale · a · b`, or `dst += scale · a · b` when `add` is set, on one thread. `dst` holds `a.rows` ×
/// `b.columns` elements.
pub fn product(dst: &mut [f32], add: bool, scale: f32, a: Matrix, b: Matrix) {
    let (m, n) = check(a, b);
    assert_eq!(dst.len(), m * n, "the size of a product");
    // SAFETY: `check` made sure that every element of `a` and `b` lies inside its buffer, `dst` has m·n elements, and
    // being borrowed mutably it overlaps neither.
    unsafe { multiply(dst.as_mut_ptr(), add, scale, a, b, Parallelism::None) }
}

/// `a · b` in a new buffer, on the threads of the current pool.
pub fn new_product(a: Matrix, b: Matrix) -> Vec<f32> {
    let (m, n) = check(a, b);
    let mut dst = Vec::with_capacity(m * n);
    // SAFETY: as above; `dst` has room for m·n elements, all of which the product writes without reading them.
    unsafe {
        multiply(dst.as_mut_ptr(), false, 1.0, a, b, parallelism(a, b));
        dst.set_len(m * n);
    }
    dst
}

/// `dst += a · b` on the threads of the current pool.
pub fn add_product(dst: &mut [f32], a: Matrix, b: Matrix) {
    let (m, n) = check(a, b);
    assert_eq!(dst.len(), m * n, "the size of a product");
    // SAFETY: as above.
    unsafe { multiply(dst.as_mut_ptr(), true, 1.0, a, b, parallelism(a, b)) }
}

/// As many threads as a product is worth.
fn parallelism(a: Matrix, b: Matrix) -> Parallelism {
    /// Multiply-adds that are worth waking another thread for.
    const WORTH_A_THREAD: usize = 1 << 18;
    let threads = rayon::current_num_threads().min(a.rows * b.columns * a.columns / WORTH_A_THREAD);
    if threads > 1 { Parallelism::Rayon(threads) } else { Parallelism::None }
}

/// The size of the product of two matrices that lie inside their buffers.
fn check(a: Matrix, b: Matrix) -> (usize, usize) {
    a.check();
    b.check();
    assert_eq!(b.rows, a.columns, "the inner sizes of a product");
    (a.rows, b.columns)
}

/// # Safety
/// All elements of `a` and `b` lie inside their buffers, `dst` has room for the product, and holds it already if `add`.
unsafe fn multiply(dst: *mut f32, add: bool, scale: f32, a: Matrix, b: Matrix, parallelism: Parallelism) {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    let read = f32::from(u8::from(add));
    // SAFETY: the caller's.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            dst,
            1,
            n as isize,
            add,
            a.data.as_ptr(),
            a.column as isize,
            a.row as isize,
            b.data.as_ptr(),
            b.column as isize,
            b.row as isize,
            read,
            scale,
            false,
            false,
            false,
            parallelism,
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
        assert_eq!(new_product(a, b), [0.0; 4]);
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
