//! `minigpt data prepare`: text to files of tokens.

use super::reading::ReadingArgs;
use crate::language::{counted, t, tr};
use crate::progress::Progress;
use crate::{output, screen};
use anyhow::{Result, bail};
use clap::Args;
use minigpt_charts::{Table, count};
use minigpt_data::{
    Cleaned, IdWidth, PartMeta, PrepareOptions, PrepareStage, PreparedMeta, TokenizerChoice, builtin, prepare,
};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct PrepareArgs {
    /// Text: a file, a folder (its .txt, .text, .md and .markdown files), or - for standard input.
    #[arg(value_name = "FILE|FOLDER|-")]
    input: PathBuf,
    /// The folder to write.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// `char`: the characters of the text; `bpe:2000`: a BPE learnt from it; `gpt2`;
    /// or a tokenizer.json, a vocabulary file, or a folder with one.
    #[arg(long, value_name = "char|bpe:N|gpt2|PATH", default_value = "char")]
    tokenizer: TokenizerChoice,
    /// The part at the end of the text that is kept for validation.
    #[arg(long, value_name = "FRACTION", default_value = "0.1", value_parser = below_one)]
    val_fraction: f64,
    /// Only the first N characters.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Replace the tokens in that folder.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Print {"out", "dtype", "tokenizer", "train", "val", …} as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    out: &'a Path,
    #[serde(flatten)]
    meta: PreparedMeta,
}

pub(super) fn run(args: &PrepareArgs) -> Result<()> {
    if args.input == Path::new(builtin::NAME) {
        bail!("the built-in set is questions and answers, which need no preparing: give its name to `train`");
    }
    let options = PrepareOptions {
        tokenizer: args.tokenizer.clone(),
        val_fraction: args.val_fraction,
        read: args.reading.options(),
        limit: args.limit,
        force: args.force,
    };
    let mut bar: Option<(PrepareStage, Progress)> = None;
    let meta = prepare(&args.input, &args.out, &options, &mut |stage, done, total| {
        let current = bar.take().filter(|(of, _)| *of == stage);
        let (_, progress) = bar.insert(current.unwrap_or_else(|| (stage, start(stage, total))));
        progress.set(done);
    })?;
    if let Some((_, progress)) = bar {
        progress.finish();
    }
    if args.json {
        return output::json(&Answer { out: &args.out, meta });
    }
    output::text(&in_words(&meta, &args.out))
}

/// Reads a number from 0 to below 1.
fn below_one(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..1.0).contains(&number) => Ok(number),
        _ => Err("a number from 0 to below 1 is needed".to_owned()),
    }
}

fn start(stage: PrepareStage, total: u64) -> Progress {
    let task = match stage {
        PrepareStage::Counting => "counting",
        PrepareStage::Encoding => "encoding",
    };
    Progress::of_bytes(task, total)
}

fn in_words(meta: &PreparedMeta, out: &Path) -> String {
    let width = match meta.dtype {
        IdWidth::U16 => tr("2 bytes a token, as nanoGPT's"),
        IdWidth::U32 => tr("4 bytes a token"),
    };
    let tokenizer = &meta.tokenizer;
    let mut table = Table::new(&[]);
    table
        .row([tr("text"), &source(meta)])
        .row([tr("tokenizer"), &t!("{}, {} tokens", tokenizer.kind, count(tokenizer.vocab_size as u64))])
        .row(["train.bin", &part(&meta.train)])
        .row(["val.bin", &part(&meta.val)])
        .row([tr("width"), width])
        .row([tr("folder"), &out.display().to_string()]);
    table.draw_within(screen::table_columns())
}

fn part(part: &PartMeta) -> String {
    t!("{} tokens from {} characters", count(part.tokens), count(part.characters))
}

/// Where the text came from, and what was not taken from there.
fn source(meta: &PreparedMeta) -> String {
    let from = &meta.source;
    let mut text = from.name.clone();
    if from.files > 1 {
        text.push_str(&format!(", {}", counted(from.files, "file")));
    }
    if from.left_out > 0 {
        text.push_str(&t!(", {} left out", counted(from.left_out, "other file")));
    }
    text.push_str(&cleaned(&from.cleaned));
    text
}

/// What was changed in a text, in words.
pub(super) fn cleaned(cleaned: &Cleaned) -> String {
    let mut text = String::new();
    let dropped = [
        (cleaned.byte_order_marks, counted(cleaned.byte_order_marks, "byte order mark")),
        (cleaned.nul, counted(cleaned.nul, "NUL character")),
    ];
    for (_, things) in dropped.iter().filter(|(number, _)| *number > 0) {
        text.push_str(&t!(", {things} dropped"));
    }
    if cleaned.replaced > 0 {
        text.push_str(&t!(", {} replaced by U+FFFD", counted(cleaned.replaced, "broken character")));
    }
    if cleaned.line_ends > 0 {
        text.push_str(&t!(", {} made \\n", counted(cleaned.line_ends, "line end")));
    }
    text
}
