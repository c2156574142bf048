//! What was typed in earlier chats: a file in the user's folder for state, one JSON string a line. A history that can't be
//! read or kept is no reason to stop, so nothing here fails.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Messages that are remembered.
pub const LENGTH: usize = 1000;
/// No history is longer than this.
const LARGEST: u64 = 16 << 20;

/// The history of all chats.
pub struct History(Option<PathBuf>);

impl History {
    /// That of this user: in `XDG_STATE_HOME`, or where that usually is.
    pub fn of_user() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
        Self(state.map(|state| state.join("minigpt/chat_history.jsonl")))
    }

    /// The messages, oldest first. A file that has grown long is cut.
    pub fn read(&self) -> Vec<String> {
        let text = self.0.as_ref().and_then(|path| minigpt_files::read_text(path, LARGEST).ok());
        let text = text.unwrap_or_default();
        let all: Vec<String> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let last = all[all.len().saturating_sub(LENGTH)..].to_vec();
        if let (Some(path), true) = (&self.0, all.len() > 2 * LENGTH) {
            let kept: String = last.iter().map(|message| line(message)).collect();
            let _ = minigpt_files::write_file(path, kept.as_bytes());
        }
        last
    }

    /// Adds a message.
    pub fn add(&self, message: &str) {
        if let Some(path) = &self.0 {
            let _ = append(path, &line(message));
        }
    }
}

fn line(message: &str) -> String {
    serde_json::Value::from(message).to_string() + "\n"
}

fn append(path: &Path, line: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    // What somebody says to a model is nobody else's business.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_there_in_the_next_chat_and_not_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/minigpt/history");
        let history = || History(Some(path.clone()));
        assert_eq!(history().read(), Vec::<String>::new());
        history().add("two\nlines \"quoted\"");
        history().add("你好");
        fs::write(&path, fs::read_to_string(&path).unwrap() + "not JSON\n").unwrap();
        assert_eq!(history().read(), ["two\nlines \"quoted\"", "你好"]);
        for i in 0..2 * LENGTH {
            history().add(&i.to_string());
        }
        let read = history().read();
        assert_eq!((read.len(), &read[LENGTH - 1]), (LENGTH, &(2 * LENGTH - 1).to_string()));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), LENGTH);
    }

    #[test]
    fn a_history_that_can_not_be_kept_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for history in [History(Some(file.join("below"))), History(Some(folder.path().into())), History(None)]
        {
            history.add("hello");
            assert_eq!(history.read(), Vec::<String>::new());
        }
    }
}
