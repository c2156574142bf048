//! `minigpt data prepare`: text to files of tokens.

use super::reading::ReadingArgs;
use crate::arguments::numbers;
use crate::language::messages::counts;
use crate::language::messages::data as message;
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
    /// Output folder.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Tokenizer: `char` (the text's characters), `bpe:2000` (BPE trained on the text), `gpt2`, or a tokenizer.json, a
    /// vocabulary file, or a folder with one.
    #[arg(long, value_name = "char|bpe:N|gpt2|PATH", default_value = "char")]
    tokenizer: TokenizerChoice,
    /// Fraction at the end of the text to keep for validation.
    #[arg(long, value_name = "FRACTION", default_value = "0.1", value_parser = below_one)]
    val_fraction: f64,
    /// Use only the first N characters.
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u64>)]
    limit: Option<u64>,
    /// Replace the token files in that folder.
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
        bail!(message::BuiltinNeedsNoPreparing);
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
    output::text(in_words(&meta, &args.out))
}

/// Reads a number from 0 to below 1.
fn below_one(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..1.0).contains(&number) => Ok(number),
        _ => Err(message::ExpectedShare.text().to_owned()),
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
        IdWidth::U16 => message::TwoBytesPerToken.text(),
        IdWidth::U32 => message::FourBytesPerToken.text(),
    };
    let tokenizer = &meta.tokenizer;
    let mut table = Table::new(&[]);
    table
        .row([message::Text.text(), &source(meta)])
        .row([
            message::Tokenizer.text(),
            &message::TokenizerAndSize {
                kind: &tokenizer.kind,
                vocab_size: &count(tokenizer.vocab_size as u64),
            }
            .to_string(),
        ])
        .row(["train.bin", &part(&meta.train)])
        .row(["val.bin", &part(&meta.val)])
        .row([message::Width.text(), width])
        .row([message::Folder.text(), &out.display().to_string()]);
    table.draw_within(screen::table_columns())
}

fn part(part: &PartMeta) -> String {
    message::TokensFromCharacters { tokens: &count(part.tokens), characters: &count(part.characters) }
        .to_string()
}

/// Where the text came from, and what was not taken from there.
fn source(meta: &PreparedMeta) -> String {
    let from = &meta.source;
    let mut text = from.name.clone();
    if from.files > 1 {
        text.push_str(&format!(", {}", counts::Files { n: from.files }));
    }
    if from.left_out > 0 {
        text.push_str(
            &message::LeftOutSuffix { left_out: &(counts::OtherFiles { n: from.left_out }.to_string()) }
                .to_string(),
        );
    }
    text.push_str(&cleaned(&from.cleaned));
    text
}

/// What was changed in a text, in words.
pub(super) fn cleaned(cleaned: &Cleaned) -> String {
    let mut text = String::new();
    let dropped = [
        (cleaned.byte_order_marks, counts::ByteOrderMarks { n: cleaned.byte_order_marks }.to_string()),
        (cleaned.nul, counts::NulCharacters { n: cleaned.nul }.to_string()),
    ];
    for (_, things) in dropped.iter().filter(|(number, _)| *number > 0) {
        text.push_str(&message::Dropped { things: &things }.to_string());
    }
    if cleaned.replaced > 0 {
        text.push_str(
            &message::Replaced { replaced: &(counts::BrokenCharacters { n: cleaned.replaced }.to_string()) }
                .to_string(),
        );
    }
    if cleaned.line_ends > 0 {
        text.push_str(
            &message::LineEndsChanged { line_ends: &(counts::LineEnds { n: cleaned.line_ends }.to_string()) }
                .to_string(),
        );
    }
    text
}
