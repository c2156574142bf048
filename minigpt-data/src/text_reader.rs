//! Bytes to text, in chunks: UTF-8 checked across buffer edges, and marks of other systems removed.
//!
//! What is changed, and counted ([`Cleaned`]):
//! - a byte order mark at the start of a file is dropped;
//! - line ends `\r\n` and `\r` become `\n`, as Python reads text, so that vocabularies equal nanoGPT's;
//! - NUL characters are dropped.
//!
//! Anything that is not UTF-8 is an error that names the byte.

use crate::error::{Error, Result};
use crate::name::DataName;
use minigpt_files::Action;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};

/// How much is read at once.
const BUFFER: usize = 1 << 18;

/// Counts of what was changed on the way from bytes to text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleaned {
    /// Byte order marks dropped.
    pub byte_order_marks: u64,
    /// `\r\n` and `\r` made `\n`.
    pub line_ends: u64,
    /// NUL characters dropped.
    pub nul: u64,
    /// Broken characters of an encoding other than UTF-8, which became U+FFFD.
    #[serde(default)]
    pub replaced: u64,
}

impl Cleaned {
    /// Adds the counts of another file.
    pub fn add(&mut self, other: Cleaned) {
        self.byte_order_marks += other.byte_order_marks;
        self.line_ends += other.line_ends;
        self.nul += other.nul;
        self.replaced += other.replaced;
    }
}

/// Whether a text has nothing in it that can be seen: only white space, and characters without a width.
pub fn is_blank(text: &str) -> bool {
    let is_invisible = |c: char| matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    text.chars().all(|c| c.is_whitespace() || is_invisible(c))
}

/// What was found where text should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidUtf8 {
    /// A byte that can't be part of a character.
    Byte(u8),
    /// The same in a file that begins as UTF-16 does.
    Utf16(u8),
    /// The end of the file, inside a character.
    EndOfFile,
}

impl InvalidUtf8 {
    /// What to do about it, to append to a message.
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::Utf16(_) => ": it looks like UTF-16, convert it to UTF-8 first",
            Self::Byte(_) | Self::EndOfFile => "",
        }
    }
}

impl fmt::Display for InvalidUtf8 {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Byte(byte) | Self::Utf16(byte) => write!(f, "0x{byte:02x}"),
            Self::EndOfFile => f.write_str("the file ends inside a character"),
        }
    }
}

/// Reads one file as text.
pub struct TextReader<R> {
    reader: R,
    name: DataName,
    buffer: Vec<u8>,
    /// Bytes at the front of the buffer that began a character at the end of the last chunk.
    carried: usize,
    /// How many bytes the last chunk took.
    used: usize,
    /// Offset in the file of the buffer's first byte.
    offset: u64,
    lines: u64,
    after_return: bool,
    cleaned: Cleaned,
}

impl<R: Read> TextReader<R> {
    /// `name` is for messages.
    pub fn new(reader: R, name: impl Into<DataName>) -> Self {
        Self::with_buffer(reader, name, BUFFER)
    }

    fn with_buffer(reader: R, name: impl Into<DataName>, size: usize) -> Self {
        TextReader {
            reader,
            name: name.into(),
            buffer: vec![0; size],
            carried: 0,
            used: 0,
            offset: 0,
            lines: 0,
            after_return: false,
            cleaned: Cleaned::default(),
        }
    }

    /// Changes so far.
    pub fn cleaned(&self) -> Cleaned {
        self.cleaned
    }

