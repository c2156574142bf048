//! Files that are read whole, of a size that is known to be reasonable, and pipes.

use crate::error::{Action, Error, ReadProblem, Result};
use crate::open_folder::present_path;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for somebody to write into a pipe that nobody has open.
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens a regular file, and says how long it is. Asked before it is opened: opening a pipe waits for somebody to write
/// into it, and a device may have no end.
///
/// # Errors
/// A folder, a pipe or a device; a file that can't be read.
pub fn open_file(path: &Path) -> Result<(File, u64)> {
    let about = fs::metadata(path).map_err(|e| Error::io(Action::Read, path, e))?;
    if !about.is_file() {
        return Err(Error::NotAFile { path: present_path(path) });
    }
    Ok((File::open(path).map_err(|e| Error::io(Action::Read, path, e))?, about.len()))
}

/// The whole of a regular file.
///
/// # Errors
/// More than `limit` bytes; what is no regular file; a file that can't be read.
pub fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let (file, size) = open_file(path)?;
    if size > limit {
        return Err(Error::TooLarge { path: present_path(path), limit });
    }
    read_limited(file, path, limit)
}

/// The whole of a regular file as text.
///
/// # Errors
/// As for [`read_file`]; bytes that are not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    into_text(read_file(path, limit)?, path)
}

/// The whole of a regular file or a pipe as text.
///
/// # Errors
/// As for [`read_text`]; a pipe into which nobody writes.
pub fn read_text_or_pipe(path: &Path, limit: u64) -> Result<String> {
    into_text(read_limited(open_file_or_pipe(path)?, path, limit)?, path)
}

/// A regular file or a pipe, from its beginning.
///
/// # Errors
/// A folder or a device; what can't be read.
pub fn open_file_or_pipe(path: &Path) -> Result<Box<dyn Read>> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let about = fs::metadata(path).map_err(|e| Error::io(Action::Read, path, e))?;
        if about.file_type().is_fifo() {
            return Ok(Box::new(Pipe::open(path)?));
        }
    }
    Ok(Box::new(open_file(path)?.0))
}

fn read_limited(from: impl Read, path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|e| Error::io(Action::Read, path, e))?;
    if bytes.len() as u64 > limit {
        return Err(Error::TooLarge { path: present_path(path), limit });
    }
    Ok(bytes)
}

fn into_text(bytes: Vec<u8>, path: &Path) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let position = error.utf8_error().valid_up_to();
        Error::NotText { path: present_path(path), position }
    })
}

/// A pipe with a name. It is opened without waiting, because opening it waits for a writer that may never come.
#[cfg(unix)]
struct Pipe {
    file: File,
    /// Until when a writer may come; none from the first byte on.
    deadline: Option<Instant>,
}

#[cfg(unix)]
impl Pipe {
    fn open(path: &Path) -> Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(path);
        let file = file.map_err(|e| Error::io(Action::Read, path, e))?;
        Ok(Self { file, deadline: Some(Instant::now() + PATIENCE) })
    }
}

#[cfg(unix)]
impl Read for Pipe {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        const MOMENT: Duration = Duration::from_millis(2);
        loop {
            match (self.file.read(to), self.deadline) {
                (Ok(0), Some(deadline)) if !to.is_empty() && Instant::now() < deadline => {}
                (Ok(0), Some(_)) if !to.is_empty() => {
                    return Err(ReadProblem::NoWriter.into());
                }
                (Ok(n), _) => {
                    self.deadline = None;
                    return Ok(n);
                }
                // Somebody has it open and will write.
                (Err(e), _) if e.kind() == io::ErrorKind::WouldBlock => {}
                (Err(e), _) => return Err(e),
            }
            thread::sleep(MOMENT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        assert_eq!(read_text_or_pipe(&path, 5).unwrap(), "12345");
        for read in [read_text, read_text_or_pipe] {
            assert!(matches!(read(&path, 4), Err(Error::TooLarge { limit: 4, .. })));
        }
        fs::write(&path, b"ab\xff").unwrap();
        assert!(matches!(read_text(&path, 5), Err(Error::NotText { position: 2, .. })));
        assert!(matches!(read_file(dir.path(), 5), Err(Error::NotAFile { .. })));
        assert!(matches!(read_file(&dir.path().join("missing"), 5), Err(Error::Io { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_no_files_and_a_pipe_is_one_only_where_it_may_be() {
        for device in ["/dev/zero", "/dev/urandom", "/dev/null"] {
            assert!(matches!(read_file(Path::new(device), 5), Err(Error::NotAFile { .. })), "{device}");
            assert!(matches!(open_file_or_pipe(Path::new(device)), Err(Error::NotAFile { .. })), "{device}");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(matches!(read_text(&path, 5), Err(Error::NotAFile { .. })));
        let writer = {
            let path = path.clone();
            thread::spawn(move || fs::write(path, "hello").unwrap())
        };
        assert_eq!(read_text_or_pipe(&path, 5).unwrap(), "hello");
        writer.join().unwrap();
    }
}
