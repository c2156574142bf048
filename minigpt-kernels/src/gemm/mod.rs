//! Matrix products in floating point, of training and of inference.
//!
//! | entry point | threads |
//! |---|---|
//! | [`new_product`]: `a · b + bias` in a new buffer | all |
//! | [`add_product`]: `dst += a · b` | all |
//! | [`product`]: `dst = scale · a · b` or `dst += scale · a · b` | one |
//! | [`symmetric_product`]: `dst = a · b`, known to be symmetric | one |
//!
//! All of them are the loop nest in `driver.rs`, which says in which order an element is summed. It reads the right factor as
//! panels of sixteen columns (`pack.rs`, in the element formats of `formats.rs`), multiplies tiles by the micro-kernels of this
//! CPU (`micro/`), and finishes them as `epilogue.rs` says.
#![expect(unsafe_code, reason = "products are written through pointers")]

pub mod driver;
pub mod epilogue;
pub mod formats;
pub mod matrix;
pub mod micro;
pub mod pack;

use crate::cpu::kernels;
use driver::{Product, parts};
use epilogue::{Epilogue, Output};
use formats::{COLUMNS, PanelLine};
use matrix::Matrix;
use micro::Tile;
use pack::RightFactor;
use rayon::prelude::*;
use std::ops::Range;

/// `a · b + bias` in a new buffer, on the threads of the current pool.
pub fn new_product<B: RightFactor>(a: Matrix, b: &B, bias: Option<&[f32]>) -> Vec<f32> {
    let (m, n) = (a.rows, b.shape().1);
    assert!(bias.is_none_or(|bias| bias.len() == n), "the size of a bias");
    let mut y = Vec::with_capacity(m * n);
    let base = bias.map(|bias| (bias.as_ptr(), 0));
    let product = Product::new(a, b, Output { to: y.as_mut_ptr(), stride: n, base });
    // SAFETY: `y` has room for m·n elements, all of which the product writes before it reads them.
    unsafe {
        product.run(parts_of::<B>(m * n * a.columns));
        y.set_len(m * n);
    }
    y
}

/// `dst += a · b` on the threads of the current pool.
pub fn add_product(dst: &mut [f32], a: Matrix, b: Matrix) {
    let (m, n) = (a.rows, b.columns);
    assert_eq!(dst.len(), m * n, "the size of a product");
    let output = Output { to: dst.as_mut_ptr(), stride: n, base: None }.added();
    // SAFETY: `dst` has m·n elements, and being borrowed mutably it overlaps neither factor.
    unsafe { Product::new(a, &b, output).run(parts_of::<Matrix>(m * n * a.columns)) }
}

/// Number of parts of a product for all threads.
fn parts_of<B: RightFactor>(work: usize) -> usize {
    // The threads of an inference pass are awake, and a weight that is not packed on the way can be cut finer.
    if B::KEPT { parts(work, 1 << 16, 1 << 15) } else { parts(work, 1 << 18, 1 << 18) }
}

/// `dst = scale · a · b`, or `dst += scale · a · b` when `add` is set, on the calling thread. `dst` holds `a.rows` ×
/// `b.columns` elements.
pub fn product(dst: &mut [f32], add: bool, scale: f32, a: Matrix, b: Matrix) {
    let (m, n) = (a.rows, b.columns);
    assert_eq!(dst.len(), m * n, "the size of a product");
    let output = Output { to: dst.as_mut_ptr(), stride: n, base: None };
    let product = Product::new(a, &b, if add { output.added() } else { output });
    let epilogue = Epilogue { scale, ..Epilogue::default() };
    // SAFETY: as for `add_product`.
    unsafe { Product { epilogue, ..product }.run(1) }
}

/// `dst = a · b` on the calling thread, where the product is known to be symmetric: about half of it is computed, and
/// mirrored.
pub fn symmetric_product(dst: &mut [f32], a: Matrix, b: Matrix) {
    let n = b.columns;
    assert!(a.rows == n && dst.len() == n * n, "the size of a symmetric product");
    let product = Product::new(a, &b, Output { to: dst.as_mut_ptr(), stride: n, base: None });
    let epilogue = Epilogue { lower: true, ..Epilogue::default() };
    // SAFETY: as for `add_product`.
    unsafe { Product { epilogue, ..product }.run(1) }
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

/// `x · W + b` with a weight of `n` columns that are only known a few at a time: `fill(columns, out)` writes them, each as a row.
pub fn product_by_columns(
    x: Matrix,
    n: usize,
    bias: Option<&[f32]>,
    fill: impl Fn(Range<usize>, &mut [f32]) + Sync,
) -> Vec<f32> {
    const TOGETHER: usize = 2 * COLUMNS;
    let (m, k) = (x.rows, x.columns);
    assert!(bias.is_none_or(|bias| bias.len() == n), "the size of a bias");
    let mut y = vec![0f32; m * n];
    let output = Output { to: y.as_mut_ptr(), stride: n, base: bias.map(|bias| (bias.as_ptr(), 0)) };
    (0..n.div_ceil(TOGETHER)).into_par_iter().for_each_init(Vec::new, |weight, group| {
        let columns = group * TOGETHER..((group + 1) * TOGETHER).min(n);
        weight.resize(columns.len() * k, 0.0);
        fill(columns.clone(), weight);
        let weight = Matrix::new(weight, columns.len(), k, k).t();
        // SAFETY: `y` has room for m·n elements, and no other group has these columns.
        unsafe { Product::new(x, &weight, output.part(0, columns.start)).run(1) }
    });
    y
}

/// One tile of any number of rows and one panel or two, by the micro-kernel of this CPU.
///
/// # Safety
/// As for [`Tile`], but for the number of rows.
pub unsafe fn rows_times_panels(tile: Tile<PanelLine>) {
    let kernels = &kernels().gemm;
    for i in (0..tile.rows).step_by(kernels.rows) {
        // SAFETY: the caller's; these rows are inside the output and `a`.
        unsafe {
            let (output, a, rows) =
                (tile.output.part(i, 0), tile.a.part(i, 0), kernels.rows.min(tile.rows - i));
            (kernels.f32.tile)(Tile { output, rows, a, ..tile });
        }
    }
}

#[cfg(test)]
mod tests;
