//! Token ids, in memory or in a file of 2- or 4-byte little-endian numbers (nanoGPT's format).

use crate::error::{Error, Result};
use crate::name::DataName;
use crate::prepared::META;
use minigpt_files::{Action, ReadAt};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How wide an id is in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdWidth {
    /// Two bytes: up to 65,536 ids. What nanoGPT writes.
    U16,
    /// Four bytes.
    U32,
}

impl IdWidth {
    /// The narrowest type that holds every id of a vocabulary.
    pub fn for_vocabulary(size: usize) -> Self {
        if size <= 1 << 16 { IdWidth::U16 } else { IdWidth::U32 }
    }

    /// Bytes of one id.
    pub fn width(self) -> usize {
        match self {
            IdWidth::U16 => 2,
            IdWidth::U32 => 4,
        }
    }
}

/// A row of token ids. Cheap to clone: clones share the ids.
#[derive(Debug, Clone)]
pub struct Tokens {
    name: Arc<DataName>,
    store: Store,
    len: u64,
}

#[derive(Debug, Clone)]
enum Store {
    Memory(Arc<[u32]>),
    File(ReadAt, IdWidth),
}

impl From<Vec<u32>> for Tokens {
    fn from(ids: Vec<u32>) -> Self {
        let len = ids.len() as u64;
        Tokens { name: DataName::Memory.into(), store: Store::Memory(ids.into()), len }
    }
}

impl Tokens {
    /// Opens a file of ids; they stay in it.
    ///
    /// # Errors
    /// A file that can't be read or whose length is no multiple of the width.
    pub fn open(path: &Path, dtype: IdWidth) -> Result<Self> {
        let file = ReadAt::open(path)?;
        let (bytes, width) = (file.len(), dtype.width() as u64);
        if bytes % width != 0 {
            let problem = TokensProblem::NotAMultiple { bytes, width };
            return Err(Error::BadTokens { path: path.to_owned(), problem });
        }
        let name = DataName::from(path).into();
        Ok(Tokens { name, store: Store::File(file, dtype), len: bytes / width })
    }

    /// At most the first `limit` ids.
    pub fn limited(mut self, limit: Option<u64>) -> Self {
        self.len = self.len.min(limit.unwrap_or(u64::MAX));
        self
    }

    /// The file, or [`DataName::Memory`].
    pub fn name(&self) -> &DataName {
        &self.name
    }

    /// How many ids there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends the ids of a range to `to`.
    ///
    /// # Errors
    /// A file that was cut short since it was opened.
    ///
    /// # Panics
    /// A range that goes beyond the end.
    pub fn read(&self, range: Range<u64>, to: &mut Vec<u32>) -> Result<()> {
        assert!(range.end <= self.len, "{range:?} is beyond {}", self.len);
        match &self.store {
            Store::Memory(ids) => to.extend_from_slice(&ids[range.start as usize..range.end as usize]),
            Store::File(file, dtype) => {
                let width = dtype.width() as u64;
                decode(&file.read(range.start * width..range.end * width)?, *dtype, to);
            }
        }
        Ok(())
    }

    /// Checks that every id is below `vocab_size`: one pass over all of it.
    ///
    /// # Errors
    /// The first id that is not.
    pub fn check(&self, vocab_size: usize) -> Result<()> {
        let mut ids = Vec::new();
        for start in (0..self.len).step_by(1 << 16) {
            ids.clear();
            self.read(start..self.len.min(start + (1 << 16)), &mut ids)?;
            check_ids(&self.name, start, &ids, vocab_size)?;
        }
        Ok(())
    }

    /// The largest id, in one pass over all of it; 0 without any.
    pub fn largest(&self) -> Result<u32> {
        let mut ids = Vec::new();
        let mut largest = 0;
        for start in (0..self.len).step_by(1 << 16) {
            ids.clear();
            self.read(start..self.len.min(start + (1 << 16)), &mut ids)?;
            largest = ids.iter().copied().fold(largest, u32::max);
        }
        Ok(largest)
    }

