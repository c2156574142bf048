//! The libraries' messages in Chinese, one file per crate. A library's messages are typed and English by `Display`; each
//! `match` here names every variant, so that the compiler proves that none is missing.

mod command_line;
mod formats;
mod model;
mod scaling;

pub use command_line::clap_error;
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

/// One cause of an error in Chinese, if it is one of ours.
pub(super) fn of_error(cause: &(dyn Error + 'static)) -> Option<String> {
    known!(
        cause,
        minigpt_formats::Error,
        minigpt_formats::gguf::UnknownFileType,
        minigpt_kernels::UnknownElementType,
        minigpt_model::Error,
        minigpt_model::UnknownSite,
        minigpt_scaling::Error,
    );
    None
}
