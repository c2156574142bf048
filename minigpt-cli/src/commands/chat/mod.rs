//! `minigpt chat`: talk with a model.

mod editor;
mod history;
mod lines;
mod remote;
mod settings;
mod talk;

use crate::arguments::numbers;
use crate::language::messages::chat as message;
use crate::models::{self, ContextArgs, LoadArgs};
use crate::sampling::{self, SamplingArgs};
use crate::structured::StructuredArgs;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use minigpt::{Format, ModelFolder};
use remote::Remote;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use talk::Chat;

/// Chat with a model.
#[derive(Args)]
pub struct ChatArgs {
    #[arg(value_name = models::NAME, help = format!("{}; also as --model. With --server: name of a model there", models::HELP))]
    #[arg(required_unless_present = "server")]
    model: Option<PathBuf>,
    /// Chat with a model on a server with OpenAI's API, such as http://127.0.0.1:8080.
    #[arg(long, value_name = "URL", conflicts_with_all = ["format", "changes", "dtype", "cache_type", "device", "exact", "ctx_size", "json_schema", "grammar"])]
    server: Option<String>,
    /// API key for this server; also from MINIGPT_API_KEY.
    #[arg(long, value_name = "KEY", requires = "server")]
    api_key: Option<String>,
    /// Chat format. Default: detected.
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    structured: StructuredArgs,
    /// Change a chat setting, such as guard=off; /show lists them.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = numbers::change)]
    changes: Vec<String>,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    window: ContextArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    /// Questions and answers with separators.
    Qa,
    /// Plain text that the model continues.
    Plain,
}

/// Set by Ctrl-C while an answer is written.
static STOP: AtomicBool = AtomicBool::new(false);

/// Runs the command.
pub fn run(args: &ChatArgs) -> Result<()> {
    if let Some(url) = &args.server {
        let name = args.model.as_ref().map(|name| name.to_string_lossy().into_owned());
        ctrlc::set_handler(stop_answer).context(message::NoInterruptHandler)?;
        return Remote::open(url, args.api_key.clone(), name, &args.sampling)?.run();
    }
    let model = args.model.as_ref().context(message::NameAModel)?;
    let model = args.window.apply(args.load.open(model)?)?;
    let format = match args.format {
        Some(FormatName::Qa) => Format::Qa,
        Some(FormatName::Plain) => Format::Plain,
        None => model.format()?.clone(),
    };
    let constraint = args.structured.constraint(&model)?;
    let mut chat = begin(model, format, &args.sampling, &args.changes)?;
    chat.settings.generation.constraint = constraint;
    chat.run()
}

/// A chat with a model, with the settings that were asked for; from here on Ctrl-C ends an answer.
pub fn begin(
    model: ModelFolder,
    format: Format,
    sampling: &SamplingArgs,
    changes: &[String],
) -> Result<Chat> {
    let mut chat = Chat::new(model, format)?;
    sampling.apply(&mut chat.settings.generation);
    chat.settings.generation.validate()?;
    for change in changes {
        let (name, value) =
            change.split_once('=').with_context(|| message::SetSyntax { change: &change }.to_string())?;
        chat.settings.set(name.trim(), value.trim())?;
    }
    sampling::say_unused(&chat.settings.generation, &sampling.of_a_draw());
    sampling::say_unused_window(&chat.settings.generation, "repeat_last_n");
    ctrlc::set_handler(stop_answer).context(message::NoInterruptHandler)?;
    Ok(chat)
}

/// Opens a chat with a model folder as it is.
pub fn open(model: &Path) -> Result<()> {
    let model = ModelFolder::open(model)?;
    let format = model.format()?.clone();
    Chat::new(model, format)?.run()
}

/// Ctrl-C ends the answer that is being written.
pub fn stop_answer() {
    STOP.store(true, Ordering::Relaxed);
}
