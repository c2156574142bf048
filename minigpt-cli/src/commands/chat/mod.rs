//! `minigpt chat`: talk with a model.

mod settings;

use crate::device::DeviceKind;
use crate::dtype;
use crate::input::{self, MOST_TEXT};
use crate::output;
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use minigpt::{ChatSettings, Conversation, Format, ModelFolder};
use minigpt_charts::bytes;
use minigpt_data::Role;
use minigpt_generate::{FinishReason, GenerationConfig, Generator, repetition};
use minigpt_kernels::ElementType;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Talk with a model.
#[derive(Args)]
pub struct ChatArgs {
    /// The model folder.
    #[arg(long, value_name = "FOLDER")]
    model: PathBuf,
    /// How to speak to it; found out when absent.
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// Change a setting before the first question, for example temperature=0.7; /show lists them.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    changes: Vec<String>,
    /// How the matrices are kept: in fewer bits they take less memory and time, and are a little less exact.
    #[arg(long, default_value = "f32", value_parser = dtype::among(dtype::TO_RUN))]
    dtype: ElementType,
    /// Where to compute.
    #[arg(long, value_enum, default_value = "cpu")]
    device: DeviceKind,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    /// Questions and answers with separators.
    Qa,
    /// Plain text that the model goes on with.
    Plain,
}

/// Set by Ctrl-C while an answer is written.
static STOP: AtomicBool = AtomicBool::new(false);

const HELP: &str = "\
  /help                     this
  /set temperature 0.7      change a setting; /show lists them
  /show                     the settings, and how the model is spoken to
  /reset                    forget what was said
  /save FILE, /load FILE    keep the conversation, go on with a kept one
  /quit                     leave, as does Ctrl-D
  A line that ends with \\ goes on in the next. Ctrl-C stops an answer.
";

/// Runs the command.
pub fn run(args: &ChatArgs) -> Result<()> {
    let model = ModelFolder::open_as(&args.model, &args.device.open()?, dtype::quantized(args.dtype))?;
    let format = match args.format {
        Some(FormatName::Qa) => Format::Qa,
        Some(FormatName::Plain) => Format::Plain,
        None => Format::of(&model)?,
    };
    let mut chat = Chat::new(model, format)?;
    for change in &args.changes {
        let (name, value) =
            change.split_once('=').with_context(|| format!("--set {change}: write name=value"))?;
        chat.settings.set(name.trim(), value.trim())?;
    }
    watch_for_ctrl_c()?;
    chat.run()
}

/// Opens a chat with a model folder as it is.
pub fn open(model: &Path) -> Result<()> {
    let model = ModelFolder::open(model, &minigpt_model::Device::Cpu)?;
    let format = Format::of(&model)?;
    Chat::new(model, format)?.run()
}

/// Ctrl-C ends the answer that is being written.
pub fn stop_answer() {
    STOP.store(true, Ordering::Relaxed);
}

fn watch_for_ctrl_c() -> Result<()> {
    ctrlc::set_handler(stop_answer).context("Ctrl-C could not be watched")
}

struct Chat {
    model: ModelFolder,
    talk: Conversation,
    settings: ChatSettings,
    /// Answers so far: each draws from a seed of its own.
    answers: u64,
}

/// Whether the chat goes on.
enum Next {
    Go,
    Quit,
}

impl Chat {
    fn new(model: ModelFolder, format: Format) -> Result<Self> {
        model.gpt.read_into_memory();
        let talk = Conversation::new(format);
        let settings = ChatSettings::suited_to(talk.format(), &model)?;
        Ok(Self { model, talk, settings, answers: 0 })
    }

    fn run(&mut self) -> Result<()> {
        let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        output::note(&format!("{}: {}", self.model.path.display(), self.talk.format().describe()));
        if !terminal {
            return self.answer_lines();
        }
        output::note("ask away; /help lists what else you can type");
        let mut editor = DefaultEditor::new().context("the terminal can't be read")?;
        loop {
            match read_message(&mut editor) {
                Ok(message) => {
                    if let Next::Quit = self.take(&message)? {
                        return Ok(());
                    }
                }
                Err(ReadlineError::Interrupted) => output::note("/quit or Ctrl-D leaves"),
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(error).context("the terminal can't be read"),
            }
        }
    }

