//! Where in a configuration file something is wrong: line, column, and the line to look at.

use crate::error::Error;
use minigpt_charts::{cut, width};
use toml::de::{DeTable, DeValue};

/// The longest part of a line that is shown.
const COLUMNS: usize = 100;

/// An error of the parser, with its place.
pub(crate) fn of_syntax(text: &str, error: &toml::de::Error) -> Error {
    let cause = Error::Setting(error.message().to_owned());
    match error.span() {
        Some(span) => at(text, span.start, cause),
        None => cause,
    }
}

/// An error that names a setting or a section of the file, with its place; as it is where the file has no such thing.
pub(crate) fn of_setting(text: &str, cause: Error) -> Error {
    let message = cause.to_string();
    match DeTable::parse(text).ok().and_then(|table| find(table.get_ref(), &message)) {
        Some(offset) => at(text, offset, cause),
        None => cause,
    }
}

/// Where the first setting stands that a message names; otherwise the section that it names.
fn find(table: &DeTable, message: &str) -> Option<usize> {
    for (section, value) in table {
        let name: &str = section.get_ref();
        if message.contains(&format!("[{name}]")) || message.starts_with(&format!("{name} is not")) {
            return Some(section.span().start);
        }
        let DeValue::Table(settings) = value.get_ref() else { continue };
        let named = settings.iter().find(|(key, _)| names(message, &format!("{name}.{}", key.get_ref())));
        if let Some((key, _)) = named {
            return Some(key.span().start);
        }
    }
    None
}

/// Whether a message has this name in it, and not as the beginning of a longer one.
fn names(message: &str, name: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || c == '_';
    message.match_indices(name).any(|(at, _)| !message[at + name.len()..].starts_with(goes_on))
}

fn at(text: &str, offset: usize, cause: Error) -> Error {
    let before = text.get(..offset).unwrap_or(text);
    let begin = before.rfind('\n').map_or(0, |end| end + 1);
    let number = 1 + before.matches('\n').count();
    let line = text[begin..].lines().next().unwrap_or_default().replace('\t', " ");
    let prefix = &before[begin..];
    let (label, space) = (number.to_string(), " ".repeat(number.to_string().len()));
    let marker = if width(prefix) < COLUMNS {
        format!("\n  {space} | {}^", " ".repeat(width(prefix)))
    } else {
        String::new()
    };
    Error::Place {
        line: number,
        column: 1 + prefix.chars().count(),
        shown: format!("  {label} | {}{marker}", cut(&line, COLUMNS)),
        cause: Box::new(cause),
    }
}

#[cfg(test)]
mod tests {
    use crate::RunConfig;

    fn refused(text: &str) -> String {
        RunConfig::parse(text, &[]).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_have_line_and_column_and_show_the_line() {
        let unknown = refused("[data]\npath = \"a\"\n\n[train]\nbeta1 = 0.9\n  max_iter = 3\n");
        assert_eq!(
            unknown,
            "line 6, column 3: there is no setting train.max_iter; did you mean train.max_iters?\n  6 |   max_iter = 3\n    |   ^"
        );
        let syntax = refused("[data]\npath = 猫\n");
        assert!(
            syntax.starts_with("line 2, column 8: ") && syntax.contains("2 | path = 猫\n    |        ^"),
            "{syntax}"
        );
        assert!(
            refused("[data]\npath = \"a\"\n[train]\nbatch_size = 0")
                .starts_with("line 4, column 1: train.batch_size is 0")
        );
        assert!(refused("[training]\n").starts_with("line 1, column 2: there is no section [training]"));
        assert!(
            refused("[data]\npath = \"a\"\n[model]\nn_embd = 100")
                .starts_with("line 4, column 1: model.n_embd 100")
        );
    }

    /// The file has another value, which is not to blame.
    #[test]
    fn what_the_file_does_not_say_has_no_place_in_it() {
        let text = "[data]\npath = \"a\"\n[train]\nbatch_size = 3";
        let error = RunConfig::parse(text, &["train.batch_size=0".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("train.batch_size is 0"), "{error}");
    }
}
