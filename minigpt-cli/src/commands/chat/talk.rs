//! A chat: messages in, answers out, and what else can be asked for on the way.

use super::STOP;
use super::editor::{Terminal, Typed};
use super::lines::{Lines, Said};
use super::settings;
use crate::arguments::numbers::{RANDOM, draw_seed};
use crate::input::{self, MOST_TEXT};
use crate::language::local;
use crate::language::messages::chat as message;
use crate::{language, output, sampling};
use anyhow::{Context, Result, ensure};
use minigpt::{ChatSettings, Conversation, Format, ModelFolder};
use minigpt_charts::bytes;
use minigpt_data::{Role, Unknown};
use minigpt_generate::{
    Engine, EngineConfig, EngineEvent, FinishReason, GenerationConfig, Request, repetition,
};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What can be typed behind a slash.
pub const COMMANDS: [&str; 8] = ["help", "set", "show", "reset", "save", "load", "quit", "exit"];

pub struct Chat {
    model: ModelFolder,
    /// Remembers what it has read, so that a further turn costs what is new in it.
    engine: Engine,
    talk: Conversation,
    pub settings: ChatSettings,
    /// Answers so far: each draws from a seed of its own.
    answers: u64,
}

/// Whether the chat goes on.
enum Next {
    Go,
    Quit,
}

impl Chat {
    pub fn new(model: ModelFolder, format: Format) -> Result<Self> {
        model.gpt.read_into_memory();
        let talk = Conversation::new(format);
        let settings = ChatSettings::suited_to(talk.format(), &model)?;
        let tokenizer = Arc::new(model.need_tokenizer()?.clone());
        // Nobody else waits, so that a prompt may be read at once.
        let config = EngineConfig { slots: 1, fixed_chunk: Some(usize::MAX), ..EngineConfig::default() };
        let engine = Engine::new(model.gpt.clone(), Some(tokenizer), &config)?;
        Ok(Self { model, engine, talk, settings, answers: 0 })
    }

    /// Talks until somebody leaves.
    pub fn run(&mut self) -> Result<()> {
        let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        output::note(format!("{}: {}", self.model.path.display(), local(self.talk.format())));
        if !terminal {
            return self.answer_lines();
        }
        output::note(message::AskAway);
        let mut terminal = Terminal::open()?;
        loop {
            match terminal.read()? {
                Typed::Said(said) => {
                    if let Next::Quit = self.take(&said)? {
                        return Ok(());
                    }
                }
                Typed::Interrupted => output::note(message::HowToLeave),
                Typed::End => return Ok(()),
            }
        }
    }

    /// Answers one message and nothing else. A text that is gone on with stands before its continuation.
    pub fn answer_once(&mut self, message: &str) -> Result<()> {
        ensure!(!message.trim().is_empty(), message::EmptyPrompt);
        if *self.talk.format() == Format::Plain {
            output::written(message)?;
        }
        self.answer(message)
    }

    /// Without a terminal every line is a message, and its answer a line or more on standard output.
    fn answer_lines(&mut self) -> Result<()> {
        let mut lines = Lines::default();
        let mut stdin = std::io::stdin().lock();
        for number in 1.. {
            let Some(line) = input::line(&mut stdin, MOST_TEXT)? else { break };
            let Ok(line) = std::str::from_utf8(&line) else {
                output::note(message::LineNotText { number: &number });
                continue;
            };
            let said = lines.push(line.trim_end_matches('\r'));
            ensure!(
                lines.len() as u64 <= MOST_TEXT,
                "{}",
                message::MessageTooLong { most: &bytes(MOST_TEXT) }
            );
            if let Some(said) = said
                && let Next::Quit = self.take(&said)?
            {
                return Ok(());
            }
        }
        if let Some(said) = lines.finish() {
            self.take(&said)?;
        }
        Ok(())
    }

    /// One message, or one command. What goes wrong in it does not end the chat; a reader that went away does.
    fn take(&mut self, said: &Said) -> Result<Next> {
        let done = match said {
            Said::Command(command) => self.command(command),
            Said::Message(message) => self.answer(message).map(|()| Next::Go),
        };
        let closed = |error: &anyhow::Error| {
            let closed = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
            error.chain().any(|cause| cause.downcast_ref().is_some_and(closed))
        };
        match done {
            Err(error) if !closed(&error) => {
                output::note(language::error(&error));
                Ok(Next::Go)
            }
            done => done,
        }
    }

