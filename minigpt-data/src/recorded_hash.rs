//! The SHA-256 of a file, and the one that was recorded beside it (`FILE.sha256`, as `sha256sum` writes it).

use crate::error::{Error, Result};
use crate::tokens::hex;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

fn record_path(path: &Path) -> PathBuf {
    with_suffix(path, ".sha256")
}

/// The hash that an earlier download recorded.
pub(crate) fn recorded(path: &Path) -> Option<String> {
    let line = fs::read_to_string(record_path(path)).ok()?;
    line.split_whitespace().next().map(str::to_owned)
}

/// SHA-256 and length of a file.
pub(crate) fn hash(path: &Path) -> Result<(String, u64)> {
    let mut file = File::open(path).map_err(|e| Error::io("read", path, e))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((hex(&hash.finalize()), bytes)),
            Ok(n) => {
                hash.update(&buffer[..n]);
                bytes += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io("read", path, e)),
        }
    }
}

/// Records the hash of a file for later downloads, and for `sha256sum --check`.
pub(crate) fn record(path: &Path, sha256: &str) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let record = record_path(path);
    fs::write(&record, format!("{sha256}  {name}\n")).map_err(|e| Error::io("write", &record, e))
}

/// A path with something after its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
