//! A file's bytes without reading it into memory: the one place outside of the kernels that needs `unsafe`.
#![expect(unsafe_code, reason = "a memory map is unsafe by nature; everything around it is not")]

use crate::error::{Action, Error, Result};
use crate::read::open_file;
use memmap2::Mmap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The bytes of a file, mapped read-only. Clones share the map.
#[derive(Debug, Clone)]
pub struct Mapped(Option<Arc<Mmap>>);

impl Mapped {
    /// Maps a regular file. An empty one has no bytes and needs no map.
    pub fn open(path: &Path) -> Result<Self> {
        let (file, len) = open_file(path)?;
        if len == 0 {
            return Ok(Self(None));
        }
        // SAFETY: the map is read-only, and read as plain bytes or numbers, for which every value is valid. Another
        // process could change the file meanwhile: values that matter are checked where they are used. One that makes
        // the file shorter makes reading it a bus error, which ends the process: what reads for long reads a copy or
        // `ReadAt`, and files of this project are only ever replaced whole.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| Error::io(Action::Map, path, e))?;
        Ok(Self(Some(Arc::new(map))))
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_deref().map(|map| &map[..]).unwrap_or_default()
    }

    /// Where in the file a part of [`Self::bytes`] lies; none if it is not a part of it.
    pub fn range_of(&self, part: &[u8]) -> Option<Range<usize>> {
        let start = (part.as_ptr() as usize).checked_sub(self.bytes().as_ptr() as usize)?;
        let end = start.checked_add(part.len())?;
        (end <= self.bytes().len()).then_some(start..end)
    }

    /// Finds the memory behind some bytes that are soon needed, and reads them if the system does not hold them yet: in one
    /// piece that is faster than page after page. Only Linux is asked for this.
    pub fn prepare(&self, range: Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Some(map) = &self.0
            && !range.is_empty()
            && range.end <= map.len()
        {
            // An old kernel does not know this; the bytes are then read when they are needed.
            let _ = map.advise_range(memmap2::Advice::PopulateRead, range.start, range.len());
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }

    /// Lets go of the memory behind some bytes that are no longer needed: reading them again would bring it back.
    /// Without this, what was read counts as this process's memory until the map is gone.
    pub fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Some(map) = &self.0
            && !range.is_empty()
            && range.end <= map.len()
        {
            use memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: the pages of a read-only map of a file hold nothing that the file does not; whoever still reads
            // them reads the file again. That it can't be done is no harm either.
            let _ = unsafe { map.unchecked_advise_range(DontNeed, range.start, range.len()) };
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn bytes_are_those_of_the_file_and_parts_are_found_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"0123456789").unwrap();
        let map = Mapped::open(&path).unwrap();
        assert_eq!(map.bytes(), b"0123456789");
        assert_eq!(map.range_of(&map.bytes()[3..5]), Some(3..5));
        assert_eq!(map.range_of(b"elsewhere"), None);
        map.prepare(2..7);
        map.prepare(5..99);
        map.release(0..10);
        assert_eq!(map.bytes(), b"0123456789");
        map.release(5..99);
    }

    #[test]
    fn an_empty_file_has_no_bytes_and_a_folder_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("empty"), b"").unwrap();
        assert_eq!(Mapped::open(&dir.path().join("empty")).unwrap().bytes(), b"");
        assert!(matches!(Mapped::open(dir.path()), Err(Error::NotAFile { .. })));
        assert!(matches!(Mapped::open(&dir.path().join("missing")), Err(Error::Io { .. })));
    }
}
