//! The micro-kernels in plain Rust over fixed groups of lanes, which the compiler vectorizes for whatever the build assumes.
//!
//! A tile is this loop, for one panel or two:
//! ```text
//! for i in 0..rows {
//!     for j in 0..columns {
//!         let mut sum = 0;
//!         for p in 0..steps {
//!             sum = a[i][p] * panel[p][j] + sum; // one rounding where the build has FMA, otherwise two
//!         }
//!         output[i][j] = scale * sum + base[i][j];
//!     }
//! }
//! ```
#![expect(unsafe_code, reason = "tiles are read and written through pointers")]

use super::{CHAINS, Kernels, Panel, PanelKernels, Tile, by_rows};
use crate::gemm::formats::{COLUMNS, PanelFormat, PanelLine};
use crate::gemm::matrix::Matrix;
use crate::simd::multiply_add;
use std::array::from_fn;
use std::hint::black_box;

/// Rows of a tile: the sums of 6 take 12 of AVX's 16 registers (24 of NEON's 32), those of 3 take 12 of SSE's 16.
const ROWS: usize = if cfg!(any(target_feature = "avx", target_arch = "aarch64")) { 6 } else { 3 };

/// The portable micro-kernels.
pub const KERNELS: Kernels = Kernels {
    rows: ROWS,
    panels: 1,
    interleave,
    add_rows,
    f32: PanelKernels { direct: usize::MAX, tile, expand },
    f16: PanelKernels { direct: ROWS, tile, expand },
    bf16: PanelKernels { direct: ROWS, tile, expand },
    q8_0: PanelKernels { direct: ROWS, tile, expand },
    multiply_adds,
};

/// # Safety
/// See [`Tile`].
unsafe fn tile<W: PanelFormat>(tile: Tile<W>) {
    let right = tile.columns.saturating_sub(COLUMNS);
    // SAFETY: the caller's; the second panel's columns begin behind those of the first.
    unsafe {
        by_rows!(tile.rows, R in [1 2 3 4 5 6] => {
            panel::<W, R>(&tile, 0, tile.columns - right);
            if right > 0 {
                panel::<W, R>(&tile, 1, right);
            }
        });
    }
}

/// R rows times one of the tile's panels.
///
/// # Safety
/// As for [`tile`]; the panel has this many columns.
#[inline(always)]
unsafe fn panel<W: PanelFormat, const R: usize>(tile: &Tile<W>, panel: usize, columns: usize) {
    let (scale, a) = (tile.scale, tile.a);
    // SAFETY: the rows have all steps of the panel, and the output and its base these rows and columns.
    unsafe {
        let output = tile.output.part(0, panel * COLUMNS);
        let row = |i: usize| output.to.add(i * output.stride);
        let mut sums = [[0f32; COLUMNS]; R];
        if tile.continues {
            sums = from_fn(|i| row(i).cast::<PanelLine>().read_unaligned());
        }
        let mut at = a.at;
        let Panel { units, side } = tile.panels[panel];
        // Once for all units, or each step would clear it.
        let mut lines = [[0f32; COLUMNS]; 32];
        for unit in units {
            unit.expand(side, &mut lines[..W::STEPS]);
            for line in &lines[..W::STEPS] {
                for (i, sums) in sums.iter_mut().enumerate() {
                    let a = *at.add(i * a.row);
                    for j in 0..COLUMNS {
                        sums[j] = multiply_add(a, line[j], sums[j]);
                    }
                }
                at = at.wrapping_add(a.step);
            }
        }
        for (i, sums) in sums.iter_mut().enumerate() {
            if !tile.continues {
                match output.base {
                    Some((base, stride)) => {
                        let base = std::slice::from_raw_parts(base.add(i * stride), columns);
                        base.iter().zip(&mut *sums).for_each(|(b, sum)| *sum = multiply_add(*sum, scale, *b));
                    }
                    None => sums.iter_mut().for_each(|sum| *sum *= scale),
                }
            }
            sums.as_ptr().copy_to_nonoverlapping(row(i), columns);
        }
    }
}

fn expand<W: PanelFormat>(panel: Panel<W>, lines: &mut [PanelLine], _ahead: bool) {
    for (unit, lines) in panel.units.iter().zip(lines.chunks_exact_mut(W::STEPS)) {
        unit.expand(panel.side, lines);
    }
}

/// # Safety
/// None of its own.
unsafe fn interleave(panel: &mut [f32], rows: Matrix) {
    for i in 0..rows.rows {
        let to = panel.iter_mut().skip(i).step_by(rows.rows);
        to.zip(rows.row(i)).for_each(|(to, x)| *to = *x);
    }
}

fn add_rows(y: &mut [f32], a: &[f32], rows: Matrix) {
    assert!(rows.rows == a.len() && rows.columns == y.len(), "rows of the size of the sums");
    let (fours, rest) = a.as_chunks::<4>();
    for (group, a) in fours.iter().enumerate() {
        let rows: [&[f32]; 4] = from_fn(|i| &rows.row(4 * group + i)[..y.len()]);
        for (j, y) in y.iter_mut().enumerate() {
            let mut sum = *y;
            for i in 0..4 {
                sum = multiply_add(a[i], rows[i][j], sum);
            }
            *y = sum;
        }
    }
    for (i, a) in rest.iter().enumerate() {
        let row = rows.row(4 * fours.len() + i);
        y.iter_mut().zip(row).for_each(|(y, w)| *y = multiply_add(*a, *w, *y));
    }
}

fn multiply_adds(rounds: usize) -> usize {
    const LANES: usize = 8;
    // A black box, or the compiler would find out that all chains compute the same.
    let (a, b, start) = black_box((0.999, 0.001, [[0.5f32; LANES]; CHAINS]));
    // A variable of its own, or the values might stay in memory.
    let mut chains = start;
    for _ in 0..rounds {
        for x in chains.as_flattened_mut() {
            *x = multiply_add(*x, a, b);
        }
    }
    black_box(chains);
    2 * rounds * CHAINS * LANES
}
