//! Lines as they are in a file: numbered bytes, newline included, however long.
//!
//! A line longer than [`MAX_LINE`] is not kept in memory, only passed through, so that a file without line
//! ends can't exhaust it.

use std::io::{self, BufRead};

/// The longest line that is kept: 256 MiB.
pub const MAX_LINE: usize = 256 << 20;

/// Reads a source line by line.
pub struct Lines<R> {
    reader: R,
    number: u64,
    kept: Vec<u8>,
    max: usize,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Counted from 1.
    pub number: u64,
    /// Its bytes with the line end, where it has one; `None` if there are more than [`MAX_LINE`].
    pub bytes: Option<&'a [u8]>,
    /// How many bytes it has in the file.
    pub length: u64,
}

impl<R: BufRead> Lines<R> {
    /// Starts at the first line.
    pub fn new(reader: R) -> Self {
        Lines { reader, number: 0, kept: Vec::new(), max: MAX_LINE }
    }

    /// The next line, or `None` at the end.
    pub fn read(&mut self) -> io::Result<Option<Line<'_>>> {
        self.read_through(|_| Ok(()))
    }

    /// The next line; every byte of it, kept or not, also goes to `tee` as it is read.
    pub fn read_through(
        &mut self,
        mut tee: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<Option<Line<'_>>> {
        self.kept.clear();
        let mut length = 0;
        let mut ended = false;
        while !ended {
            let piece = match self.reader.fill_buf() {
                Ok(piece) => piece,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if piece.is_empty() {
                break;
            }
            let newline = memchr::memchr(b'\n', piece);
            ended = newline.is_some();
            let piece = &piece[..newline.map_or(piece.len(), |at| at + 1)];
            tee(piece)?;
            length += piece.len() as u64;
            if length <= self.max as u64 {
                self.kept.extend_from_slice(piece);
            }
            let used = piece.len();
            self.reader.consume(used);
        }
        if length == 0 {
            return Ok(None);
        }
        self.number += 1;
        let bytes = (length <= self.max as u64).then_some(self.kept.as_slice());
        Ok(Some(Line { number: self.number, bytes, length }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::BufReader;

    #[test]
    fn the_last_line_needs_no_line_end() {
        let mut lines = Lines::new(&b"a\r\n\nlast"[..]);
        assert_eq!(lines.read().unwrap().unwrap().bytes, Some(&b"a\r\n"[..]));
        assert_eq!(lines.read().unwrap().unwrap().bytes, Some(&b"\n"[..]));
        assert_eq!(lines.read().unwrap().unwrap(), Line { number: 3, bytes: Some(b"last"), length: 4 });
        assert_eq!(lines.read().unwrap(), None);
        assert_eq!(lines.read().unwrap(), None);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_on_but_not_kept() {
        let mut lines = Lines { reader: &b"12345\n1234\n"[..], number: 0, kept: Vec::new(), max: 5 };
        let mut passed = Vec::new();
        let long = lines.read_through(|piece| io::Write::write_all(&mut passed, piece)).unwrap().unwrap();
        assert_eq!(long, Line { number: 1, bytes: None, length: 6 });
        assert_eq!(passed, b"12345\n");
        assert_eq!(lines.read().unwrap().unwrap().bytes, Some(&b"1234\n"[..]));
    }

    proptest! {
        #[test]
        fn lines_put_together_are_the_file_whatever_the_buffer(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200),
            buffer in 1_usize..20,
        ) {
            let mut lines = Lines::new(BufReader::with_capacity(buffer, &bytes[..]));
            let mut whole = Vec::new();
            let mut count = 0;
            while let Some(line) = lines.read().unwrap() {
                whole.extend_from_slice(line.bytes.unwrap());
                count += 1;
            }
            prop_assert_eq!(count, bytes.split_inclusive(|&b| b == b'\n').count());
            prop_assert_eq!(whole, bytes);
        }
    }
}
