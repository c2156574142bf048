//! The sources keep their promises: one public name has one meaning, and libraries speak to library users.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Every crate has its own, so that `?` reads the same everywhere.
const EVERY_CRATES_OWN: [&str; 2] = ["Error", "Result"];

/// What every Rust program has in scope.
const PRELUDE: [&str; 27] = [
    "AsMut",
    "AsRef",
    "Box",
    "Clone",
    "Copy",
    "Default",
    "Drop",
    "Eq",
    "Err",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "Into",
    "Iterator",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Send",
    "Some",
    "String",
    "Sync",
    "Vec",
];

/// The sources of all libraries without their tests, by crate.
fn libraries() -> BTreeMap<String, Vec<(PathBuf, String)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let libraries = folders.filter(|folder| folder.join("src/lib.rs").exists()).map(|folder| {
        let mut files = Vec::new();
        collect(&folder.join("src"), &mut files);
        (folder.file_name().unwrap().to_string_lossy().into_owned(), files)
    });
    let libraries: BTreeMap<_, _> = libraries.collect();
    assert!(libraries.len() >= 10, "{:?}", libraries.keys());
    libraries
}

fn collect(folder: &Path, files: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).unwrap();
            let end = text
                .find("#[cfg(test)]\nmod tests {")
                .or_else(|| text.find("#[cfg(test)]\npub(crate) mod tests"))
                .or_else(|| text.find("\nmod tests {"));
            files.push((path, text[..end.unwrap_or(text.len())].to_owned()));
        }
    }
}

/// The types and traits that a file declares as public, outside of functions and nested modules.
fn public_names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (kind, rest) = line.strip_prefix("pub ")?.split_once(' ')?;
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        ["struct", "enum", "trait", "type", "union"].contains(&kind).then_some(name)
    })
}

#[test]
fn no_two_crates_have_a_public_type_of_the_same_name() {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (library, files) in libraries() {
        let mut names: Vec<&str> = files.iter().flat_map(|(_, text)| public_names(text)).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            owners.entry(name.to_owned()).or_default().push(library.clone());
        }
    }
    assert!(owners.len() > 100, "{owners:?}");
    let allowed = |name: &str| EVERY_CRATES_OWN.contains(&name);
    let shared: Vec<_> = owners.iter().filter(|(name, of)| of.len() > 1 && !allowed(name)).collect();
    assert!(shared.is_empty(), "public in more than one crate: {shared:?}");
    let shadowing: Vec<_> = owners.iter().filter(|(name, _)| PRELUDE.contains(&name.as_str())).collect();
    assert!(shadowing.is_empty(), "these shadow the prelude: {shadowing:?}");
}

/// The string literals of a source and where they begin; comments don't count.
fn strings(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(c) = rest.chars().next() {
        let at = text.len() - rest.len();
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(raw) = raw_end(rest) {
            found.push((at, &rest[..raw]));
            raw
        } else if c == '"' {
            let end = string_end(rest);
            found.push((at, &rest[..end]));
            end
        } else if let Some(length) = ["'\"'", "'\\''", "'\\\"'", "'\\\\'"]
            .iter()
            .find_map(|quote| rest.starts_with(quote).then_some(quote.len()))
        {
            length
        } else {
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

/// Where the string that begins a text ends.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            c => escaped = c == '\\' && !escaped,
        }
    }
    text.len()
}

/// Where the raw string that begins a text ends, if one does.
fn raw_end(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix('r')?.bytes().take_while(|&byte| byte == b'#').count();
    text[1 + hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let begin = 2 + hashes;
    Some(begin + text[begin..].find(&close)? + close.len())
}

/// Whether a text names an option such as `--force`.
fn names_an_option(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.windows(3).enumerate().any(|(at, w)| {
        let begins = at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'-');
        w.starts_with(b"--") && w[2].is_ascii_lowercase() && begins
    })
}

#[test]
fn libraries_do_not_speak_of_command_line_options() {
    let mut count = 0;
    for (path, text) in libraries().into_values().flatten() {
        for (at, string) in strings(&text) {
            count += 1;
            let line = || 1 + text[..at].matches('\n').count();
            assert!(!names_an_option(string), "{}:{}: {string}", path.display(), line());
        }
    }
    assert!(count > 1000, "only {count} strings were found");
}

#[test]
fn strings_are_found_where_they_are() {
    let text = "f(\"a \\\" b\"); // \"no\"\nlet c = '\"'; g(r#\"c\"d\"#, \"\", \"\\\\\", \"use\n --force\")";
    let found: Vec<&str> = strings(text).into_iter().map(|(_, string)| string).collect();
    assert_eq!(found, ["\"a \\\" b\"", "r#\"c\"d\"#", "\"\"", "\"\\\\\"", "\"use\n --force\""]);
    let named: Vec<bool> =
        ["use --force", "`--ids`", "a -- b", "model--of-2", "----a"].map(names_an_option).into();
    assert_eq!(named, [true, true, false, false, false]);
}
