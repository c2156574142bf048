//! Micro-kernels of products with 8-bit activations: a few rows of activations times a panel, one file per instruction set.
//!
//! The products of a block are summed as integers, which is exact in any order. Each block's sum is then scaled and added to
//! those before it, in f32, from the first block to the last. So an element has the same bits beside any rows and on any CPU.

#[cfg(target_arch = "x86_64")]
pub mod avx2;
pub mod portable;
#[cfg(target_arch = "x86_64")]
pub mod vnni;

use super::activations::EightBitRows;
use super::block_format::FORMATS;
use super::block_panels::{Chunk, ROWS};
use std::ops::Range;

/// A few rows of activations times a panel: `y[i]` is row `rows.start + i`.
pub type TileFn = fn(panel: &[Chunk], x: &EightBitRows, rows: Range<usize>, y: &mut [[f32; ROWS]]);

/// The micro-kernels of an instruction set.
pub struct Kernels {
    /// A tile for each of [`FORMATS`].
    pub tiles: [TileFn; FORMATS.len()],
    /// The most rows of a tile whose blocks are one group, and of others.
    pub tile_rows: [usize; 2],
}

/// The tile of every format, from a function that is generic over the index of a format.
macro_rules! every_format {
    ($tile:ident) => {
        [
            $tile::<0>, $tile::<1>, $tile::<2>, $tile::<3>, $tile::<4>, $tile::<5>, $tile::<6>, $tile::<7>,
            $tile::<8>, $tile::<9>,
        ]
    };
}
use every_format;

/// Asserts that a tile lies inside of what it is given: all rows, with as many blocks as the panel has, of the same length.
fn check_tile<const F: usize>(panel: &[Chunk], x: &EightBitRows, rows: &Range<usize>, y: &[[f32; ROWS]]) {
    let blocks = size_of_val(panel) / FORMATS[F].panel_block_bytes();
    assert!(x.block == FORMATS[F].weights() && x.width == blocks * x.block, "activations for this panel");
    assert!(rows.end <= x.rows && rows.len() == y.len(), "rows of the activations");
}
