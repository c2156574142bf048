//! The two axes of a picture of losses: what they count, how far they reach, and where round numbers are on them.

use super::Record;

/// What the horizontal axis counts. Both axes are linear: what a run does late is what people compare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Axis {
    /// Steps.
    #[default]
    Step,
    /// Tokens seen, which compares runs of different batch sizes.
    Tokens,
    /// Time of training, which compares runs of different speeds.
    Time,
}

impl Axis {
    pub(super) fn of(self, record: &Record) -> f64 {
        match self {
            Axis::Step => record.step as f64,
            Axis::Tokens => record.tokens as f64,
            Axis::Time => record.seconds,
        }
    }

    /// The unit in which a picture that reaches so far counts, and its name.
    fn unit(self, high: f64) -> (f64, &'static str) {
        let units: &[(f64, &str)] = match self {
            Axis::Step => &[(1.0, "step")],
            Axis::Tokens => &[(1.0, "tokens"), (1e6, "million tokens"), (1e9, "billion tokens")],
            Axis::Time => &[
                (1.0, "seconds of training"),
                (60.0, "minutes of training"),
                (3600.0, "hours of training"),
                (86_400.0, "days of training"),
            ],
        };
        // A unit of which there would be fewer than three is too large.
        let fitting = units.iter().rev().find(|(unit, _)| high >= 3.0 * unit);
        *fitting.unwrap_or(&units[0])
    }
}

/// One axis.
pub(super) struct Scale {
    pub low: f64,
    pub high: f64,
    pub ticks: Vec<Tick>,
    /// What it counts.
    pub name: &'static str,
}

/// A round number on an axis.
pub(super) struct Tick {
    pub at: f64,
    pub label: String,
}

impl Scale {
    /// From zero to `high` of what the axis counts.
    pub fn across(axis: Axis, high: f64) -> Self {
        let (unit, name) = axis.unit(high);
        let high = if high > 0.0 { high } else { 1.0 };
        let step = round_step(high / unit / 8.0);
        let step = if axis == Axis::Time { step } else { step.max(1.0) };
        Scale { low: 0.0, high, ticks: ticks(0.0, high, step, unit), name }
    }

    /// Over all losses from `low` to `high`, with some room above and below; from zero where that is not far.
    pub fn upward(low: f64, high: f64) -> Self {
        let room = (0.05 * (high - low)).max(1e-6 * high.abs()).max(1e-6);
        let from_zero = low >= 0.0 && low < 0.2 * high;
        let (low, high) = (if from_zero { 0.0 } else { low - room }, high + room);
        Scale { low, high, ticks: ticks(low, high, round_step((high - low) / 7.0), 1.0), name: "loss" }
    }

    /// 0 at the low end, 1 at the high end.
    pub fn part(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

/// The multiples of `step` units within the ends.
fn ticks(low: f64, high: f64, step: f64, unit: f64) -> Vec<Tick> {
    let first = (low / unit / step).ceil() as i64;
    let last = (high / unit / step * (1.0 + 1e-12)).floor() as i64;
    let tick = |i: i64| Tick { at: i as f64 * step * unit, label: label(i as f64 * step, step) };
    (first..=last).map(tick).collect()
}

/// The smallest of …, 0.1, 0.2, 0.5, 1, 2, 5, 10, … that is at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least);
    factor.unwrap_or(10.0) * power
}

/// A multiple of `step` with no more digits than it needs.
fn label(number: f64, step: f64) -> String {
    if !(1e-5..1e9).contains(&step) {
        return format!("{number:.1e}");
    }
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    if decimals > 0 { format!("{number:.decimals$}") } else { grouped(number.round() as i64) }
}

/// 14652 as `14,652`.
pub(super) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = if number < 0 { "-".to_owned() } else { String::new() };
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_few() {
        let losses = Scale::upward(1.4, 4.2);
        assert_eq!(labels(&losses), ["1.5", "2.0", "2.5", "3.0", "3.5", "4.0"]);
        assert!(
            (losses.part(losses.ticks[1].at) - (2.0 - losses.low) / (losses.high - losses.low)).abs() < 1e-12
        );
        assert_eq!(labels(&Scale::across(Axis::Step, 2000.0)), ["0", "500", "1,000", "1,500", "2,000"]);
        assert_eq!(labels(&Scale::across(Axis::Step, 60_000.0))[..3], ["0", "10,000", "20,000"]);
        assert_eq!(labels(&Scale::across(Axis::Step, 3.0)), ["0", "1", "2", "3"]);
        assert_eq!(labels(&Scale::upward(0.01, 5.0))[..2], ["0", "1"], "zero is not far");
    }

    #[test]
    fn the_unit_fits_the_length() {
        let named = |axis, high| Scale::across(axis, high).name;
        assert_eq!(named(Axis::Time, 118.0), "seconds of training");
        assert_eq!(named(Axis::Time, 600.0), "minutes of training");
        assert_eq!(named(Axis::Tokens, 1e10), "billion tokens");
        let minutes = Scale::across(Axis::Time, 600.0);
        assert_eq!((minutes.ticks[1].label.as_str(), minutes.ticks[1].at), ("2", 120.0));
    }

    #[test]
    fn the_most_unlikely_ranges_have_a_few_ticks_too() {
        for (low, high) in [(0.0, 0.0), (2.0, 2.0), (-1.0, -1.0), (1e-12, 2e-12), (0.0, 1e30), (1e30, 1e30)] {
            let scale = Scale::upward(low, high);
            assert!((1..=9).contains(&scale.ticks.len()), "{low} to {high}: {:?}", labels(&scale));
            assert!((0.0..=1.0).contains(&scale.part(low)) && (0.0..=1.0).contains(&scale.part(high)));
        }
        for high in [0.0, 1.0, 1e-3, 1e18] {
            assert!((1..=9).contains(&Scale::across(Axis::Time, high).ticks.len()), "{high}");
            assert!((1..=9).contains(&Scale::across(Axis::Step, high).ticks.len()), "{high}");
        }
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!([0, 999, 1000, -1_234_567].map(grouped), ["0", "999", "1,000", "-1,234,567"]);
    }
}
