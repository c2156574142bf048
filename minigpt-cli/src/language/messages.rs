//! Messages of this program: a key with its arguments, as declared in `messages/en` and `messages/zh` (`build.rs` says how).
//! A message renders itself in the language of the run, wherever it is displayed:
//!
//! ```ignore
//! use crate::language::messages::train as message;
//!
//! output::note(&message::CutExamples { cut: 550, total: 800, length: 40 });
//! bail!(message::NoRun { path: out.display() });
//! ```

use super::{Language, current};
use std::fmt;

/// A message that can be rendered in either language.
pub trait Message {
    /// Renders the message in this language, whatever that of the run is.
    fn fmt_in(&self, language: Language, f: &mut fmt::Formatter) -> fmt::Result;
}

/// A message in English, for programs and files.
pub fn english(message: &impl Message) -> String {
    struct English<'a, M>(&'a M);
    impl<M: Message> fmt::Display for English<'_, M> {
        fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
            self.0.fmt_in(Language::En, f)
        }
    }
    English(message).to_string()
}

/// A number with its digits grouped.
fn grouped(number: u64) -> String {
    minigpt_charts::count(number)
}

/// A number with its noun.
fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

include!(concat!(env!("OUT_DIR"), "/messages.rs"));
