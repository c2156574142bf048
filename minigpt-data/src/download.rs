//! Downloads public data sets: resumed, verified, and visible only when complete.
//!
//! Bytes go to `FILE.part` with a note beside it of what they are a part of. When all have come and the SHA-256
//! is right, the part is renamed to `FILE`, and the hash is recorded in `FILE.sha256` (as `sha256sum` writes it).

use crate::catalogue::PublicSet;
use crate::download_part::Part;
use crate::download_problem::{DownloadProblem, FileDamage};
use crate::error::{Error, Result};
use crate::file_hash::{FileHash, sha256};
use crate::http::{AccessToken, Answer, Fault, Request, client, failed, request};
use crate::recorded_hash::{record, recorded};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use ureq::Agent;

/// Failures in a row, without a byte received, after which a download fails.
const ATTEMPTS: u32 = 5;

/// Time limit for a short response.
const PATIENCE: Duration = Duration::from_secs(120);

/// A set whose length is known only roughly may be this many times longer.
const GROWTH: u64 = 8;

/// How to download.
#[derive(Debug, Clone, Default)]
pub struct DownloadOptions {
    /// A mirror that replaces `https://host` of the set's URL.
    pub endpoint: Option<String>,
    /// Download again even if the file exists.
    pub force: bool,
    /// How long to wait before the second attempt, doubled for each further one.
    pub pause: Duration,
}

/// A file on a server.
#[derive(Debug, Clone, Default)]
pub struct Remote {
    /// Where it is.
    pub url: String,
    /// Its hash, if known and fixed.
    pub hash: Option<FileHash>,
    /// Its length, if known and fixed.
    pub bytes: Option<u64>,
    /// Upper bound of its length, if only that is known.
    pub at_most: Option<u64>,
    /// Authenticates the client.
    pub token: Option<AccessToken>,
}

/// Progress of a download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DownloadEvent {
    /// The server answered; `have` bytes are here from an earlier attempt.
    Started {
        /// Where it comes from.
        url: String,
        /// Length of the whole file, where the server says.
        total: Option<u64>,
        /// Bytes that need not be fetched again.
        have: u64,
    },
    /// This many bytes are here now.
    Progress {
        /// Of the whole file.
        have: u64,
    },
    /// A file that was here already is not what it should be, and is fetched again.
    Damaged {
        /// What is wrong with it.
        problem: FileDamage,
    },
    /// The connection broke, and another attempt follows.
    Retrying {
        /// What happened.
        problem: DownloadProblem,
    },
}

/// How sure one can be that the file is right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Checked {
    /// It has the hash of the catalogue.
    Listed,
    /// It has the hash recorded on an earlier download.
    Recorded,
    /// There was nothing to compare with: its hash is recorded now.
    First,
    /// It differs from the earlier download, whose hash this was.
    Changed(String),
}

/// A file that is here now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Downloaded {
    /// Where it is.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Of the whole file.
    pub sha256: String,
    /// What that was compared with.
    pub checked: Checked,
    /// False if it was here already.
    pub fetched: bool,
}

/// Fetches a set into a folder, unless it is there.
///
/// # Errors
/// The server can't be reached or sends something else, the hash is wrong, or the folder can't be written.
/// The bytes received so far are kept for the next attempt, unless they are wrong.
pub fn download(
    set: &PublicSet,
    folder: &Path,
    options: &DownloadOptions,
    on: &mut dyn FnMut(DownloadEvent),
) -> Result<Downloaded> {
    let remote = Remote {
        url: set.address(options.endpoint.as_deref()),
        hash: set.sha256.and_then(FileHash::sha256),
        bytes: set.sha256.map(|_| set.bytes),
        at_most: Some(set.bytes.saturating_mul(GROWTH)),
        token: None,
    };
    download_file(&remote, &folder.join(set.file), options, on)
}

/// Fetches one file to a place, unless it is there.
///
/// # Errors
/// As [`download`].
pub fn download_file(
    remote: &Remote,
    path: &Path,
    options: &DownloadOptions,
    on: &mut dyn FnMut(DownloadEvent),
) -> Result<Downloaded> {
    if !options.force && minigpt_files::is_there(path)? {
        return already_there(remote, path.to_owned());
    }
    let mut part = Part::find(path, &remote.url)?;
    Fetch { remote, client: client(), pause: options.pause, on }.run(&mut part)?;
    finish(remote, part, path.to_owned())
}

