//! The map of `ARCHITECTURE.md`, held against the tree: which crate may use which, what stays in one place, and which
//! environment variables are read.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Our crates, from the one that uses most to those that use nothing.
const ORDER: [&str; 16] = [
    "minigpt-cli",
    "minigpt-serve",
    "minigpt",
    "minigpt-train",
    "minigpt-chat",
    "minigpt-data",
    "minigpt-insight",
    "minigpt-generate",
    "minigpt-formats",
    "minigpt-model",
    "minigpt-kernels",
    "minigpt-tokenizer",
    "minigpt-scaling",
    "minigpt-settings",
    "minigpt-charts",
    "minigpt-files",
];

/// What a crate may not depend on, beside all crates above it.
const NEVER: [(&str, &[&str]); 9] = [
    (
        "minigpt-data",
        &["minigpt-model", "minigpt-kernels", "minigpt-formats", "minigpt-generate", "candle-core"],
    ),
    (
        "minigpt-insight",
        &["minigpt-formats", "minigpt-generate", "minigpt-tokenizer", "minigpt-files", "minigpt-charts"],
    ),
    ("minigpt-tokenizer", &["candle-core", "candle-nn"]),
    ("minigpt-scaling", &["candle-core", "minigpt-files"]),
    ("minigpt", &["clap", "rustyline", "indicatif", "anyhow", "ctrlc"]),
    ("minigpt-serve", &["minigpt", "minigpt-train", "clap"]),
    ("minigpt-chat", &["minigpt-model", "minigpt-generate"]),
    ("minigpt-kernels", &["minigpt-tokenizer", "minigpt-files"]),
    ("minigpt-model", &["minigpt-tokenizer", "minigpt-files", "memmap2"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// What each crate of the workspace depends on outside of its tests, as its manifest says.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = Command::new(cargo)
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let uses = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap();
        all.iter().filter(|dependency| dependency["kind"] != "dev").map(name).collect()
    };
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().map(|package| (name(package), uses(package))).collect()
}

/// What is wrong with the edges of a graph: crates that nobody placed, and edges that point upward or are forbidden.
fn wrong_edges(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let place = |name: &str| ORDER.iter().position(|known| *known == name);
    let mut wrong = Vec::new();
    for (name, uses) in graph {
        let Some(own) = place(name) else {
            wrong.push(format!("{name} is not in the order of the crates"));
            continue;
        };
        let upward = uses.iter().filter(|used| place(used).is_some_and(|used| used <= own));
        wrong.extend(upward.map(|used| format!("{name} uses {used}, which is above it")));
        let never = NEVER.iter().filter(|(of, _)| of == name).flat_map(|(_, never)| never.iter());
        wrong.extend(never.filter(|used| uses.contains(**used)).map(|used| format!("{name} uses {used}")));
    }
    wrong
}

/// The sources of a crate that are not tests: `src`, and what is beside it.
fn sources(name: &str, folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(name).join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let shown = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((shown, without_comments(&fs::read_to_string(&path).unwrap())));
            }
        }
    }
    found
}

/// The code of a file, without what stands behind `//`.
fn without_comments(source: &str) -> String {
    // An address in a string is no comment.
    let code = |line: &str| match line.match_indices("//").find(|(at, _)| !line[..*at].ends_with(':')) {
        Some((at, _)) => line[..at].to_owned(),
        None => line.to_owned(),
    };
    source.lines().map(code).collect::<Vec<_>>().join("\n")
}

/// Whether a word stands in code, not as a part of a longer one.
fn has_word(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].chars().next_back().is_some_and(part)
            && !code[at + word.len()..].chars().next().is_some_and(part)
    })
}

/// The files among `crates` that say one of `words`, but for those that begin with one of `allowed`.
fn offenders(crates: &[&str], words: &[&str], allowed: &[&str]) -> Vec<String> {
    let files = crates.iter().flat_map(|name| sources(name, "src"));
    let said = files.filter(|(_, code)| words.iter().any(|word| has_word(code, word)));
    said.map(|(path, _)| path).filter(|path| !allowed.iter().any(|start| path.starts_with(start))).collect()
}

#[test]
fn every_edge_between_crates_points_downward() {
    let graph = dependencies();
    assert!(graph.len() >= 11, "{graph:?}");
    assert_eq!(wrong_edges(&graph), Vec::<String>::new());
}

/// Nor does what it uses: whoever takes the library takes no command line along.
#[test]
fn the_library_comes_without_the_command_lines_dependencies() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = |package: &str| {
        let args = ["tree", "--offline", "--package", package, "--edges", "normal", "--prefix", "none"];
        let tree = Command::new(&cargo).args(args).current_dir(root()).output().unwrap();
        assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
        let lines = String::from_utf8(tree.stdout).unwrap();
        lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let (library, binary) = (tree("minigpt"), tree("minigpt-cli"));
    for name in ["clap", "rustyline", "indicatif", "ctrlc", "mimalloc"] {
        assert!(binary.contains(name), "the tree does not show {name}");
        assert!(!library.contains(name), "minigpt brings {name} along");
    }
}

