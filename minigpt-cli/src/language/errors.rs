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

/// The texts of an error and of its causes, without those that only repeat the one before.
pub fn causes(error: &anyhow::Error) -> String {
    let (mut texts, between): (Vec<String>, _) = match current() {
        Language::En => (error.chain().map(ToString::to_string).collect(), ": "),
        Language::Zh => (error.chain().map(chinese::nested).collect(), "："),
    };
    texts.dedup();
    texts.join(between)
}
