//! Strided views of a buffer as a matrix: what products are made of.

use std::ops::Range;

/// A matrix inside a buffer: element (i, j) is `data[i * row_stride + j * column_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// The buffer.
    pub data: &'a [f32],
    /// How many rows it has.
    pub rows: usize,
    /// How many columns it has.
    pub columns: usize,
    /// From one row to the next.
    pub row_stride: usize,
    /// From one column to the next.
    pub column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix whose rows are contiguous and `row_stride` elements apart.
    pub fn new(data: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        Self { data, rows, columns, row_stride, column_stride: 1 }
    }

    /// The transposed matrix.
    pub fn t(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Some of its rows and columns.
    pub fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(
            rows.end <= self.rows && columns.end <= self.columns,
            "a part that reaches beyond its matrix"
        );
        let start = rows.start * self.row_stride + columns.start * self.column_stride;
        // An empty part may begin behind the last element.
        let data = self.data.get(start..).unwrap_or_default();
        Self { data, rows: rows.len(), columns: columns.len(), ..self }
    }

    /// The elements of row `i`, of a matrix whose rows are contiguous.
    #[inline(always)]
    pub(crate) fn row(&self, i: usize) -> &'a [f32] {
        debug_assert_eq!(self.column_stride, 1, "contiguous rows");
        &self.data[i * self.row_stride..][..self.columns]
    }

    /// Panics unless all elements lie inside the buffer.
    pub(crate) fn check(&self) {
        let empty = self.rows == 0 || self.columns == 0;
        let last = || (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride;
        assert!(empty || last() < self.data.len(), "a matrix that reaches beyond its buffer");
    }
}
