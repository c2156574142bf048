//! Problems other than those of training itself. None of them ends a run: the model matters more than its records.

use super::Error;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

/// A line of a log that is not a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedLine {
    /// Line number from 1.
    pub line: usize,
    /// The parser's message.
    pub problem: String,
}

/// A problem that does not end the run.
#[derive(Debug)]
pub enum Warning {
    /// A record, a picture or a copy of the model could not be written.
    NotRecorded(Error),
    /// A folder of the run could not be kept.
    NotKept(crate::Error),
    /// A log has lines that are not records.
    Damaged {
        /// The log.
        path: PathBuf,
        /// Those lines, at least one.
        damaged: Vec<DamagedLine>,
        /// The copy of the log as it was.
        copy: PathBuf,
    },
    /// A log was missing.
    Begun {
        /// The log.
        path: PathBuf,
    },
    /// A file in the run's folder was not written by the run.
    SetAside {
        /// Where it was.
        path: PathBuf,
        /// Where it is now.
        aside: PathBuf,
    },
    /// The run's folder was moved.
    Moved {
        /// Where it was.
        from: PathBuf,
        /// Where it is now.
        to: PathBuf,
    },
    /// The run's folder was removed, and created again.
    Removed {
        /// The folder.
        path: PathBuf,
    },
    /// The run's folder is gone, and another folder has its path.
    Replaced {
        /// Where it was.
        path: PathBuf,
        /// Where the run continues.
        to: PathBuf,
    },
}

impl Display for Warning {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Self::NotRecorded(error) => write!(f, "{}; the run continues without it", with_causes(error)),
            Self::NotKept(error) => write!(f, "{}; the run continues without it", with_causes(error)),
            Self::Damaged { path, damaged, copy } => {
                let (path, copy) = (path.display(), copy.display());
                match &damaged[..] {
                    [DamagedLine { line, problem }] => write!(
                        f,
                        "{path}: line {line} is not a record ({problem}) and was left out; the original file is {copy}"
                    ),
                    damaged => {
                        let (count, line) = (damaged.len(), damaged.first().map_or(0, |first| first.line));
                        write!(
                            f,
                            "{path}: {count} lines, starting with line {line}, are not records and were left out; the original file is {copy}"
                        )
                    }
                }
            }
            Self::Begun { path } => {
                write!(f, "{} is missing: a new one is started, without the earlier steps", path.display())
            }
            Self::SetAside { path, aside } => {
                let (path, aside) = (path.display(), aside.display());
                write!(f, "{path} was not written by this run: it was moved to {aside}")
            }
            Self::Moved { from, to } => {
                write!(
                    f,
                    "the run's folder {} was moved: the run continues in {}",
                    from.display(),
                    to.display()
                )
            }
            Self::Removed { path } => {
                write!(f, "the run's folder {} was removed: the run creates it again", path.display())
            }
            Self::Replaced { path, to } => {
                let (path, to) = (path.display(), to.display());
                write!(f, "{path} is not the run's folder any more: the run continues in {to}")
            }
        }
    }
}

/// An error with its causes, except those whose text it already has.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = next.source();
    }
    text
}
