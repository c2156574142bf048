//! The folder of a training run: one run at a time, and model folders in it that are always whole.
//!
//! A run folder stands among a person's own files, and the person may put files into it, move it or replace it while a run
//! trains. What a run removes is only what a run has written, and it writes only into the folder that it began in.

use crate::checkpoint::{self, CheckpointError};
use crate::error::{Error, Result};
use crate::record::Warning;
use minigpt_files::{
    Lock, NewFolder, foreign_entry, free_name, is_link, is_there, move_file, present_path, replace_file,
    set_aside,
};
use minigpt_formats::hugging_face;
use std::fs::File;
use std::path::{Path, PathBuf};

/// What training writes into a model folder beside the model.
pub(crate) const TRAINING_FILES: [&str; 2] = ["training.json", "optimizer.safetensors"];
/// The folder of the snapshots.
pub(crate) const SNAPSHOTS: &str = "snapshots";
/// The other names in a run folder, but for those with a step in them.
const NAMES: [&str; 7] =
    ["config.toml", "metrics.jsonl", "samples.jsonl", "loss.svg", "best", "last", SNAPSHOTS];

/// The name, with the file's own ending, under which a run folder keeps data that came from elsewhere, for example through a pipe.
const INPUT: &str = "input";

/// A run folder that this process trains in.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    lock: Lock,
}

impl RunFolder {
    /// Opens or makes a run folder, takes its lock, and mends what a killed process left in it.
    ///
    /// # Errors
    /// Another process trains there, or the folder holds files that would be overwritten and are not those of a run.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_unless_foreign(path, &[])
    }

    /// Like [`open`](Self::open), for a run whose data will be [kept](Self::keep_input) in the folder.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), or the folder holds a file of the input's new name that no run has written.
    pub fn open_for_input(path: &Path, input: &Path) -> Result<Self> {
        Self::open_unless_foreign(path, &[&input_name(input)])
    }

    fn open_unless_foreign(path: &Path, more_names: &[&str]) -> Result<Self> {
        refuse_foreign(path, more_names)?;
        let lock = take(path)?;
        let inside = lock.entry_path();
        NewFolder::recover_all(&inside, |name| matches!(name, "best" | "last") || step_of(name).is_some())?;
        let snapshots = inside.join(SNAPSHOTS);
        if snapshots.is_dir() && !is_link(&snapshots) {
            NewFolder::recover_all(&snapshots, |name| name.starts_with("step-"))?;
        }
        Ok(Self { path: path.to_owned(), lock })
    }

    /// Returns an error if the folder holds a run that could go on.
    pub fn refuse_checkpoint(&self) -> Result<()> {
        if checkpoint::exists(&self.join("last"))? {
            return Err(CheckpointError::RunExists(self.path.clone()).into());
        }
        Ok(())
    }

    /// Moves the data of a new run into the folder, as `input.txt` or with another ending. A file of this name that is there
    /// already, for example of a run that never saved a checkpoint, is moved aside. Returns the new path, and where the old file
    /// went.
    ///
    /// # Errors
    /// The folder holds a run that could go on, or the file can't be moved.
    pub fn keep_input(&self, from: &Path) -> Result<(PathBuf, Option<PathBuf>)> {
        self.refuse_checkpoint()?;
        let name = input_name(from);
        let input = self.entry_path().join(&name);
        let aside = if is_there(&input)? { Some(present_path(&set_aside(&input)?)) } else { None };
        if move_file(from, &input).is_err() {
            // Another file system.
            replace_file(&input, |file| -> Result<()> {
                let mut source = File::open(from).map_err(|e| io(from, e))?;
                std::io::copy(&mut source, file).map_err(|e| io(&input, e))?;
                Ok(())
            })?;
        }
        Ok((self.join(&name), aside))
    }

    /// The folder's path, for people: [`locate`](Self::locate) keeps it up to date.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of an entry, for people.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A path for reading and writing the folder's files. On Linux it leads into this folder even if the folder is moved and another
    /// one takes its name, see [`Lock::entry_path`].
    pub fn entry_path(&self) -> PathBuf {
        self.lock.entry_path()
    }

    /// Finds the folder where it is now. Returns a warning if it was moved, or if it is gone and the run goes on in a new one.
    ///
    /// # Errors
    /// The folder is gone and no other can be created.
    pub fn locate(&mut self) -> Result<Option<Warning>> {
        let mut to = match self.lock.folder() {
            Ok(path) if path == self.path => return Ok(None),
            Ok(path) => {
                let from = std::mem::replace(&mut self.path, path.clone());
                return Ok(Some(Warning::Moved { from, to: path }));
            }
            // The lock file alone was removed or replaced, unless another process has locked the folder since.
            Err(minigpt_files::Error::Busy { path }) => match self.lock.retake() {
                Ok(aside) => {
                    self.path = path;
                    return Ok(
                        aside.map(|aside| Warning::SetAside { path: self.join(minigpt_files::LOCK), aside })
                    );
                }
                Err(minigpt_files::Error::Busy { .. }) => free_name(&path)?,
                Err(error) if error.is_missing() => self.path.clone(),
                // The folder is still the run's: what can't be written there is said when it is written.
                Err(error) => return Ok(Some(Warning::NotKept(error.into()))),
            },
            Err(_) => self.path.clone(),
        };
        loop {
            if let Some(lock) = Lock::create(&to)? {
                self.lock = lock;
                break;
            }
            to = free_name(&self.path)?;
        }
        let path = std::mem::replace(&mut self.path, to.clone());
        Ok(Some(if path == to { Warning::Removed { path } } else { Warning::Replaced { path, to } }))
    }

    /// Replaces a model folder of the run: `write` fills a new folder beside it, which then takes the old one's place. A crash at
    /// any moment leaves the old or the new one, whole. Anything but a model folder of a run is moved aside. If the run's folder is
    /// removed meanwhile, all of this happens again in a new one.
    pub fn replace(&mut self, name: &str, write: impl Fn(&Path) -> Result<()>) -> Result<Vec<Warning>> {
        /// A program that removes the folder each time must not keep the run from ending.
        const ATTEMPTS: usize = 5;
        let mut warnings = Vec::new();
        for attempt in 1.. {
            warnings.extend(self.locate()?);
            let replaced = self.replace_here(name, &write);
            if attempt < ATTEMPTS && matches!(self.lock.folder(), Err(minigpt_files::Error::Gone { .. })) {
                continue;
            }
            let aside = replaced?;
            warnings.extend(
                aside.map(|aside| Warning::SetAside { path: self.join(name), aside: present_path(&aside) }),
            );
            break;
        }
        Ok(warnings)
    }

    fn replace_here(&self, name: &str, write: impl Fn(&Path) -> Result<()>) -> Result<Option<PathBuf>> {
        let folder = NewFolder::create(&self.entry_path().join(name))?;
        write(folder.path())?;
        Ok(folder.put_in_place_of(&model_files())?)
    }

    /// Like [`replace`](Self::replace), for a folder that the run can do without: anything but a model folder of a run is an error.
    pub fn replace_own(&self, name: &str, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let run = self.entry_path();
        let path = run.join(name);
        let parent = path.parent().filter(|parent| *parent != run);
        if let Some(link) = parent.into_iter().chain([&*path]).find(|path| is_link(path)) {
            return Err(minigpt_files::Error::Link { path: present_path(link) }.into());
        }
        if let Some(other) = foreign_entry(&path, &model_files())? {
            return Err(minigpt_files::Error::NotOurs { path: present_path(&path), other }.into());
        }
        let folder = NewFolder::create(&path)?;
        write(folder.path())?;
        Ok(folder.put_in_place()?)
    }
}

