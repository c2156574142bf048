//! A file's bytes without reading it into memory: the one place of this crate that needs `unsafe`.

#![expect(unsafe_code, reason = "a memory map is unsafe by nature; everything around it is not")]

use crate::error::{Error, Result};
use memmap2::Mmap;
use std::fs::File;
use std::path::Path;

/// The bytes of a file, mapped.
#[derive(Debug)]
pub(crate) struct Mapped(Option<Mmap>);

impl Mapped {
    /// Maps a regular file. An empty one has no bytes and needs no map.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io("read", path, e))?;
        let about = file.metadata().map_err(|e| Error::io("read", path, e))?;
        if !about.is_file() {
            let problem = "not a regular file, which a memory map needs".to_owned();
            return Err(Error::BadTokens { path: path.to_owned(), problem });
        }
        if about.len() == 0 {
            return Ok(Mapped(None));
        }
        // SAFETY: the map is read-only, and only ever read as bytes, for which every value is valid. Another
        // process could change the file under us: bytes that change are checked where they are used (an id
        // beyond the vocabulary is an error there). One that makes the file shorter ends this process with a
        // bus error, as it does every program that maps files; our own files are only ever replaced whole.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| Error::io("map", path, e))?;
        Ok(Mapped(Some(map)))
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}
