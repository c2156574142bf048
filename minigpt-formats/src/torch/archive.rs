//! The files inside a `.pt`: a zip archive in which nothing is compressed, so that a file is a slice of it. Archives and
//! files beyond 4 GB (zip64) are read and written.

use super::TorchProblem;
use super::after_failure::{FirstError, KeepsFirstError};
use std::collections::BTreeMap;
use std::io::{self, Cursor, Seek, Write};
use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZIP64_BYTES_THR, ZipArchive, ZipWriter};

/// Files that an archive may hold: far more than any model has tensors.
const MOST_FILES: usize = 1 << 20;
/// What PyTorch aligns the data of each file to.
const ALIGNMENT: u16 = 64;
/// The folder inside an archive, which PyTorch names after the file.
const FOLDER: &str = "archive";

/// The files of an archive by their paths, without the folder that all of them lie in.
pub struct Archive<'a> {
    files: BTreeMap<String, &'a [u8]>,
}

impl<'a> Archive<'a> {
    /// Reads the directory at the end of an archive, and none of its files.
    pub fn open(bytes: &'a [u8]) -> Result<Self, TorchProblem> {
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let mut archive = ZipArchive::with_config(config, Cursor::new(bytes))
            .map_err(|e| TorchProblem::NotAnArchive(e.to_string()))?;
        if archive.len() > MOST_FILES {
            return Err(TorchProblem::TooManyFiles);
        }
        let mut files = BTreeMap::new();
        for index in 0..archive.len() {
            let malformed = |e: ZipError| TorchProblem::Malformed(e.to_string());
            let file = archive.by_index_raw(index).map_err(malformed)?;
            let name = file.name().map_err(malformed)?.into_owned();
            if file.compression() != CompressionMethod::STORE || file.compressed_size() != file.size() {
                return Err(TorchProblem::Compressed { name });
            }
            if file.encrypted() {
                return Err(TorchProblem::Encrypted { name });
            }
            let range = file.data_start().and_then(|start| {
                let start = usize::try_from(start).ok()?;
                Some(start..start.checked_add(usize::try_from(file.size()).ok()?)?)
            });
            let data = range.and_then(|range| bytes.get(range));
            let Some(data) = data else { return Err(TorchProblem::BeyondArchive { name }) };
            let inside = name.split_once('/').map_or(&name[..], |(_, inside)| inside);
            files.insert(inside.to_owned(), data);
        }
        Ok(Self { files })
    }

    /// The file at a path inside the archive's folder.
    pub fn file(&self, path: &str) -> Option<&'a [u8]> {
        self.files.get(path).copied()
    }
}

/// An archive that is being written.
pub struct ArchiveWriter<W: Write + Seek> {
    zip: ZipWriter<KeepsFirstError<W>>,
    error: FirstError,
    /// Files of this size and more are written as zip64.
    large: u64,
}

impl<W: Write + Seek> ArchiveWriter<W> {
    /// Begins an archive.
    pub fn new(out: W) -> Self {
        let (out, error) = KeepsFirstError::new(out);
        Self { zip: ZipWriter::new(out), error, large: ZIP64_BYTES_THR }
    }

