//! Models of the Hugging Face hub: found by name, fetched into a cache, checked, and used from there without a network.

use crate::error::{Error, Result};
use minigpt_data::{DownloadEvent, DownloadOptions, Remote, download_file, download_text};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Where the hub is, unless `HF_ENDPOINT` says otherwise.
const ENDPOINT: &str = "https://huggingface.co";
/// What a model needs beside its weights; what is not there is done without.
const SMALL: [&str; 7] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
];
/// Where weights may be, the best first.
const WEIGHTS: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];
/// The longest answer of the hub's interface.
const LONGEST_ANSWER: u64 = 16 << 20;

/// How to reach the hub.
#[derive(Debug, Clone)]
pub struct Hub {
    /// Its address.
    pub endpoint: String,
    /// What tells it who asks.
    pub token: Option<String>,
    /// Where models are kept.
    pub cache: PathBuf,
    /// Never ask it; take what is in the cache.
    pub offline: bool,
    /// How long to wait before a second attempt.
    pub pause: Duration,
}

impl Hub {
    /// As the environment says, by Hugging Face's own names: `HF_ENDPOINT`, `HF_TOKEN` (or the file that its login writes),
    /// `HF_HUB_OFFLINE`; the cache is `MINIGPT_CACHE`, or `minigpt` in the user's cache folder.
    pub fn from_environment() -> Result<Self> {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let home = set("HOME").map(PathBuf::from);
        let caches = set("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(".cache")));
        let hf_home =
            set("HF_HOME").map(PathBuf::from).or_else(|| Some(caches.as_ref()?.join("huggingface")));
        let saved = || {
            let token = fs::read_to_string(hf_home?.join("token")).ok()?;
            Some(token.trim().to_owned()).filter(|token| !token.is_empty())
        };
        let cache = set("MINIGPT_CACHE").map(PathBuf::from).or_else(|| Some(caches?.join("minigpt")));
        Ok(Self {
            endpoint: set("HF_ENDPOINT")
                .unwrap_or_else(|| ENDPOINT.to_owned())
                .trim_end_matches('/')
                .to_owned(),
            token: set("HF_TOKEN").or_else(saved),
            cache: cache.ok_or_else(|| {
                Error::Hub("there is no home folder for a cache: set MINIGPT_CACHE".to_owned())
            })?,
            offline: set("HF_HUB_OFFLINE").is_some_and(|value| value != "0"),
            pause: Duration::from_secs(1),
        })
    }

    /// A model's folder in the cache, fetched if need be. `name` is `owner/model`, with `@revision` behind it if not the
    /// main one is meant.
    pub fn fetch(&self, name: &str, on: &mut dyn FnMut(&str, DownloadEvent)) -> Result<PathBuf> {
        let (repository, revision) = name.split_once('@').unwrap_or((name, "main"));
        check_name(repository, revision)?;
        let models = self.cache.join("hub").join(repository.replace('/', "--"));
        let reference = models.join("refs").join(revision);
        if self.offline {
            let commit = fs::read_to_string(&reference).ok().filter(|commit| is_commit(commit.trim()));
            let Some(commit) = commit else {
                return refuse(format!(
                    "{name} is not in the cache ({}), and the hub may not be asked (offline)",
                    models.display()
                ));
            };
            return Ok(models.join(commit.trim()));
        }
        let listing = self.listing(repository, revision)?;
        let folder = models.join(&listing.sha);
        create(&folder)?;
        for file in listing.wanted(&folder)? {
            self.file(repository, &listing, &file, &folder, on)?;
        }
        // The index names the rest, and is known only now.
        for file in listing.shards(&folder)? {
            self.file(repository, &listing, &file, &folder, on)?;
        }
        let parent = models.join("refs");
        create(&parent)?;
        minigpt_files::write_file(&reference, listing.sha.as_bytes())?;
        Ok(folder)
    }

    fn listing(&self, repository: &str, revision: &str) -> Result<Listing> {
        let url = format!("{}/api/models/{repository}/revision/{revision}?blobs=true", self.endpoint);
        let remote = Remote { url, token: self.token.clone(), ..Remote::default() };
        let text = match download_text(&remote, LONGEST_ANSWER, &self.options()) {
            Err(minigpt_data::Error::NotThere { .. }) => {
                return refuse(format!(
                    "the hub has no model {repository} with a revision {revision}, or it is private and needs HF_TOKEN"
                ));
            }
            answer => answer?,
        };
        let listing: Listing = serde_json::from_str(&text)
            .map_err(|e| Error::Hub(format!("the hub's answer is not a list of files: {e}")))?;
        if !is_commit(&listing.sha) {
            return refuse("the hub's answer names no commit".to_owned());
        }
        Ok(listing)
    }

    fn file(
        &self,
        repository: &str,
        listing: &Listing,
        file: &Sibling,
        folder: &Path,
        on: &mut dyn FnMut(&str, DownloadEvent),
    ) -> Result<()> {
        let name = &file.rfilename;
        let remote = Remote {
            url: format!("{}/{repository}/resolve/{}/{name}", self.endpoint, listing.sha),
            sha256: file.lfs.as_ref().map(|lfs| lfs.sha256.clone()),
            bytes: file.lfs.as_ref().map(|lfs| lfs.size).or(file.size),
            token: self.token.clone(),
        };
        download_file(&remote, &folder.join(name), &self.options(), &mut |event| on(name, event))?;
        Ok(())
    }

    fn options(&self) -> DownloadOptions {
        DownloadOptions { pause: self.pause, ..DownloadOptions::default() }
    }
}

/// What the hub says about a revision of a model.
#[derive(Deserialize)]
struct Listing {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Clone, Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    lfs: Option<Lfs>,
}

#[derive(Clone, Deserialize)]
struct Lfs {
    sha256: String,
    size: u64,
}

impl Listing {
    fn find(&self, name: &str) -> Option<Sibling> {
        self.siblings.iter().find(|file| file.rfilename == name).cloned()
    }

