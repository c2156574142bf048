//! A folder that appears whole or not at all: filled beside its place, synced, and exchanged for what is there.

use crate::error::{Action, Error, Result};
use crate::file::is_there;
use crate::open_folder::present_path;
use crate::output_folder::foreign_entry;
use crate::own_file::{free_name, is_link};
use crate::under_way::UnderWay;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// A folder being written. Dropped before [`NewFolder::put_in_place`], it vanishes.
#[derive(Debug)]
pub struct NewFolder {
    target: PathBuf,
    new: PathBuf,
    /// Says that somebody is at work here; the system releases it when the process ends, however it ends.
    _lock: Option<File>,
    _under_way: UnderWay,
    in_place: bool,
}

impl NewFolder {
    /// Begins a folder that is to stand at `target`, after mending what a killed process left there.
    ///
    /// # Errors
    /// The place can't be written, or another process is writing the same folder.
    pub fn create(target: &Path) -> Result<Self> {
        let under_way = UnderWay::begin();
        let parent = parent(target);
        fs::create_dir_all(parent).map_err(|e| Error::io(Action::Create, parent, e))?;
        Self::recover(target)?;
        let new = beside(target, "new");
        fs::create_dir(&new).map_err(|e| Error::io(Action::Create, &new, e))?;
        let lock = lock_folder(&new, target)?;
        Ok(Self { target: target.to_owned(), new, _lock: lock, _under_way: under_way, in_place: false })
    }

    /// Ends what a killed process began at `target`: an old folder whose successor never took its place goes back there,
    /// and half-written ones vanish.
    ///
    /// # Errors
    /// Another process is writing the folder right now, or the system refuses.
    pub fn recover(target: &Path) -> Result<()> {
        let (new, old) = (beside(target, "new"), beside(target, "old"));
        if is_there(&new)? {
            let _lock = lock_folder(&new, target)?;
            remove_folder(&new)?;
        }
        if is_there(&old)? && !is_there(target)? {
            fs::rename(&old, target).map_err(|e| Error::io(Action::Restore, target, e))?;
            sync_folder(parent(target))?;
        }
        remove_folder(&old)
    }

    /// [`Self::recover`] for the folders inside `parent` of which `ours` knows the names, and whose writers must not be at work
    /// any more. Everything else is left alone.
    ///
    /// # Errors
    /// The system refuses.
    pub fn recover_all(parent: &Path, ours: impl Fn(&str) -> bool) -> Result<()> {
        let failed = |e| Error::io(Action::Read, parent, e);
        for entry in fs::read_dir(parent).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            let Some((name, suffix)) = name.strip_prefix('.').and_then(|name| name.rsplit_once('.')) else {
                continue;
            };
            // What was being removed has the name of what it was: a folder, or a new or old one of it.
            let of = |name: &str| ours(name.trim_end_matches(".new").trim_end_matches(".old"));
            match suffix {
                "new" | "old" if ours(name) => Self::recover(&parent.join(name))?,
                "removed" if of(name) => remove_tree(&parent.join(format!(".{name}.removed")))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Where to write the files.
    pub fn path(&self) -> &Path {
        &self.new
    }

    /// Puts the folder in its place; what stood there is removed. Whatever goes wrong, the old folder or the new one
    /// stands there afterwards, whole.
    pub fn put_in_place(mut self) -> Result<()> {
        sync_tree(&self.new)?;
        let failed = |e| Error::io(Action::Write, &self.target, e);
        if !is_there(&self.target)? {
            fs::rename(&self.new, &self.target).map_err(failed)?;
        } else if exchange(&self.new, &self.target) {
            // One step: there was no instant without a folder. What was there is now under the new one's name.
            sync_folder(parent(&self.target))?;
            self.in_place = true;
            return remove_folder(&self.new);
        } else {
            let old = beside(&self.target, "old");
            remove_folder(&old)?;
            let had_one = rename_if_there(&self.target, &old)?;
            if let Err(error) = fs::rename(&self.new, &self.target) {
                if had_one {
                    fs::rename(&old, &self.target).map_err(failed)?;
                }
                return Err(failed(error));
            }
            sync_folder(parent(&self.target))?;
            remove_folder(&old)?;
        }
        self.in_place = true;
        sync_folder(parent(&self.target))
    }

    /// Like [`put_in_place`](Self::put_in_place), but removes what stood there only if it is a folder of files with the names in
    /// `ours` (see [`foreign_entry`]). Anything else is moved aside; returns where to.
    ///
    /// # Errors
    /// The system refuses. Nothing is lost.
    pub fn put_in_place_of(mut self, ours: &[&str]) -> Result<Option<PathBuf>> {
        if is_only(&self.target, ours) {
            return self.put_in_place().map(|()| None);
        }
        sync_tree(&self.new)?;
        let (aside, failed) = (free_name(&self.target)?, |e| Error::io(Action::Write, &self.target, e));
        // The new folder takes the free name first: a kill in between leaves both whole.
        fs::rename(&self.new, &aside).map_err(failed)?;
        self.in_place = true;
        if !exchange(&aside, &self.target) {
            // The new folder waits under its first name, from which `recover` would not restore it: this gap is a rename long.
            fs::rename(&aside, &self.new).map_err(failed)?;
            let had_one = rename_if_there(&self.target, &aside)?;
            fs::rename(&self.new, &self.target).map_err(failed)?;
            sync_folder(parent(&self.target))?;
            return Ok(had_one.then_some(aside));
        }
        sync_folder(parent(&self.target))?;
        Ok(Some(aside))
    }
}

/// Renames what has a path. Somebody may have removed it meanwhile: returns whether there was anything.
fn rename_if_there(path: &Path, to: &Path) -> Result<bool> {
    match fs::rename(path, to) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io(Action::Write, path, e)),
    }
}

