//! Finds the model that a name means: a folder, a run, another tool's file, or a name on the hub.

use crate::error::{Error, Result};
use crate::hub::Hub;
use minigpt_data::{DownloadEvent, Prepared};
use minigpt_files::is_there;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

/// Prefix of the names of models on the hub.
const HUB: &str = "hf:";
/// Names of GPT-2's models without their owner on the hub.
const GPT2: [&str; 4] = ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"];
/// The usual folder of runs.
const RUNS: &str = "runs";
/// Maximum number of entries of a folder that are read to describe it.
const LOOKED_AT: usize = 1000;
/// Maximum number of names in a message.
const LISTED: usize = 5;

/// The location of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPlace {
    /// The model folder, or the file.
    pub path: PathBuf,
    /// The part of the named folder that is the model, if not the folder itself: `best` or `last` of a run, a `ckpt.pt`.
    pub part: Option<String>,
}

impl ModelPlace {
    /// Finds a model: a model folder, a run (its `best`, else its `last`), a GGUF file, a `ckpt.pt`, a folder with one of
    /// these two, or `hf:owner/name[@revision]`, which is fetched the first time and afterwards used from the cache.
    ///
    /// # Errors
    /// There is no model. The error says what there is instead.
    pub fn find(name: impl AsRef<Path>) -> Result<Self> {
        Self::find_with(name.as_ref(), &mut |_, _| {})
    }

    /// The same, reporting the progress of each download.
    pub fn find_with(name: &Path, on: &mut dyn FnMut(&str, DownloadEvent)) -> Result<Self> {
        if let Some(name) = name.to_str().and_then(|name| name.strip_prefix(HUB)) {
            return Ok(Self { path: Hub::from_environment()?.open(name, on)?, part: None });
        }
        if !is_there(name)? {
            return Err(no_model(name, NotAModel::Missing(missing(name))));
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
            (None, []) => Err(no_model(name, contents(name, &files))),
            (None, several) => {
                let models = several.iter().map(|&file| file.clone()).collect();
                Err(no_model(name, NotAModel::Several { models }))
            }
        }
    }
}

/// There is no model at a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct NoModel {
    /// The file or folder.
    pub path: PathBuf,
    /// What is there instead.
    pub problem: NotAModel,
}

/// What is at a path that is not a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum NotAModel {
    Missing(Missing),
    UnsavedRun,
    Several { models: Vec<String> },
    PreparedData,
    DataSet,
    Adapter,
    WeightsOnly { file: String },
    TokenizerOnly,
    Data { file: String },
    EmptyFolder,
    Other,
}

impl fmt::Display for NotAModel {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Missing(missing) => missing.fmt(f),
            Self::UnsavedRun => f.write_str(
                "this run has saved no model yet: it saves one at its first evaluation, after half a minute, or when it is \
                 stopped",
            ),
            Self::Several { models } => {
                write!(f, "this folder holds several models: {}; name one of them", list(models, ", "))
            }
            Self::PreparedData => f.write_str("this is prepared data, not a model: train one on it"),
            Self::DataSet => f.write_str("this is a data set, not a model: train one on it"),
            Self::Adapter => f.write_str(
                "this is an adapter (LoRA), not a whole model: merge it into its base model first",
            ),
            Self::WeightsOnly { file } => {
                write!(f, "this folder holds weights ({file}), but no config.json to describe them")
            }
            Self::TokenizerOnly => f.write_str("this folder holds a tokenizer, but no model"),
            Self::Data { file } => write!(f, "this folder holds data ({file}), not a model: train one on it"),
            Self::EmptyFolder => f.write_str("this folder is empty"),
            Self::Other => f.write_str(
                "not a model: no config.json, no run with best/ or last/, no ckpt.pt, and no GGUF file in this folder",
            ),
        }
    }
}

/// What may be meant by a path at which there is nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum Missing {
    Unknown,
    Run { run: PathBuf },
    OnTheHub { name: String },
    Beside { models: Vec<String> },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("no such file or folder")?;
        match self {
            Self::Unknown => Ok(()),
            Self::Run { run } => write!(f, "; did you mean {}?", run.display()),
            Self::OnTheHub { name } => write!(f, "; for the model of the hub, write {HUB}{name}"),
            Self::Beside { models } => write!(f, "; models in the same folder: {}", list(models, ", ")),
        }
    }
}

fn no_model(path: &Path, problem: NotAModel) -> Error {
    NoModel { path: path.to_owned(), problem }.into()
}

