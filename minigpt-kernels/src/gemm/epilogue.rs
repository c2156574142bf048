//! Where a product goes, and what is done with its elements on the way.

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

/// What a tile does with its sums before it stores them: `base + scale · a · b`.
#[derive(Clone, Copy)]
pub struct Epilogue {
    pub scale: f32,
    /// Leaves out tiles that lie above the diagonal: the caller mirrors a product that is known to be symmetric.
    pub lower: bool,
}

impl Default for Epilogue {
    fn default() -> Self {
        Self { scale: 1.0, lower: false }
    }
}
