//! What a person means by a model: a folder, a run, another tool's file, or a name on the hub. All who open a model ask
//! here, so that all understand the same.

use crate::error::{Error, Result};
use crate::hub::Hub;
use minigpt_data::{DownloadEvent, Prepared};
use minigpt_files::is_there;
use std::fs;
use std::path::{Path, PathBuf};

/// What the name of a model on the hub begins with.
const HUB: &str = "hf:";
/// What people call the models of GPT-2, whose owner they don't know.
const GPT2: [&str; 4] = ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"];
/// Where runs are kept.
const RUNS: &str = "runs";
/// Entries of a folder that are looked at to say what it is.
const LOOKED_AT: usize = 1000;
/// Names that a message lists.
const LISTED: usize = 5;

/// Where a model is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPlace {
    /// The model folder, or the file.
    pub path: PathBuf,
    /// What of the named folder it is, where that folder is not the model itself: `best` or `last` of a run, a `ckpt.pt`.
    pub part: Option<String>,
}

impl ModelPlace {
    /// Finds a model: a model folder, a run (its `best`, else its `last`), a GGUF file, a `ckpt.pt`, a folder with one of
    /// these two, or `hf:owner/name[@revision]`, which is fetched the first time and afterwards used from the cache.
    ///
    /// # Errors
    /// There is no model; the text says what there is instead.
    pub fn find(name: impl AsRef<Path>) -> Result<Self> {
        Self::find_with(name.as_ref(), &mut |_, _| {})
    }

    /// The same, and tells how the fetching of each file goes.
    pub fn find_with(name: &Path, on: &mut dyn FnMut(&str, DownloadEvent)) -> Result<Self> {
        if let Some(name) = name.to_str().and_then(|name| name.strip_prefix(HUB)) {
            return Ok(Self { path: Hub::from_environment()?.open(name, on)?, part: None });
        }
        if !is_there(name)? {
            return Err(no_model(name, missing(name)));
        }
        if !name.is_dir() || is_there(&name.join("config.json"))? {
            return Ok(Self { path: name.to_owned(), part: None });
        }
        for part in ["best", "last"] {
            if is_there(&name.join(part).join("config.json"))? {
                return Ok(Self { path: name.join(part), part: Some(part.to_owned()) });
            }
        }
        let files = names(name);
        let gguf: Vec<&String> = files.iter().filter(|file| file.ends_with(".gguf")).collect();
        let checkpoint = files.iter().find(|file| *file == "ckpt.pt");
        match (checkpoint, &gguf[..]) {
            (Some(file), _) | (None, &[file]) => Ok(Self { path: name.join(file), part: Some(file.clone()) }),
            (None, []) => Err(no_model(name, instead(name, &files))),
            (None, several) => {
                Err(no_model(name, format!("holds several models: {}; name one of them", list(several))))
            }
        }
    }
}

fn no_model(path: &Path, message: impl Into<String>) -> Error {
    Error::NoModel { path: path.to_owned(), message: message.into() }
}

/// The names in a folder, in order; as many as are worth looking at.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(LOOKED_AT);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// What to say of a name that nothing has.
fn missing(name: &Path) -> String {
    let nothing = "there is no such file or folder";
    let shown = name.display().to_string();
    if let Some(run) = Some(Path::new(RUNS).join(name)).filter(|run| is_run(run)) {
        return format!("{nothing}; did you mean {}?", run.display());
    }
    if GPT2.contains(&shown.as_str()) {
        return format!("{nothing}; a model of the hub is named {HUB}openai-community/{shown}");
    }
    let parent = name.parent().filter(|parent| !parent.as_os_str().is_empty());
    let beside = models_in(parent.unwrap_or(Path::new(".")));
    if !beside.is_empty() {
        return format!("{nothing}; beside it are {}", list(&beside));
    }
    match shown.split('/').collect::<Vec<_>>()[..] {
        [owner, model] if !owner.is_empty() && !owner.starts_with('.') && !model.is_empty() => {
            format!("{nothing}; a model of the hub is named {HUB}{shown}")
        }
        _ => nothing.to_owned(),
    }
}

/// The models and runs in a folder, by name.
fn models_in(folder: &Path) -> Vec<String> {
    let is_model =
        |name: &String| folder.join(name).join("config.json").exists() || is_run(&folder.join(name));
    names(folder).into_iter().filter(is_model).collect()
}

/// Whether a run with a model is here.
fn is_run(folder: &Path) -> bool {
    ["best/config.json", "last/config.json"].iter().any(|file| folder.join(file).exists())
}

fn list(names: &[impl AsRef<str>]) -> String {
    let more = if names.len() > LISTED { ", …" } else { "" };
    let first: Vec<&str> = names.iter().take(LISTED).map(AsRef::as_ref).collect();
    first.join(", ") + more
}

