//! Numbers in text: grouped, or short with a unit.
//!
//! indicatif has such formats too, but only the binary may depend on it, and library errors and charts tell numbers
//! as well: these few are the workspace's own, and the only ones.

use std::fmt;

/// 1115394 as `1,115,394`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// 1115394 as `1.1 MB`.
pub fn bytes(number: u64) -> String {
    let (mut size, mut unit) = (number as f64, "B");
    for larger in ["kB", "MB", "GB", "TB"] {
        if size < 999.5 {
            break;
        }
        (size, unit) = (size / 1000.0, larger);
    }
    if unit == "B" || size >= 99.5 { format!("{size:.0} {unit}") } else { format!("{size:.1} {unit}") }
}

/// 174604259328 as `175 G`, for a unit to follow.
pub fn metric(number: f64) -> String {
    let (mut size, mut unit) = (number, "");
    for larger in ["k", "M", "G", "T", "P", "E", "Z", "Y"] {
        if size < 999.5 {
            break;
        }
        (size, unit) = (size / 1000.0, larger);
    }
    let digits = if size >= 99.5 || unit.is_empty() { 0 } else { 1 };
    format!("{size:.digits$} {unit}")
}

/// A number with so many decimals; one that left all bounds in powers of ten.
pub fn decimal(number: f64, decimals: usize) -> String {
    if number.abs() < 1e5 { format!("{number:.decimals$}") } else { format!("{number:.1e}") }
}

/// A time in the unit that fits: `1.2 ms`, `118 s`, `12 min`, `3.4 h`, `5.1 days`.
pub fn duration(seconds: f64) -> String {
    match duration_parts(seconds) {
        Some((number, unit)) => format!("{number} {unit}"),
        None => "–".to_owned(),
    }
}

/// The number and the unit of a [`duration`]; `None` if it is not finite.
pub fn duration_parts(seconds: f64) -> Option<(String, TimeUnit)> {
    let parts = match seconds {
        s if !s.is_finite() => return None,
        0.0 => ("0.0".to_owned(), TimeUnit::Seconds),
        s if s < 0.9995 => (format!("{:.1}", s * 1e3), TimeUnit::Milliseconds),
        s if s < 10.0 => (format!("{s:.1}"), TimeUnit::Seconds),
        s if s < 300.0 => (format!("{s:.0}"), TimeUnit::Seconds),
        s if s < 7200.0 => (format!("{:.0}", s / 60.0), TimeUnit::Minutes),
        s if s < 2.0 * 86_400.0 => (format!("{:.1}", s / 3600.0), TimeUnit::Hours),
        s if s < 2.0 * 31_557_600.0 => (format!("{:.1}", s / 86_400.0), TimeUnit::Days),
        s => (count((s / 31_557_600.0).round() as u64), TimeUnit::Years),
    };
    Some(parts)
}

/// The unit of a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "names of units")]
pub enum TimeUnit {
    Milliseconds,
    Seconds,
    Minutes,
    Hours,
    Days,
    Years,
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Minutes => "min",
            Self::Hours => "h",
            Self::Days => "days",
            Self::Years => "years",
        })
    }
}

/// `1 line`, `2 lines`, `2 batches`.
pub fn counted(number: u64, thing: &str) -> String {
    let ending = match number {
        1 => "",
        _ if thing.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {thing}{ending}", count(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_sizes_short() {
        assert_eq!([0, 999, 1000, 1_115_394].map(count), ["0", "999", "1,000", "1,115,394"]);
        assert_eq!([0, 999, 1000, 228_145].map(bytes), ["0 B", "999 B", "1.0 kB", "228 kB"]);
        assert_eq!([999_999, 22_502_601, 2_227_753_162].map(bytes), ["1.0 MB", "22.5 MB", "2.2 GB"]);
        assert_eq!([0.0, 950.0, 1500.0, 174_604_259_328.0].map(metric), ["0 ", "950 ", "1.5 k", "175 G"]);
        assert_eq!([0, 1, 2].map(|n| counted(n, "line")), ["0 lines", "1 line", "2 lines"]);
    }
    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        let short = [0.0, 0.0012, 3.0, 118.4, 720.0].map(duration);
        assert_eq!(short, ["0.0 s", "1.2 ms", "3.0 s", "118 s", "12 min"]);
        let long = [12_240.0, 1e6, 1e9, f64::NAN].map(duration);
        assert_eq!(long, ["3.4 h", "11.6 days", "32 years", "–"]);
    }

    #[test]
    fn what_left_all_bounds_is_told_in_powers_of_ten() {
        assert_eq!([1.23456, -2.0, 1e30].map(|x| decimal(x, 3)), ["1.235", "-2.000", "1.0e30"]);
    }
}
