//! Lines and rows that could not be used: all are counted, the first few kept with line number and reason.

use crate::bad_row::BadRow;
use crate::error::Error;
use crate::name::DataName;
use serde::Serialize;
use std::fmt;

/// Bad lines that are kept with their reason.
const KEPT: usize = 20;

/// The lines of a file that could not be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BadLines {
    /// How many lines were bad.
    pub total: u64,
    /// How many lines contained only white space: skipped too, but not an error.
    pub blank: u64,
    /// The first bad ones.
    pub first: Vec<BadLine>,
}

/// One line that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadLine {
    /// Counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: BadRow,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl BadLines {
    pub(crate) fn add(&mut self, line: u64, reason: BadRow) {
        self.total += 1;
        if self.first.len() < KEPT {
            self.first.push(BadLine { line, reason });
        }
    }

    /// Adds those of another file.
    pub(crate) fn append(&mut self, other: Self) {
        self.total += other.total;
        self.blank += other.blank;
        self.first.extend(other.first);
        self.first.truncate(KEPT);
    }

    /// The error of a file in which nothing could be used.
    pub(crate) fn into_error(self, name: &DataName) -> Error {
        Error::NoValidLine {
            name: name.clone(),
            bad: self.total,
            blank: self.blank,
            first: self.first.into_iter().next().map(Box::new),
        }
    }
}