/// The name of a run's data in its folder.
fn input_name(from: &Path) -> String {
    let ending = from.extension().map_or("txt".into(), std::ffi::OsStr::to_string_lossy);
    format!("{INPUT}.{ending}")
}

/// The lock of a folder, or that another run has it.
fn take(path: &Path) -> Result<Lock> {
    Lock::take(path).map_err(|error| match error {
        minigpt_files::Error::Busy { path } => Error::Locked(path),
        error => error.into(),
    })
}

/// Refuses a folder in which no run ever was, but which holds what a run would overwrite.
fn refuse_foreign(path: &Path, more_names: &[&str]) -> Result<()> {
    if Lock::is_known(path)? || is_there(&path.join("last").join(TRAINING_FILES[0]))? {
        return Ok(());
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Ok(()) };
    for entry in entries {
        let name = entry.map_err(|e| io(path, e))?.file_name().to_string_lossy().into_owned();
        let name_of_run = NAMES.iter().chain(more_names).any(|known| *known == name);
        if name_of_run || step_of(&name).is_some() {
            return Err(Error::ForeignFolder { path: path.to_owned(), name });
        }
    }
    Ok(())
}

/// The names of the files in a model folder of a run.
pub(crate) fn model_files() -> Vec<&'static str> {
    [hugging_face::FILES, &TRAINING_FILES].concat()
}

/// The step in the name of a numbered checkpoint, `step-00000250`, and not merely of one that begins like it.
pub(crate) fn step_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("step-")?;
    let all_digits = digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| all_digits)
}

