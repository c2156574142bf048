//! The lines of a log that are kept: of a long log every second, fourth, … line, and all of its latest lines.

use super::growing::{Reader, Record};
use std::collections::VecDeque;
use std::sync::Arc;

/// Lines that are kept of one log, and their bytes.
pub(super) const MOST_LINES: usize = 6000;
const MOST_BYTES: usize = 4 << 20;
/// The latest lines, which are kept whole for clients that watch, and their bytes.
const LATEST: usize = 500;
const LATEST_BYTES: usize = 1 << 20;
/// Bytes of lines in one event.
const EVENT_BYTES: usize = 64 << 10;

/// Things of which every second, fourth, … is kept as they become many.
#[derive(Debug)]
pub(super) struct Thinned<T> {
    pub kept: Vec<(u64, T)>,
    pub stride: u64,
}

impl<T> Default for Thinned<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), stride: 1 }
    }
}

impl<T> Thinned<T> {
    pub fn halve(&mut self, stays: impl Fn(&T) -> bool) {
        self.stride = self.stride.saturating_mul(2);
        let stride = self.stride;
        self.kept.retain(|(number, thing)| number.is_multiple_of(stride) || stays(thing));
    }
}

/// A line of a log.
#[derive(Debug, Clone)]
struct Line {
    step: Option<u64>,
    /// Whether it has a validation loss: it stays longer than others.
    validates: bool,
    text: Arc<str>,
}

/// The lines of a log, as far as they are kept.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// How often the log was begun anew.
    pub generation: u64,
    pub count: u64,
    kept: Thinned<Line>,
    /// There are so many lines with a validation loss that they are thinned, too.
    alike: bool,
    kept_bytes: usize,
    latest: VecDeque<(u64, Line)>,
    latest_bytes: usize,
}

impl Reader for Lines {
    fn clear(&mut self) {
        *self = Self { generation: self.generation + 1, ..Self::default() };
    }

    fn line(&mut self, text: &str, record: &Record) {
        let number = self.count;
        self.count += 1;
        let step = record.step.map(|step| step as u64);
        let line = Line { step, validates: record.val_loss.is_some(), text: text.into() };
        self.latest_bytes += text.len();
        self.latest.push_back((number, line.clone()));
        while self.latest.len() > LATEST || self.latest_bytes > LATEST_BYTES {
            let Some((_, line)) = self.latest.pop_front() else { break };
            self.latest_bytes -= line.text.len();
        }
        if number.is_multiple_of(self.kept.stride) || (line.validates && !self.alike) {
            self.kept_bytes += text.len();
            self.kept.kept.push((number, line));
        }
        while self.kept.kept.len() > MOST_LINES || self.kept_bytes > MOST_BYTES {
            let before = self.kept.kept.len();
            let alike = self.alike;
            self.kept.halve(|line| line.validates && !alike);
            self.alike |= self.kept.kept.len() > before * 3 / 4;
            self.kept_bytes = self.kept.kept.iter().map(|(_, line)| line.text.len()).sum();
        }
    }
}

/// How far a client has been told about a log.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    /// None before anything was told.
    generation: Option<u64>,
    next: u64,
    /// Lines up to this step are known already, whatever their number.
    known: Option<u64>,
}

impl Position {
    /// Nothing was told, but the client knows the lines up to a step.
    pub fn behind(step: u64) -> Self {
        Self { known: Some(step), ..Self::default() }
    }
}

impl Lines {
    pub fn bytes(&self) -> usize {
        self.kept_bytes + self.latest_bytes
    }

    /// All that is kept, in order, with the last line.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        let last = self
            .latest
            .back()
            .filter(|(number, _)| self.kept.kept.last().is_none_or(|(kept, _)| kept < number));
        self.kept.kept.iter().chain(last).map(|(_, line)| &*line.text)
    }

    /// Lines from a number on: the latest all, older ones as far as they are kept.
    fn from(&self, next: u64) -> impl Iterator<Item = &(u64, Line)> {
        let latest = self.latest.front().map_or(self.count, |(number, _)| *number);
        let kept = self.kept.kept.iter().filter(move |(number, _)| (next..latest).contains(number));
        kept.chain(self.latest.iter().filter(move |(number, _)| *number >= next))
    }

    /// The next lines behind a position, which moves on: as many as fit an event. Says whether the log was begun anew.
    pub fn next(&self, position: &mut Position) -> (Vec<Arc<str>>, bool) {
        let generation = Some(self.generation);
        let anew = position.generation.is_some() && position.generation != generation;
        if anew {
            *position = Position::default();
        }
        position.generation = generation;
        let (mut lines, mut bytes) = (Vec::new(), 0);
        for (number, line) in self.from(position.next) {
            if bytes > 0 && bytes + line.text.len() > EVENT_BYTES {
                return (lines, anew);
            }
            position.next = number + 1;
            if position.known.is_none_or(|known| line.step.is_some_and(|step| step > known)) {
                bytes += line.text.len();
                lines.push(Arc::clone(&line.text));
            }
        }
        (position.next, position.known) = (self.count, None);
        (lines, anew)
    }
}

/// Lines of JSON as a list.
pub(super) fn list<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut list = String::from("[");
    for line in lines {
        if list.len() > 1 {
            list.push(',');
        }
        list.push_str(line);
    }
    list.push(']');
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_log_holds_what_is_kept_of_it_is_bounded() {
        for (text, validates) in
            [("{}", false), ("{}", true), (&*format!("{{\"a\":\"{}\"}}", "x".repeat(9000)), true)]
        {
            let mut lines = Lines::default();
            let count = 30_000u64;
            for step in 0..count {
                let val_loss = validates.then_some(1.0);
                lines.line(text, &Record { step: Some(step as f64), val_loss, ..Record::default() });
                assert!(lines.kept.kept.len() <= MOST_LINES && lines.kept_bytes <= MOST_BYTES);
                assert!(lines.latest.len() <= LATEST && lines.latest_bytes <= LATEST_BYTES);
            }
            // A client that comes late gets what is kept, in events of a bounded size.
            let mut position = Position::behind(count - 4);
            assert_eq!(lines.next(&mut position).0.len(), 3);
            let (mut position, mut told) = (Position::default(), 0);
            loop {
                let (news, _) = lines.next(&mut position);
                assert!(news.iter().map(|line| line.len()).sum::<usize>() <= EVENT_BYTES);
                if news.is_empty() {
                    break;
                }
                told += news.len();
            }
            assert!(told >= lines.kept.kept.len() && told <= MOST_LINES + LATEST, "{told}");
        }
    }
}
