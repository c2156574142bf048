//! Generates `messages.rs` from the catalogues in `messages/en` and `messages/zh`: one struct per message, whose fields are
//! the arguments and whose `Display` renders it in the language of the run. A key or an argument that one language lacks
//! fails the build; a message that nothing constructs is dead code.
//!
//! A catalogue is a list of `key = text` entries. Indented lines continue the text on a new line. A text in double quotes
//! keeps the spaces at its ends.
//!
//! | in a text | renders |
//! |---|---|
//! | `\n`, `\\` | a line break, a backslash |
//! | `{name}`, `{loss:.3}` | the argument, with a format as in `format!` |
//! | `{files#}` | a `u64` with its digits grouped: `12,000` |
//! | `{files#file\|files}` | the same with a noun in the singular or plural: `1 file` |
//! | `{{`, `}}` | a brace |

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=messages");
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("messages");
    let (english, chinese) = (read_catalogue(&root.join("en")), read_catalogue(&root.join("zh")));
    let mut code = String::new();
    for (topic, messages) in &english {
        let translated = chinese.get(topic).unwrap_or_else(|| panic!("messages/zh/{topic}.txt is missing"));
        writeln!(code, "pub mod {topic} {{").expect("a string");
        for (key, text) in messages {
            let translation =
                translated.get(key).unwrap_or_else(|| panic!("messages/zh/{topic}.txt lacks {key}"));
            code.push_str(&message(&format!("{topic}: {key}"), key, text, translation));
        }
        code.push_str("}\n");
        if let Some(key) = translated.keys().find(|key| !messages.contains_key(*key)) {
            panic!("messages/en/{topic}.txt lacks {key}");
        }
    }
    if let Some(topic) = chinese.keys().find(|topic| !english.contains_key(*topic)) {
        panic!("messages/en/{topic}.txt is missing");
    }
    let out = env::var("OUT_DIR").expect("set by cargo");
    fs::write(Path::new(&out).join("messages.rs"), code).expect("OUT_DIR can be written");
}

/// The messages of a language by topic (the name of the file) and key. `help.txt` is read at run time instead.
fn read_catalogue(folder: &Path) -> BTreeMap<String, BTreeMap<String, String>> {
    let files = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = files.map(|file| file.expect("a readable folder").path());
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
    let topic = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    paths
        .filter(|path| topic(path) != "help")
        .map(|path| {
            let text =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (topic(&path), entries(&path, &text))
        })
        .collect()
}

fn entries(path: &Path, text: &str) -> BTreeMap<String, String> {
    let mut entries: BTreeMap<String, String> = BTreeMap::new();
    let mut last = None;
    for (number, line) in (1..).zip(text.lines()) {
        let at = format!("{}:{number}", path.display());
        if let Some(continued) = line.strip_prefix("    ") {
            let key: &String = last.as_ref().unwrap_or_else(|| panic!("{at}: nothing to continue"));
            let text = entries.get_mut(key).expect("the last entry");
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(continued);
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            let (key, text) = line.split_once('=').unwrap_or_else(|| panic!("{at}: expected `key = text`"));
            let key = key.trim().to_owned();
            let old = entries.insert(key.clone(), text.trim().to_owned());
            assert!(old.is_none(), "{at}: {key} is there twice");
            last = Some(key);
        }
    }
    entries.into_iter().map(|(key, text)| (key, unescaped(unquoted(&text)))).collect()
}

/// A text with line breaks for `\n` and a backslash for `\\`.
fn unescaped(text: &str) -> String {
    let parts = text.split("\\\\").map(|part| part.replace("\\n", "\n"));
    parts.collect::<Vec<_>>().join("\\")
}

fn unquoted(text: &str) -> &str {
    text.strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .filter(|text| !text.is_empty())
        .unwrap_or(text)
}

/// An argument of a message.
struct Argument {
    name: String,
    /// Rendered with grouped digits, possibly with a noun: a `u64`.
    is_count: bool,
    /// The trait of `std::fmt` that its format needs.
    bound: &'static str,
}

/// The trait that a format such as `.3` or `.1e` needs.
fn bound(spec: &str) -> &'static str {
    match spec.chars().last() {
        Some('e') => "LowerExp",
        Some('X') => "UpperHex",
        Some('x') => "LowerHex",
        Some('?') => "Debug",
        _ => "Display",
    }
}

/// A text as a format string, the expressions that fill it, and the arguments it names in order.
struct Format {
    string: String,
    values: Vec<String>,
    arguments: Vec<Argument>,
}