/// The first names of a list, for a message.
pub fn list(names: &[String], separator: &str) -> String {
    let mut first: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
    if names.len() > LISTED {
        first.push("…");
    }
    first.join(separator)
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(LOOKED_AT);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// What may be meant by a name at which there is nothing.
fn missing(name: &Path) -> Missing {
    let shown = name.display().to_string();
    if let Some(run) = Some(Path::new(RUNS).join(name)).filter(|run| is_run(run)) {
        return Missing::Run { run };
    }
    if GPT2.contains(&shown.as_str()) {
        return Missing::OnTheHub { name: format!("openai-community/{shown}") };
    }
    let parent = name.parent().filter(|parent| !parent.as_os_str().is_empty());
    let models = models_in(parent.unwrap_or(Path::new(".")));
    if !models.is_empty() {
        return Missing::Beside { models };
    }
    match shown.split('/').collect::<Vec<_>>()[..] {
        [owner, model] if !owner.is_empty() && !owner.starts_with('.') && !model.is_empty() => {
            Missing::OnTheHub { name: shown }
        }
        _ => Missing::Unknown,
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

/// What a folder without a model holds.
fn contents(folder: &Path, files: &[String]) -> NotAModel {
    let has = |names: &[&str]| files.iter().any(|file| names.contains(&file.as_str()));
    let ends = |ends: &[&str]| files.iter().find(|file| ends.iter().any(|end| file.ends_with(end))).cloned();
    let models = models_in(folder);
    if has(&["config.toml", "metrics.jsonl"]) {
        NotAModel::UnsavedRun
    } else if !models.is_empty() {
        NotAModel::Several { models }
    } else if Prepared::is_at(folder) {
        NotAModel::PreparedData
    } else if has(&["dataset_info.json", "dataset_infos.json", "dataset_dict.json"])
        || ends(&[".parquet", ".arrow"]).is_some()
    {
        NotAModel::DataSet
    } else if has(&["adapter_config.json"]) {
        NotAModel::Adapter
    } else if let Some(file) = ends(&[".safetensors", ".bin"]) {
        NotAModel::WeightsOnly { file }
    } else if has(&["tokenizer.json", "vocab.json"]) {
        NotAModel::TokenizerOnly
    } else if let Some(file) = ends(&[".txt", ".md", ".jsonl", ".json", ".csv", ".tsv"]) {
        NotAModel::Data { file }
    } else if files.is_empty() {
        NotAModel::EmptyFolder
    } else {
        NotAModel::Other
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
    fn an_error_says_what_a_folder_holds_instead_of_a_model() {
        for (files, said) in [
            (&["config.toml", ".lock"][..], "has saved no model yet"),
            (&["metrics.jsonl", "last/other"], "has saved no model yet"),
            (&["a/best/config.json", "b/config.json", "c/x"], "holds several models: a, b; name one"),
            (&["a.gguf", "b.gguf"], "holds several models: a.gguf, b.gguf"),
            (&["train.bin", "meta.json"], "prepared data"),
            (&["dataset_info.json", "state.json"], "a data set"),
            (&["train-00000-of-00001.parquet"], "a data set"),
            (&["adapter_config.json", "adapter_model.safetensors"], "adapter"),
            (&["model.safetensors"], "no config.json"),
            (&["tokenizer.json"], "holds a tokenizer, but no model"),
            (&["book.txt"], "holds data (book.txt)"),
            (&[], "folder is empty"),
            (&["photo.jpg"], "not a model"),
        ] {
            let folder = folder(files);
            let error = ModelPlace::find(folder.path()).unwrap_err().to_string();
            assert!(error.starts_with(&folder.path().display().to_string()), "{error}");
            assert!(error.contains(said), "{files:?}: {error}");
        }
    }

    #[test]
    fn an_error_suggests_what_may_be_meant_by_a_missing_path() {
        let folder = folder(&["runs/novel/last/config.json"]);
        let error = |name: &Path| ModelPlace::find(name).unwrap_err().to_string();
        assert!(error(&folder.path().join("runs/nobel")).ends_with("models in the same folder: novel"));
        assert!(error(Path::new("gpt2-xl")).ends_with("write hf:openai-community/gpt2-xl"));
        let owner = error(Path::new("no-such-owner/model"));
        assert!(owner.ends_with("for the model of the hub, write hf:no-such-owner/model"), "{owner}");
        assert!(error(&folder.path().join("x/y/z")).ends_with("no such file or folder"));
        assert!(error(Path::new("hf:../x")).contains("not a model name"));
    }
}