    /// A hash of the length and of ids spread over the whole: it tells data sets apart in no time.
    pub fn fingerprint(&self) -> Result<String> {
        const SAMPLES: u64 = 64;
        const EACH: u64 = 1024;
        let mut hash = Sha256::new();
        hash.update(self.len.to_le_bytes());
        let mut ids = Vec::new();
        let last = self.len.saturating_sub(EACH);
        for sample in 0..SAMPLES {
            let start = (u128::from(last) * u128::from(sample) / u128::from(SAMPLES - 1)) as u64;
            self.read(start..self.len.min(start + EACH), &mut ids)?;
        }
        for id in ids {
            hash.update(id.to_le_bytes());
        }
        Ok(hex(&hash.finalize()))
    }
}

fn decode(bytes: &[u8], dtype: IdWidth, to: &mut Vec<u32>) {
    match dtype {
        IdWidth::U16 => {
            to.extend(bytes.as_chunks::<2>().0.iter().map(|&pair| u32::from(u16::from_le_bytes(pair))));
        }
        IdWidth::U32 => to.extend(bytes.as_chunks::<4>().0.iter().map(|&four| u32::from_le_bytes(four))),
    }
}

/// Finds the first id that a vocabulary does not have.
pub(crate) fn check_ids(name: &DataName, start: u64, ids: &[u32], vocab_size: usize) -> Result<()> {
    let largest = ids.iter().copied().max().unwrap_or(0);
    if (largest as usize) < vocab_size {
        return Ok(());
    }
    let at = ids.iter().position(|&id| id as usize >= vocab_size).unwrap_or(0);
    let (name, position) = (name.clone(), start + at as u64);
    Err(Error::BeyondVocabulary { name, position, id: ids[at], vocab_size })
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is wrong with a folder of prepared tokens.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's text says what it is")]
pub enum TokensProblem {
    #[error(
        "its {bytes} bytes are not a multiple of {width}: it is cut off, or not a file of {width}-byte ids"
    )]
    NotAMultiple { bytes: u64, width: u64 },
    #[error("its tokens were made with another tokenizer than the one given")]
    OtherTokenizer,
    #[error("not a valid description: {0}")]
    BadMeta(String),
    #[error("{format:?} {version} is not a format that this version reads")]
    OtherFormat { format: String, version: u32 },
    #[error("it has {tokens} tokens, but {META} says {described}: prepare the data again")]
    OtherCount { tokens: u64, described: u64 },
    #[error("its tokenizer is not the one that {META} describes: prepare the data again")]
    ChangedTokenizer,
}

/// Writes a file of ids.
#[derive(Debug)]
pub struct TokenWriter {
    path: PathBuf,
    file: BufWriter<File>,
    dtype: IdWidth,
    written: u64,
    bytes: Vec<u8>,
}

impl TokenWriter {
    /// Starts a file; one that is there is overwritten.
    pub fn create(path: &Path, dtype: IdWidth) -> Result<Self> {
        let file = File::create(path).map_err(|e| Error::io(Action::Create, path, e))?;
        Ok(TokenWriter {
            path: path.to_owned(),
            file: BufWriter::with_capacity(1 << 18, file),
            dtype,
            written: 0,
            bytes: Vec::new(),
        })
    }