fn format_of(place: &str, text: &str) -> Format {
    let mut format = Format { string: String::new(), values: Vec::new(), arguments: Vec::new() };
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        format.string.push_str(&rest[..at]);
        if rest[at..].starts_with("{{") || rest[at..].starts_with("}}") {
            format.string.push_str(&rest[at..at + 2]);
            rest = &rest[at + 2..];
            continue;
        }
        let end = rest[at..].find('}').filter(|_| rest[at..].starts_with('{'));
        let end = at + end.unwrap_or_else(|| panic!("{place}: a brace without its partner"));
        let hole = &rest[at + 1..end];
        let (name, is_count, bound) = match hole.split_once('#') {
            Some((name, nouns)) => {
                format.values.push(match nouns.split_once('|') {
                    Some((one, many)) => format!("super::counted(*{name}, {one:?}, {many:?})"),
                    None => format!("super::grouped(*{name})"),
                });
                format.string.push_str("{}");
                (name, true, "Display")
            }
            None => {
                let (name, spec) = hole.split_once(':').unwrap_or((hole, ""));
                format.string.push_str(&format!("{{{hole}}}"));
                (name, false, bound(spec))
            }
        };
        match format.arguments.iter().find(|argument| argument.name == name) {
            Some(known) => assert!(known.is_count == is_count, "{place}: {name} with and without #"),
            None => format.arguments.push(Argument { name: name.to_owned(), is_count, bound }),
        }
        rest = &rest[end + 1..];
    }
    format.string.push_str(rest);
    format
}

/// The struct of a message and its `Display`.
fn message(place: &str, key: &str, english: &str, chinese: &str) -> String {
    let (english, chinese) = (format_of(place, english), format_of(place, chinese));
    for (one, other) in [(&english, &chinese), (&chinese, &english)] {
        let matches =
            |a: &Argument, b: &Argument| (&a.name, a.is_count, a.bound) == (&b.name, b.is_count, b.bound);
        let lacks = |argument: &&Argument| !other.arguments.iter().any(|known| matches(known, argument));
        if let Some(argument) = one.arguments.iter().find(lacks) {
            panic!("{place}: only one language has the argument {} of this kind", argument.name);
        }
    }
    let name: String = key.split('-').map(capitalized).collect();
    if english.arguments.is_empty() {
        return format!(
            r"
    #[derive(Debug, Clone, Copy)]
    pub struct {name};
    impl {name} {{
        pub fn text(self) -> &'static str {{
            self.text_in(super::current())
        }}
        fn text_in(self, language: super::Language) -> &'static str {{
            match language {{
                super::Language::En => {:?},
                super::Language::Zh => {:?},
            }}
        }}
    }}
    impl std::fmt::Display for {name} {{
        fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {{
            f.pad(self.text())
        }}
    }}
    impl super::Message for {name} {{
        fn fmt_in(&self, language: super::Language, f: &mut std::fmt::Formatter) -> std::fmt::Result {{
            f.write_str(self.text_in(language))
        }}
    }}
",
            rendered(&english.string),
            rendered(&chinese.string),
        );
    }
    let type_of = |argument: &Argument| {
        if argument.is_count { "u64".to_owned() } else { format!("T{}", capitalized(&argument.name)) }
    };
    let list = |of: &dyn Fn(&Argument) -> String, ending: &str| -> String {
        english.arguments.iter().map(|argument| of(argument) + ending).collect()
    };
    let generics = |of: &dyn Fn(&Argument) -> String| -> String {
        let types = english.arguments.iter().filter(|argument| !argument.is_count);
        types.map(|argument| of(argument) + ", ").collect()
    };
    let arm = |format: &Format| {
        let values: String = format.values.iter().map(|value| format!(", {value}")).collect();
        format!("f.write_fmt(format_args!({:?}{values}))", format.string)
    };
    format!(
        r"
    #[derive(Debug, Clone)]
    pub struct {name}<{types}> {{ {fields} }}
    impl<{bounds}> std::fmt::Display for {name}<{types}> {{
        fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {{
            super::Message::fmt_in(self, super::current(), f)
        }}
    }}
    impl<{bounds}> super::Message for {name}<{types}> {{
        fn fmt_in(&self, language: super::Language, f: &mut std::fmt::Formatter) -> std::fmt::Result {{
            let Self {{ {names} }} = self;
            match language {{
                super::Language::En => {},
                super::Language::Zh => {},
            }}
        }}
    }}
",
        arm(&english),
        arm(&chinese),
        types = generics(&type_of),
        bounds = generics(&|argument| format!("{}: std::fmt::{}", type_of(argument), argument.bound)),
        fields = list(&|argument| format!("pub {}: {}", argument.name, type_of(argument)), ", "),
        names = list(&|argument| argument.name.clone(), ", "),
    )
}

/// A format string without arguments as the text it renders.
fn rendered(format: &str) -> String {
    format.replace("{{", "{").replace("}}", "}")
}

/// `cut_at` or `cut` as a part of a type's name: `CutAt`, `Cut`.
fn capitalized(word: &str) -> String {
    let parts = word.split('_').map(|part| {
        let mut letters = part.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
            .unwrap_or_default()
    });
    parts.collect()
}
