//! Errors as the user reads them.

use super::{Language, chinese, current};

/// An error with all of its causes.
pub fn error(error: &anyhow::Error) -> String {
    labeled_error(&causes(error))
}

/// The text of an error with its label.
pub fn labeled_error(text: &str) -> String {
    match current() {
        Language::En => format!("error: {text}"),
        Language::Zh => format!("错误：{text}"),
    }
}

/// The texts of an error and of its causes.
pub fn causes(error: &anyhow::Error) -> String {
    match current() {
        Language::En => format!("{error:#}"),
        Language::Zh => error.chain().map(chinese::nested).collect::<Vec<_>>().join("："),
    }
}
