//! The folder of a training run: one run at a time, and model folders in it that are always whole.

use crate::error::{Error, Result};
use minigpt_files::{Lock, NewFolder};
use std::path::{Path, PathBuf};

/// A run folder that this process trains in.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    _lock: Lock,
}

impl RunFolder {
    /// Opens or makes a run folder, takes its lock, and mends what a killed process left in it.
    pub fn open(path: &Path) -> Result<Self> {
        let lock = Lock::take(path).map_err(|error| match error {
            minigpt_files::Error::Busy { path } => Error::Locked(path),
            error => error.into(),
        })?;
        NewFolder::recover_all(path)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A place inside it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Replaces a folder inside it: `write` fills a new one beside it, which then takes the old one's place. A crash
    /// at any instant leaves the old or the new one, whole.
    pub fn replace(&self, name: &str, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let folder = NewFolder::create(&self.join(name))?;
        write(folder.path())?;
        Ok(folder.put_in_place()?)
    }
}

pub(crate) fn io(path: &Path, problem: std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(text: &str) -> impl Fn(&Path) -> Result<()> {
        move |folder| fs::write(folder.join("file"), text).map_err(|e| io(folder, e))
    }

    fn read(run: &RunFolder) -> String {
        fs::read_to_string(run.join("last/file")).unwrap()
    }

    #[test]
    fn a_folder_is_replaced_as_a_whole_and_nothing_is_left_over() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunFolder::open(dir.path()).unwrap();
        for text in ["one", "two"] {
            run.replace("last", write(text)).unwrap();
            assert_eq!(read(&run), text);
        }
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}"); // .lock and last
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_folder() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunFolder::open(dir.path()).unwrap();
        run.replace("last", write("one")).unwrap();
        run.replace("last", |_| Err(Error::Checkpoint("no space".to_owned()))).unwrap_err();
        assert_eq!(read(&run), "one");
        assert!(!run.join(".last.new").exists());
    }

    #[test]
    fn a_crash_between_any_two_steps_leaves_a_whole_folder() {
        // What lies there when the process dies: while writing, between the two renames, and before cleaning up.
        let cases: [(&[&str], &str); 3] = [
            (&["last", ".last.new"], "last"),
            (&[".last.old", ".last.new"], ".last.old"),
            (&["last", ".last.old"], "last"),
        ];
        for (folders, survivor) in cases {
            let dir = tempfile::tempdir().unwrap();
            for folder in folders {
                fs::create_dir(dir.path().join(folder)).unwrap();
                fs::write(dir.path().join(folder).join("file"), folder).unwrap();
            }
            let run = RunFolder::open(dir.path()).unwrap();
            assert_eq!(read(&run), survivor);
            assert!(!run.join(".last.old").exists() && !run.join(".last.new").exists());
        }
    }

    #[test]
    fn two_runs_can_not_have_one_folder() {
        let dir = tempfile::tempdir().unwrap();
        let first = RunFolder::open(dir.path()).unwrap();
        let error = RunFolder::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("another run is training here"), "{error}");
        drop(first);
        RunFolder::open(dir.path()).unwrap();
    }
}