    /// Without a terminal every line is a message, and its answer a line or more on standard output.
    fn answer_lines(&mut self) -> Result<()> {
        let mut message = String::new();
        let mut stdin = std::io::stdin().lock();
        for number in 1.. {
            let Some(line) = input::line(&mut stdin, MOST_TEXT)? else { break };
            let Ok(line) = std::str::from_utf8(&line) else {
                output::note(&format!("line {number} of standard input is not UTF-8 text: skipped"));
                continue;
            };
            message.push_str(line.trim_end_matches('\r'));
            ensure!(message.len() as u64 <= MOST_TEXT, "a message has more than {}", bytes(MOST_TEXT));
            if let Some(begun) = message.strip_suffix('\\') {
                message = format!("{begun}\n");
                continue;
            }
            if let Next::Quit = self.take(&std::mem::take(&mut message))? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One message, or one command. What goes wrong in it does not end the chat; a reader that went away does.
    fn take(&mut self, message: &str) -> Result<Next> {
        if message.trim().is_empty() {
            return Ok(Next::Go);
        }
        let done = match message.strip_prefix('/') {
            Some(command) => self.command(command),
            None => self.answer(message).map(|()| Next::Go),
        };
        let closed = |error: &anyhow::Error| {
            let closed = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
            error.chain().any(|cause| cause.downcast_ref().is_some_and(closed))
        };
        match done {
            Err(error) if !closed(&error) => {
                output::note(&format!("error: {error:#}"));
                Ok(Next::Go)
            }
            done => done,
        }
    }

    fn command(&mut self, command: &str) -> Result<Next> {
        let mut words = command.split_whitespace();
        let (name, rest) = (words.next().unwrap_or(""), words.collect::<Vec<_>>().join(" "));
        match name {
            "help" | "?" => output::note(HELP.trim_end()),
            "quit" | "exit" => return Ok(Next::Quit),
            "reset" => {
                self.talk.reset();
                output::note("forgotten");
            }
            "show" => {
                let format = self.talk.format().describe();
                let turns = self.talk.turns().len();
                output::note(&format!(
                    "format: {format}; {turns} turns so far\n{}",
                    settings::show(&self.settings).trim_end()
                ));
            }
            "set" => {
                let (name, value) = rest
                    .split_once([' ', '='])
                    .context("write the setting and its value, for example /set temperature 0.7")?;
                self.settings.set(name, value.trim())?;
                output::note(&format!("{name} is {}", value.trim()));
            }
            "save" | "load" if rest.is_empty() => output::note(&format!("name the file: /{name} talk.jsonl")),
            "save" => {
                let path = Path::new(&rest);
                minigpt_files::write_file(path, format!("{}\n", self.talk.to_json()).as_bytes())?;
                output::note(&format!("{} turns saved in {rest}", self.talk.turns().len()));
            }
            "load" => {
                let text = minigpt_files::read_text(Path::new(&rest), MOST_TEXT)?;
                self.talk.load_json(&text).with_context(|| rest.clone())?;
                output::note(&format!("{} turns loaded", self.talk.turns().len()));
            }
            _ => output::note(&format!("there is no /{name}\n{}", HELP.trim_end())),
        }
        Ok(Next::Go)
    }

    /// Answers a message, piece by piece. An answer that fails takes its question back.
    fn answer(&mut self, message: &str) -> Result<()> {
        output::unknown("your message", self.model.need_tokenizer()?, message);
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
        let tokenizer = self.model.need_tokenizer()?;
        let generator = Generator::new(&self.model.gpt, &[prompt], &generation, Some(tokenizer))?;
        let (mut answer, mut ids, mut why) = (String::new(), Vec::new(), None);
        for step in generator {
            for token in step? {
                output::written(&token.text)?;
                answer.push_str(&token.text);
                ids.push(token.id);
                if token.finish_reason == Some(FinishReason::Length) {
                    why = Some("max_new_tokens reached");
                }
            }
            if STOP.load(Ordering::Relaxed) {
                why = Some("stopped");
                break;
            }
            if self.settings.guard && repetition::is_looping(&ids) {
                why = Some("it began to repeat itself; /set guard off lets it");
                break;
            }
        }
        output::written("\n")?;
        if let Some(why) = why {
            output::note(&format!("({why})"));
        }
        Ok(answer)
    }
}

/// A message, which goes on as long as its lines end with a backslash.
fn read_message(editor: &mut DefaultEditor) -> rustyline::Result<String> {
    let mut message = editor.readline("> ")?;
    while let Some(begun) = message.strip_suffix('\\') {
        let more = editor.readline("… ")?;
        message = format!("{begun}\n{more}");
    }
    // A history that can't be kept is no reason to stop.
    let _ = editor.add_history_entry(&message);
    Ok(message)
}
