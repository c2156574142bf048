//! `minigpt run`: a chat, or one answer, in as few words as Ollama takes for it.

use crate::commands::chat;
use crate::input::{self, MOST_TEXT};
use crate::models::{self, ContextArgs, LoadArgs};
use crate::sampling::SamplingArgs;
use anyhow::Result;
use clap::Args;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Talk with a model, or have it answer one prompt.
#[derive(Args)]
pub struct RunArgs {
    #[arg(value_name = models::NAME, help = models::HELP)]
    model: PathBuf,
    /// What to ask, in the format that the model knows; a model without one goes on with it. Otherwise what standard input
    /// has, and at a terminal a chat.
    #[arg(value_name = "PROMPT")]
    words: Vec<String>,
    /// The same by name.
    #[arg(short, long, value_name = "TEXT", conflicts_with = "words")]
    prompt: Option<String>,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    window: ContextArgs,
}

/// Runs the command.
pub fn run(args: &RunArgs) -> Result<()> {
    let model = args.window.apply(args.load.open(&args.model)?)?;
    let format = model.format()?.clone();
    let mut chat = chat::begin(model, format, &args.sampling)?;
    let prompt = match &args.prompt {
        Some(prompt) => prompt.clone(),
        None if !args.words.is_empty() => args.words.join(" "),
        None if std::io::stdin().is_terminal() => return chat.run(),
        // The last line end is the shell's.
        None => input::text("prompt", MOST_TEXT)?.trim_end_matches(['\r', '\n']).to_owned(),
    };
    chat.answer_once(&prompt)
}
