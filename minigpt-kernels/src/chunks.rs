//! New buffers that all threads fill, chunk by chunk, without clearing them first.
#![expect(unsafe_code, reason = "memory that is written before anybody reads it")]

use super::simd;
use rayon::prelude::*;
use std::ops::Range;

/// Elements that make a task for a thread.
const CHUNK: usize = 8192;

/// A vector of `n` elements, of which `elements` gives any range; it must give exactly as many as the range has.
pub fn collect<I: Iterator<Item = f32>>(n: usize, elements: impl Fn(Range<usize>) -> I + Sync) -> Vec<f32> {
    let mut all = Vec::with_capacity(n);
    let room = &mut all.spare_capacity_mut()[..n];
    room.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, room)| {
        let (start, length) = (chunk * CHUNK, room.len());
        let written = simd::vectorized(|| {
            let places = room.iter_mut().zip(elements(start..start + length));
            places.fold(0, |written, (place, element)| {
                place.write(element);
                written + 1
            })
        });
        assert_eq!(written, length, "elements for a chunk");
    });
    // SAFETY: every element of every chunk has been written.
    unsafe { all.set_len(n) };
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_make_up_the_whole() {
        for n in [0, 1, CHUNK, 3 * CHUNK + 7] {
            let all = collect(n, |range| range.map(|i| i as f32));
            assert_eq!(all, (0..n).map(|i| i as f32).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "elements for a chunk")]
    fn a_chunk_that_is_too_short_is_a_mistake() {
        collect(10, |_| std::iter::once(1.0));
    }
}
