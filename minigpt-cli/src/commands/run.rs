//! `minigpt run`: a chat, or one answer, in as few words as Ollama takes for it.

use crate::commands::chat;
use crate::input::{self, MOST_TEXT};
use crate::models::{self, ContextArgs, LoadArgs};
use crate::sampling::SamplingArgs;
use anyhow::Result;
use clap::Args;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Chat with a model, or get one answer.
#[derive(Args)]
pub struct RunArgs {
    #[arg(value_name = models::NAME, help = models::HELP)]
    model: PathBuf,
    /// Prompt, in the model's format if it has one. Default: standard input, or a chat in a terminal.
    #[arg(value_name = "PROMPT")]
    words: Vec<String>,
    /// Prompt; same as by position.
    #[arg(short, long, value_name = "TEXT", conflicts_with = "words")]
    prompt: Option<String>,
    /// File with the prompt; - for standard input.
    #[arg(short = 'f', long, alias = "file", value_name = "FILE", conflicts_with_all = ["words", "prompt"])]
    prompt_file: Option<PathBuf>,
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
    let mut chat = chat::begin(model, format, &args.sampling, &[])?;
    // The last line end is the shell's or the editor's.
    let without_end = |text: String| text.trim_end_matches(['\r', '\n']).to_owned();
    let prompt = match (&args.prompt, &args.prompt_file) {
        (Some(prompt), _) => prompt.clone(),
        (None, Some(path)) if path.as_os_str() != "-" => {
            without_end(minigpt_files::read_text_or_pipe(path, MOST_TEXT)?)
        }
        (None, None) if !args.words.is_empty() => args.words.join(" "),
        (None, None) if std::io::stdin().is_terminal() => return chat.run(),
        _ => without_end(input::text("prompt", MOST_TEXT)?),
    };
    chat.answer_once(&prompt)
}
