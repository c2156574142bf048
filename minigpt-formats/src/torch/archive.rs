//! The files inside a `.pt`: a zip archive in which nothing is compressed, so that a file is a slice of it.

use super::Result;
use std::collections::BTreeMap;

/// Files that an archive may hold: far more than any model has tensors.
const MOST_FILES: usize = 1 << 20;

/// Where each file lies in an archive, by its name.
pub struct Archive<'a> {
    files: BTreeMap<&'a str, &'a [u8]>,
}

impl<'a> Archive<'a> {
    /// Reads the directory at the end of an archive.
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        let (mut at, count) = directory(bytes)?;
        let mut files = BTreeMap::new();
        for _ in 0..count {
            let entry = Entry::read(bytes, &mut at)?;
            if entry.method != 0 {
                return Err(format!("{} is compressed, which torch.save never does", entry.name));
            }
            files.insert(entry.name, entry.data(bytes)?);
        }
        Ok(Self { files })
    }

    /// The file whose path ends like this; the first folder is named after the archive.
    pub fn file(&self, end: &str) -> Option<&'a [u8]> {
        let inside = |name: &str| name == end || name.split_once('/').is_some_and(|(_, rest)| rest == end);
        self.files.iter().find(|(name, _)| inside(name)).map(|(_, data)| *data)
    }
}

struct Entry<'a> {
    name: &'a str,
    method: u16,
    size: u64,
    /// Where its header is.
    header: u64,
}

impl<'a> Entry<'a> {
    fn read(bytes: &'a [u8], at: &mut usize) -> Result<Self> {
        let fixed = slice(bytes, *at as u64, 46)?;
        if fixed[..4] != *b"PK\x01\x02" {
            return Err("the archive's directory is damaged".into());
        }
        let [name_length, extra_length, comment_length] =
            [28, 30, 32].map(|at| usize::from(u16_at(fixed, at)));
        let name = slice(bytes, (*at + 46) as u64, name_length)?;
        let name = std::str::from_utf8(name).map_err(|_| "a file's name is not UTF-8")?;
        let extra = slice(bytes, (*at + 46 + name_length) as u64, extra_length)?;
        let mut entry = Self {
            name,
            method: u16_at(fixed, 10),
            size: u32_at(fixed, 24).into(),
            header: u32_at(fixed, 42).into(),
        };
        entry.widen(extra, u32_at(fixed, 20))?;
        *at += 46 + name_length + extra_length + comment_length;
        Ok(entry)
    }

    /// Sizes beyond four bytes stand in the extra field, in this order, each only where four bytes are not enough.
    fn widen(&mut self, mut extra: &[u8], packed: u32) -> Result<()> {
        const FULL: u64 = 0xffff_ffff;
        while extra.len() >= 4 {
            let (kind, length) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
            let body = extra.get(4..4 + length).ok_or("the archive's directory is damaged")?;
            if kind == 1 {
                let mut numbers = body.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
                let mut next = || numbers.next().ok_or("the archive's directory is damaged");
                if self.size == FULL {
                    self.size = next()?;
                }
                if u64::from(packed) == FULL {
                    next()?;
                }
                if self.header == FULL {
                    self.header = next()?;
                }
            }
            extra = &extra[4 + length..];
        }
        Ok(())
    }

    fn data(&self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let header = slice(bytes, self.header, 30)?;
        if header[..4] != *b"PK\x03\x04" {
            return Err(format!("{} is not where the archive says", self.name));
        }
        let skip = 30 + u64::from(u16_at(header, 26)) + u64::from(u16_at(header, 28));
        let size = usize::try_from(self.size).map_err(|_| "a file beyond all bounds")?;
        let start = self.header.checked_add(skip).ok_or("a file beyond all bounds")?;
        slice(bytes, start, size).map_err(|_| format!("{} reaches beyond the archive", self.name))
    }
}

/// Where the directory begins, and how many files it lists.
fn directory(bytes: &[u8]) -> Result<(usize, usize)> {
    /// The end record has 22 bytes and a comment of up to 65,535.
    const LAST: usize = 22 + 65_535;
    let tail = bytes.len().saturating_sub(LAST);
    let found = bytes[tail..].windows(4).rposition(|window| window == b"PK\x05\x06");
    let end = tail + found.ok_or("not a zip archive: too old a torch.save, or no checkpoint at all")?;
    let record = slice(bytes, end as u64, 22)?;
    let (mut count, mut start) = (u64::from(u16_at(record, 10)), u64::from(u32_at(record, 16)));
    // Larger archives have a second record, and before this one a pointer to it.
    if let Some(pointer) = end.checked_sub(20).map(|at| &bytes[at..end])
        && pointer[..4] == *b"PK\x06\x07"
    {
        let large = slice(bytes, u64_at(pointer, 8), 56)?;
        if large[..4] != *b"PK\x06\x06" {
            return Err("the archive's directory is damaged".into());
        }
        (count, start) = (u64_at(large, 32), u64_at(large, 48));
    }
    let count = usize::try_from(count).ok().filter(|&count| count <= MOST_FILES);
    let start = usize::try_from(start).ok().filter(|&start| start <= bytes.len());
    match (start, count) {
        (Some(start), Some(count)) => Ok((start, count)),
        _ => Err("the archive's directory is damaged".into()),
    }
}

fn slice(bytes: &[u8], start: u64, length: usize) -> Result<&[u8]> {
    let start = usize::try_from(start).ok();
    let range = start.and_then(|start| Some(start..start.checked_add(length)?));
    range.and_then(|range| bytes.get(range)).ok_or_else(|| "the archive ends in the middle".to_owned())
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
