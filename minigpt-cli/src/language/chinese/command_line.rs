//! clap's errors in Chinese, from their kinds and contexts.

use super::nested;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// A page of help as it is, or an error with its tips and the command's usage.
pub fn clap_error(error: &Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(" "),
        Some(ContextValue::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    let (argument, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    let custom = text(ContextKind::Custom);
    let said = match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => return error.to_string(),
        // An error of our own is all message.
        _ if error.context().count() == 1 && !custom.is_empty() => return format!("错误：{custom}"),
        ErrorKind::InvalidValue if value.is_empty() => format!("'{argument}' 需要一个值"),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error);
            let why = why.map(nested);
            format!(
                "'{argument}' 的值 '{value}' 无效{}",
                why.map(|why| format!("：{why}")).unwrap_or_default()
            )
        }
        ErrorKind::UnknownArgument => format!("多余的参数 '{argument}'"),
        ErrorKind::InvalidSubcommand => format!("没有 '{}' 这个命令", text(ContextKind::InvalidSubcommand)),
        ErrorKind::NoEquals => format!("给 '{argument}' 赋值要用等号"),
        ErrorKind::TooManyValues => format!("'{argument}' 不接受值 '{value}'"),
        ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            let (expected, actual) =
                (text(ContextKind::ExpectedNumValues), text(ContextKind::ActualNumValues));
            format!("'{argument}' 需要 {expected} 个值，但给了 {actual} 个")
        }
        ErrorKind::ArgumentConflict => match text(ContextKind::PriorArg) {
            prior if prior.is_empty() || prior == argument => format!("'{argument}' 不能使用多次"),
            prior => format!("'{argument}' 不能与 '{prior}' 一起使用"),
        },
        ErrorKind::MissingRequiredArgument => format!("缺少必需的参数：{argument}"),
        ErrorKind::MissingSubcommand => "缺少子命令".to_owned(),
        ErrorKind::InvalidUtf8 => "有参数不是 UTF-8 文本".to_owned(),
        _ => "命令行有误".to_owned(),
    };
    let mut lines = vec![format!("错误：{said}")];
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue)
        && !values.is_empty()
    {
        lines.push(format!("  [可选值：{}]", values.join("、")));
    }
    let similar = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    for similar in similar.into_iter().map(text).filter(|similar| !similar.is_empty()) {
        lines.push(format!("\n  提示：您是不是想写 '{similar}'？"));
    }
    if !custom.is_empty() {
        lines.push(format!("\n  提示：{custom}"));
    }
    if let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) {
        lines.push(format!("\n用法：{}", usage.to_string().trim_start_matches("Usage: ")));
    }
    lines.push("\n更多说明见 '--help'。".to_owned());
    lines.join("\n")
}