    /// Appends ids. One that does not fit the width is the tokenizer's mistake, and an error.
    pub fn write(&mut self, ids: &[u32]) -> Result<()> {
        if self.dtype == IdWidth::U16 {
            check_ids(&self.path.as_path().into(), self.written, ids, 1 << 16)?;
        }
        self.bytes.clear();
        match self.dtype {
            IdWidth::U16 => self.bytes.extend(ids.iter().flat_map(|&id| (id as u16).to_le_bytes())),
            IdWidth::U32 => self.bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes())),
        }
        self.file.write_all(&self.bytes).map_err(|e| Error::io(Action::Write, &self.path, e))?;
        self.written += ids.len() as u64;
        Ok(())
    }

    /// Flushes, and says how many ids were written.
    pub fn finish(mut self) -> Result<u64> {
        self.file.flush().map_err(|e| Error::io(Action::Write, &self.path, e))?;
        Ok(self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(ids: &[u32], dtype: IdWidth) -> (tempfile::TempDir, Tokens) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train.bin");
        let mut writer = TokenWriter::create(&path, dtype).unwrap();
        writer.write(ids).unwrap();
        assert_eq!(writer.finish().unwrap(), ids.len() as u64);
        let tokens = Tokens::open(&path, dtype).unwrap();
        (dir, tokens)
    }

    fn all(tokens: &Tokens) -> Vec<u32> {
        let mut ids = Vec::new();
        tokens.read(0..tokens.len(), &mut ids).unwrap();
        ids
    }

    #[test]
    fn the_file_is_numpys_little_endian_uint16() {
        let (dir, _) = written(&[0, 1, 256, 65535], IdWidth::U16);
        let bytes = std::fs::read(dir.path().join("train.bin")).unwrap();
        assert_eq!(bytes, [0, 0, 1, 0, 0, 1, 255, 255]);
    }

    #[test]
    fn the_width_follows_the_vocabulary() {
        assert_eq!(IdWidth::for_vocabulary(65), IdWidth::U16);
        assert_eq!(IdWidth::for_vocabulary(65_536), IdWidth::U16);
        assert_eq!(IdWidth::for_vocabulary(65_537), IdWidth::U32);
    }

    #[test]
    fn a_file_of_odd_length_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train.bin");
        std::fs::write(&path, [1, 2, 3]).unwrap();
        let error = Tokens::open(&path, IdWidth::U16).unwrap_err().to_string();
        assert!(
            error.ends_with("3 bytes are not a multiple of 2: it is cut off, or not a file of 2-byte ids")
        );
        assert!(Tokens::open(dir.path(), IdWidth::U16).is_err());
    }

    #[test]
    fn an_empty_file_has_no_tokens() {
        let (_dir, tokens) = written(&[], IdWidth::U16);
        assert!(tokens.is_empty());
        assert!(tokens.check(1).is_ok());
        assert_eq!(tokens.fingerprint().unwrap().len(), 64);
    }

    #[test]
    fn ids_beyond_the_vocabulary_are_named() {
        let mut ids = vec![3; 70_000];
        ids[66_000] = 64;
        let (_dir, tokens) = written(&ids, IdWidth::U32);
        assert!(tokens.check(65).is_ok());
        assert_eq!(tokens.largest().unwrap(), 64);
        let error = tokens.check(64).unwrap_err().to_string();
        assert!(error.contains("token 66000 is 64, but the vocabulary has 64 entries"), "{error}");
    }

    #[test]
    fn an_id_too_wide_for_its_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = TokenWriter::create(&dir.path().join("x"), IdWidth::U16).unwrap();
        assert!(writer.write(&[1, 65_536]).is_err());
    }

    #[test]
    fn a_fingerprint_tells_lengths_and_contents_apart() {
        let of = |ids: Vec<u32>| Tokens::from(ids).fingerprint().unwrap();
        assert_eq!(of(vec![1, 2, 3]), of(vec![1, 2, 3]));
        assert_ne!(of(vec![1, 2, 3]), of(vec![1, 2, 4]));
        assert_ne!(of(vec![1; 5000]), of(vec![1; 5001]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_was_written_is_read_back(ids in proptest::collection::vec(any::<u32>(), 0..50), limit in 0_u64..60) {
            let (_dir, tokens) = written(&ids, IdWidth::U32);
            prop_assert_eq!(&all(&tokens), &ids);
            prop_assert_eq!(tokens.fingerprint().unwrap(), Tokens::from(ids.clone()).fingerprint().unwrap());
            let limited = all(&tokens.limited(Some(limit)));
            prop_assert_eq!(&limited[..], &ids[..ids.len().min(limit as usize)]);
            let narrow: Vec<u32> = ids.iter().map(|id| id & 0xffff).collect();
            prop_assert_eq!(all(&written(&narrow, IdWidth::U16).1), narrow);
        }
    }
}
