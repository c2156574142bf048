//! Which models are served, and under which names.

use crate::language::messages::serve as message;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where demos are kept, and what their names begin with.
const RUNS: &str = "runs";
const DEMO: &str = "demo";

/// A model as it was named on the command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Named {
    pub name: Option<String>,
    pub path: PathBuf,
}

impl Named {
    /// `NAME=MODEL`, or a model alone, whose path may have an equals sign too.
    pub fn parse(text: &str) -> Self {
        match text.split_once('=') {
            Some((name, path))
                if !name.is_empty()
                    && !name.contains(['/', '\\', ':'])
                    && !path.is_empty()
                    && !Path::new(text).exists() =>
            {
                Self { name: Some(name.to_owned()), path: path.into() }
            }
            _ => Self { name: None, path: text.into() },
        }
    }
}

/// What clients call a model that was given no name: its folder, of a run the run's, of a file its own without ending.
pub fn name_of(path: &Path) -> String {
    let text = |name: Option<&OsStr>| name.map(|name| name.to_string_lossy().into_owned());
    let part =
        path.file_name().is_some_and(|name| ["best", "last", "ckpt.pt"].iter().any(|part| name == *part));
    let named = match path.parent().filter(|_| part) {
        Some(run) => text(run.file_name()),
        None if path.extension().is_some_and(|ending| ending == "gguf" || ending == "pt") => {
            text(path.file_stem())
        }
        None => text(path.file_name()),
    };
    named.unwrap_or_else(|| "model".to_owned())
}

/// The model of the last demo.
pub fn last_demo() -> Result<Named> {
    let none = message::NoModel.text();
    Ok(Named { name: None, path: newest_demo(Path::new(RUNS)).context(none)? })
}

fn newest_demo(runs: &Path) -> Option<PathBuf> {
    let changed = |run: &Path| -> Option<SystemTime> {
        let models = ["best", "last"].map(|part| run.join(part).join("config.json"));
        models.iter().filter_map(|file| file.metadata().ok()?.modified().ok()).max()
    };
    let entries = std::fs::read_dir(runs).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_demo = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or("");
        name.strip_prefix(DEMO).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    entries.filter(is_demo).filter_map(|run| Some((changed(&run)?, run))).max().map(|(_, run)| run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_name_stands_before_the_model() {
        let parse = |text: &str| {
            let Named { name, path } = Named::parse(text);
            (name, path.to_str().unwrap().to_owned())
        };
        assert_eq!(parse("small=runs/demo"), (Some("small".into()), "runs/demo".into()));
        assert_eq!(parse("runs/demo"), (None, "runs/demo".into()));
        assert_eq!(parse("runs/a=b"), (None, "runs/a=b".into()));
        assert_eq!(parse("hf:owner/name@a=b"), (None, "hf:owner/name@a=b".into()));
        assert_eq!(parse("=x"), (None, "=x".into()));
    }

    #[test]
    fn a_model_is_named_as_its_folder_or_file() {
        let names = ["runs/demo/best", "models/gpt2", "models/gpt2.q8_0.gguf", "nano/ckpt.pt", "/"];
        assert_eq!(
            names.map(|path| name_of(Path::new(path))),
            ["demo", "gpt2", "gpt2.q8_0", "nano", "model"]
        );
    }

    #[test]
    fn the_demo_that_was_trained_last_is_the_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest_demo(folder.path()), None);
        let add = |run: &str| {
            let model = folder.path().join(run).join("best");
            fs::create_dir_all(&model).unwrap();
            fs::write(model.join("config.json"), "{}").unwrap();
            let file = fs::File::options().append(true).open(model.join("config.json")).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(run.len() as u64))
                .unwrap();
        };
        ["demo", "demo-2", "other-run-longer", "demolished"].into_iter().for_each(add);
        assert_eq!(newest_demo(folder.path()), Some(folder.path().join("demo-2")));
    }
}