    fn command(&mut self, command: &str) -> Result<Next> {
        let command = command.trim();
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim_start();
        match name {
            "help" | "?" | "quit" | "exit" | "bye" | "reset" | "clear" | "show" if !rest.is_empty() => {
                output::note(message::TakesNoArgument { name: &name, rest: &rest });
            }
            "help" | "?" => output::note(message::Help),
            // `/bye` and `/clear` are Ollama's.
            "quit" | "exit" | "bye" => return Ok(Next::Quit),
            "reset" | "clear" => {
                self.talk.reset();
                output::note(message::HistoryCleared);
            }
            "show" => {
                let format = local(self.talk.format());
                let turns = self.talk.turns().len();
                let settings = settings::show(&self.settings);
                output::note(message::Show {
                    format: &format,
                    turns: &turns,
                    settings: &settings.trim_end(),
                });
            }
            "set" => {
                // As Ollama writes it: /set parameter temperature 0.7.
                let (name, value) = rest
                    .strip_prefix("parameter ")
                    .unwrap_or(rest)
                    .split_once([' ', '='])
                    .context(message::SetNeedsAValue)?;
                self.set(name.trim(), value.trim())?;
            }
            "save" | "load" if rest.is_empty() => output::note(message::NameAFile { name: &name }),
            "save" => {
                let path = Path::new(rest);
                minigpt_files::write_file(path, format!("{}\n", self.talk.to_json()).as_bytes())?;
                output::note(message::TurnsSaved { turns: &self.talk.turns().len(), file: &rest });
            }
            "load" => {
                let text = minigpt_files::read_text(Path::new(rest), MOST_TEXT)?;
                self.talk.load_json(&text).with_context(|| rest.to_owned())?;
                output::note(message::TurnsLoaded { turns: &self.talk.turns().len() });
            }
            _ => output::note(message::UnknownCommand { name: &name, help: &message::Help }),
        }
        Ok(Next::Go)
    }

    /// Changes a setting; says so, and whether that has an effect.
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let drawn = (name == "seed" && value == RANDOM).then(|| draw_seed().to_string());
        let value = drawn.as_deref().unwrap_or(value);
        self.settings.set(name, value)?;
        output::note(message::ValueIs { name: &name, value: &value });
        let of_a_draw = ["top_k", "top_p", "min_p", "seed"].contains(&name.replace('-', "_").as_str());
        sampling::say_unused(&self.settings.generation, &[(name, of_a_draw)]);
        if name.replace('-', "_") == "repeat_last_n" {
            sampling::say_unused_window(&self.settings.generation, name);
        }
        Ok(())
    }

    /// Answers a message, piece by piece. An answer that fails takes its question back.
    fn answer(&mut self, message: &str) -> Result<()> {
        let tokenizer = self.model.need_tokenizer()?;
        output::unknown(message::YourMessage.text(), tokenizer, &Unknown::of(tokenizer, message));
        self.talk.say(Role::User, message);
        match self.write_answer() {
            Ok(answer) => {
                self.talk.say(Role::Assistant, &answer);
                Ok(())
            }
            Err(error) => {
                self.talk.take_back();
                Err(error)
            }
        }
    }

    fn write_answer(&mut self) -> Result<String> {
        STOP.store(false, Ordering::Relaxed);
        self.talk.remembers = self.settings.history;
        let room = self.settings.generation.max_new_tokens.min(self.model.gpt.config().block_size / 2);
        let prompt = self.talk.prompt(&self.model, room)?;
        let seed = self.settings.generation.seed.wrapping_add(self.answers);
        self.answers += 1;
        let generation = GenerationConfig { seed, ..self.settings.generation.clone() };
        let request = self.engine.submit(Request::new(prompt, generation))?;
        let written = self.write_tokens();
        // Stopped or failed, it is not to go on in the next answer.
        self.engine.cancel(request);
        let (answer, why) = written?;
        output::written("\n")?;
        if let Some(why) = why {
            output::note(format!("({why})"));
        }
        Ok(answer)
    }

    /// Shows an answer as it is written; all of it, and why it ended, if that needs saying.
    fn write_tokens(&mut self) -> Result<(String, Option<&'static str>)> {
        let (mut answer, mut ids) = (String::new(), Vec::new());
        loop {
            for (_, event) in self.engine.step() {
                let shown = match event {
                    EngineEvent::Token { id, text, .. } => {
                        ids.push(id);
                        text
                    }
                    EngineEvent::Done { rest, reason, .. } => {
                        output::written(&rest)?;
                        let why = (reason == FinishReason::Length).then(|| message::LengthReached.text());
                        return Ok((answer + &rest, why));
                    }
                    EngineEvent::Failed(error) => return Err(error.into()),
                    _ => continue,
                };
                output::written(&shown)?;
                answer.push_str(&shown);
            }
            if STOP.load(Ordering::Relaxed) {
                return Ok((answer, Some(message::Stopped.text())));
            }
            if self.settings.guard && repetition::is_looping(&ids) {
                return Ok((answer, Some(message::RepeatsItself.text())));
            }
        }
    }
}
