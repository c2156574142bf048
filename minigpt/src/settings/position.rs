//! Where in a configuration file something is: line, column, and the line to look at.

use super::SettingError;
use crate::error::Error;
use minigpt_charts::{cut, width};
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

/// The longest part of a line that is shown.
const COLUMNS: usize = 100;

/// A syntax error with its place.
pub(super) fn of_syntax(text: &str, error: &toml::de::Error) -> Error {
    let cause = SettingError::Syntax(error.message().to_owned());
    match error.span() {
        Some(span) => place(text, span.start, cause),
        None => cause.into(),
    }
}

/// The offsets in a file of its sections (`train`) and settings (`train.max_iters`).
pub(super) fn of_settings(text: &str) -> BTreeMap<String, usize> {
    let mut offsets = BTreeMap::new();
    let Ok(table) = DeTable::parse(text) else { return offsets };
    for (section, value) in table.get_ref() {
        offsets.insert(section.get_ref().to_string(), section.span().start);
        let DeValue::Table(settings) = value.get_ref() else { continue };
        for (key, _) in settings {
            offsets.insert(format!("{}.{}", section.get_ref(), key.get_ref()), key.span().start);
        }
    }
    offsets
}

/// An error with its place in the text, and the line as it stands there.
pub(super) fn place(text: &str, offset: usize, cause: SettingError) -> Error {
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
            "line 6, column 3: unknown setting train.max_iter; did you mean train.max_iters?\n  6 |   max_iter = 3\n    |   ^"
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
        assert!(refused("[training]\n").starts_with("line 1, column 2: unknown section [training]"));
        assert!(
            refused("[data]\npath = \"a\"\n[model]\nn_embd = 100")
                .starts_with("line 4, column 1: model.n_embd 100")
        );
    }

    /// Regression: the place of `[model]`, which the message names as one that there is, was that of the error.
    #[test]
    fn the_line_is_that_of_what_is_wrong_and_not_of_what_would_be_right() {
        let line = |text: &str| {
            let error = refused(text);
            let rest = error.strip_prefix("line ").unwrap_or_else(|| panic!("{error}"));
            rest.split(',').next().unwrap().parse::<usize>().unwrap()
        };
        let start = "[model]\nn_layer = 2\n[data]\npath = \"a\"\n";
        assert_eq!(line(&format!("{start}[modle]\nn_head = 2\n")), 5);
        assert_eq!(line(&format!("{start}modle = 3\n[train]\nmax_iters = 3\n")), 5);
        assert_eq!(line("[train]\nmax_iters = 3\nmax_iter = 3\n[data]\npath = \"a\"\n"), 3);
        assert_eq!(line("[model]\nn_head = 7\nn_embd = 64\n[data]\npath = \"a\"\n"), 3);
        assert_eq!(line(&format!("{start}[train]\noptimizer = \"model.n_layer\"\n")), 6);
        assert_eq!(line(&format!("{start}[train]\nmin_lr = 0.1\nlearning_rate = -1\n")), 7);
        assert_eq!(line(&format!("train = 3\n{start}")), 1);
        assert_eq!(line("[data]\npath = \"a\"\n[model]\nn_layer = 2\npreset = \"gpt9\"\n"), 5);
        assert_eq!(line("data.path = \"a\"\ntrain.seed = 1\ntrain.sed = 1\n"), 3);
        assert_eq!(line("[data]\npath = \"a\"\n[train]\nmax_iters = 3\nepochs = 2\n"), 5);
    }

    /// A change that is wrong has no line, and what is wrong in the file has its own whatever the changes are.
    #[test]
    fn changes_and_the_file_are_told_apart() {
        let said = |text: &str, change: &str| {
            [RunConfig::parse(text, &[change.to_owned()]), RunConfig::parse_open(text, &[change.to_owned()])]
                .map(|config| config.unwrap_err().to_string().lines().next().unwrap_or_default().to_owned())
        };
        let text = "[data]\npath = \"a\"\n[train]\nbatch_size = 3\n";
        for error in said(text, "train.batch_size=0") {
            assert!(error.starts_with("train.batch_size is 0"), "{error}");
        }
        for error in said(&format!("{text}max_iter = 3\n"), "train.batch_size=0") {
            assert!(error.starts_with("line 5, column 1: unknown setting train.max_iter"), "{error}");
        }
        for error in said("[train]\nbatch_size = 3\n", "train.batch_size=0") {
            assert!(error.contains("data.path is not set"), "{error}");
        }
        assert!(RunConfig::parse("", &["data.path=a".to_owned()]).is_ok());
    }

    /// The file has another value, which is not to blame.
    #[test]
    fn what_the_file_does_not_say_has_no_place_in_it() {
        let text = "[data]\npath = \"a\"\n[train]\nbatch_size = 3";
        let error = RunConfig::parse(text, &["train.batch_size=0".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("train.batch_size is 0"), "{error}");
    }
}
