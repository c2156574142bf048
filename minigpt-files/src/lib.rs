//! Files and folders that appear whole or not at all, files that are read in place, and locks.
//!
//! This is the only code that renames or maps anything. A process that is killed at any instant leaves the old file or
//! folder or the new one; what it had begun is cleaned up by whoever next writes in the same place.
//!
//! Begin with [`write_file`] (one file), [`replace_file`] (one file, written piece by piece) and [`NewFolder`] (several
//! files that belong together), and with [`read_file`] and [`read_text`], which never read more than they were told, nor
//! from a device. [`OutputFolder`] adds the question whether what is already there may go. [`Mapped`] is
//! a file's bytes without reading it into memory, [`ReadAt`] a file that is read for long, and [`Lock`] keeps a folder
//! for one process. [`open_for_appending`] opens a file that grows. Nothing is ever written through a link.
//!
//! It never decides what a file contains, and never prints.
//!
//! ```
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("notes.txt");
//! minigpt_files::write_file(&path, b"whole or not at all")?;
//! assert_eq!(minigpt_files::Mapped::open(&path)?.bytes(), b"whole or not at all");
//! # Ok::<(), minigpt_files::Error>(())
//! ```

mod error;
mod file;
mod folder;
mod lock;
mod map;
mod open_folder;
mod output_folder;
mod own_file;
mod read;
mod read_at;
mod under_way;

pub use error::{Action, Error, ReadProblem, Result};
pub use file::{is_there, move_file, replace_file, write_file};
pub use folder::{NewFolder, remove_folder};
pub use lock::{Lock, NAME as LOCK};
pub use map::Mapped;
pub use open_folder::present_path;
pub use output_folder::{OutputFolder, foreign_entry};
pub use own_file::{
    copy_aside, free_name, is_link, is_sole_file, is_still_at, open_for_appending, set_aside,
};
pub use read::{open_file, open_file_or_pipe, read_file, read_text, read_text_or_pipe};
pub use read_at::ReadAt;
pub use under_way::writes_under_way;
