//! A file as memory: the system reads what is touched, when it is touched.
#![expect(unsafe_code, reason = "a memory map is unsafe by nature")]

use super::{io, problem};
use crate::error::Result;
use memmap2::Mmap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A file mapped read-only.
pub struct Mapped(Arc<Mmap>);

impl Mapped {
    pub fn open(path: &Path) -> Result<Self> {
        // Asked before it is opened: opening a pipe waits for somebody to write into it.
        let metadata = std::fs::metadata(path).map_err(|e| io(path, e))?;
        if !metadata.is_file() {
            return Err(problem(path, "is not a file"));
        }
        if metadata.len() == 0 {
            return Err(problem(path, "is empty"));
        }
        let file = File::open(path).map_err(|e| io(path, e))?;
        // SAFETY: the bytes are only read, and only as plain numbers. Another program that changed the file meanwhile
        // could change those numbers, and one that cut it short could end this process, as long as a model reads its
        // file: model files are replaced by renaming, never rewritten in place, by this program as by others.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| io(path, e))?;
        Ok(Self(Arc::new(map)))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The whole file, and where in it a part lies, for who keeps the part; none if it is not a part.
    pub fn share(&self, part: &[u8]) -> Option<(Arc<Mmap>, Range<usize>)> {
        let start = (part.as_ptr() as usize).checked_sub(self.0.as_ptr() as usize)?;
        let end = start.checked_add(part.len())?;
        (end <= self.0.len()).then(|| (Arc::clone(&self.0), start..end))
    }

    /// Lets go of the memory behind a part of the file that has been copied: reading it again would bring it back.
    /// Without this, what was read would count as ours until the end.
    pub fn release(&self, part: &[u8]) {
        #[cfg(unix)]
        if let Some((_, range)) = self.share(part)
            && !part.is_empty()
        {
            // SAFETY: the pages of a read-only map of a file hold nothing that the file does not.
            // That it can't be done is no harm either.
            let _ = unsafe {
                self.0.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, part.len())
            };
        }
        #[cfg(not(unix))]
        let _ = part;
    }
}
