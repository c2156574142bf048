//! Matrix products on strided views of a buffer, on one thread: the building block of fused attention.
#![expect(unsafe_code, reason = "the matrix product takes pointers")]

use gemm::Parallelism;

/// A matrix inside somebody's buffer: element (i, j) is `data[i * row + j * column]`.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    pub data: &'a [f32],
    pub rows: usize,
    pub columns: usize,
    pub row: usize,
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

/// `dst = scale · a · b`, or `dst += scale · a · b` when `add` is set. `dst` holds `a.rows` × `b.columns` elements.
pub fn product(dst: &mut [f32], add: bool, scale: f32, a: Matrix, b: Matrix) {
    a.check();
    b.check();
    let (m, n, k) = (a.rows, b.columns, a.columns);
    assert_eq!(b.rows, k, "the inner sizes of a product");
    assert_eq!(dst.len(), m * n, "the size of a product");
    let read = f32::from(u8::from(add));
    // SAFETY: `check` made sure that every element of `a` and `b` lies inside its buffer, `dst` has m·n elements, and
    // being borrowed mutably it overlaps neither.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            dst.as_mut_ptr(),
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
            Parallelism::None,
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
        product(&mut dst, false, 1.0, Matrix::new(&[], 2, 0, 0), Matrix::new(&[], 0, 2, 2));
        assert_eq!(dst, [0.0; 4]);
    }

    #[test]
    #[should_panic(expected = "beyond its buffer")]
    fn a_view_that_is_too_large_is_refused() {
        product(&mut [0.0; 4], false, 1.0, Matrix::new(&[0.0; 3], 2, 2, 2), Matrix::new(&[0.0; 4], 2, 2, 2));
    }
}
