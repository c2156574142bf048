//! Rows of activations in 8 bits: blocks with a common scale, as long as the blocks of the weight that they are multiplied
//! with, and the sums of every sixteen integers, which a weight with an offset or a minimum is multiplied with.

use crate::gemm::matrix::Matrix;
use crate::simd;
use rayon::prelude::*;

/// Integers that share a sum.
pub const SUMMED: usize = 16;
/// The largest integer. The smallest is its negative.
const MOST: f32 = 127.0;
/// Elements that are worth a task of their own.
const TASK: usize = 1 << 16;

/// Rows in 8 bits.
pub struct EightBitRows {
    /// How many rows there are.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// Elements of a block.
    pub block: usize,
    /// The integers, row by row.
    pub integers: Vec<i8>,
    /// The scale of each block.
    pub scales: Vec<f32>,
    /// The sums of every [`SUMMED`] integers.
    pub sums: Vec<i16>,
}

impl EightBitRows {
    /// Quantises rows whose elements are contiguous, in blocks of `block`. A row's integers depend on that row alone.
    pub fn new(x: Matrix, block: usize) -> Self {
        let (m, width) = (x.rows, x.columns);
        assert!(width.is_multiple_of(block) && block.is_multiple_of(SUMMED), "whole blocks");
        let mut rows = Self {
            rows: m,
            width,
            block,
            integers: vec![0; m * width],
            scales: vec![0.0; m * width / block],
            sums: vec![0; m * width / SUMMED],
        };
        if width == 0 {
            return rows;
        }
        let parts = rows.integers.chunks_mut(width).zip(rows.scales.chunks_mut(width / block));
        let parts = parts.zip(rows.sums.chunks_mut(width / SUMMED)).enumerate();
        let parts = parts.map(|(i, ((integers, scales), sums))| (x.row(i), Row { integers, scales, sums }));
        if m * width < 2 * TASK {
            parts.for_each(|(x, row)| row.quantize(x, block));
        } else {
            let parts = parts.collect::<Vec<_>>().into_par_iter().with_min_len(TASK.div_ceil(width));
            parts.for_each(|(x, row)| row.quantize(x, block));
        }
        rows
    }
}

/// Where the parts of one row go.
struct Row<'a> {
    integers: &'a mut [i8],
    scales: &'a mut [f32],
    sums: &'a mut [i16],
}

impl Row<'_> {
    fn quantize(self, x: &[f32], block: usize) {
        let blocks = x.chunks_exact(block).zip(self.integers.chunks_exact_mut(block));
        let blocks = blocks.zip(self.scales).zip(self.sums.chunks_exact_mut(block / SUMMED));
        for (((x, integers), scale), sums) in blocks {
            *scale = simd::vectorized(|| quantize(x, integers, sums));
        }
    }
}

/// Quantises a block and returns its scale: NaN where an element is not finite, so that the product is NaN, too.
#[inline(always)]
fn quantize(x: &[f32], integers: &mut [i8], sums: &mut [i16]) -> f32 {
    let mut lanes = [0u32; 8];
    for x in x.as_chunks::<8>().0 {
        for i in 0..8 {
            // Without their sign, the bits of floats are ordered as they are; infinity and NaN are the largest.
            lanes[i] = lanes[i].max(x[i].to_bits() & 0x7fff_ffff);
        }
    }
    let largest = f32::from_bits(lanes.into_iter().max().unwrap_or(0));
    let inverse = MOST / largest;
    if !largest.is_finite() || !inverse.is_finite() {
        // Zeros, or so small that they might as well be.
        integers.fill(0);
        sums.fill(0);
        return if largest.is_finite() { 0.0 } else { f32::NAN };
    }
    for (x, integer) in x.iter().zip(integers.iter_mut()) {
        // Adding 1.5·2^23 rounds to the nearest integer, ties to even, and leaves it in the low bits.
        const ROUND: f32 = 12_582_912.0;
        *integer = (x * inverse + ROUND).to_bits() as i8;
    }
    for (integers, sum) in integers.as_chunks::<SUMMED>().0.iter().zip(sums) {
        *sum = integers.iter().map(|&integer| i16::from(integer)).sum();
    }
    1.0 / inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::elements;

    #[test]
    fn integers_are_the_nearest_and_never_beyond_127() {
        let x = elements(3 * 512, 1);
        let rows = EightBitRows::new(Matrix::new(&x, 3, 512, 512), 256);
        assert_eq!((rows.scales.len(), rows.sums.len()), (6, 96));
        for (i, (x, integer)) in x.iter().zip(&rows.integers).enumerate() {
            let scale = rows.scales[i / 256];
            assert!((x - scale * f32::from(*integer)).abs() <= 0.501 * scale, "{x} as {integer}");
            assert!(*integer >= -127);
        }
        for (sum, integers) in rows.sums.iter().zip(rows.integers.chunks(16)) {
            assert_eq!(*sum, integers.iter().map(|&x| i16::from(x)).sum::<i16>());
        }
        for block in rows.integers.chunks(256) {
            assert_eq!(block.iter().map(|x| x.unsigned_abs()).max(), Some(127));
        }
    }

    #[test]
    fn zeros_tiny_elements_and_those_that_are_not_finite() {
        let quantized = |x: f32| {
            let mut block = [1f32; 32];
            block[5] = x;
            let rows = EightBitRows::new(Matrix::new(&block, 1, 32, 32), 32);
            (rows.scales[0], rows.integers)
        };
        assert!(quantized(f32::NAN).0.is_nan());
        assert!(quantized(f32::NEG_INFINITY).0.is_nan());
        let (scale, integers) = quantized(f32::MAX);
        assert!(scale.is_finite() && integers[5] == 127 && integers[0] == 0);
        for tiny in [0.0, 1e-40, 3e-37] {
            let rows = EightBitRows::new(Matrix::new(&[tiny; 32], 1, 32, 32), 32);
            assert_eq!((rows.scales[0], &rows.integers[..]), (0.0, &[0i8; 32][..]));
        }
    }

    #[test]
    fn a_row_is_quantised_the_same_beside_others() {
        let x = elements(600 * 256, 2);
        let all = EightBitRows::new(Matrix::new(&x, 600, 256, 256), 32);
        for row in [0, 17, 599] {
            let one = EightBitRows::new(Matrix::new(&x[row * 256..], 1, 256, 256), 32);
            assert_eq!(one.integers, all.integers[row * 256..][..256]);
            assert_eq!(one.scales, all.scales[row * 8..][..8]);
            assert_eq!(one.sums, all.sums[row * 16..][..16]);
        }
    }
}
