//! What goes wrong beside the training itself. None of it ends a run: the model matters more than what is written about it.

use super::Error;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

/// A line of a log that is not a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Line number from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// Something that went wrong while the run goes on.
#[derive(Debug)]
pub enum Warning {
    /// A record, a picture or a copy of the model could not be written.
    NotRecorded(Error),
    /// The same for a folder of the run.
    NotKept(crate::Error),
    /// A log has lines that are not records.
    Damaged {
        /// The log.
        path: PathBuf,
        /// Those lines, at least one.
        damaged: Vec<Damage>,
        /// Where the log is kept as it was.
        copy: PathBuf,
    },
    /// A log was missing.
    Begun {
        /// The log.
        path: PathBuf,
    },
    /// Something in the run's folder was not what the run had written there.
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
    /// The run's folder was removed, and made again.
    Removed {
        /// The folder.
        path: PathBuf,
    },
    /// The run's folder is gone, and what stands in its place belongs to somebody else.
    Replaced {
        /// Where it was.
        path: PathBuf,
        /// Where the run goes on.
        to: PathBuf,
    },
}

impl Display for Warning {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Self::NotRecorded(error) => write!(f, "{}; the run goes on without it", with_causes(error)),
            Self::NotKept(error) => write!(f, "{}; the run goes on without it", with_causes(error)),
            Self::Damaged { path, damaged, copy } => {
                let (path, copy) = (path.display(), copy.display());
                match &damaged[..] {
                    [Damage { line, problem }] => write!(
                        f,
                        "{path}: line {line} is not a record ({problem}) and is left out; the file as it was is {copy}"
                    ),
                    damaged => {
                        let (count, line) = (damaged.len(), damaged.first().map_or(0, |first| first.line));
                        write!(
                            f,
                            "{path}: {count} lines, the first of them line {line}, are not records and are left out; the file as it was is {copy}"
                        )
                    }
                }
            }
            Self::Begun { path } => {
                write!(f, "{} is missing: it begins anew, without the steps before", path.display())
            }
            Self::SetAside { path, aside } => {
                let (path, aside) = (path.display(), aside.display());
                write!(f, "{path} is not what this run wrote there: it was moved to {aside}")
            }
            Self::Moved { from, to } => {
                write!(
                    f,
                    "the run's folder {} was moved: the run goes on in {}",
                    from.display(),
                    to.display()
                )
            }
            Self::Removed { path } => {
                write!(f, "the run's folder {} was removed: the run makes it again", path.display())
            }
            Self::Replaced { path, to } => {
                let (path, to) = (path.display(), to.display());
                write!(f, "{path} is another folder than the run's: the run goes on in {to}")
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
