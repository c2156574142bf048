//! The axes of a chart: what they count, how far they reach, and where round numbers are on them.

use crate::number::{count, metric};

/// What a horizontal axis counts. It is linear: what happens late is what people compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    /// Units to count in, with their names, the smallest first; the largest of which there are at least three is used.
    pub units: &'static [(f64, &'static str)],
    /// Whether a part of the unit means nothing.
    pub whole: bool,
}

impl Quantity {
    /// The unit in which an axis that reaches so far counts, and its name.
    fn unit(self, high: f64) -> (f64, &'static str) {
        let fitting = self.units.iter().rev().find(|(unit, _)| high >= 3.0 * unit);
        fitting.or(self.units.first()).copied().unwrap_or((1.0, ""))
    }
}

/// One axis.
pub(crate) struct Scale {
    pub low: f64,
    pub high: f64,
    pub ticks: Vec<Tick>,
    /// What it counts.
    pub name: &'static str,
}

/// A round number on an axis.
pub(crate) struct Tick {
    pub at: f64,
    pub label: String,
}

impl Scale {
    /// From zero to `high` of what the axis counts.
    pub fn across(quantity: Quantity, high: f64) -> Self {
        let (unit, name) = quantity.unit(high);
        let high = if high > 0.0 { high } else { 1.0 };
        let step = round_step(high / unit / 8.0);
        let step = if quantity.whole { step.max(1.0) } else { step };
        Scale { low: 0.0, high, ticks: ticks(0.0, high, step, unit), name }
    }

    /// Over all heights from `low` to `high`, with some room above and below; from zero where that is not far.
    pub fn upward(low: f64, high: f64) -> Self {
        let room = (0.05 * (high - low)).max(1e-6 * high.abs()).max(1e-6);
        let from_zero = low >= 0.0 && low < 0.2 * high;
        let (low, high) = (if from_zero { 0.0 } else { low - room }, high + room);
        Scale { low, high, ticks: ticks(low, high, round_step((high - low) / 7.0), 1.0), name: "" }
    }

    /// 0 at the low end, 1 at the high end.
    pub fn part(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

impl Scale {
    /// From `low` to `high` by their logarithm, both above zero, with some room on both sides; ends and ticks are logarithms.
    pub fn logarithmic(low: f64, high: f64) -> Self {
        let (low, high) = (low.ln(), high.ln());
        let room = (0.04 * (high - low)).max(0.02);
        let (low, high) = (low - room, high + room);
        let decades = (high - low) / std::f64::consts::LN_10;
        let factors: &[f64] = match decades {
            d if d < 1.2 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            d if d < 3.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let every = (decades / 8.0).ceil().max(1.0) as i32;
        let first = (low / std::f64::consts::LN_10).floor() as i32;
        let powers = (first..=first + decades.ceil() as i32 + 1).filter(|power| power.rem_euclid(every) == 0);
        let numbers = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
        let ticks = numbers.map(|number| Tick { at: number.ln(), label: short(number) });
        let ticks = ticks.filter(|tick| (low..=high).contains(&tick.at)).collect();
        Scale { low, high, ticks, name: "" }
    }
}

/// A round number with the fewest characters: `200 k`, `1.5 M`, `1e15`.
fn short(number: f64) -> String {
    if !(1.0..1e13).contains(&number) {
        return format!("{number:.0e}");
    }
    if number < 1000.0 {
        return number.to_string();
    }
    let text = metric(number);
    text.replace(".0 ", " ").trim_end().to_owned()
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
    if decimals > 0 { format!("{number:.decimals$}") } else { whole(number.round() as i64) }
}

/// 14652 as `14,652`; -14652 as `-14,652`.
fn whole(number: i64) -> String {
    format!("{}{}", if number < 0 { "-" } else { "" }, count(number.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: Quantity = Quantity { units: &[(1.0, "step")], whole: true };
    const TIME: Quantity = Quantity {
        units: &[(1.0, "seconds"), (60.0, "minutes"), (3600.0, "hours"), (86_400.0, "days")],
        whole: false,
    };

    fn labels(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn there_are_not_many_ticks_and_they_are_round() {
        let heights = Scale::upward(1.4, 4.2);
        assert_eq!(labels(&heights), ["1.5", "2.0", "2.5", "3.0", "3.5", "4.0"]);
        assert!(
            (heights.part(heights.ticks[1].at) - (2.0 - heights.low) / (heights.high - heights.low)).abs()
                < 1e-12
        );
        assert_eq!(labels(&Scale::across(STEPS, 2000.0)), ["0", "500", "1,000", "1,500", "2,000"]);
        assert_eq!(labels(&Scale::across(STEPS, 60_000.0))[..3], ["0", "10,000", "20,000"]);
        assert_eq!(labels(&Scale::across(STEPS, 3.0)), ["0", "1", "2", "3"]);
        assert_eq!(labels(&Scale::upward(0.01, 5.0))[..2], ["0", "1"], "zero is not far");
    }

    #[test]
    fn powers_of_ten_and_what_is_between_them() {
        assert_eq!(
            labels(&Scale::logarithmic(1.2e5, 1e6)),
            ["150 k", "200 k", "300 k", "400 k", "500 k", "700 k", "1 M"]
        );
        assert_eq!(
            labels(&Scale::logarithmic(1e4, 2e6)),
            ["10 k", "20 k", "50 k", "100 k", "200 k", "500 k", "1 M", "2 M"]
        );
        assert_eq!(labels(&Scale::logarithmic(1e12, 1e16)), ["1 T", "1e13", "1e14", "1e15", "1e16"]);
        assert_eq!(labels(&Scale::logarithmic(1.0, 3.0)), ["1", "1.5", "2", "3"]);
        assert!(labels(&Scale::logarithmic(1.0, 1e30)).len() < 12);
        assert!(!labels(&Scale::logarithmic(5.0, 5.0)).is_empty());
    }

    #[test]
    fn the_unit_fits_the_length() {
        let named = |high| Scale::across(TIME, high).name;
        assert_eq!([0.0, 118.0, 600.0, 1e10].map(named), ["seconds", "seconds", "minutes", "days"]);
        let minutes = Scale::across(TIME, 600.0);
        assert_eq!((minutes.ticks[1].label.as_str(), minutes.ticks[1].at), ("2", 120.0));
    }

    #[test]
    fn the_most_unlikely_ranges_have_ticks_too() {
        for (low, high) in [(0.0, 0.0), (2.0, 2.0), (-1.0, -1.0), (1e-12, 2e-12), (0.0, 1e30), (1e30, 1e30)] {
            let scale = Scale::upward(low, high);
            assert!((1..=9).contains(&scale.ticks.len()), "{low} to {high}: {:?}", labels(&scale));
            assert!((0.0..=1.0).contains(&scale.part(low)) && (0.0..=1.0).contains(&scale.part(high)));
        }
        for high in [0.0, 1.0, 1e-3, 1e18] {
            assert!((1..=9).contains(&Scale::across(TIME, high).ticks.len()), "{high}");
            assert!((1..=9).contains(&Scale::across(STEPS, high).ticks.len()), "{high}");
        }
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!([0, 999, 1000, -1_234_567].map(whole), ["0", "999", "1,000", "-1,234,567"]);
    }
}
