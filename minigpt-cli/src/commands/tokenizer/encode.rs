//! `minigpt tokenizer encode`: text to ids, which go to standard output, and a view of the pieces beside them.

use super::{Choice, pieces};
use crate::arguments::numbers;
use crate::input::{self, MOST_TO_ENCODE};
use crate::language::messages::tokenizer as message;
use crate::output;
use anyhow::{Context, Result, ensure};
use clap::Args;
use minigpt_tokenizer::{END_OF_TEXT, PAD, Tokenizer};
use serde::Serialize;
use std::io::IsTerminal;

#[derive(Args)]
pub(super) struct EncodeArgs {
    #[command(flatten)]
    tokenizer: Choice,
    /// Text. Default: standard input.
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Read special tokens such as <|endoftext|> as such; otherwise they are ordinary text.
    #[arg(long)]
    special: bool,
    /// Truncate or pad (with <pad>) to this many ids; --json then includes a mask, 1 for text and 0 for padding.
    #[arg(long, value_name = "N", value_parser = numbers::whole::<usize>)]
    max_length: Option<usize>,
    /// Print {"ids", "tokens", "count"} as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    ids: Vec<u32>,
    tokens: Vec<String>,
    count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<Vec<u8>>,
}

pub(super) fn run(args: &EncodeArgs) -> Result<()> {
    let tokenizer = args.tokenizer.open()?;
    let text = match &args.text {
        Some(text) => text.clone(),
        None => input::text("text", MOST_TO_ENCODE)?,
    };
    let mut ids =
        if args.special { tokenizer.encode_with_special(&text)? } else { tokenizer.encode(&text)? };
    let mask = match args.max_length {
        Some(length) => Some(fit(&mut ids, length, &tokenizer)?),
        None => None,
    };
    if args.json {
        let tokens = ids.iter().filter_map(|&id| tokenizer.token(id)).collect();
        return output::json(&Answer { count: ids.len(), tokens, ids, mask });
    }
    let numbers: Vec<String> = ids.iter().map(u32::to_string).collect();
    output::text(format!("{}\n", numbers.join(" ")))?;
    show(&tokenizer, &ids, text.len());
    Ok(())
}

/// Cuts or pads ids to a length, and says which of them are text.
fn fit(ids: &mut Vec<u32>, length: usize, tokenizer: &Tokenizer) -> Result<Vec<u8>> {
    /// Longer than any context.
    const LONGEST: usize = 1 << 24;
    ensure!(length <= LONGEST, "{}", message::MaxLengthTooLarge { length: &length, most: &LONGEST });
    ids.truncate(length);
    let text = ids.len();
    if text < length {
        let pad = tokenizer.special_id(PAD).or_else(|| tokenizer.special_id(END_OF_TEXT));
        ids.resize(length, pad.context(message::NoPadToken)?);
    }
    Ok((0..length).map(|i| u8::from(i < text)).collect())
}

/// What a person wants to see of the ids, on standard error, so that what is piped on is ids only.
fn show(tokenizer: &Tokenizer, ids: &[u32], bytes: usize) {
    let stderr = std::io::stderr();
    let colour = stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    output::note_drawn(&format!("\n{}", pieces::view(tokenizer, ids, colour)));
    let count = match ids.len() {
        1 => message::OneToken.text().to_owned(),
        n => message::TokenCount { tokens: &n }.to_string(),
    };
    let each = match ids.len() {
        0 => String::new(),
        n => message::BytesPerToken { bytes: &(bytes as f64 / n as f64) }.to_string(),
    };
    output::note(message::Encoded { count: &count, bytes: &bytes, each: &each });
}