#[test]
fn an_edge_that_points_upward_is_seen() {
    let edges = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(from, to)| ((*from).to_owned(), BTreeSet::from([(*to).to_owned()]))).collect()
    };
    let wrong = wrong_edges(&edges(&[
        ("minigpt-kernels", "minigpt-model"),
        ("minigpt", "clap"),
        ("minigpt-data", "minigpt-model"),
        ("minigpt-new", "serde"),
        ("minigpt-train", "minigpt-data"),
    ]));
    let want = [
        "minigpt uses clap",
        "minigpt-data uses minigpt-model",
        "minigpt-kernels uses minigpt-model, which is above it",
        "minigpt-new is not in the order of the crates",
    ];
    assert_eq!(wrong, want);
    assert!(has_word("a; unsafe { }", "unsafe") && !has_word("#![expect(unsafe_code)]", "unsafe"));
    assert_eq!(without_comments("a // b\n\"https://c\""), "a \n\"https://c\"");
}

#[test]
fn what_belongs_in_one_place_is_in_one_place() {
    let crates = dependencies().into_keys().collect::<Vec<_>>();
    let crates: Vec<&str> = crates.iter().map(String::as_str).collect();
    let libraries: Vec<&str> = crates.iter().copied().filter(|name| *name != "minigpt-cli").collect();
    let none = Vec::<String>::new();

    let arithmetic = [
        "minigpt-kernels/src",
        "minigpt-files/src/map.rs",
        // MPI is a library of C functions.
        "minigpt-train/src/distributed/mpi_library.rs",
        "minigpt-cli/src/threads.rs",
        "minigpt-cli/src/allocator.rs",
        "minigpt-cli/src/stop.rs",
    ];
    // As code: a policy for browsers has the word too.
    let unsafe_code = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe_code"];
    assert_eq!(offenders(&crates, &unsafe_code, &arithmetic), none, "unsafe");
    assert!(!offenders(&["minigpt-kernels"], &unsafe_code, &[]).is_empty(), "the scan sees nothing");

    assert_eq!(offenders(&crates, &["fs::rename"], &["minigpt-files/src"]), none, "renaming");
    let files = ["std::fs", "fs::read", "File::open", "memmap2"];
    assert_eq!(offenders(&["minigpt-model", "minigpt-kernels"], &files, &[]), none, "files");
    let clocks = ["Instant::now", "SystemTime::now"];
    assert_eq!(offenders(&["minigpt-model"], &clocks, &[]), none, "clocks");
    let printing = ["println", "eprintln", "print", "eprint", "dbg"].map(|name| format!("{name}!"));
    let printing: Vec<&str> = printing.iter().map(String::as_str).collect();
    assert_eq!(offenders(&libraries, &printing, &[]), none, "printing");
}

/// A new instruction set must be a new file in a `micro/` folder and a new table in `cpu.rs`.
#[test]
fn only_micro_kernels_and_the_cpu_table_name_instruction_sets() {
    let names = ["target_arch", "target_feature", "is_x86_feature_detected", "std::arch", "core::arch"];
    let all = offenders(&["minigpt-kernels"], &names, &[]);
    let (micro, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|path| path.contains("/micro/"));
    assert_eq!(others, ["minigpt-kernels/src/cpu.rs"]);
    assert!(micro.len() >= 4, "the scan sees too little: {micro:?}");
}

/// The names of variables in the files that read the environment.
fn variables_read() -> BTreeMap<String, String> {
    let mut read = BTreeMap::new();
    for name in dependencies().keys() {
        for (path, code) in ["src", "benches"].iter().flat_map(|folder| sources(name, folder)) {
            if !["env::var(", "env::var_os(", "env::vars("].iter().any(|call| code.contains(call)) {
                continue;
            }
            let capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            // Every second part of the code is inside of quotes; `value_name` is what a person sees in the help.
            let parts: Vec<&str> = code.split('"').collect();
            let strings = parts.chunks_exact(2).filter(|pair| !pair[0].ends_with("value_name = "));
            let names =
                strings.map(|pair| pair[1]).filter(|text| text.len() > 3 && text.chars().all(capital));
            read.extend(names.map(|name| (name.to_owned(), path.clone())));
        }
    }
    read
}

#[test]
fn the_architecture_lists_every_environment_variable_that_is_read() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section =
        architecture.split("\n## Environment variables\n").nth(1).expect("a section on the environment");
    let rows = section.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with("| `"));
    let listed: BTreeSet<String> = rows.map(|row| row.split('`').nth(1).unwrap().to_owned()).collect();
    let read = variables_read();
    assert!(read.len() >= 8, "{read:?}");
    for (name, path) in &read {
        assert!(listed.contains(name), "{path} reads {name}, which ARCHITECTURE.md does not list");
    }
    for name in &listed {
        assert!(read.contains_key(name), "ARCHITECTURE.md lists {name}, which nobody reads");
    }
}

#[test]
fn the_architecture_names_every_crate() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for name in dependencies().keys() {
        assert!(architecture.contains(&format!("| `{name}` |")), "ARCHITECTURE.md has no row for {name}");
    }
}

#[test]
fn every_crates_front_page_has_an_example() {
    let pages = ORDER.map(|name| (name, root().join(name).join("src/lib.rs")));
    let libraries = pages.into_iter().filter(|(_, page)| page.exists());
    let without = libraries.filter(|(_, page)| !fs::read_to_string(page).unwrap().contains("//! ```"));
    assert_eq!(without.map(|(name, _)| name).collect::<Vec<_>>(), Vec::<&str>::new());
}