/// What a folder is that is no model, and what to do with it.
fn instead(folder: &Path, files: &[String]) -> String {
    let has = |names: &[&str]| files.iter().any(|file| names.contains(&file.as_str()));
    let ends = |ends: &[&str]| files.iter().find(|file| ends.iter().any(|end| file.ends_with(end)));
    let inside = models_in(folder);
    if has(&["config.toml", "metrics.jsonl"]) {
        "is a run that has saved no model yet: it does so at its first evaluation, after half a minute, or when it is \
         stopped"
            .to_owned()
    } else if !inside.is_empty() {
        format!("holds several models: {}; name one of them", list(&inside))
    } else if Prepared::is_at(folder) {
        "holds prepared data, not a model: train one on it".to_owned()
    } else if has(&["dataset_info.json", "dataset_infos.json", "dataset_dict.json"])
        || ends(&[".parquet", ".arrow"]).is_some()
    {
        "is a data set, not a model: train one on it".to_owned()
    } else if has(&["adapter_config.json"]) {
        "is an adapter (LoRA), not a whole model: merge it into its base model first".to_owned()
    } else if let Some(weights) = ends(&[".safetensors", ".bin"]) {
        format!("holds weights ({weights}) but no config.json, which says what they are")
    } else if has(&["tokenizer.json", "vocab.json"]) {
        "holds a tokenizer but no model".to_owned()
    } else if let Some(data) = ends(&[".txt", ".md", ".jsonl", ".json", ".csv", ".tsv"]) {
        format!("holds data ({data}), not a model: train one on it")
    } else if files.is_empty() {
        "is an empty folder, not a model".to_owned()
    } else {
        "is no model: it has no config.json, is no run with a best/ or last/, and holds no ckpt.pt or GGUF file"
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files, each of them empty.
    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }

    fn part(files: &[&str]) -> Option<String> {
        let folder = folder(files);
        let place = ModelPlace::find(folder.path()).unwrap();
        assert_eq!(
            place.path,
            place.part.as_ref().map_or(folder.path().into(), |part| folder.path().join(part))
        );
        place.part
    }

    #[test]
    fn a_folder_is_itself_or_the_best_of_its_run_or_the_one_file_in_it() {
        assert_eq!(part(&["config.json", "best/config.json"]), None);
        assert_eq!(part(&["last/config.json", "best/config.json"]).as_deref(), Some("best"));
        assert_eq!(part(&["config.toml", "last/config.json", "best/other"]).as_deref(), Some("last"));
        assert_eq!(part(&["ckpt.pt", "a.gguf"]).as_deref(), Some("ckpt.pt"));
        assert_eq!(part(&["a.gguf", "README.md"]).as_deref(), Some("a.gguf"));
        let folder = folder(&["a.gguf"]);
        let file = folder.path().join("a.gguf");
        assert_eq!(ModelPlace::find(&file).unwrap(), ModelPlace { path: file, part: None });
    }

    #[test]
    fn what_is_no_model_is_told_what_it_is() {
        for (files, said) in [
            (&["config.toml", ".lock"][..], "has saved no model yet"),
            (&["metrics.jsonl", "last/other"], "has saved no model yet"),
            (&["a/best/config.json", "b/config.json", "c/x"], "holds several models: a, b; name one"),
            (&["a.gguf", "b.gguf"], "holds several models: a.gguf, b.gguf"),
            (&["train.bin", "meta.json"], "prepared data"),
            (&["dataset_info.json", "state.json"], "is a data set"),
            (&["train-00000-of-00001.parquet"], "is a data set"),
            (&["adapter_config.json", "adapter_model.safetensors"], "adapter"),
            (&["model.safetensors"], "no config.json"),
            (&["tokenizer.json"], "holds a tokenizer but no model"),
            (&["book.txt"], "holds data (book.txt)"),
            (&[], "is an empty folder"),
            (&["photo.jpg"], "is no model"),
        ] {
            let folder = folder(files);
            let error = ModelPlace::find(folder.path()).unwrap_err().to_string();
            assert!(error.starts_with(&folder.path().display().to_string()), "{error}");
            assert!(error.contains(said), "{files:?}: {error}");
        }
    }

    #[test]
    fn what_is_not_there_is_told_what_is() {
        let folder = folder(&["runs/novel/last/config.json"]);
        let error = |name: &Path| ModelPlace::find(name).unwrap_err().to_string();
        assert!(error(&folder.path().join("runs/nobel")).ends_with("beside it are novel"));
        assert!(error(Path::new("gpt2-xl")).ends_with("is named hf:openai-community/gpt2-xl"));
        let owner = error(Path::new("no-such-owner/model"));
        assert!(owner.ends_with("a model of the hub is named hf:no-such-owner/model"), "{owner}");
        assert!(error(&folder.path().join("x/y/z")).ends_with("there is no such file or folder"));
        assert!(error(Path::new("hf:../x")).contains("not a model's name"));
    }
}
