//! New buffers that all threads fill, chunk by chunk, without clearing them first.
#![expect(unsafe_code, reason = "memory that is written before it is read")]

use super::simd;
use rayon::prelude::*;
use std::ops::Range;

/// Elements that make a task for a thread.
const CHUNK: usize = 8192;

/// A vector of `n` elements, of which `elements` gives any range; it must give exactly as many as the range has.
pub fn collect<I: Iterator<Item = f32>>(n: usize, elements: impl Fn(Range<usize>) -> I + Sync) -> Vec<f32> {
    let mut all = Vec::with_capacity(n);
    all.spare_capacity_mut()[..n].par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, room)| {
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

/// The same for two vectors that are made together.
pub fn collect_two<I: Iterator<Item = (f32, f32)>>(
    n: usize,
    elements: impl Fn(Range<usize>) -> I + Sync,
) -> (Vec<f32>, Vec<f32>) {
    let (mut first, mut second) = (Vec::with_capacity(n), Vec::with_capacity(n));
    let rooms = first.spare_capacity_mut()[..n].par_chunks_mut(CHUNK);
    let rooms = rooms.zip(second.spare_capacity_mut()[..n].par_chunks_mut(CHUNK));
    rooms.enumerate().for_each(|(chunk, (first, second))| {
        let (start, length) = (chunk * CHUNK, first.len());
        let written = simd::vectorized(|| {
            let places = first.iter_mut().zip(second).zip(elements(start..start + length));
            places.fold(0, |written, ((first, second), element)| {
                first.write(element.0);
                second.write(element.1);
                written + 1
            })
        });
        assert_eq!(written, length, "elements for a chunk");
    });
    // SAFETY: every element of every chunk of both has been written.
    unsafe {
        first.set_len(n);
        second.set_len(n);
    }
    (first, second)
}

/// Changes a vector in place: `f` is given each chunk, and which elements of the whole it has.
pub fn change(all: &mut [f32], f: impl Fn(Range<usize>, &mut [f32]) + Sync) {
    all.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, part)| {
        let start = chunk * CHUNK;
        simd::vectorized(|| f(start..start + part.len(), part));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_make_up_the_whole() {
        for n in [0, 1, CHUNK, 3 * CHUNK + 7] {
            let all = collect(n, |range| range.map(|i| i as f32));
            assert_eq!(all, (0..n).map(|i| i as f32).collect::<Vec<_>>());
            let (mut first, second) = collect_two(n, |range| range.map(|i| (i as f32, 1.0)));
            assert!(first == all && second == vec![1.0; n]);
            change(&mut first, |range, part| part.iter_mut().zip(range).for_each(|(x, i)| *x -= i as f32));
            assert_eq!(first, vec![0.0; n]);
        }
    }

    #[test]
    #[should_panic(expected = "elements for a chunk")]
    fn a_chunk_that_is_too_short_is_a_mistake() {
        collect(10, |_| std::iter::once(1.0));
    }
}
