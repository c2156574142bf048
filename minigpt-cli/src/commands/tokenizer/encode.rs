//! `minigpt tokenizer encode`: text to ids, which go to standard output, and a view of the pieces beside them.

use super::{Choice, pieces};
use crate::output;
use anyhow::{Context, Result, bail};
use clap::Args;
use minigpt_tokenizer::Tokenizer;
use serde::Serialize;
use std::io::{IsTerminal, Read};

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
        None => read_text("text")?,
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
    output::note(&format!("\n{}", pieces::view(tokenizer, ids, colour)));
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

/// All of standard input, which must be UTF-8.
pub(super) fn read_text(what: &str) -> Result<String> {
    let mut stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        output::note(&format!("Type the {what}; Ctrl-D at the start of a line ends it."));
    }
    let mut bytes = Vec::new();
    stdin.read_to_end(&mut bytes).context("could not read standard input")?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            bail!("standard input is not UTF-8 text: byte {at} is 0x{:02X}", error.as_bytes()[at])
        }
    }
}
