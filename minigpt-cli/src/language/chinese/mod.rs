//! The libraries' messages in Chinese, one file per crate. A library's messages are typed and English by `Display`; each
//! `match` here names every variant, so that the compiler proves that none is missing.

mod chat;
mod formats;
mod generate;
mod insight;
mod minigpt;
mod model;
mod scaling;
mod settings;
mod tokenizer;

use super::translated;
use std::error::Error;
use std::fmt::Display;

/// A message of a library that exists in Chinese.
pub trait Chinese: Display {
    /// The message in Chinese.
    fn chinese(&self) -> String;
}

impl<T: Chinese + ?Sized> Chinese for &T {
    fn chinese(&self) -> String {
        (**self).chinese()
    }
}

impl<T: Chinese + ?Sized> Chinese for Box<T> {
    fn chinese(&self) -> String {
        (**self).chinese()
    }
}

/// Types of errors that have a Chinese text.
macro_rules! known {
    ($cause:ident, $($error:ty),* $(,)?) => {
        $(if let Some(error) = $cause.downcast_ref::<$error>() {
            return Some(error.chinese());
        }
        if let Some(error) = $cause.downcast_ref::<Box<$error>>() {
            return Some(error.chinese());
        })*
    };
}

/// The error of another crate inside of one of these, in Chinese.
fn of_source(error: &(dyn Error + 'static)) -> String {
    of_error(error).unwrap_or_else(|| translated(&error.to_string()).into_owned())
}

/// One cause of an error in Chinese, if it is one of ours.
pub(super) fn of_error(cause: &(dyn Error + 'static)) -> Option<String> {
    known!(
        cause,
        ::minigpt::Error,
        ::minigpt::SettingError,
        ::minigpt::chat::Error,
        ::minigpt::chat::TemplateCause,
        minigpt_formats::Error,
        minigpt_formats::gguf::UnknownFileType,
        minigpt_generate::Error,
        minigpt_insight::Error,
        minigpt_kernels::UnknownElementType,
        minigpt_model::Error,
        minigpt_model::UnknownSite,
        minigpt_scaling::Error,
        minigpt_tokenizer::Error,
    );
    None
}

/// A message that is not typed yet.
fn of_text(text: &str) -> String {
    translated(text).into_owned()
}