/// A short text, such as an answer of an interface.
///
/// # Errors
/// As [`download`], and a text that is longer than `limit` bytes.
pub fn download_text(remote: &Remote, limit: u64, options: &DownloadOptions) -> Result<String> {
    let mut failures = 0;
    loop {
        let asked = Request {
            url: &remote.url,
            start: 0,
            version: None,
            token: remote.token.as_ref(),
            patience: Some(PATIENCE),
        };
        let answer = request(&client(), &asked);
        let (problem, wait) = match answer {
            Ok(answer) => {
                let mut text = String::new();
                match io::Read::read_to_string(&mut io::Read::take(answer.body, limit + 1), &mut text) {
                    Ok(read) if read as u64 <= limit => return Ok(text),
                    Ok(_) => {
                        let problem = DownloadProblem::ResponseTooLong { limit };
                        return Err(Error::Download { url: remote.url.clone(), problem });
                    }
                    Err(e) => (DownloadProblem::Connection(e.to_string()), Duration::ZERO),
                }
            }
            Err(Fault::Final(error)) => return Err(error),
            Err(Fault::Unreachable(problem)) => {
                return Err(Error::Offline { url: remote.url.clone(), problem });
            }
            Err(Fault::Passing(problem)) => (problem, Duration::ZERO),
            Err(Fault::Wait(problem, wait)) => (problem, wait),
            Err(Fault::Beyond(_)) => (DownloadProblem::Malformed, Duration::ZERO),
        };
        failures += 1;
        if failures >= ATTEMPTS {
            return Err(Error::Download { url: remote.url.clone(), problem });
        }
        thread::sleep(wait.max(options.pause * (1 << (failures - 1))));
    }
}

/// Checks a file that is there against what is known of it.
fn already_there(remote: &Remote, path: PathBuf) -> Result<Downloaded> {
    let (sha256, bytes) = sha256(&path)?;
    let recorded = recorded(&path).and_then(|hash| FileHash::sha256(&hash));
    match remote.hash.clone().or(recorded) {
        Some(expected) if expected == found(&expected, &path, &sha256)? => {
            let checked = if remote.hash.is_some() { Checked::Listed } else { Checked::Recorded };
            Ok(Downloaded { path, bytes, sha256, checked, fetched: false })
        }
        _ => Err(minigpt_files::Error::Exists { path }.into()),
    }
}

/// The hash of a file of the kind that is expected; its SHA-256 is known already.
fn found(expected: &FileHash, path: &Path, sha256: &str) -> Result<FileHash> {
    match expected {
        FileHash::Sha256(_) => Ok(FileHash::Sha256(sha256.to_owned())),
        FileHash::GitBlob(_) => expected.of_file(path),
    }
}

fn finish(remote: &Remote, mut part: Part, path: PathBuf) -> Result<Downloaded> {
    let (sha256, bytes) = sha256(&part.path)?;
    if bytes != part.have {
        let problem = DownloadProblem::ChangedMeanwhile(part.path);
        return Err(Error::Download { url: part.note.url, problem });
    }
    let checked = match (&remote.hash, recorded(&path)) {
        (Some(expected), _) => {
            let found = found(expected, &part.path, &sha256)?;
            if found != *expected {
                part.restart()?;
                return Err(Error::WrongHash { url: part.note.url, expected: expected.clone(), found });
            }
            Checked::Listed
        }
        (None, Some(before)) if before == sha256 => Checked::Recorded,
        (None, Some(before)) => Checked::Changed(before),
        (None, None) => Checked::First,
    };
    part.finish(&path)?;
    record(&path, &sha256)?;
    Ok(Downloaded { path, bytes, sha256, checked, fetched: true })
}

/// One download under way.
struct Fetch<'a> {
    remote: &'a Remote,
    client: Agent,
    pause: Duration,
    on: &'a mut dyn FnMut(DownloadEvent),
}

