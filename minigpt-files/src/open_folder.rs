//! Paths through an open folder: they lead to that folder wherever it is moved, and never to one that takes its name.
//!
//! Linux has such paths for every open file, below `/proc/self/fd`. Elsewhere, and where `/proc` is not mounted, the ordinary path
//! is used.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

const OPEN_FILES: &str = "/proc/self/fd";

/// A path to an open folder, or `path` where the system has no such paths.
#[cfg(target_os = "linux")]
pub(crate) fn entry_path(folder: Option<&File>, path: &Path) -> PathBuf {
    use std::os::fd::AsRawFd;
    let through = folder.map(|folder| Path::new(OPEN_FILES).join(folder.as_raw_fd().to_string()));
    through.filter(|through| through.is_dir()).unwrap_or_else(|| path.to_owned())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn entry_path(_folder: Option<&File>, path: &Path) -> PathBuf {
    path.to_owned()
}

/// Where a path through an open folder leads now.
pub(crate) fn target_of(path: &Path) -> Option<PathBuf> {
    fs::read_link(path).ok()
}

/// The path that people know: a path through an open folder (see [`Lock::entry_path`](crate::Lock::entry_path)) becomes the
/// folder's present path, which only the open folder knows: ask before it is closed. All others stay as they are.
pub fn present_path(path: &Path) -> PathBuf {
    /// What Linux appends to the path of a folder that was removed.
    const REMOVED: &str = " (deleted)";
    let present = || {
        let mut rest = path.strip_prefix(OPEN_FILES).ok()?.components();
        let number = rest.next()?;
        let target = target_of(&Path::new(OPEN_FILES).join(number))?;
        let target = match target.to_str().and_then(|target| target.strip_suffix(REMOVED)) {
            Some(removed) => PathBuf::from(removed),
            None => target,
        };
        Some(target.components().chain(rest).collect::<PathBuf>())
    };
    present().unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_paths_stay_as_they_are() {
        for path in ["run/last", "/proc/self/fd", "/proc/self/fd/x/y", "/proc/self/fd/99999/last", ""] {
            assert_eq!(present_path(Path::new(path)), Path::new(path));
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_path_through_an_open_folder_is_shown_as_the_folder_is_called_now() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(dir.join("one")).unwrap();
        let folder = File::open(dir.join("one")).unwrap();
        let path = entry_path(Some(&folder), &dir.join("one"));
        fs::rename(dir.join("one"), dir.join("two")).unwrap();
        assert_eq!(present_path(&path.join("a/b")), dir.join("two/a/b"));
        fs::remove_dir(dir.join("two")).unwrap();
        assert_eq!(present_path(&path.join("a")), dir.join("two/a"));
    }
}