    /// The next chunk of text, never empty, or `None` at the end.
    pub fn read(&mut self) -> Result<Option<Cow<'_, str>>> {
        loop {
            let filled = self.fill()?;
            if filled == 0 {
                return Ok(None);
            }
            let start = self.skip_byte_order_mark(filled);
            let valid = self.check(start, filled)?;
            self.lines += memchr::memchr_iter(b'\n', &self.buffer[start..valid]).count() as u64;
            self.used = valid;
            self.carried = filled - valid;
            if self.has_marks(start, valid) {
                let text = self.clean(start, valid)?;
                if text.is_empty() {
                    continue;
                }
                return Ok(Some(Cow::Owned(text)));
            }
            if start < valid {
                // Checked above; checking again is cheaper than the `unsafe` that avoids it.
                let text =
                    std::str::from_utf8(&self.buffer[start..valid]).map_err(|_| self.invalid(start))?;
                return Ok(Some(Cow::Borrowed(text)));
            }
        }
    }

    /// Fills the buffer behind what was carried over, and says how much it holds: 0 at the end.
    fn fill(&mut self) -> Result<usize> {
        self.buffer.copy_within(self.used..self.used + self.carried, 0);
        self.offset += self.used as u64;
        self.used = 0;
        let mut filled = self.carried;
        while filled < self.buffer.len() {
            match self.reader.read(&mut self.buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io_named(Action::Read, &self.name, e)),
            }
        }
        if filled == self.carried && filled > 0 {
            return Err(self.invalid(0));
        }
        Ok(filled)
    }

    fn skip_byte_order_mark(&mut self, filled: usize) -> usize {
        let marked = self.offset == 0 && self.buffer[..filled].starts_with(b"\xef\xbb\xbf");
        self.cleaned.byte_order_marks += u64::from(marked);
        if marked { 3 } else { 0 }
    }

    /// Where the last whole character of the buffer ends.
    fn check(&self, start: usize, filled: usize) -> Result<usize> {
        match std::str::from_utf8(&self.buffer[start..filled]) {
            Ok(_) => Ok(filled),
            Err(e) if e.error_len().is_none() => Ok(start + e.valid_up_to()),
            Err(e) => Err(self.invalid(start + e.valid_up_to())),
        }
    }

    fn has_marks(&self, start: usize, end: usize) -> bool {
        self.after_return || memchr::memchr2(b'\r', 0, &self.buffer[start..end]).is_some()
    }

    /// The text of a chunk without NUL and with `\n` as its only line end.
    fn clean(&mut self, start: usize, end: usize) -> Result<String> {
        let mut bytes = Vec::with_capacity(end - start);
        for &byte in &self.buffer[start..end] {
            // A return was written as `\n` at once: the newline of a pair is what gets dropped.
            let second_of_pair = byte == b'\n' && self.after_return;
            self.after_return = byte == b'\r';
            match byte {
                b'\r' => {
                    self.cleaned.line_ends += 1;
                    bytes.push(b'\n');
                }
                0 => self.cleaned.nul += 1,
                _ if second_of_pair => {}
                _ => bytes.push(byte),
            }
        }
        // Only ASCII was added or removed, so this is still UTF-8.
        String::from_utf8(bytes).map_err(|_| self.invalid(start))
    }

    fn invalid(&self, at: usize) -> Error {
        let bytes = &self.buffer[at..];
        let position = self.offset + at as u64;
        let before = memchr::memchr_iter(b'\n', &self.buffer[..at]).count() as u64;
        let utf16 = position == 0 && (bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff"));
        Error::InvalidUtf8 {
            name: self.name.clone(),
            position,
            line: self.lines + before + 1,
            found: match bytes.first().copied().unwrap_or_default() {
                _ if self.is_cut_off(at) => InvalidUtf8::EndOfFile,
                byte if utf16 => InvalidUtf8::Utf16(byte),
                byte => InvalidUtf8::Byte(byte),
            },
        }
    }

    /// Whether only the rest of a character is missing.
    fn is_cut_off(&self, at: usize) -> bool {
        at == 0
            && (1..4).contains(&self.carried)
            && std::str::from_utf8(&self.buffer[..self.carried]).is_err_and(|e| e.error_len().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives its bytes a few at a time.
    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(to.len()).min(self.0.len());
            let (now, later) = self.0.split_at(n);
            to[..n].copy_from_slice(now);
            self.0 = later;
            Ok(n)
        }
    }

    fn read_all(bytes: &[u8], buffer: usize) -> Result<(String, Cleaned)> {
        let mut reader = TextReader::with_buffer(Dribble(bytes, 3), "test", buffer);
        let mut text = String::new();
        while let Some(chunk) = reader.read()? {
            assert!(!chunk.is_empty());
            text.push_str(&chunk);
        }
        Ok((text, reader.cleaned()))
    }

    #[test]
    fn marks_of_other_systems_are_removed_and_counted() {
        let (text, cleaned) = read_all("\u{feff}a\r\nb\rc\n\0d\u{feff}\r".as_bytes(), 4).unwrap();
        assert_eq!(text, "a\nb\nc\nd\u{feff}\n");
        assert_eq!(cleaned, Cleaned { byte_order_marks: 1, line_ends: 3, nul: 1, replaced: 0 });
    }

    #[test]
    fn an_invalid_byte_is_named_with_its_place() {
        let error = read_all(b"one\ntwo\nthr\xffee", 5).unwrap_err().to_string();
        assert_eq!(error, "test: not UTF-8 text: 0xff at byte 11 (line 3)");
        let error = read_all("中文".repeat(9).as_bytes().split_last().unwrap().1, 4).unwrap_err().to_string();
        assert_eq!(error, "test: not UTF-8 text: the file ends inside a character at byte 51 (line 1)");
        let error = read_all(b"\xff\xfea\0b\0", 8).unwrap_err().to_string();
        assert!(error.contains("UTF-16"), "{error}");
    }

    #[test]
    fn a_file_of_marks_alone_is_empty() {
        assert_eq!(read_all(b"\xef\xbb\xbf\0\0\0\0\0\0", 4).unwrap().0, "");
        assert_eq!(read_all(b"", 4).unwrap().0, "");
    }

    /// The same thing, written for a whole string.
    fn whole(text: &str) -> String {
        text.strip_prefix('\u{feff}')
            .unwrap_or(text)
            .replace('\0', "")
            .replace("\r\n", "\n")
            .replace('\r', "\n")
    }

    proptest! {
        #[test]
        fn chunks_put_together_are_the_whole_whatever_the_buffer(
            text in "[\u{feff}\r\n\0a中😀é]{0,60}", buffer in 4_usize..40,
        ) {
            // A NUL between the two halves of a line end: the halves are then two line ends here, one there.
            prop_assume!(!text.contains("\r\0"));
            prop_assert_eq!(read_all(text.as_bytes(), buffer).unwrap().0, whole(&text));
        }

        #[test]
        fn bytes_are_refused_exactly_where_the_standard_library_refuses_them(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0xe4), Just(0xb8), Just(0xad)], 0..60),
            buffer in 4_usize..40,
        ) {
            match (std::str::from_utf8(&bytes), read_all(&bytes, buffer)) {
                (Ok(_), Ok(_)) => {}
                (Err(expected), Err(Error::InvalidUtf8 { position, .. })) => {
                    prop_assert_eq!(position, expected.valid_up_to() as u64);
                }
                (expected, got) => prop_assert!(false, "{expected:?} {got:?}"),
            }
        }
    }
}
