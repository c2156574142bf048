//! Filters, functions and methods of templates. Those of the engine that could make much of little in a single step, or
//! look at much for long, are checked first, written here, or left out.

use super::bounds::{Budget, ITEM, LARGEST, MADE, OPERAND, check_size, refuse, snapshot, weight};
use super::{json, slice, time};
use crate::error::TemplateProblem;
use minijinja::value::{Kwargs, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value, escape_formatter, filters, functions};
use minijinja_contrib::pycompat::unknown_method_callback;
use std::borrow::Cow;
use std::sync::Arc;

/// The filter that stands for a slice.
pub(super) const PART: &str = "minigpt_part";
/// The filter around both sides of a product.
pub(super) const FACTOR: &str = "minigpt_factor";

/// What no chat template needs.
const LEFT_OUT: [&str; 8] = ["batch", "chain", "format", "groupby", "pprint", "slice", "sum", "zip"];

pub(super) fn add_to(environment: &mut Environment<'_>, budget: &Arc<Budget>) {
    for name in LEFT_OUT {
        environment.remove_filter(name);
    }
    environment.remove_global("debug");
    let own = Arc::clone(budget);
    environment.add_filter(MADE, move |value: Value| own.made(value));
    let own = Arc::clone(budget);
    environment.add_filter(OPERAND, move |value: Value| own.operand(value));
    environment.add_filter(PART, slice::part);
    environment.add_filter(FACTOR, |value: Value| {
        if value.is_tuple() { refuse(TemplateProblem::MultipliedTuple) } else { Ok(value) }
    });
    let own = Arc::clone(budget);
    environment.add_filter("replace", move |value: Value, old: String, new: String| {
        replace(&own, &text(&value), &old, &new, usize::MAX)
    });
    let own = Arc::clone(budget);
    environment.add_filter("join", move |items: Value, between: Option<String>, kwargs: Kwargs| {
        let between = match between {
            Some(between) => between,
            None => kwargs.get::<Option<String>>("d")?.unwrap_or_default(),
        };
        let attribute = kwargs.get::<Option<String>>("attribute")?;
        kwargs.assert_all_used()?;
        join(&own, &items, &between, attribute.as_deref())
    });
    let own = Arc::clone(budget);
    let spent = move |value: Value| own.spend(value.as_str().map_or(0, str::len)).map(|()| value);
    environment.add_filter(
        "indent",
        move |value: Value,
              width: Option<usize>,
              first: Option<bool>,
              blank: Option<bool>,
              kwargs: Kwargs| {
            let width = width.or(kwargs.get("width")?).unwrap_or(4);
            let first = first.or(kwargs.get("first")?).unwrap_or(false);
            let blank = blank.or(kwargs.get("blank")?).unwrap_or(false);
            kwargs.assert_all_used()?;
            indent(&text(&value), width, first, blank).and_then(&spent)
        },
    );
    // What is not there has a length of 0, as Jinja2's undefined values have.
    for name in ["length", "count"] {
        environment.add_filter(
            name,
            |value: Value| if value.is_undefined() { Ok(0) } else { filters::length(&value) },
        );
    }
    let own = Arc::clone(budget);
    environment.add_filter("tojson", move |value: Value, indent: Option<usize>, kwargs: Kwargs| {
        let indent = indent.or(kwargs.get("indent")?);
        let separators = kwargs.get::<Option<Vec<String>>>("separators")?;
        let ascii = kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
        if ascii || kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false) {
            return refuse(TemplateProblem::JsonOptions);
        }
        kwargs.assert_all_used()?;
        let text = json::dumps(&value, indent, separators.as_deref())?;
        own.spend(text.len()).map(|()| text)
    });
    environment.add_function("strftime_now", |format: String| time::strftime_now(&format));
    environment.add_filter("list", |state: &State<'_, '_>, value: Value| {
        check_pieces(value.as_str().map_or(0, str::len))?;
        filters::list(state, value)
    });
    environment.add_filter("split", |value: Value, between: Option<Arc<str>>, most: Option<i64>| {
        check_pieces(pieces(&text(&value), between.as_deref()))?;
        filters::split(&value, between, most)
    });
    environment.add_filter("trim", |value: Value, edge: Option<String>| {
        strip(&text(&value), edge.as_deref(), true, true)
    });
    environment.add_filter("sort", |state: &State<'_, '_>, items: Value, kwargs: Kwargs| {
        check_sorting(&items)?;
        filters::sort(state, items, kwargs)
    });
    environment.add_filter("dictsort", |items: Value, kwargs: Kwargs| {
        check_sorting(&items)?;
        filters::dictsort(&items, kwargs)
    });
    let own = Arc::clone(budget);
    environment.add_test("in", move |state: &State<'_, '_>, item: Value, items: Value| {
        own.check_time()?;
        minijinja::tests::is_in(state, &item, &items)
    });
    environment.add_function("namespace", |values: Option<ValueOrKwargs>| match values {
        // None of its values may be another namespace.
        Some(values) => {
            let values = [snapshot(&values.into_value())?];
            functions::namespace(from_args::<(Option<ValueOrKwargs>,)>(&values)?.0)
        }
        None => functions::namespace(None),
    });
    environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    let own = Arc::clone(budget);
    environment.set_unknown_method_callback(move |state, value, method, args| {
        own.check_time()?;
        call_method(&own, state, value, method, args)
    });
    let own = Arc::clone(budget);
    environment.set_formatter(move |out, state, value| {
        own.written(value)?;
        escape_formatter(out, state, value)
    });
}

