//! The catalogue: gettext's format, which translators have tools for. Only `msgid`, `msgstr` and comments are used.

use super::template::Template;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The files by subject; `others` has what dependencies and the system say.
pub(super) const FILES: [(&str, &str); 4] = [
    ("commands", include_str!("../../messages/commands.zh.po")),
    ("inspect", include_str!("../../messages/inspect.zh.po")),
    ("libraries", include_str!("../../messages/libraries.zh.po")),
    ("others", include_str!("../../messages/others.zh.po")),
];

pub(super) static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    let entries_of = |(file, text): &(&str, &str)| {
        let others = *file == "others";
        entries(text).into_iter().map(move |(english, chinese)| Entry { english, chinese, others })
    };
    Catalogue::new(FILES.iter().flat_map(entries_of).collect())
});

struct Entry {
    english: String,
    chinese: String,
    others: bool,
}

/// English keys with their Chinese.
pub(super) struct Catalogue {
    exact: HashMap<String, String>,
    /// Those without holes, as they are said.
    plain: HashMap<String, String>,
    /// Those that a message is recognised by, the surest first.
    templates: Vec<(Template, Template)>,
}

impl Catalogue {
    fn new(entries: Vec<Entry>) -> Self {
        let mut templates = Vec::new();
        let (mut exact, mut plain) = (HashMap::new(), HashMap::new());
        for Entry { english, chinese, others } in entries {
            let (from, to) = (Template::parse(&english), Template::parse(&chinese));
            if !from.has_holes() {
                plain.insert(from.fill(&[]), to.fill(&[]));
            }
            // What others say may be short, but nobody lays it out.
            if others || from.is_telling() {
                templates.push((from, to));
            }
            exact.insert(english, chinese);
        }
        templates.sort_by_key(|(english, _)| std::cmp::Reverse(english.fixed()));
        Self { exact, plain, templates }
    }

    /// The Chinese of a text without holes.
    pub(super) fn plain(&self, text: &str) -> Option<&str> {
        self.plain.get(text).map(String::as_str)
    }

    /// The Chinese of a key.
    pub(super) fn exact(&self, key: &str) -> Option<&str> {
        self.exact.get(key).map(String::as_str)
    }

    /// The Chinese template that a message fits, and what stands in its holes.
    pub(super) fn find(&self, message: &str) -> Option<Found<'_>> {
        self.templates.iter().find_map(|(english, chinese)| {
            // Most are ruled out by this, at once.
            let values = english.may_be(message).then(|| english.values(message)).flatten()?;
            Some(Found { chinese, values, fixed: english.fixed() })
        })
    }
}

/// A message that was recognised.
pub(super) struct Found<'a> {
    pub(super) chinese: &'a Template,
    pub(super) values: Vec<(String, String)>,
    /// How much of it is fixed.
    pub(super) fixed: usize,
}

/// The entries of a file.
pub(super) fn entries(text: &str) -> Vec<(String, String)> {
    let (mut entries, mut translated): (Vec<(String, String)>, bool) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(id) = line.strip_prefix("msgid ") {
            entries.push((unquoted(id), String::new()));
            translated = false;
        } else if let Some((entry, line)) = entries.last_mut().zip(line.strip_prefix("msgstr ")) {
            entry.1 = unquoted(line);
            translated = true;
        } else if let (Some(entry), true) = (entries.last_mut(), line.starts_with('"')) {
            let side = if translated { &mut entry.1 } else { &mut entry.0 };
            side.push_str(&unquoted(line));
        }
    }
    // The first one describes the file.
    entries.retain(|(english, _)| !english.is_empty());
    entries
}

fn unquoted(line: &str) -> String {
    let inside = line.trim().strip_prefix('"').and_then(|line| line.strip_suffix('"')).unwrap_or_default();
    let (mut text, mut characters) = (String::new(), inside.chars());
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => {}
            },
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_gettext_reads_it() {
        let text = "msgid \"\"\nmsgstr \"Language: zh\\n\"\n\n# why\nmsgid \"a \\\"b\\\"\"\nmsgstr \"甲\\n\"\n\
                    \"乙\"\n\nmsgid \"c\"\n\" d\"\nmsgstr \"丙\"\n";
        let entry = |english: &str, chinese: &str| (english.to_owned(), chinese.to_owned());
        assert_eq!(entries(text), [entry("a \"b\"", "甲\n乙"), entry("c d", "丙")]);
    }
}
