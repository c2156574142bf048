//! Intervals from bootstrap draws, and whether one of them says anything.

use serde::Serialize;

/// The parts of the draws that an interval leaves out on each side.
const TAIL: f64 = 0.025;
/// A number whose interval spans more than this factor is not known.
const WIDEST: f64 = 100.0;

/// Where a number lies, with 95 % confidence. Written as `[low, high]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(into = "[f64; 2]")]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl From<Interval> for [f64; 2] {
    fn from(interval: Interval) -> Self {
        [interval.low, interval.high]
    }
}

impl Interval {
    /// The middle 95 % of draws. A draw that is not a number could be anywhere: where there are so many that they reach into
    /// the middle, the interval has no ends.
    pub(crate) fn of(draws: impl IntoIterator<Item = f64>) -> Self {
        let all: Vec<f64> = draws.into_iter().collect();
        let mut known: Vec<f64> = all.iter().copied().filter(|draw| !draw.is_nan()).collect();
        if known.is_empty() || (all.len() - known.len()) as f64 > TAIL * all.len() as f64 {
            return Self { low: f64::NEG_INFINITY, high: f64::INFINITY };
        }
        known.sort_by(f64::total_cmp);
        Self { low: quantile(&known, TAIL), high: quantile(&known, 1.0 - TAIL) }
    }

    /// From the smallest to the largest number.
    pub(crate) fn ends(numbers: impl IntoIterator<Item = f64>) -> Self {
        let start = Self { low: f64::MAX, high: f64::MIN };
        numbers.into_iter().fold(start, |ends, x| Self { low: ends.low.min(x), high: ends.high.max(x) })
    }

    /// Whether a number is inside.
    pub fn contains(&self, number: f64) -> bool {
        self.low <= number && number <= self.high
    }
}

/// The quantile of sorted numbers, between two of them where it falls there.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = part * last as f64;
    let (below, rest) = (place.floor() as usize, place.fract());
    let above = (below + 1).min(last);
    sorted[below] + rest * (sorted[above] - sorted[below])
}

/// A number with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate95 {
    /// The best guess.
    pub value: f64,
    /// Where it lies.
    pub interval: Interval,
}

/// Why a positive number is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undetermined {
    /// It could as well be nothing.
    ReachesZero,
    /// Its interval spans orders of magnitude.
    TooWide,
    /// The sizes of the runs differ by less than [`NARROWEST`](crate::NARROWEST).
    SizesTooNarrow,
    /// The counts of tokens differ by less than [`NARROWEST`](crate::NARROWEST).
    TokensTooNarrow,
}

impl Estimate95 {
    /// Why the data do not determine this positive number; nothing where they do. `floor` is what counts as zero.
    pub fn undetermined(&self, floor: f64) -> Option<Undetermined> {
        let Interval { low, high } = self.interval;
        if !(low > floor && self.value > floor) {
            Some(Undetermined::ReachesZero)
        } else if high / low > WIDEST || (high / low).is_nan() {
            Some(Undetermined::TooWide)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_leaves_out_a_fortieth_on_each_side() {
        let interval = Interval::of((0..=1000).rev().map(f64::from));
        assert_eq!(interval, Interval { low: 25.0, high: 975.0 });
        assert!(interval.contains(25.0) && !interval.contains(976.0) && !interval.contains(f64::NAN));
        assert_eq!(Interval::of([3.0]), Interval { low: 3.0, high: 3.0 });
        let endless = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };
        assert_eq!([Interval::of([]), Interval::of([1.0, f64::NAN])], [endless, endless]);
    }

    #[test]
    fn what_could_be_nothing_or_anything_is_not_known() {
        let estimate = |value, low, high| Estimate95 { value, interval: Interval { low, high } };
        assert_eq!(estimate(1.0, 0.5, 2.0).undetermined(1e-3), None);
        assert_eq!(estimate(1.0, 0.0, 2.0).undetermined(1e-3), Some(Undetermined::ReachesZero));
        assert_eq!(estimate(0.0, 0.5, 2.0).undetermined(1e-3), Some(Undetermined::ReachesZero));
        assert_eq!(estimate(1.0, 0.01, 2.0).undetermined(1e-3), Some(Undetermined::TooWide));
        assert!(estimate(1.0, f64::NAN, 2.0).undetermined(1e-3).is_some());
        assert!(estimate(1.0, 0.5, f64::NAN).undetermined(1e-3).is_some());
    }
}
