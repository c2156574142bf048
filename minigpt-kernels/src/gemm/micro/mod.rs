//! Micro-kernels of matrix products: the innermost loops, one file per instruction set.
//!
//! Every file fills a [`Kernels`] table. What each function computes is the plain loop at the top of its file, and one test
//! (below) compares all of them with that loop, to the bit: an element is a single chain of multiply-adds over the inner steps
//! in their order, so the tile, the number of rows and the instruction set cannot change it.

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod portable;

use crate::gemm::Output;
use crate::gemm::formats::{PanelLine, Q8Unit};
use crate::gemm::matrix::Matrix;
use half::{bf16, f16};

/// Independent chains of multiply-adds in [`Kernels::multiply_adds`]: enough to hide the latency of one instruction, few enough
/// for the registers.
pub const CHAINS: usize = 12;

/// The floating-point micro-kernels of an instruction set.
///
/// The functions are unsafe to call because they read and write through pointers, and because they need the instruction set:
/// [`Kernels::of`](crate::cpu::Kernels::of) hands out a table only if the CPU can run it.
pub struct Kernels {
    /// Rows of a tile: as many as the registers hold sums for.
    pub rows: usize,
    /// Panels that a tile multiplies at once if it has all of its rows.
    pub panels: usize,
    /// Copies rows into a packed panel: element (i, p) goes to `panel[p * rows.rows + i]`.
    ///
    /// # Safety
    /// The rows are contiguous, there are [`Kernels::rows`] or 16 of them, all inside their buffer.
    pub interleave: unsafe fn(panel: &mut [f32], rows: Matrix),
    /// `y += a · rows`: adds contiguous rows of a weight, each scaled by its element of `a`, to a row of sums. They are the next
    /// steps of the sums' chains. Fastest for four rows.
    pub add_rows: fn(y: &mut [f32], a: &[f32], rows: Matrix),
    /// Panels in f32.
    pub f32: PanelKernels<PanelLine>,
    /// Panels in f16.
    pub f16: PanelKernels<[[f16; 16]; 2]>,
    /// Panels in bf16.
    pub bf16: PanelKernels<[[bf16; 16]; 2]>,
    /// Panels of Q8_0 blocks.
    pub q8_0: PanelKernels<Q8Unit>,
    /// Makes that many rounds of multiply-adds on values that never leave the registers. Returns the number of
    /// multiplications and additions.
    pub multiply_adds: fn(rounds: usize) -> usize,
}

/// The micro-kernels for one format of panels.
pub struct PanelKernels<W: 'static> {
    /// Up to this many rows, panels are multiplied as they are; for more, they are expanded to f32 first.
    pub direct: usize,
    /// Multiplies panels as they are.
    ///
    /// # Safety
    /// See [`Tile`].
    pub tile: unsafe fn(tile: Tile<W>),
    /// The elements of a panel in f32, one line per inner step. With `ahead`, also prefetches as many units behind the panel.
    pub expand: fn(panel: Panel<W>, lines: &mut [PanelLine], ahead: bool),
}

/// One call of a micro-kernel: `output = base + scale · a · panels`, or `output += a · panels` if it continues.
///
/// # Safety
/// The caller of a micro-kernel guarantees:
/// - `rows` ≤ [`Kernels::rows`], `columns` ≤ 32, and both panels have the same number of units (a tile of up to 16 columns
///   uses only the first one);
/// - `a` can be read for that many rows and the panels' inner steps, and `output` can be written for that many rows and columns;
/// - `base` (or the output, if the tile continues) can be read for as many, and overlaps the output only in the same elements.
#[derive(Clone, Copy)]
pub struct Tile<'a, W> {
    pub output: Output,
    pub rows: usize,
    pub columns: usize,
    pub scale: f32,
    /// Whether the chains start with what the output holds and not with 0. Then there are 16 or 32 columns, and the scale and
    /// the base are not used.
    pub continues: bool,
    /// Whether the panels come from memory, so that prefetching them pays.
    pub streams: bool,
    pub a: TileRows,
    pub panels: [Panel<'a, W>; 2],
}

/// Rows of the left factor as tiles read them: element (i, p) is `at[i * row + p * step]`.
#[derive(Clone, Copy)]
pub struct TileRows {
    pub at: *const f32,
    pub row: usize,
    pub step: usize,
}

impl TileRows {
    /// From row `i` and step `p` on.
    pub fn part(self, i: usize, p: usize) -> Self {
        Self { at: self.at.wrapping_add(i * self.row + p * self.step), ..self }
    }
}

/// Some inner steps of a panel: one side of some units.
pub struct Panel<'a, W> {
    pub units: &'a [W],
    pub side: usize,
}

impl<W> Clone for Panel<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Panel<'_, W> {}

impl<'a> From<&'a [PanelLine]> for Panel<'a, PanelLine> {
    fn from(units: &'a [PanelLine]) -> Self {
        Self { units, side: 0 }
    }
}

/// Calls `$call` with the constant `$R` as the number of rows, from one to the last that is listed.
macro_rules! by_rows {
    ($rows:expr, $R:ident in [$($r:literal)*] => $call:expr) => {
        match $rows {
            $($r => {
                const $R: usize = $r;
                $call
            })*
            _ => unreachable!("rows of a tile"),
        }
    };
}
use by_rows;