/// Whether a path is a folder of such files alone, or nothing at all.
fn is_only(path: &Path, ours: &[&str]) -> bool {
    !is_link(path) && matches!(foreign_entry(path, ours), Ok(None))
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if !self.in_place {
            // Nobody is told: who gave up has an error of their own, and the next attempt tries again.
            let _ = remove_folder(&self.new);
        }
    }
}

/// Removes a folder, if it is there. It is renamed first, so that nobody ever sees it half empty under its own name.
pub fn remove_folder(path: &Path) -> Result<()> {
    let doomed = beside(path, "removed");
    remove_tree(&doomed)?;
    match fs::rename(path, &doomed) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io(Action::Remove, path, e)),
        Ok(()) => {}
    }
    remove_tree(&doomed)
}

/// Removes a folder with all that is in it, if it is there; of a link or a file, just that.
fn remove_tree(path: &Path) -> Result<()> {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|about| about.is_dir());
    match if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) } {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io(Action::Remove, path, e)),
        _ => Ok(()),
    }
}

/// `.NAME.suffix` beside `path`: on the same file system, and out of sight.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // What is hidden already needs no second dot.
    let name = name.strip_prefix('.').unwrap_or(&name).to_owned();
    path.with_file_name(format!(".{name}.{suffix}"))
}

/// The folder that a path lies in.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Syncs a folder's own entries, where the system can.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    if cfg!(unix) {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|e| Error::io(Action::Write, folder, e))?;
    }
    Ok(())
}

/// Makes sure that a folder with all that is in it is on the disk, not only on its way there.
fn sync_tree(folder: &Path) -> Result<()> {
    let failed = |path: &Path, e| Error::io(Action::Write, path, e);
    for entry in fs::read_dir(folder).map_err(|e| failed(folder, e))? {
        let entry = entry.map_err(|e| failed(folder, e))?;
        let path = entry.path();
        if entry.file_type().map_err(|e| failed(&path, e))?.is_dir() {
            sync_tree(&path)?;
        } else {
            // Some systems want it open for writing.
            let file = File::options().read(true).write(true).open(&path);
            file.and_then(|file| file.sync_all()).map_err(|e| failed(&path, e))?;
        }
    }
    sync_folder(folder)
}

/// Exchanges two folders in one step, where the system can.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn exchange(_one: &Path, _other: &Path) -> bool {
    false
}

