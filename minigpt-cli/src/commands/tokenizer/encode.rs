//! `minigpt tokenizer encode`: text to ids, which go to standard output, and a view of the pieces beside them.

use super::{Choice, pieces};
use crate::input::{self, MOST_TO_ENCODE};
use crate::output;
use anyhow::Result;
use clap::Args;
use minigpt_tokenizer::Tokenizer;
use serde::Serialize;
use std::io::IsTerminal;

#[derive(Args)]
pub(super) struct EncodeArgs {
    #[command(flatten)]
    tokenizer: Choice,
    /// The text; standard input otherwise.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,
    /// Special tokens such as <|endoftext|> mean what they say; otherwise they are ordinary text.
    #[arg(long)]
    special: bool,
    /// Print {"ids", "tokens", "count"} as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    ids: Vec<u32>,
    tokens: Vec<String>,
    count: usize,
}

pub(super) fn run(args: &EncodeArgs) -> Result<()> {
    let tokenizer = args.tokenizer.open()?;
    let text = match &args.text {
        Some(text) => text.clone(),
        None => input::text("text", MOST_TO_ENCODE)?,
    };
    let ids = if args.special { tokenizer.encode_with_special(&text)? } else { tokenizer.encode(&text)? };
    if args.json {
        let tokens = ids.iter().filter_map(|&id| tokenizer.token(id)).collect();
        return output::json(&Answer { count: ids.len(), tokens, ids });
    }
    let numbers: Vec<String> = ids.iter().map(u32::to_string).collect();
    output::text(&format!("{}\n", numbers.join(" ")))?;
    show(&tokenizer, &ids, text.len());
    Ok(())
}

/// What a person wants to see of the ids, on standard error, so that what is piped on is ids only.
fn show(tokenizer: &Tokenizer, ids: &[u32], bytes: usize) {
    let stderr = std::io::stderr();
    let colour = stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    output::note_drawn(&format!("\n{}", pieces::view(tokenizer, ids, colour)));
    let count = match ids.len() {
        1 => "1 token".to_owned(),
        n => format!("{n} tokens"),
    };
    let each = match ids.len() {
        0 => String::new(),
        n => format!(", {:.2} a token", bytes as f64 / n as f64),
    };
    output::note(&format!("{count} for {bytes} bytes{each}"));
}