    /// Adds a file at a path inside the archive's folder.
    pub fn add(&mut self, path: &str, data: &[u8]) -> io::Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::STORE)
            .with_alignment(ALIGNMENT)
            .large_file(data.len() as u64 >= self.large);
        self.zip.start_file(format!("{FOLDER}/{path}"), options)?;
        self.zip.write_all(data)?;
        match &*self.error.borrow() {
            Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
            None => Ok(()),
        }
    }

    /// Writes the directory.
    pub fn finish(self) -> io::Result<W> {
        let out = self.zip.finish()?.into_inner();
        self.error.take().map_or(Ok(out), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::SeekFrom;

    fn written(large: u64) -> Vec<u8> {
        let mut archive = ArchiveWriter { large, ..ArchiveWriter::new(Cursor::new(Vec::new())) };
        archive.add("data.pkl", b"a pickle").unwrap();
        archive.add("data/0", &[7; 100]).unwrap();
        archive.add("data/1", &[]).unwrap();
        archive.finish().unwrap().into_inner()
    }

    #[test]
    fn files_come_back_aligned_also_from_zip64() {
        let (small, large) = (written(ZIP64_BYTES_THR), written(0));
        assert!(!small.windows(4).any(|window| window == [1, 0, 16, 0]), "no zip64 where none is needed");
        assert!(
            large.windows(4).filter(|window| *window == [1, 0, 16, 0]).count() >= 6,
            "in both directories"
        );
        for bytes in [small, large] {
            let archive = Archive::open(&bytes).unwrap();
            assert_eq!(archive.file("data.pkl"), Some(&b"a pickle"[..]));
            assert_eq!((archive.file("data/1"), archive.file("data/2")), (Some(&[][..]), None));
            let data = archive.file("data/0").unwrap();
            assert_eq!(data, [7; 100]);
            assert_eq!((data.as_ptr() as usize - bytes.as_ptr() as usize) % usize::from(ALIGNMENT), 0);
        }
    }

    /// A disk on which one write fails.
    struct Failing {
        disk: Cursor<Vec<u8>>,
        writes_left: usize,
    }

    impl Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes_left = self.writes_left.wrapping_sub(1);
            if self.writes_left == 0 {
                Err(io::ErrorKind::StorageFull.into())
            } else {
                self.disk.write(bytes)
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Failing {
        fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
            self.disk.seek(position)
        }
    }

    /// Regression: what was dropped after a write had failed panicked (found by scripts/attack).
    #[test]
    fn a_write_that_fails_is_an_error() {
        let attempt = |writes_left| {
            let mut archive = ArchiveWriter::new(Failing { disk: Cursor::default(), writes_left });
            archive.add("data.pkl", b"a pickle")?;
            archive.add("data/0", &[7; 100])?;
            archive.finish().map(|out| out.writes_left != 0)
        };
        let failures = (1..).take_while(|n| attempt(*n).is_err()).count();
        assert!(failures > 10, "{failures}");
    }

    /// A file in which zeros take no room.
    struct Sparse(File);

    impl Write for Sparse {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
            let part = &bytes[..bytes.len().min(ZEROS.len())];
            if part.len() == ZEROS.len() && *part == ZEROS {
                self.0.seek(SeekFrom::Current(part.len() as i64))?;
                return Ok(part.len());
            }
            self.0.write(part)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    impl Seek for Sparse {
        fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
            self.0.seek(position)
        }
    }

    /// Regression: an archive of more than 4 GB could not be written, so GPT-2 XL had no way to nanoGPT.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn an_archive_may_be_larger_than_4_gb() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.pt");
        let mut archive = ArchiveWriter::new(Sparse(File::create(&path).unwrap()));
        // 4 GiB and a megabyte in one file, and another one behind it.
        archive.add("data/0", &vec![0; (1 << 32) + (1 << 20)]).unwrap();
        archive.add("data/1", b"behind it").unwrap();
        drop(archive.finish().unwrap());
        let map = minigpt_files::Mapped::open(&path).unwrap();
        let archive = Archive::open(map.bytes()).unwrap();
        assert_eq!(archive.file("data/0").unwrap().len(), (1 << 32) + (1 << 20));
        assert_eq!(archive.file("data/1"), Some(&b"behind it"[..]));
    }

    #[test]
    fn what_is_compressed_or_reaches_beyond_the_archive_is_refused() {
        let refused = |bytes: &[u8]| Archive::open(bytes).err().unwrap().to_string();
        let bytes = written(ZIP64_BYTES_THR);
        // In the directory's entries: the method at byte 10, the sizes at 20 and 24.
        let entry = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
        let mutated = |at: usize, value: &[u8]| {
            let mut mutated = bytes.clone();
            mutated[entry + at..][..value.len()].copy_from_slice(value);
            refused(&mutated)
        };
        assert!(mutated(10, &[8, 0]).contains("compressed, which torch.save never does"));
        assert!(
            mutated(20, &[0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f]).contains("beyond the archive")
        );
        assert!(refused(b"no archive").contains("not a zip archive"));
    }

    #[test]
    fn a_directory_can_not_claim_more_files_than_it_has_bytes() {
        // A zip64 end record that claims 2^60 files.
        let mut bytes = written(0);
        let end = bytes.windows(4).rposition(|window| window == b"PK\x05\x06").unwrap();
        let directory = u32::from_le_bytes(bytes[end + 16..end + 20].try_into().unwrap());
        let mut record = b"PK\x06\x06".to_vec();
        record.extend(44u64.to_le_bytes());
        record.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for number in [1 << 60, 1 << 60, u64::MAX / 2, u64::from(directory)] {
            record.extend(u64::to_le_bytes(number));
        }
        record.extend(b"PK\x06\x07\0\0\0\0");
        record.extend((end as u64).to_le_bytes());
        record.extend(1u32.to_le_bytes());
        bytes.splice(end..end, record);
        let end = bytes.len() - 22;
        bytes[end + 8..end + 20].fill(0xff);
        assert!(Archive::open(&bytes).is_err());
    }
}
