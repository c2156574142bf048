//! Models of the Hugging Face hub: found by name, fetched into a cache, checked, and used from there without a network.

use crate::error::{Error, Result};
use crate::hub_cache::{CheckedFiles, State};
use crate::hub_listing::{Listing, Sibling, is_plain};
use minigpt_data::{
    AccessToken, DownloadEvent, DownloadOptions, FileHash, Remote, download_file, download_text,
};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the hub is, unless `HF_ENDPOINT` says otherwise.
const ENDPOINT: &str = "https://huggingface.co";
/// The longest answer of the hub's interface.
const LONGEST_ANSWER: u64 = 16 << 20;

/// How to reach the hub.
#[derive(Debug, Clone)]
pub struct Hub {
    /// Its address.
    pub endpoint: String,
    /// What tells it who asks.
    pub token: Option<AccessToken>,
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
        let saved = || AccessToken::new(&fs::read_to_string(hf_home?.join("token")).ok()?);
        let cache = set("MINIGPT_CACHE").map(PathBuf::from).or_else(|| Some(caches?.join("minigpt")));
        Ok(Self {
            endpoint: set("HF_ENDPOINT")
                .unwrap_or_else(|| ENDPOINT.to_owned())
                .trim_end_matches('/')
                .to_owned(),
            token: set("HF_TOKEN").and_then(|token| AccessToken::new(&token)).or_else(saved),
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
        if self.offline {
            return self.cached(name);
        }
        let (repository, revision) = split(name)?;
        let models = self.models(repository);
        let listing = self.listing(repository, revision)?;
        let folder = models.join(&listing.sha);
        create(&folder)?;
        let mut checked = CheckedFiles::open(&folder);
        for file in listing.wanted()? {
            self.file(repository, &listing, &file, &folder, &mut checked, on)?;
        }
        // The index names the rest, and is known only now.
        for file in listing.shards(&folder)? {
            self.file(repository, &listing, &file, &folder, &mut checked, on)?;
        }
        let references = models.join("refs");
        create(&references)?;
        minigpt_files::write_file(&references.join(revision), listing.sha.as_bytes())?;
        Ok(folder)
    }

    /// The same, but the hub is asked only for what is not in the cache whole: a model that was fetched once is used
    /// without a network, and stays as it was until somebody calls [`Self::fetch`].
    pub fn open(&self, name: &str, on: &mut dyn FnMut(&str, DownloadEvent)) -> Result<PathBuf> {
        self.cached(name).or_else(|_| self.fetch(name, on))
    }

    /// A model that is in the cache, whole.
    fn cached(&self, name: &str) -> Result<PathBuf> {
        let (repository, revision) = split(name)?;
        let models = self.models(repository);
        let commit = fs::read_to_string(models.join("refs").join(revision)).ok();
        let Some(commit) = commit.filter(|commit| is_commit(commit.trim())) else {
            return refuse(format!(
                "{name} is not in the cache ({}), and the hub may not be asked (offline)",
                models.display()
            ));
        };
        let folder = models.join(commit.trim());
        match CheckedFiles::open(&folder).first_problem()? {
            None => Ok(folder),
            Some(problem) => refuse(format!(
                "{name} in the cache ({}) can't be used: {problem}; go online once, and it is fetched again",
                folder.display()
            )),
        }
    }

    /// Where the revisions of a model are kept.
    fn models(&self, repository: &str) -> PathBuf {
        self.cache.join("hub").join(repository.replace('/', "--"))
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

    /// Fetches a file, unless an earlier visit did and it is still whole.
    fn file(
        &self,
        repository: &str,
        listing: &Listing,
        file: &Sibling,
        folder: &Path,
        checked: &mut CheckedFiles,
        on: &mut dyn FnMut(&str, DownloadEvent),
    ) -> Result<()> {
        let name = &file.rfilename;
        let hash = file.hash()?;
        match checked.state(name, hash.as_ref())? {
            State::Whole => return Ok(()),
            State::Missing => {}
            State::Damaged(problem) => {
                on(name, DownloadEvent::Damaged { problem });
                checked.remove(name)?;
            }
        }
        let remote = Remote {
            url: format!("{}/{repository}/resolve/{}/{name}", self.endpoint, listing.sha),
            hash: hash.clone(),
            bytes: Some(file.bytes()?),
            at_most: None,
            token: self.token.clone(),
        };
        let done = download_file(&remote, &folder.join(name), &self.options(), &mut |event| on(name, event))?;
        checked.record(name, hash.unwrap_or(FileHash::Sha256(done.sha256)))
    }

    fn options(&self) -> DownloadOptions {
        DownloadOptions { pause: self.pause, ..DownloadOptions::default() }
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The repository and the revision of a name, both sound.
fn split(name: &str) -> Result<(&str, &str)> {
    let (repository, revision) = name.split_once('@').unwrap_or((name, "main"));
    check_name(repository, revision)?;
    Ok((repository, revision))
}

/// A name may not lead out of the cache, nor to another place of the server.
fn check_name(repository: &str, revision: &str) -> Result<()> {
    let parts: Vec<&str> = repository.split('/').collect();
    // The cache writes `--` for the slash; the hub has no names with it.
    let sound = |part: &&str| is_plain(part) && !part.contains("--");
    if !(1..=2).contains(&parts.len()) || !parts.iter().all(sound) {
        return refuse(format!("{repository:?} is not a model's name; write hf:owner/model"));
    }
    if !is_plain(revision) {
        return refuse(format!("{revision:?} is not a revision"));
    }
    Ok(())
}

pub(crate) fn refuse<T>(message: String) -> Result<T> {
    Err(Error::Hub(message))
}

fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|source| Error::Io {
        action: "create",
        path: folder.to_owned(),
        source,
    })
}
