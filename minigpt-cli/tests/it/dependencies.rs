//! `deny.toml`, held against the dependencies: their licences, their sources, and versions that are there twice.
//!
//! The same as the offline parts of cargo-deny, which takes five minutes to compile and is run only where it is there.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn deny() -> toml::Table {
    fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

fn texts(list: &toml::Value, key: Option<&str>) -> BTreeSet<String> {
    let text = |entry: &toml::Value| key.map_or(entry, |key| &entry[key]).as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(text).collect()
}

/// A dependency as cargo knows it.
struct Package {
    name: String,
    version: String,
    licence: String,
    source: Option<String>,
}

/// Everything that the binary and its tests are made of on the first target of `deny.toml`.
fn packages() -> Vec<Package> {
    let target = deny()["graph"]["targets"][0].as_str().unwrap().to_owned();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = Command::new(cargo)
        .args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", &target])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let package = |package: &Value| Package {
        name: text(&package["name"]).unwrap(),
        version: text(&package["version"]).unwrap(),
        licence: text(&package["license"]).unwrap_or_default(),
        source: text(&package["source"]),
    };
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}

/// Whether an expression such as `(MIT OR Apache-2.0) AND ISC` can be met with these licences alone.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    either(&mut rest, allowed) && rest.is_empty()
}

fn either(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut met = both(words, allowed);
    while words.first() == Some(&"OR") {
        *words = &words[1..];
        met |= both(words, allowed);
    }
    met
}

fn both(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, allowed);
    while words.first() == Some(&"AND") {
        *words = &words[1..];
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    match words {
        ["(", rest @ ..] => {
            *words = rest;
            let met = either(words, allowed);
            let closed = words.first() == Some(&")");
            *words = words.get(1..).unwrap_or_default();
            met && closed
        }
        [licence, "WITH", exception, rest @ ..] => {
            *words = rest;
            allowed.contains(&format!("{licence} WITH {exception}"))
        }
        [licence, rest @ ..] => {
            *words = rest;
            allowed.contains(*licence)
        }
        [] => false,
    }
}

#[test]
fn expressions_of_licences_are_understood() {
    let allowed = ["MIT", "ISC"].map(str::to_owned).into();
    for good in ["MIT", "GPL-3.0 OR MIT", "X/MIT", "(X OR MIT) AND ISC", "MIT AND ISC", "X WITH Y OR MIT"] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in ["", "X", "MIT AND X", "(X OR MIT) AND X", "X OR MIT AND X", "MIT WITH X", "(MIT", "MIT ISC"] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn dependencies_are_those_that_deny_toml_allows() {
    let (deny, packages) = (deny(), packages());
    assert!(packages.len() > 100, "{}", packages.len());

    let allowed = texts(&deny["licenses"]["allow"], None);
    for Package { name, licence, .. } in &packages {
        assert!(is_allowed(licence, &allowed), "{name} has the licence {licence:?}");
    }

    let sources: BTreeSet<&String> = packages.iter().filter_map(|package| package.source.as_ref()).collect();
    assert!(
        sources.len() == 1 && sources.iter().all(|source| source.starts_with("registry+")),
        "{sources:?}"
    );

    let banned = texts(&deny["bans"]["deny"], Some("crate"));
    assert!(!packages.iter().any(|package| banned.contains(&package.name)), "one of {banned:?} is used");

    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &packages {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let skipped = texts(&deny["bans"]["skip"], Some("crate"));
    let skips = |name: &str, version: &str| skipped.contains(&format!("{name}@{version}"));
    for (name, versions) in &versions {
        let left = versions.iter().filter(|version| versions.len() > 1 && !skips(name, version));
        assert!(left.count() <= 1, "{name} is there in the versions {versions:?}: say in deny.toml why");
    }
    let there: BTreeSet<String> =
        packages.iter().map(|package| format!("{}@{}", package.name, package.version)).collect();
    let gone: Vec<_> = skipped.difference(&there).collect();
    assert!(gone.is_empty(), "deny.toml has reasons for versions that are gone: {gone:?}");
}
