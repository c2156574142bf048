//! The folder of a training run: one run at a time, and model folders in it that are always whole.

use crate::error::{Error, Result};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// A run folder that this process trains in.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// Held for as long as the process lives; a crash releases it.
    _lock: File,
}

impl RunFolder {
    /// Opens or makes a run folder, and takes its lock.
    pub fn open(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).map_err(|e| io(path, e))?;
        let lock_path = path.join(".lock");
        let lock = File::create(&lock_path).map_err(|e| io(&lock_path, e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked(path.to_owned())),
            Err(TryLockError::Error(e)) => return Err(io(&lock_path, e)),
        }
        let folder = Self { path: path.to_owned(), _lock: lock };
        folder.recover()?;
        Ok(folder)
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
        let (new, old, target) = (self.beside(name, "new"), self.beside(name, "old"), self.join(name));
        remove(&new)?;
        fs::create_dir_all(&new).map_err(|e| io(&new, e))?;
        let written = write(&new).and_then(|()| sync(&new));
        if let Err(error) = written {
            // The error that matters is the first one; what was begun is taken away if it can be.
            let _ = fs::remove_dir_all(&new);
            return Err(error);
        }
        remove(&old)?;
        if target.exists() {
            fs::rename(&target, &old).map_err(|e| io(&target, e))?;
        }
        fs::rename(&new, &target).map_err(|e| io(&target, e))?;
        sync_folder(&self.path)?;
        remove(&old)
    }

    /// Ends what a crash interrupted: an old folder whose successor never took its place goes back there.
    fn recover(&self) -> Result<()> {
        for entry in fs::read_dir(&self.path).map_err(|e| io(&self.path, e))? {
            let path = entry.map_err(|e| io(&self.path, e))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(name) = name.strip_prefix('.') else { continue };
            if let Some(name) = name.strip_suffix(".old") {
                let target = self.join(name);
                match target.exists() {
                    true => remove(&path)?,
                    false => fs::rename(&path, &target).map_err(|e| io(&target, e))?,
                }
            } else if name.ends_with(".new") {
                remove(&path)?;
            }
        }
        Ok(())
    }

    fn beside(&self, name: &str, suffix: &str) -> PathBuf {
        self.path.join(format!(".{name}.{suffix}"))
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io(path, e)),
        _ => Ok(()),
    }
}

/// Makes sure that a folder's files are on the disk, not only on their way there.
fn sync(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|e| io(folder, e))? {
        let path = entry.map_err(|e| io(folder, e))?.path();
        File::open(&path).and_then(|file| file.sync_all()).map_err(|e| io(&path, e))?;
    }
    sync_folder(folder)
}

/// Syncs a folder's own entries, where the system can.
fn sync_folder(folder: &Path) -> Result<()> {
    if cfg!(unix) {
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| io(folder, e))?;
    }
    Ok(())
}

pub(crate) fn io(path: &Path, problem: std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

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
