//! The line that a person types into: earlier messages with the arrow keys, Tab for commands, settings and files.

use super::history::{self, History};
use super::lines::{Lines, Said};
use super::talk::COMMANDS;
use crate::language::messages::chat as message;
use anyhow::{Context as _, Result};
use minigpt::ChatSettings;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

/// A terminal that is asked for messages.
pub struct Terminal {
    editor: Editor<Completion, MemHistory>,
    history: History,
}

/// What came.
pub enum Typed {
    Said(Said),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D.
    End,
}

impl Terminal {
    /// Opens the terminal, with what was typed in earlier chats.
    pub fn open() -> Result<Self> {
        let config = Config::builder().completion_type(CompletionType::List);
        let config = config.max_history_size(history::LENGTH).context(message::TerminalUnreadable)?.build();
        let earlier = MemHistory::with_config(&config);
        let mut editor = Editor::with_history(config, earlier).context(message::TerminalUnreadable)?;
        editor.set_helper(Some(Completion(FilenameCompleter::new())));
        let history = History::of_user();
        for message in history.read() {
            let _ = editor.add_history_entry(message);
        }
        Ok(Self { editor, history })
    }

    /// The next message or command, however many lines it takes.
    pub fn read(&mut self) -> Result<Typed> {
        let (mut lines, mut typed) = (Lines::default(), Vec::new());
        loop {
            let prompt = if lines.is_open() { "… " } else { "> " };
            match self.editor.readline(prompt) {
                Ok(line) => {
                    typed.push(line);
                    let said = typed.last().and_then(|line| lines.push(line));
                    if let Some(said) = said {
                        self.remember(&typed.join("\n"));
                        return Ok(Typed::Said(said));
                    }
                    if !lines.is_open() {
                        typed.clear();
                    }
                }
                Err(ReadlineError::Interrupted) => return Ok(Typed::Interrupted),
                Err(ReadlineError::Eof) => {
                    return Ok(lines.finish().map_or(Typed::End, Typed::Said));
                }
                Err(error) => return Err(error).context(message::TerminalUnreadable),
            }
        }
    }

    fn remember(&mut self, typed: &str) {
        // The same again is not remembered twice.
        if self.editor.add_history_entry(typed).unwrap_or(false) {
            self.history.add(typed);
        }
    }
}

/// What Tab completes: a command, the name of a setting, or that of a file.
struct Completion(FilenameCompleter);

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..at];
        match typed.strip_prefix(['/', '／']).map(|command| command.split_once(' ')) {
            Some(None) => {
                let start = typed.chars().next().map_or(0, char::len_utf8);
                Ok((start, beginning_with(&typed[start..], &COMMANDS)))
            }
            Some(Some(("set", name))) => Ok((at - name.len(), beginning_with(name, &ChatSettings::NAMES))),
            Some(Some(("save" | "load", _))) => self.0.complete(line, at, context),
            _ => Ok((at, Vec::new())),
        }
    }
}

fn beginning_with(typed: &str, names: &[&str]) -> Vec<Pair> {
    let names = names.iter().filter(|name| name.starts_with(typed));
    names.map(|name| Pair { display: (*name).to_owned(), replacement: format!("{name} ") }).collect()
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}

impl Validator for Completion {}

impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> (usize, Vec<String>) {
        let history = MemHistory::new();
        let completer = Completion(FilenameCompleter::new());
        let (start, pairs) = completer.complete(line, line.len(), &Context::new(&history)).unwrap();
        (start, pairs.into_iter().map(|pair| pair.replacement).collect())
    }

    #[test]
    fn tab_completes_commands_settings_and_files() {
        assert_eq!(completed("/he"), (1, vec!["help ".to_owned()]));
        assert_eq!(completed("／se"), (3, vec!["set ".to_owned()]));
        assert_eq!(completed("/s").1.len(), 3);
        assert_eq!(completed("/set top_"), (5, vec!["top_k ".to_owned(), "top_p ".to_owned()]));
        assert_eq!(completed("he").1, Vec::<String>::new());
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("talk.jsonl"), "").unwrap();
        let (_, files) = completed(&format!("/load {}/ta", folder.path().display()));
        assert!(files[0].ends_with("talk.jsonl"), "{files:?}");
    }
}