impl Fetch<'_> {
    /// Tries until the part is whole.
    fn run(&mut self, part: &mut Part) -> Result<()> {
        let (mut failures, mut any) = (0, false);
        loop {
            let before = part.have;
            let fault = match self.attempt(part) {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            };
            any |= part.have > before;
            failures = if part.have > before { 1 } else { failures + 1 };
            let mut wait = Duration::ZERO;
            let problem = match fault {
                Fault::Final(error) => return Err(error),
                Fault::Wait(problem, asked) => {
                    wait = asked;
                    problem
                }
                Fault::Unreachable(problem) if !any => {
                    return Err(Error::Offline { url: self.remote.url.clone(), problem });
                }
                Fault::Unreachable(problem) => DownloadProblem::Connection(problem),
                Fault::Passing(problem) => problem,
                Fault::Beyond(_) => DownloadProblem::ShorterThanPart,
            };
            if failures >= ATTEMPTS {
                return Err(Error::Download { url: self.remote.url.clone(), problem });
            }
            (self.on)(DownloadEvent::Retrying { problem });
            thread::sleep(wait.max(self.pause * (1 << (failures - 1))));
        }
    }

    /// One request, from where the part ends.
    fn attempt(&mut self, part: &mut Part) -> Result<(), Fault> {
        let Some(answer) = self.ask(part)? else { return Ok(()) };
        let total = answer.total.or(self.pinned_length());
        part.describe(answer.version.clone()).map_err(Fault::Final)?;
        let (url, have) = (self.remote.url.clone(), part.have);
        (self.on)(DownloadEvent::Started { url, total: answer.total, have });
        self.receive(answer, part)?;
        match total {
            Some(total) if part.have < total => {
                Err(Fault::Passing(DownloadProblem::EndedEarly { have: part.have, total }))
            }
            Some(total) if part.have > total => self.too_long(part, total),
            None if part.have > self.limit() => self.too_long(part, self.limit()),
            _ => Ok(()),
        }
    }

    /// An answer that continues the part, which is emptied where it can't be continued; `None` if it is whole.
    fn ask(&self, part: &mut Part) -> Result<Option<Answer>, Fault> {
        if part.note.version.is_none() && self.pinned_length().is_none() {
            // Nothing would tell whether the rest is of the same version of the file.
            part.restart().map_err(Fault::Final)?;
        }
        let asked = Request {
            url: &self.remote.url,
            start: part.have,
            version: part.note.version.as_deref(),
            token: self.remote.token.as_ref(),
            patience: None,
        };
        let answer = match request(&self.client, &asked) {
            Ok(answer) => answer,
            // It was whole before, and only its renaming was missing.
            Err(Fault::Beyond(Some(total))) if total == part.have => return Ok(None),
            Err(Fault::Beyond(_)) => return Err(stale(part)),
            Err(fault) => return Err(fault),
        };
        if let (Some(total), Some(expected)) = (answer.total, self.pinned_length())
            && total != expected
        {
            return Err(failed(&self.remote.url, DownloadProblem::OtherLength { total, expected }));
        }
        if let Some(total) = answer.total.filter(|total| *total > self.limit()) {
            let problem = DownloadProblem::TooLarge { total, limit: self.limit() };
            return Err(failed(&self.remote.url, problem));
        }
        if answer.start > 0 && answer.version != part.note.version {
            return Err(stale(part));
        }
        if answer.start == 0 {
            part.restart().map_err(Fault::Final)?;
        }
        Ok(Some(answer))
    }

    /// The length of the file, where it can't change.
    fn pinned_length(&self) -> Option<u64> {
        self.remote.bytes
    }

    /// How many bytes are taken at most.
    fn limit(&self) -> u64 {
        self.pinned_length().or(self.remote.at_most).unwrap_or(u64::MAX)
    }

    fn too_long(&self, part: &mut Part, total: u64) -> Result<(), Fault> {
        part.restart().map_err(Fault::Final)?;
        Err(failed(&self.remote.url, DownloadProblem::SentMore { total }))
    }

    fn receive(&mut self, mut answer: Answer, part: &mut Part) -> Result<(), Fault> {
        let limit = self.limit();
        let mut buffer = vec![0; 1 << 16];
        while part.have <= limit {
            let n = match answer.body.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Fault::Passing(DownloadProblem::Connection(e.to_string()))),
            };
            part.append(&buffer[..n]).map_err(Fault::Final)?;
            (self.on)(DownloadEvent::Progress { have: part.have });
        }
        Ok(())
    }
}

/// Empties a part that can't be continued.
fn stale(part: &mut Part) -> Fault {
    match part.restart() {
        Ok(()) => Fault::Passing(DownloadProblem::StalePart),
        Err(error) => Fault::Final(error),
    }
}
