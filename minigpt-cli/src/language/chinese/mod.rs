//! The libraries' messages in Chinese, one file per crate. A library's messages are typed and English by `Display`; each
//! `match` here names every variant, so that the compiler proves that none is missing.

mod charts;
mod chat;
mod command_line;
mod data;
mod files;
mod formats;
mod generate;
mod insight;
mod minigpt;
mod model;
mod scaling;
mod serve;
mod settings;
mod system;
mod tokenizer;
mod train;

pub use command_line::clap_error;
pub use minigpt::ready_config;
use std::error::Error;
use std::fmt::Display;
use std::io;

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
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return system::of_error(error);
    }
    match cause.downcast_ref::<ureq::Error>() {
        Some(ureq::Error::Io(error)) => return system::of_error(error),
        Some(ureq::Error::HostNotFound) => return Some("找不到主机".to_owned()),
        Some(ureq::Error::Timeout(_)) => return Some("超时".to_owned()),
        _ => {}
    }
    known!(
        cause,
        ::minigpt::Error,
        ::minigpt::SettingError,
        ::minigpt::chat::Error,
        ::minigpt::chat::TemplateCause,
        minigpt_data::BadRow,
        minigpt_data::Error,
        minigpt_files::Error,
        minigpt_files::ReadProblem,
        minigpt_formats::Error,
        minigpt_formats::gguf::UnknownFileType,
        minigpt_generate::Error,
        minigpt_insight::Error,
        minigpt_kernels::UnknownElementType,
        minigpt_model::Error,
        minigpt_model::UnknownSite,
        minigpt_scaling::Error,
        minigpt_serve::Error,
        minigpt_tokenizer::Error,
        minigpt_train::Error,
    );
    None
}

/// A message that follows a Chinese character: with a space in front if it begins with a Latin letter or a digit.
fn after_chinese(message: &impl Chinese) -> String {
    let text = message.chinese();
    if text.starts_with(|c: char| c.is_ascii_alphanumeric()) { format!(" {text}") } else { text }
}

/// An error in another one's text.
pub(super) fn nested(error: &(dyn Error + 'static)) -> String {
    of_error(error).unwrap_or_else(|| outside(&error.to_string()))
}

/// A text from another library, which exists in English only.
fn outside(text: &str) -> String {
    text.to_owned()
}
