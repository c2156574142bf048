//! Slices. The engine's own are lazy, and count past the ends of what they cut.

use super::bounds::refuse;
use crate::error::TemplateProblem;
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, Value};

/// `value[start:stop:step]` as Python has it.
pub(super) fn part(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let number =
        |value: &Value| if value.is_none() { Ok(None) } else { i64::try_from(value.clone()).map(Some) };
    let step = number(step)?.unwrap_or(1);
    if step == 0 {
        return refuse(TemplateProblem::ZeroStep);
    }
    let pick = |length: usize| -> Result<Vec<usize>, Error> {
        let length = length as i64;
        // Where a slice can begin and end: past the last item forwards, before the first one backwards.
        let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
        let place = |at: Option<i64>, default: i64| match at {
            Some(at) if at < 0 => at.saturating_add(length).clamp(low, high),
            Some(at) => at.clamp(low, high),
            None => default,
        };
        let (first, last) = if step > 0 { (low, high) } else { (high, low) };
        let (mut at, end) = (place(number(start)?, first), place(number(stop)?, last));
        let mut places = Vec::new();
        while (step > 0 && at < end) || (step < 0 && at > end) {
            places.push(at as usize);
            at = at.saturating_add(step);
        }
        Ok(places)
    };
    if let Some(text) = value.as_str() {
        let chars: Vec<char> = text.chars().collect();
        return Ok(Value::from(pick(chars.len())?.into_iter().map(|at| chars[at]).collect::<String>()));
    }
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => Ok(Value::from(Vec::<Value>::new())),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
            let items: Vec<Value> = pick(items.len())?.into_iter().map(|at| items[at].clone()).collect();
            Ok(if value.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) })
        }
        kind => refuse(TemplateProblem::NotSliceable(kind)),
    }
}
