//! Models of the Hugging Face hub: found by name, downloaded into a cache, verified, and used from there offline.

use crate::error::Result;
use crate::hub_cache::{CheckedFiles, State};
use crate::hub_error::HubError;
use crate::hub_listing::{Listing, Sibling, is_plain};
use minigpt_data::{
    AccessToken, DownloadEvent, DownloadOptions, FileHash, Remote, download_file, download_text,
};
use minigpt_files::{Action, Error as FileError};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// URL of the hub if `HF_ENDPOINT` is not set.
const ENDPOINT: &str = "https://huggingface.co";
/// Maximum length of an answer of the hub's API in bytes.
const LONGEST_ANSWER: u64 = 16 << 20;

/// How to reach the hub.
#[derive(Debug, Clone)]
pub struct Hub {
    /// URL of the hub.
    pub endpoint: String,
    /// Access token, if any.
    pub token: Option<AccessToken>,
    /// Folder in which models are cached.
    pub cache: PathBuf,
    /// Whether to use only the cache, never the network.
    pub offline: bool,
    /// Pause before a failed download is retried.
    pub pause: Duration,
}

impl Hub {
    /// Reads Hugging Face's environment variables: `HF_ENDPOINT`, `HF_TOKEN` (or the file that its login writes),
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
            cache: cache.ok_or(HubError::NoCacheFolder)?,
            offline: set("HF_HUB_OFFLINE").is_some_and(|value| value != "0"),
            pause: Duration::from_secs(1),
        })
    }

    /// Returns a model's folder in the cache, after downloading what is missing or outdated. `name` is `owner/model`, or
    /// `owner/model@revision` for a revision other than `main`.
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

    /// Like [`Self::fetch`], but contacts the hub only if the model is not complete in the cache. A cached model is used
    /// offline and stays as it is until [`Self::fetch`] is called.
    pub fn open(&self, name: &str, on: &mut dyn FnMut(&str, DownloadEvent)) -> Result<PathBuf> {
        self.cached(name).or_else(|_| self.fetch(name, on))
    }

    /// The folder of a model that is complete in the cache.
    fn cached(&self, name: &str) -> Result<PathBuf> {
        let (repository, revision) = split(name)?;
        let models = self.models(repository);
        let commit = fs::read_to_string(models.join("refs").join(revision)).ok();
        let Some(commit) = commit.filter(|commit| is_commit(commit.trim())) else {
            return Err(HubError::NotCached { name: name.to_owned(), cache: models }.into());
        };
        let folder = models.join(commit.trim());
        match CheckedFiles::open(&folder).first_problem()? {
            None => Ok(folder),
            Some(problem) => Err(HubError::CacheUnusable { name: name.to_owned(), folder, problem }.into()),
        }
    }

    /// Folder of the cached revisions of a model.
    fn models(&self, repository: &str) -> PathBuf {
        self.cache.join("hub").join(repository.replace('/', "--"))
    }

    fn listing(&self, repository: &str, revision: &str) -> Result<Listing> {
        let url = format!("{}/api/models/{repository}/revision/{revision}?blobs=true", self.endpoint);
        let remote = Remote { url, token: self.token.clone(), ..Remote::default() };
        let text = match download_text(&remote, LONGEST_ANSWER, &self.options()) {
            Err(minigpt_data::Error::NotThere { .. }) => {
                let (repository, revision) = (repository.to_owned(), revision.to_owned());
                return Err(HubError::NoSuchModel { repository, revision }.into());
            }
            answer => answer?,
        };
        let listing: Listing = serde_json::from_str(&text).map_err(HubError::NotAListing)?;
        if !is_commit(&listing.sha) {
            return Err(HubError::NoCommit.into());
        }
        Ok(listing)
    }

    /// Downloads a file unless it is in the cache undamaged.
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
            State::Damaged(damage) => {
                on(name, DownloadEvent::Damaged { problem: damage });
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

/// Splits a name into its repository and revision, and checks both.
fn split(name: &str) -> Result<(&str, &str)> {
    let (repository, revision) = name.split_once('@').unwrap_or((name, "main"));
    check_name(repository, revision)?;
    Ok((repository, revision))
}

/// Rejects names that lead out of the cache or to other paths of the server.
fn check_name(repository: &str, revision: &str) -> Result<()> {
    let parts: Vec<&str> = repository.split('/').collect();
    // The cache writes `--` for the slash; the hub has no names with it.
    let sound = |part: &&str| is_plain(part) && !part.contains("--");
    if !(1..=2).contains(&parts.len()) || !parts.iter().all(sound) {
        return Err(HubError::NotAName(repository.to_owned()).into());
    }
    if !is_plain(revision) {
        return Err(HubError::NotARevision(revision.to_owned()).into());
    }
    Ok(())
}

fn create(folder: &Path) -> Result<()> {
    let failed = |source| FileError::Io { action: Action::Create, path: folder.to_owned(), source };
    Ok(fs::create_dir_all(folder).map_err(failed)?)
}
