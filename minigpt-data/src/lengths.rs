//! How long examples are: counts, percentiles, and the `max_length` that follows from them.

use serde::Serialize;
use std::collections::BTreeMap;

/// The part of the examples that a suggested `max_length` leaves whole, in percent.
const COVERED: u64 = 95;

/// Lengths of any number of examples, in memory that grows with the distinct ones only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lengths {
    counts: BTreeMap<u64, u64>,
    count: u64,
    total: u64,
}

/// Lengths in a few numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LengthSummary {
    /// Examples.
    pub count: u64,
    /// Tokens of all together.
    pub total: u64,
    /// Average.
    pub mean: f64,
    /// Shortest.
    pub min: u64,
    /// Half are at most this long.
    pub p50: u64,
    /// 90 % are at most this long.
    pub p90: u64,
    /// 95 % are at most this long.
    pub p95: u64,
    /// 99 % are at most this long.
    pub p99: u64,
    /// Longest.
    pub max: u64,
}

impl Lengths {
    /// Counts one more example.
    pub fn add(&mut self, length: u64) {
        *self.counts.entry(length).or_insert(0) += 1;
        self.count += 1;
        self.total = self.total.saturating_add(length);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The shortest length that at least `percent` of the examples don't exceed (nearest rank), 0 without any.
    pub fn percentile(&self, percent: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0_u128;
        for (&length, &count) in &self.counts {
            seen += u128::from(count);
            if seen >= wanted {
                return length;
            }
        }
        0
    }

    /// The shortest `max_length` that leaves 95 % of the examples whole.
    pub fn suggested_max_length(&self) -> u64 {
        self.percentile(COVERED)
    }

    /// How many examples are longer than `max_length`, and how many of their tokens are beyond it.
    pub fn beyond(&self, max_length: u64) -> (u64, u64) {
        let longer = self.counts.range(max_length.saturating_add(1)..);
        longer.fold((0, 0), |(examples, tokens), (&length, &count)| {
            (examples + count, tokens + (length - max_length) * count)
        })
    }

    /// How many examples have a length of `from..=to`.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        self.counts.range(from..=to).map(|(_, &count)| count).sum()
    }

    /// Everything in a few numbers.
    pub fn summary(&self) -> LengthSummary {
        LengthSummary {
            count: self.count,
            total: self.total,
            mean: self.total as f64 / self.count.max(1) as f64,
            min: self.counts.keys().next().copied().unwrap_or(0),
            p50: self.percentile(50),
            p90: self.percentile(90),
            p95: self.percentile(95),
            p99: self.percentile(99),
            max: self.counts.keys().next_back().copied().unwrap_or(0),
        }
    }
}

impl FromIterator<u64> for Lengths {
    fn from_iter<I: IntoIterator<Item = u64>>(lengths: I) -> Self {
        let mut all = Lengths::default();
        lengths.into_iter().for_each(|length| all.add(length));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_to_a_hundred_has_the_percentiles_one_expects() {
        let summary = (1..=100).collect::<Lengths>().summary();
        assert_eq!((summary.min, summary.p50, summary.p90, summary.p95), (1, 50, 90, 95));
        assert_eq!((summary.p99, summary.max, summary.mean), (99, 100, 50.5));
    }

    #[test]
    fn no_example_at_all_is_all_zeros() {
        let none = Lengths::default();
        assert_eq!((none.suggested_max_length(), none.summary().mean, none.beyond(0)), (0, 0.0, (0, 0)));
    }

    proptest! {
        #[test]
        fn a_suggestion_covers_what_it_promises_and_no_shorter_one_does(
            lengths in proptest::collection::vec(0_u64..300, 1..200),
        ) {
            let all: Lengths = lengths.iter().copied().collect();
            let suggested = all.suggested_max_length();
            let covered = |max| lengths.iter().filter(|&&length| length <= max).count() * 100;
            prop_assert!(covered(suggested) >= 95 * lengths.len());
            prop_assert!(suggested == 0 || covered(suggested - 1) < 95 * lengths.len());
            let cut = lengths.iter().filter(|&&length| length > suggested);
            prop_assert_eq!(all.beyond(suggested), (cut.clone().count() as u64, cut.map(|l| l - suggested).sum()));
        }
    }
}
