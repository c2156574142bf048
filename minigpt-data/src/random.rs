//! Random numbers that never change: ChaCha8 by name, keyed by seed, purpose and place.
//!
//! Every choice in this crate is a pure function of a seed and of *where* it is made (which epoch, which
//! batch, which line), so that a run can be resumed anywhere without replaying what came before. The
//! arithmetic from generator to number is written out here, so that no library update can change a run.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What the numbers are for: two purposes never share a stream.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// The order of examples in an epoch.
    Shuffle = 1,
    /// Where random windows start.
    Windows = 2,
    /// Which line goes to which part.
    Split = 3,
    /// Rows of random ids.
    Rows = 4,
}

/// The generator of one place: `major` is an epoch (or 0), `minor` a batch (or 0).
pub(crate) fn generator(seed: u64, purpose: Purpose, major: u64, minor: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&major.to_le_bytes());
    key[16..24].copy_from_slice(&minor.to_le_bytes());
    key[24] = purpose as u8;
    ChaCha8Rng::from_seed(key)
}

/// A number below `bound`, each equally likely.
pub(crate) fn below(rng: &mut ChaCha8Rng, bound: u64) -> u64 {
    debug_assert!(bound > 0, "no number is below zero");
    // Numbers from the last, incomplete run of `bound` would favour the small ones: draw again.
    let fair = u64::MAX - u64::MAX % bound;
    loop {
        let drawn = rng.next_u64();
        if drawn < fair {
            return drawn % bound;
        }
    }
}

/// The numbers `0..count` in random order (Fisher and Yates).
pub(crate) fn permutation(rng: &mut ChaCha8Rng, count: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count).collect();
    for last in (1..order.len()).rev() {
        let other = below(rng, last as u64 + 1) as usize;
        order.swap(last, other);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_pinned_so_that_old_runs_can_be_resumed() {
        let mut rng = generator(1337, Purpose::Shuffle, 2, 0);
        assert_eq!(permutation(&mut rng, 8), PINNED_ORDER);
        let mut rng = generator(1337, Purpose::Windows, 0, 5);
        assert_eq!([0; 4].map(|_| below(&mut rng, 1000)), PINNED_NUMBERS);
    }

    const PINNED_ORDER: [u32; 8] = [7, 1, 5, 0, 2, 6, 4, 3];
    const PINNED_NUMBERS: [u64; 4] = [131, 88, 55, 715];

    #[test]
    fn a_permutation_holds_every_number_once() {
        for count in [0, 1, 2, 3, 100, 1001] {
            let mut order = permutation(&mut generator(7, Purpose::Shuffle, 0, 0), count);
            order.sort_unstable();
            assert!(order.iter().copied().eq(0..count));
        }
    }

    #[test]
    fn every_order_of_three_is_equally_likely() {
        let mut seen = std::collections::HashMap::new();
        for epoch in 0..6000 {
            *seen.entry(permutation(&mut generator(1, Purpose::Shuffle, epoch, 0), 3)).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|&n: &i32| (850..1150).contains(&n)), "{seen:?}");
    }

    #[test]
    fn seeds_purposes_epochs_and_batches_give_different_numbers() {
        let first = |seed, purpose, major, minor| generator(seed, purpose, major, minor).next_u64();
        let all = [
            first(0, Purpose::Shuffle, 0, 0),
            first(1, Purpose::Shuffle, 0, 0),
            first(0, Purpose::Windows, 0, 0),
            first(0, Purpose::Shuffle, 1, 0),
            first(0, Purpose::Shuffle, 0, 1),
        ];
        let distinct: std::collections::HashSet<u64> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