pub(crate) fn io(path: &Path, problem: std::io::Error) -> Error {
    Error::Io { path: present_path(path), problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(text: &str) -> impl Fn(&Path) -> Result<()> {
        move |folder| fs::write(folder.join("config.json"), text).map_err(|e| io(folder, e))
    }

    fn read(run: &RunFolder) -> String {
        fs::read_to_string(run.join("last/config.json")).unwrap()
    }

    #[test]
    fn a_folder_is_replaced_as_a_whole_and_nothing_is_left_over() {
        let dir = tempfile::tempdir().unwrap();
        let mut run = RunFolder::open(dir.path()).unwrap();
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
        let mut run = RunFolder::open(dir.path()).unwrap();
        run.replace("last", write("one")).unwrap();
        run.replace("last", |_| Err(CheckpointError::BadMoment("no space".to_owned()).into())).unwrap_err();
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
            fs::write(dir.path().join(".lock"), "").unwrap();
            for folder in folders {
                fs::create_dir(dir.path().join(folder)).unwrap();
                fs::write(dir.path().join(folder).join("config.json"), folder).unwrap();
            }
            let run = RunFolder::open(dir.path()).unwrap();
            assert_eq!(read(&run), survivor);
            assert!(!run.join(".last.old").exists() && !run.join(".last.new").exists());
        }
    }

    #[test]
    fn a_folder_with_files_that_no_run_wrote_is_refused_and_stays_as_it_is() {
        for name in ["config.toml", "metrics.jsonl", "best", "step-00000002", "snapshots"] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(name), "mine").unwrap();
            for _ in 0..2 {
                let error = RunFolder::open(dir.path()).unwrap_err().to_string();
                assert!(error.contains(name) && error.contains("choose another folder"), "{error}");
            }
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
            fs::remove_file(dir.path().join(name)).unwrap();
            RunFolder::open(dir.path()).unwrap();
        }
    }

    #[test]
    fn what_a_person_put_into_a_model_folder_is_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut run = RunFolder::open(dir.path()).unwrap();
        assert!(run.replace("last", write("one")).unwrap().is_empty());
        fs::write(run.join("last/notes.txt"), "mine").unwrap();
        let warnings = run.replace("last", write("two")).unwrap();
        let [Warning::SetAside { aside, .. }] = &warnings[..] else { panic!("{warnings:?}") };
        assert_eq!(fs::read_to_string(aside.join("notes.txt")).unwrap(), "mine");
        assert_eq!(read(&run), "two");
        fs::create_dir(run.join("step-00000003")).unwrap();
        fs::write(run.join("step-00000003/notes.txt"), "mine").unwrap();
        let error = run.replace_own("step-00000003", write("three")).unwrap_err().to_string();
        assert!(error.contains("notes.txt"), "{error}");
        assert_eq!(fs::read_to_string(run.join("step-00000003/notes.txt")).unwrap(), "mine");
    }

    #[cfg(unix)]
    #[test]
    fn snapshots_are_not_written_through_a_link() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let run = RunFolder::open(dir.path()).unwrap();
        std::os::unix::fs::symlink(other.path(), run.join(SNAPSHOTS)).unwrap();
        assert!(run.replace_own("snapshots/step-1", write("one")).is_err());
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_run_goes_where_its_folder_goes_and_never_into_a_successor() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let (path, moved) = (base.join("run"), base.join("moved"));
        let mut run = RunFolder::open(&path).unwrap();
        assert!(run.locate().unwrap().is_none());
        assert!(std::process::Command::new("mv").args([&path, &moved]).status().unwrap().success());
        let successor = RunFolder::open(&path).unwrap();
        assert!(matches!(run.locate().unwrap(), Some(Warning::Moved { .. })));
        assert_eq!(run.path(), moved);
        run.replace("last", write("one")).unwrap();
        assert!(!successor.join("last").exists() && moved.join("last").exists());
        // Without its lock it is still its own; with that of another process it is not.
        fs::remove_file(moved.join(".lock")).unwrap();
        assert!(run.locate().unwrap().is_none());
        fs::remove_file(moved.join(".lock")).unwrap();
        // Without a lock, a folder with other files of a run's names would be refused.
        fs::remove_dir_all(moved.join("last")).unwrap();
        let thief = RunFolder::open(&moved).unwrap();
        assert!(matches!(run.locate().unwrap(), Some(Warning::Replaced { .. })));
        assert_eq!(run.path(), base.join("moved.aside"));
        drop(thief);
        fs::remove_dir_all(run.path()).unwrap();
        assert!(matches!(run.locate().unwrap(), Some(Warning::Removed { .. })));
        assert!(run.path().is_dir());
        fs::remove_dir_all(run.path()).unwrap();
        fs::create_dir(run.path()).unwrap();
        assert!(matches!(run.locate().unwrap(), Some(Warning::Replaced { .. })));
        assert_eq!(run.path(), base.join("moved.aside.aside"));
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
