//! Lengths as bars: round steps, and one last bar for the few that are much longer than the rest.

use crate::lengths::Lengths;
use minigpt_charts::{BarChart, Mark, count};
use serde::Serialize;

/// No more bars than this, the last one aside.
const BARS: u64 = 20;

/// Bars of equal width from length 0 on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// Lengths a bar.
    pub step: u64,
    /// The bars, in order.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// Shortest length in it.
    pub from: u64,
    /// Longest length in it; `None` for a last bar that takes all that is longer.
    pub to: Option<u64>,
    /// Examples in it.
    pub count: u64,
}

impl Histogram {
    /// Puts lengths into bars that show 99 % of them well.
    pub fn of(lengths: &Lengths) -> Self {
        let summary = lengths.summary();
        // A long tail gets one bar of its own, so that the rest is not squeezed into the first two.
        let tail = summary.max > summary.p99.saturating_mul(3) / 2;
        let shown = if tail { summary.p99 } else { summary.max };
        let step = round_step(shown.saturating_add(1), BARS);
        let last = shown / step;
        let bar = |i: u64| {
            let (from, to) = (i * step, i * step + step - 1);
            Bar { from, to: Some(to), count: lengths.between(from, to) }
        };
        let mut bars: Vec<Bar> = (0..=last).map(bar).collect();
        let from = (last + 1) * step;
        let count = lengths.between(from, u64::MAX);
        if count > 0 {
            bars.push(Bar { from, to: None, count });
        }
        Histogram { step, bars }
    }

    /// The bars as a chart without a title.
    pub fn chart(&self) -> BarChart {
        BarChart {
            step: self.step,
            counts: self.bars.iter().map(|bar| bar.count).collect(),
            open_ended: self.bars.last().is_some_and(|bar| bar.to.is_none()),
            ..BarChart::default()
        }
    }
}

/// A chart of lengths under a title; `axis` says what they are lengths in, and a line marks `max_length`.
pub fn length_chart(lengths: &Lengths, title: &str, axis: &str, max_length: Option<u64>) -> BarChart {
    let summary = lengths.summary();
    let subtitle = format!(
        "n = {} · mean {:.1} · 50 % {} · 90 % {} · 95 % {} · 99 % {} · longest {}",
        count(summary.count),
        summary.mean,
        summary.p50,
        summary.p90,
        summary.p95,
        summary.p99,
        summary.max
    );
    let mark = |max_length: u64| {
        let whole = 100.0 * (1.0 - lengths.beyond(max_length).0 as f64 / lengths.count().max(1) as f64);
        Mark { after: max_length, text: format!("max_length {max_length}: {whole:.1} % whole") }
    };
    BarChart {
        title: title.to_owned(),
        subtitle,
        x: axis.to_owned(),
        mark: max_length.map(mark),
        ..Histogram::of(lengths).chart()
    }
}

/// The smallest of 1, 2, 5, 10, 20, 50, … of which at most `steps` reach `range`.
fn round_step(range: u64, steps: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for factor in [1, 2, 5] {
            let step = power.saturating_mul(factor);
            if range.div_ceil(step) <= steps {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_tail_gets_one_bar() {
        let lengths: Lengths = (0..100).chain([5000]).collect();
        let histogram = Histogram::of(&lengths);
        assert_eq!(histogram.step, 5);
        assert_eq!(histogram.bars.len(), 21);
        assert_eq!(histogram.bars[0], Bar { from: 0, to: Some(4), count: 5 });
        assert_eq!(histogram.bars[20], Bar { from: 100, to: None, count: 1 });
        let chart = histogram.chart();
        assert!(chart.open_ended && chart.counts == [&[5; 20][..], &[1]].concat());
    }

    #[test]
    fn the_mark_says_how_much_stays_whole() {
        let with = |max| length_chart(&(1..=100).collect(), "lengths", "tokens", max).svg();
        assert!(with(Some(95)).contains("max_length 95: 95.0 % whole"));
        assert!(!with(Some(1000)).contains("max_length"));
        assert!(!with(None).contains("max_length"));
        assert!(
            with(None).contains("n = 100 · mean 50.5 · 50 % 50 · 90 % 90 · 95 % 95 · 99 % 99 · longest 100")
        );
    }

    #[test]
    fn nothing_is_drawn_as_nothing() {
        let svg = length_chart(&Lengths::default(), "none", "tokens", Some(0)).svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    proptest! {
        #[test]
        fn every_example_is_in_exactly_one_bar(
            lengths in proptest::collection::vec(prop_oneof![0_u64..100, 0_u64..100_000, Just(u64::MAX / 8)], 0..100),
        ) {
            let histogram = Histogram::of(&lengths.iter().copied().collect());
            prop_assert_eq!(histogram.bars.iter().map(|bar| bar.count).sum::<u64>(), lengths.len() as u64);
            prop_assert!(histogram.bars.len() as u64 <= BARS + 1);
            for pair in histogram.bars.windows(2) {
                prop_assert_eq!(pair[0].to.map(|to| to + 1), Some(pair[1].from));
            }
        }
    }
}
