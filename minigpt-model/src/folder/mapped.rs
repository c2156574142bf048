//! A file as memory: the system reads what is touched, when it is touched.
#![expect(unsafe_code, reason = "a memory map is unsafe by nature")]

use super::{io, problem};
use crate::error::Result;
use memmap2::Mmap;
use std::fs::File;
use std::path::Path;

/// A file mapped read-only.
pub struct Mapped(Mmap);

impl Mapped {
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| io(path, e))?;
        let metadata = file.metadata().map_err(|e| io(path, e))?;
        if !metadata.is_file() {
            return Err(problem(path, "is not a file"));
        }
        if metadata.len() == 0 {
            return Err(problem(path, "is empty"));
        }
        // SAFETY: the bytes are only read, and only as plain numbers. Another program that changed the file meanwhile
        // could change those numbers, and one that cut it short could end this process: model files are replaced by
        // renaming, never rewritten in place, by this program as by others.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| io(path, e))?;
        Ok(Self(map))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}
