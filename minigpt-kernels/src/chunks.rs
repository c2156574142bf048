//! New buffers that all threads fill, piece by piece, without clearing them first.
#![expect(unsafe_code, reason = "memory that is written before anybody reads it")]

use super::simd;
use rayon::prelude::*;
use std::ops::Range;

/// Numbers that make a piece of work for a thread.
const PIECE: usize = 8192;

/// `n` numbers, of which `numbers` makes any range; it must give exactly as many as the range has.
pub fn collect<I: Iterator<Item = f32>>(n: usize, numbers: impl Fn(Range<usize>) -> I + Sync) -> Vec<f32> {
    let mut all = Vec::with_capacity(n);
    let room = &mut all.spare_capacity_mut()[..n];
    room.par_chunks_mut(PIECE).enumerate().for_each(|(piece, room)| {
        let (start, length) = (piece * PIECE, room.len());
        let written = simd::vectorized(|| {
            let places = room.iter_mut().zip(numbers(start..start + length));
            places.fold(0, |written, (place, number)| {
                place.write(number);
                written + 1
            })
        });
        assert_eq!(written, length, "numbers for a piece");
    });
    // SAFETY: every piece has been written whole.
    unsafe { all.set_len(n) };
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_up_the_whole() {
        for n in [0, 1, PIECE, 3 * PIECE + 7] {
            let all = collect(n, |range| range.map(|i| i as f32));
            assert_eq!(all, (0..n).map(|i| i as f32).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "numbers for a piece")]
    fn a_piece_that_is_too_short_is_a_mistake() {
        collect(10, |_| std::iter::once(1.0));
    }
}
