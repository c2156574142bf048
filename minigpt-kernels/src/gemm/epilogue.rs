//! Where a product goes, and what is done with its elements on the way.

use crate::ops::activation::Activation;
use crate::simd;

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
// SAFETY: the same.
unsafe impl Sync for Output {}

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

/// What is done with the elements of a product beside adding the base: `activation(base + scale · a · b)`.
#[derive(Clone, Copy)]
pub struct Epilogue {
    pub scale: f32,
    /// Applied to the elements of a few panels as soon as all their inner steps are summed, while they are in the L1 or L2
    /// cache.
    pub activation: Option<Activation>,
    /// Leaves out tiles that lie above the diagonal.
    pub lower: bool,
}

impl Default for Epilogue {
    fn default() -> Self {
        Self { scale: 1.0, activation: None, lower: false }
    }
}

impl Epilogue {
    /// Finishes elements whose inner steps are all summed.
    ///
    /// # Safety
    /// The output has these rows and columns, all with values, and no other thread uses them.
    pub unsafe fn finish(&self, output: Output, rows: usize, columns: usize) {
        let Some(activation) = self.activation else { return };
        for i in 0..rows {
            // SAFETY: the caller's.
            let row = unsafe { std::slice::from_raw_parts_mut(output.to.add(i * output.stride), columns) };
            simd::vectorized(|| activation.apply(row));
        }
    }
}
