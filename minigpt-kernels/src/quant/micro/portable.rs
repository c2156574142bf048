//! In plain Rust, one row at a time. `q` are integers, `x` activations in 8 bits:
//!
//! ```text
//! for each row w of the panel:
//!     for each block:
//!         for each group and each half of 16 weights:
//!             sum        += scale[w] · (q[w][0]·x[0] + … + q[w][15]·x[15])
//!             correction += min[w] · (x[0] + … + x[15])          (min = offset·scale in formats with an offset)
//!         with minimums:    y[w] += factor[w]·x_scale · sum − min_factor[w]·x_scale · correction
//!         with an offset:   y[w] += factor[w]·x_scale · (sum − correction)
//! ```

use super::{Kernels, check_tile, every_format};
use crate::quant::activations::{EightBitRows, SUMMED};
use crate::quant::block_format::{FORMATS, GROUP};
use crate::quant::block_panels::{Chunk, ROWS};
use std::ops::Range;

/// The portable micro-kernels.
pub const KERNELS: Kernels = Kernels { tiles: every_format!(tile), tile_rows: [1, 1] };

fn tile<const F: usize>(panel: &[Chunk], x: &EightBitRows, rows: Range<usize>, y: &mut [[f32; ROWS]]) {
    check_tile::<F>(panel, x, &rows, y);
    rows.zip(y).for_each(|(row, y)| *y = row_times_panel::<F>(panel, x, row));
}

fn row_times_panel<const F: usize>(panel: &[Chunk], x: &EightBitRows, row: usize) -> [f32; ROWS] {
    let format = &FORMATS[F];
    let mut y = [0f32; ROWS];
    for (number, block) in Chunk::bytes(panel).chunks_exact(format.panel_block_bytes()).enumerate() {
        let first = row * x.width + number * x.block;
        let (mut sums, mut corrections) = ([0i32; ROWS], [0i32; ROWS]);
        for group in 0..format.groups {
            let at = first + group * GROUP;
            let (scales, mins) = (format.scales(block, group), format.mins(block, group));
            for half in 0..2 {
                let mut products = [0i32; ROWS];
                let words = x.integers[at + half * SUMMED..][..SUMMED].as_chunks::<4>().0;
                for (word, x) in words.iter().enumerate() {
                    let integers = format.word(block, group, 4 * half + word);
                    for (i, &x) in x.iter().enumerate() {
                        for w in 0..ROWS {
                            products[w] += (integers[w] >> (8 * i) & 255) as i32 * i32::from(x);
                        }
                    }
                }
                let total = i32::from(x.sums[at / SUMMED + half]);
                for w in 0..ROWS {
                    sums[w] += scales[w][half] * products[w];
                    corrections[w] += mins[w][half] * total;
                }
            }
        }
        let scale = x.scales[first / x.block];
        let [factors, min_factors] =
            [0, 1].map(|which| format.factors(block, which).map(|factor| factor.to_f32() * scale));
        for w in 0..ROWS {
            y[w] += if format.has_minimums() {
                factors[w] * sums[w] as f32 - min_factors[w] * corrections[w] as f32
            } else {
                factors[w] * (sums[w] - corrections[w]) as f32
            };
        }
    }
    y
}
