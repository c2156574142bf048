//! How much a template may make. All of its values are measured when they are made, and none changes afterwards: lazy
//! sequences become lists, and a namespace is copied into a dictionary wherever it is used as a value. So a value can be
//! written, compared or freed at a cost that is known beforehand.

use crate::error::TemplateProblem;
use minijinja::functions::namespace;
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The filter around what an operation makes.
pub(super) const MADE: &str = "minigpt_made";
/// The filter around what an operation takes.
pub(super) const OPERAND: &str = "minigpt_operand";

/// Bytes of one value with all that lies inside, and of the text in the end.
pub(super) const LARGEST: usize = 8 << 20;
/// Bytes of everything that is made or written, however soon it is dropped.
const MOST: usize = 128 << 20;
/// What a value weighs beside its bytes.
pub(super) const ITEM: usize = 32;
/// How deep values may lie inside each other.
const DEEPEST: usize = 64;
const LONGEST: Duration = Duration::from_secs(3);

/// What one rendering has used.
#[derive(Debug)]
pub(super) struct Budget {
    made: AtomicUsize,
    start: Instant,
}

pub(super) fn refuse<T>(problem: TemplateProblem) -> Result<T, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, problem.to_string()).with_source(problem))
}

/// Whether a value of so many bytes may be made.
pub(super) fn check_size(bytes: usize) -> Result<(), Error> {
    if bytes > LARGEST { refuse(TemplateProblem::ValueTooLarge) } else { Ok(()) }
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { made: AtomicUsize::new(0), start: Instant::now() }
    }

    /// Takes bytes out of the budget.
    pub(super) fn spend(&self, bytes: usize) -> Result<(), Error> {
        let before = self.made.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > MOST {
            return refuse(TemplateProblem::TooMuch);
        }
        self.check_time()
    }

    /// Looks at the clock.
    pub(super) fn check_time(&self) -> Result<(), Error> {
        if self.start.elapsed() > LONGEST { refuse(TemplateProblem::TooSlow) } else { Ok(()) }
    }

    /// What an operation made, measured. A namespace stays one.
    pub(super) fn made(&self, value: Value) -> Result<Value, Error> {
        if is_namespace(&value) {
            self.check_time()?;
            return Ok(value);
        }
        let mut weight = 0;
        let settled = settle(&value, 0, &mut weight)?;
        // What is inside was paid for when it was made: the value itself is new.
        let value = settled.unwrap_or(value);
        self.spend(value.as_bytes().map_or_else(|| ITEM * value.len().unwrap_or(1), <[u8]>::len))?;
        Ok(value)
    }

    /// What an operation takes, as it is now.
    pub(super) fn operand(&self, value: Value) -> Result<Value, Error> {
        self.check_time()?;
        if changes(&value) { snapshot(&value) } else { Ok(value) }
    }

    /// What is written.
    pub(super) fn written(&self, value: &Value) -> Result<(), Error> {
        self.spend(weight(value)?)
    }
}

/// The bytes of a value with all that lies inside.
pub(super) fn weight(value: &Value) -> Result<usize, Error> {
    let mut weight = 0;
    settle(value, 0, &mut weight)?;
    Ok(weight)
}

fn type_name(value: &Value) -> Option<&'static str> {
    value.as_object().map(|object| object.type_name())
}

fn is_namespace(value: &Value) -> bool {
    static NAMESPACE: OnceLock<Option<&'static str>> = OnceLock::new();
    let namespace = NAMESPACE.get_or_init(|| type_name(&namespace(None).ok()?));
    namespace.is_some() && type_name(value) == *namespace
}

/// Whether a value is a mapping other than a dictionary: a namespace, or what the engine keeps about a loop or a macro.
fn changes(value: &Value) -> bool {
    static DICTIONARY: OnceLock<Option<&'static str>> = OnceLock::new();
    let dictionary = DICTIONARY.get_or_init(|| type_name(&Value::from_pairs([(0, 0)])));
    value.kind() == ValueKind::Map && type_name(value) != *dictionary
}

/// A value that can't change any more.
pub(super) fn snapshot(value: &Value) -> Result<Value, Error> {
    Ok(settle(value, 0, &mut 0)?.unwrap_or_else(|| value.clone()))
}

/// Adds the weight of a value, and gives what stands for it if it is lazy or may change, or holds such.
fn settle(value: &Value, depth: usize, weight: &mut usize) -> Result<Option<Value>, Error> {
    *weight += ITEM;
    *weight += value.as_bytes().map_or(0, <[u8]>::len);
    check_size(*weight)?;
    if depth > DEEPEST {
        return refuse(TemplateProblem::ValueTooDeep);
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            let mut changed = value.kind() == ValueKind::Iterable;
            let mut items = Vec::new();
            for item in value.try_iter()?.checked() {
                let item = item?;
                let settled = settle(&item, depth + 1, weight)?;
                changed |= settled.is_some();
                items.push(settled.unwrap_or(item));
            }
            let list = |items| {
                if value.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) }
            };
            Ok(changed.then(|| list(items)))
        }
        ValueKind::Map => {
            let mut changed = changes(value);
            let mut pairs = Vec::new();
            for key in value.try_iter()?.checked() {
                let key = key?;
                let item = value.get_item(&key)?;
                let [new_key, new_item] =
                    [settle(&key, depth + 1, weight)?, settle(&item, depth + 1, weight)?];
                changed |= new_key.is_some() || new_item.is_some();
                pairs.push((new_key.unwrap_or(key), new_item.unwrap_or(item)));
            }
            Ok(changed.then(|| Value::from_pairs(pairs)))
        }
        _ => Ok(None),
    }
}
