//! A writer for `zip`, which keeps writing when it is dropped after an error, and panics.

use std::cell::RefCell;
use std::io::{self, Seek, SeekFrom, Write};
use std::rc::Rc;

/// The first error of a writer.
pub type FirstError = Rc<RefCell<Option<io::Error>>>;

/// Remembers the first error, and after it only counts bytes.
pub struct KeepsFirstError<W> {
    out: W,
    error: FirstError,
    at: u64,
    end: u64,
}

impl<W> KeepsFirstError<W> {
    pub fn new(out: W) -> (Self, FirstError) {
        let error = FirstError::default();
        (Self { out, error: Rc::clone(&error), at: 0, end: 0 }, error)
    }

    pub fn into_inner(self) -> W {
        self.out
    }

    /// What `act` does to the writer, unless it failed before or does now.
    fn unless_failed<T>(&mut self, act: impl FnOnce(&mut W) -> io::Result<T>) -> Option<T> {
        let mut error = self.error.borrow_mut();
        if error.is_some() {
            return None;
        }
        act(&mut self.out).map_err(|e| *error = Some(e)).ok()
    }
}

impl<W: Write> Write for KeepsFirstError<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_failed(|out| out.write_all(bytes));
        self.at += bytes.len() as u64;
        self.end = self.end.max(self.at);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_failed(Write::flush);
        Ok(())
    }
}

impl<W: Seek> Seek for KeepsFirstError<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        self.at = match self.unless_failed(|out| out.seek(to)) {
            Some(at) => at,
            None => place.ok_or(io::ErrorKind::InvalidInput)?,
        };
        Ok(self.at)
    }
}
