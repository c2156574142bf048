//! The values that a setting accepts.

use minigpt_charts::count;
use std::fmt;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::{Range, RangeBounds, RangeFrom, RangeInclusive};

/// The values that a setting accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Allowed {
    /// An integer in this inclusive range, which has no upper bound if that is [`Self::LARGEST`].
    Whole(u64, u64),
    /// A number between these bounds.
    Number(Bound<f64>, Bound<f64>),
    /// True or false.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
    /// A table of names by name, such as `{ question = "Q" }`.
    Names,
}

impl Allowed {
    /// The largest integer that a configuration file can hold.
    pub const LARGEST: u64 = i64::MAX as u64;

    /// A short description for tables, for example `1 to 4,096`.
    pub fn short(&self) -> String {
        match *self {
            Self::Whole(from, Self::LARGEST) => format!("{from} or more"),
            Self::Whole(from, to) => format!("{from} to {}", count(to)),
            Self::Number(Included(from), Unbounded) => format!("{from} or more"),
            Self::Number(Included(from), Excluded(to)) => format!("{from} to below {to}"),
            Self::Number(Excluded(from), Excluded(to)) => format!("above {from}, below {to}"),
            Self::Number(..) => "a number".to_owned(),
            Self::Switch => "true, false".to_owned(),
            Self::Word(words) => words.join(", "),
            Self::Text => "text".to_owned(),
            Self::Names => "names".to_owned(),
        }
    }

    /// Whether an integer is in the range.
    pub fn holds_whole(&self, number: u64) -> bool {
        match *self {
            Self::Whole(from, Self::LARGEST) => number >= from,
            Self::Whole(from, to) => (from..=to).contains(&number),
            Self::Number(..) => self.holds_number(number as f64),
            _ => false,
        }
    }

    /// Whether a number is finite and in the range.
    pub fn holds_number(&self, number: f64) -> bool {
        match *self {
            Self::Number(from, to) => number.is_finite() && (from, to).contains(&number),
            _ => false,
        }
    }
}

/// What a value must be, for error messages.
impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Whole(..) => write!(f, "a whole number, {}", self.short()),
            Self::Number(..) => write!(f, "a number, {}", self.short()),
            Self::Switch => f.write_str("true or false"),
            Self::Word(words) => write!(f, "one of these: {}", words.join(", ")),
            Self::Text => f.write_str("text"),
            Self::Names => f.write_str(r#"a table of names, for example { question = "Q", answer = "A" }"#),
        }
    }
}

impl From<RangeInclusive<u64>> for Allowed {
    fn from(range: RangeInclusive<u64>) -> Self {
        Self::Whole(*range.start(), *range.end())
    }
}

impl From<RangeFrom<u64>> for Allowed {
    fn from(range: RangeFrom<u64>) -> Self {
        Self::Whole(range.start, Self::LARGEST)
    }
}

impl From<RangeFrom<f64>> for Allowed {
    fn from(range: RangeFrom<f64>) -> Self {
        Self::Number(Included(range.start), Unbounded)
    }
}

impl From<Range<f64>> for Allowed {
    fn from(range: Range<f64>) -> Self {
        Self::Number(Included(range.start), Excluded(range.end))
    }
}

impl From<(Bound<f64>, Bound<f64>)> for Allowed {
    fn from((from, to): (Bound<f64>, Bound<f64>)) -> Self {
        Self::Number(from, to)
    }
}

/// A setting whose value is outside of its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{key} is {value}; it must be {allowed}")]
pub struct OutOfRange {
    /// Key of the setting.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// The values it accepts.
    pub allowed: Allowed,
}

/// A type of setting that has a range. An optional one that is not set is in range.
pub trait Number {
    /// Whether the value is in the range.
    fn is_in(&self, range: &Allowed) -> bool;

    /// The value as a person would write it.
    fn shown(&self) -> String;
}

impl Number for u64 {
    fn is_in(&self, range: &Allowed) -> bool {
        range.holds_whole(*self)
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Number for usize {
    fn is_in(&self, range: &Allowed) -> bool {
        range.holds_whole(*self as u64)
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Number for f64 {
    fn is_in(&self, range: &Allowed) -> bool {
        range.holds_number(*self)
    }

    fn shown(&self) -> String {
        // 1e308, without all of its digits.
        format!("{self:?}")
    }
}

impl<N: Number> Number for Option<N> {
    fn is_in(&self, range: &Allowed) -> bool {
        self.as_ref().is_none_or(|number| number.is_in(range))
    }

    fn shown(&self) -> String {
        self.as_ref().map_or_else(String::new, Number::shown)
    }
}

/// Checks that a value is in its range.
///
/// # Errors
/// It is not.
pub fn check(key: &'static str, value: &impl Number, allowed: Allowed) -> Result<(), OutOfRange> {
    if value.is_in(&allowed) { Ok(()) } else { Err(OutOfRange { key, value: value.shown(), allowed }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_say_what_they_hold() {
        let ranges = [
            (Allowed::from(1..=4096), "1 to 4,096"),
            (Allowed::from(0_u64..), "0 or more"),
            (Allowed::from(0.0..), "0 or more"),
            (Allowed::from(0.0..1.0), "0 to below 1"),
            (Allowed::from((Excluded(0.0), Excluded(1.0))), "above 0, below 1"),
        ];
        for (range, short) in ranges {
            assert_eq!(range.short(), short);
        }
    }

    #[test]
    fn a_number_that_is_not_finite_is_out_of_range() {
        for number in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(check("x", &number, Allowed::from(0.0..)).is_err(), "{number}");
        }
        assert!(check("x", &1e308, Allowed::from(0.0..)).is_ok());
        assert!(check("x", &None::<u64>, Allowed::from(1..=2)).is_ok());
        assert_eq!(
            check("x", &Some(3_u64), Allowed::from(1..=2)).unwrap_err().to_string(),
            "x is 3; it must be a whole number, 1 to 2"
        );
    }
}