/// A value as text.
fn text(value: &Value) -> Cow<'_, str> {
    value.as_str().map_or_else(|| value.to_string().into(), Cow::from)
}

/// Python's methods.
fn call_method(
    budget: &Budget,
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let Some(text) = value.as_str() else { return unknown_method_callback(state, value, method, args) };
    match method {
        "replace" => {
            let (old, new, count): (&str, &str, Option<i64>) = from_args(args)?;
            let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
            replace(budget, text, old, new, count)
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            join(budget, items, text, None)
        }
        "strip" | "lstrip" | "rstrip" => {
            let (edge,): (Option<&str>,) = from_args(args)?;
            strip(text, edge, method != "rstrip", method != "lstrip")
        }
        "split" => {
            let (between, _): (Option<&str>, Option<Value>) = from_args(args)?;
            check_pieces(pieces(text, between))?;
            unknown_method_callback(state, value, method, args)
        }
        "format" => {
            check_format(text, args)?;
            unknown_method_callback(state, value, method, args)
        }
        _ => unknown_method_callback(state, value, method, args),
    }
}

fn replace(budget: &Budget, text: &str, old: &str, new: &str, count: usize) -> Result<Value, Error> {
    let found = text.matches(old).take(count).count();
    let length = text.len().saturating_add(found.saturating_mul(new.len()));
    check_size(length)?;
    budget.spend(length)?;
    Ok(Value::from(text.replacen(old, new, count)))
}

fn join(budget: &Budget, items: &Value, between: &str, attribute: Option<&str>) -> Result<Value, Error> {
    let mut joined = String::new();
    for (position, item) in items.try_iter()?.checked().enumerate() {
        if position > 0 {
            joined.push_str(between);
        }
        let item = item?;
        let item = match attribute {
            Some(attribute) => item.get_attr(attribute)?,
            None => item,
        };
        joined.push_str(&text(&item));
        check_size(joined.len())?;
    }
    budget.spend(joined.len())?;
    Ok(Value::from(joined))
}

fn strip(text: &str, edge: Option<&str>, start: bool, end: bool) -> Result<Value, Error> {
    if edge.is_some_and(|edge| edge.len() > 1000) {
        return refuse(TemplateProblem::StripsTooMuch);
    }
    let edge: Option<Vec<char>> = edge.map(|edge| edge.chars().collect());
    let goes = |c: char| edge.as_ref().map_or_else(|| c.is_whitespace(), |edge| edge.contains(&c));
    let text = if start { text.trim_start_matches(goes) } else { text };
    Ok(Value::from(if end { text.trim_end_matches(goes) } else { text }))
}

fn pieces(text: &str, between: Option<&str>) -> usize {
    between.map_or(0, |between| text.matches(between).count())
}

/// Whether a text may fall into so many values.
fn check_pieces(count: usize) -> Result<(), Error> {
    check_size(count.saturating_mul(ITEM))
}

/// Lines moved to the right, but for the first and for blank ones unless they are to be moved too.
fn indent(text: &str, width: usize, first: bool, blank: bool) -> Result<Value, Error> {
    // The margin is made even where no line gets it.
    check_size(text.len().saturating_add(width.saturating_mul(text.lines().count().max(1))))?;
    let margin = " ".repeat(width);
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let moved = if number == 0 { first } else { blank || !line.is_empty() };
        lines.push(if moved { format!("{margin}{line}") } else { line.to_owned() });
    }
    Ok(Value::from(lines.join("\n")))
}

/// Sorting may look at the longest of all items once for each of the others.
fn check_sorting(items: &Value) -> Result<(), Error> {
    let (mut longest, mut count) = (0, 0_usize);
    for item in items.try_iter()?.checked() {
        let item = item?;
        let under = if items.kind() == ValueKind::Map { weight(&items.get_item(&item)?)? } else { 0 };
        longest = longest.max(weight(&item)?).max(under);
        count += 1;
    }
    if count.saturating_mul(longest) > 32 * LARGEST { refuse(TemplateProblem::SortsTooMuch) } else { Ok(()) }
}

/// A format may ask for any width, and for an argument as often as it likes.
fn check_format(format: &str, args: &[Value]) -> Result<(), Error> {
    let fields = format.matches('{').count();
    let wide = format.as_bytes().windows(4).any(|four| four.iter().all(u8::is_ascii_digit));
    let nested = format.contains(":{");
    let mut largest = 4000;
    for arg in args {
        largest = largest.max(weight(arg)?);
    }
    if wide || nested || fields.saturating_mul(largest) > LARGEST {
        return refuse(TemplateProblem::FormatTooLarge);
    }
    Ok(())
}