/// A lock on a folder that is being written; none where folders can't be locked.
fn lock_folder(folder: &Path, target: &Path) -> Result<Option<File>> {
    // Opening a pipe would wait for a writer, and a link leads to another folder.
    if !fs::symlink_metadata(folder).is_ok_and(|about| about.is_dir()) {
        return Ok(None);
    }
    let Ok(lock) = File::open(folder) else { return Ok(None) };
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::Busy { path: present_path(target) }),
        Err(TryLockError::Error(_)) => Ok(None),
        Ok(()) => Ok(Some(lock)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(target: &Path, text: &str) {
        let folder = NewFolder::create(target).unwrap();
        fs::write(folder.path().join("file"), text).unwrap();
        folder.put_in_place().unwrap();
    }

    fn read(target: &Path) -> String {
        fs::read_to_string(target.join("file")).unwrap()
    }

    fn names(dir: &Path) -> Vec<String> {
        let name = |e: io::Result<fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
        fs::read_dir(dir).unwrap().map(name).collect()
    }

    #[test]
    fn a_folder_is_replaced_as_a_whole_and_nothing_is_left_over() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("last");
        for text in ["one", "two"] {
            write(&target, text);
            assert_eq!(read(&target), text);
            assert_eq!(names(dir.path()), ["last"]);
        }
    }

    #[test]
    fn a_folder_that_is_given_up_leaves_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("deep/last");
        write(&target, "one");
        let given_up = NewFolder::create(&target).unwrap();
        fs::write(given_up.path().join("file"), "half").unwrap();
        drop(given_up);
        assert_eq!(read(&target), "one");
        assert_eq!(names(&dir.path().join("deep")), ["last"]);
    }

    #[test]
    fn a_kill_between_any_two_steps_leaves_a_whole_folder() {
        // What lies there when the process dies: while writing, between the two renames of a system that can't
        // exchange, and before cleaning up.
        let cases: [(&[&str], &str); 4] = [
            (&["last", ".last.new"], "last"),
            (&[".last.old", ".last.new"], ".last.old"),
            (&["last", ".last.old"], "last"),
            (&["last", ".last.new.removed", ".last.old"], "last"),
        ];
        for (folders, survivor) in cases {
            let dir = tempfile::tempdir().unwrap();
            for folder in folders {
                fs::create_dir(dir.path().join(folder)).unwrap();
                fs::write(dir.path().join(folder).join("file"), folder).unwrap();
            }
            let target = dir.path().join("last");
            NewFolder::recover(&target).unwrap();
            assert_eq!(read(&target), survivor);
            write(&target, "next");
            assert_eq!(read(&target), "next");
        }
    }

    #[test]
    fn all_folders_of_a_parent_are_mended_and_nothing_else_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let left = [".last.old", ".step-3.removed", ".best.new", ".last.new.removed"];
        let others = [".mine", ".mine.removed", ".thesis.old", ".thesis.new", "best", "notes.old"];
        for name in left.iter().chain(&others) {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        NewFolder::recover_all(dir.path(), |name| ["last", "best", "step-3"].contains(&name)).unwrap();
        let mut names = names(dir.path());
        names.sort();
        assert_eq!(
            names,
            [".mine", ".mine.removed", ".thesis.new", ".thesis.old", "best", "last", "notes.old"]
        );
    }

    #[test]
    fn what_is_not_ours_is_moved_aside_and_not_removed() {
        const OURS: &[&str] = &["file", "part-*"];
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("last");
        let put = |text: &str| {
            let folder = NewFolder::create(&target).unwrap();
            fs::write(folder.path().join("file"), text).unwrap();
            folder.put_in_place_of(OURS).unwrap()
        };
        assert_eq!((put("one"), put("two")), (None, None));
        fs::write(target.join("notes.txt"), "mine").unwrap();
        let aside = put("three").unwrap();
        assert_eq!((read(&target), read(&aside)), ("three".to_owned(), "two".to_owned()));
        assert_eq!(fs::read_to_string(aside.join("notes.txt")).unwrap(), "mine");
        fs::remove_dir_all(&target).unwrap();
        fs::write(&target, "a file").unwrap();
        assert_eq!(fs::read_to_string(put("four").unwrap()).unwrap(), "a file");
        let mut names = names(dir.path());
        names.sort();
        assert_eq!(names, ["last", "last.aside", "last.aside-2"]);
    }

    /// A link in the place of a folder leads out of it: neither it nor its target is lost.
    #[cfg(unix)]
    #[test]
    fn a_link_is_replaced_itself() {
        let dir = tempfile::tempdir().unwrap();
        let (target, other) = (dir.path().join("last"), dir.path().join("other"));
        fs::create_dir(&other).unwrap();
        fs::write(other.join("file"), "theirs").unwrap();
        for link in ["last", ".last.new", ".last.old"] {
            std::os::unix::fs::symlink("other", dir.path().join(link)).unwrap();
        }
        let folder = NewFolder::create(&target).unwrap();
        fs::write(folder.path().join("file"), "ours").unwrap();
        let aside = folder.put_in_place_of(&["file"]).unwrap().unwrap();
        assert_eq!(
            (read(&target), read(&other), read(&aside)),
            ("ours".into(), "theirs".into(), "theirs".into())
        );
        std::os::unix::fs::symlink("nowhere", dir.path().join(".last.new")).unwrap();
        write(&target, "again");
        assert_eq!(read(&other), "theirs");
    }

    #[cfg(unix)]
    #[test]
    fn two_processes_can_not_write_one_folder() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("last");
        let first = NewFolder::create(&target).unwrap();
        assert!(matches!(NewFolder::create(&target), Err(Error::Busy { .. })));
        first.put_in_place().unwrap();
        assert!(target.exists());
    }
}
