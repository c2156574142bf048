//! A file that can be read more than once: regular files of UTF-8 as they are, pipes and other encodings through a temporary
//! file.
//!
//! Several passes are what keeps memory bounded (count first, then write), and a pipe allows only one, so
//! standard input is first copied to a temporary file, which vanishes with the process.

use crate::encoding::{Decoded, SAMPLE, TextEncoding};
use crate::error::{Error, Result};
use crate::name::DataName;
use minigpt_files::Action;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// Bytes that a pipe may give: they are kept on the disk until the end.
const MOST_THROUGH_A_PIPE: u64 = 16 << 30;

/// Bytes of the beginning that are kept, to tell what kind of file it is.
const KEPT: usize = 1 << 16;

/// An open input that can be rewound.
#[derive(Debug)]
pub struct InputFile {
    file: File,
    name: DataName,
    bytes: u64,
    sample: Vec<u8>,
    encoding: Option<TextEncoding>,
    replaced: u64,
}

impl InputFile {
    /// Opens a path; `-` is standard input. The encoding is detected.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_as(path, None)
    }

    /// The same with the encoding, if it is known.
    pub fn open_as(path: &Path, encoding: Option<TextEncoding>) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Self::spool(&mut io::stdin().lock(), &DataName::StandardInput)?.decoded(encoding);
        }
        let about = std::fs::metadata(path).map_err(|e| Error::io(Action::Read, path, e))?;
        if about.is_dir() {
            return Err(Error::Folder(path.to_owned()));
        }
        let name = DataName::from(path);
        if !about.is_file() {
            return Self::spool(&mut minigpt_files::open_file_or_pipe(path)?, &name)?.decoded(encoding);
        }
        let (file, bytes) = minigpt_files::open_file(path)?;
        Self::of(file, name, bytes)?.decoded(encoding)
    }

    fn of(file: File, name: DataName, bytes: u64) -> Result<Self> {
        let mut input = InputFile { file, name, bytes, sample: Vec::new(), encoding: None, replaced: 0 };
        let mut sample = Vec::new();
        let read = input.rewind()?.take(SAMPLE as u64).read_to_end(&mut sample);
        read.map_err(|e| Error::io_named(Action::Read, &input.name, e))?;
        input.sample = sample;
        Ok(input)
    }

    fn spool(from: &mut dyn Read, name: &DataName) -> Result<Self> {
        let mut file = temporary(name)?;
        let from = &mut Read::take(from, MOST_THROUGH_A_PIPE + 1);
        let bytes = io::copy(from, &mut file).map_err(|e| Error::io_named(Action::Copy, name, e))?;
        if bytes > MOST_THROUGH_A_PIPE {
            return Err(Error::TooMuchThroughAPipe { name: name.clone(), limit: MOST_THROUGH_A_PIPE });
        }
        Self::of(file, name.clone(), bytes)
    }

    /// The same as UTF-8.
    fn decoded(mut self, encoding: Option<TextEncoding>) -> Result<Self> {
        let encoding = encoding.unwrap_or_else(|| TextEncoding::of(&self.sample));
        self.sample.truncate(KEPT);
        self.sample.shrink_to_fit();
        if encoding.is_utf8() {
            return Ok(self);
        }
        let mut file = io::BufWriter::new(temporary(&self.name)?);
        let Decoded { bytes, replaced } = encoding.decode(self.rewind()?, &mut file, &self.name)?;
        let file =
            file.into_inner().map_err(|e| Error::io_named(Action::Copy, &self.name, e.into_error()))?;
        Ok(InputFile { encoding: Some(encoding), replaced, ..Self::of(file, self.name, bytes)? })
    }

    /// Its path, or standard input.
    pub fn name(&self) -> &DataName {
        &self.name
    }

    /// Its length as UTF-8 when it was opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its encoding, if it is not UTF-8.
    pub fn encoding(&self) -> Option<TextEncoding> {
        self.encoding
    }

    /// Characters that were invalid in its encoding and were replaced by U+FFFD.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    /// How it begins, as UTF-8.
    pub(crate) fn sample(&self) -> &[u8] {
        &self.sample
    }

    /// The file from its start.
    pub fn rewind(&self) -> Result<&File> {
        (&self.file).rewind().map_err(|e| Error::io_named(Action::Read, &self.name, e))?;
        Ok(&self.file)
    }
}

fn temporary(name: &DataName) -> Result<File> {
    tempfile::tempfile().map_err(|e| Error::io_named(Action::CopyToTemporary, name, e))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A file with these bytes.
    pub(crate) fn written(bytes: &[u8]) -> InputFile {
        InputFile::spool(&mut &bytes[..], &"a.jsonl".into()).unwrap()
    }

    #[test]
    fn a_pipe_can_be_read_twice() {
        let input = written(b"abc");
        for _ in 0..2 {
            let mut text = String::new();
            input.rewind().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "abc");
        }
        assert_eq!((input.bytes(), input.encoding()), (3, None));
    }

    #[test]
    fn another_encoding_is_found_out_and_read_as_utf8() {
        let text = "天空为什么是蓝色的？因为空气散射阳光中的蓝光。你好，世界！\n".repeat(30);
        let input = written(&encoding_rs::GBK.encode(&text).0).decoded(None).unwrap();
        let mut read = String::new();
        input.rewind().unwrap().read_to_string(&mut read).unwrap();
        assert_eq!((read, input.bytes() as usize), (text.clone(), text.len()));
        assert_eq!(input.encoding().unwrap().name(), "gb18030");
    }

    #[test]
    fn folders_and_missing_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing.jsonl");
        let error = |path: &Path| InputFile::open(path).unwrap_err().to_string();
        assert_eq!(error(&missing), format!("could not read {}", missing.display()));
        let folder = dir.path();
        assert_eq!(error(folder), format!("{} is a folder; a file is needed here", folder.display()));
    }
}