    /// The small files, and the best of the weights.
    fn wanted(&self, folder: &Path) -> Result<Vec<Sibling>> {
        let weights = WEIGHTS.iter().find_map(|name| self.find(name));
        let Some(weights) = weights else {
            let names = WEIGHTS.join(", ");
            return refuse(format!("the model has no weights that can be read: none of {names}"));
        };
        let small = SMALL.iter().filter_map(|name| self.find(name));
        // What an earlier visit fetched whole is not asked for again.
        let missing = |file: &Sibling| !folder.join(&file.rfilename).exists();
        Ok(small.chain([weights]).filter(missing).collect())
    }

    /// The files that an index in the folder names.
    fn shards(&self, folder: &Path) -> Result<Vec<Sibling>> {
        #[derive(Deserialize)]
        struct Index {
            weight_map: BTreeMap<String, String>,
        }
        let mut shards = Vec::new();
        for name in WEIGHTS.iter().filter(|name| name.ends_with(".index.json")) {
            let Ok(text) = fs::read_to_string(folder.join(name)) else { continue };
            let index: Index = serde_json::from_str(&text)
                .map_err(|e| Error::Hub(format!("{name} is no index of weights: {e}")))?;
            let files: BTreeSet<String> = index.weight_map.into_values().collect();
            for file in files {
                check_file(&file)?;
                match self.find(&file) {
                    Some(listed) => shards.push(listed),
                    None => return refuse(format!("{name} names {file}, which the model lacks")),
                }
            }
        }
        shards.retain(|file| !folder.join(&file.rfilename).exists());
        Ok(shards)
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A name may not lead out of the cache, nor to another place of the server.
fn check_name(repository: &str, revision: &str) -> Result<()> {
    let plain = |part: &str| {
        let letters = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(letters)
    };
    let parts: Vec<&str> = repository.split('/').collect();
    if !(1..=2).contains(&parts.len()) || !parts.iter().all(|part| plain(part)) {
        return refuse(format!("{repository} is not a model's name; write hf:owner/model"));
    }
    if !plain(revision) {
        return refuse(format!("{revision} is not a revision"));
    }
    Ok(())
}

fn check_file(name: &str) -> Result<()> {
    let mut parts = Path::new(name).components();
    let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    if plain { Ok(()) } else { refuse(format!("the index names the file {name:?}, which is not beside it")) }
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::Hub(message))
}

fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|source| Error::Io {
        action: "create",
        path: folder.to_owned(),
        source,
    })
}
