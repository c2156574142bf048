//! `minigpt data split`: data in two files.

use super::reading::ReadingArgs;
use super::skipped;
use crate::arguments::numbers;
use crate::language::local;
use crate::language::messages::data as message;
use crate::progress::Progress;
use crate::{output, screen};
use anyhow::{Result, bail};
use clap::Args;
use minigpt_charts::{Table, count};
use minigpt_data::{SplitOptions, SplitReport, builtin, split};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct SplitArgs {
    /// Questions and answers in any format, or text; - for standard input.
    #[arg(value_name = "FILE|FOLDER|-")]
    file: PathBuf,
    /// Fraction to use for training.
    #[arg(long, value_name = "FRACTION", default_value = "0.9", value_parser = fraction)]
    ratio: f64,
    /// Random seed: the same seed gives the same split.
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = numbers::seed)]
    seed: u64,
    /// Folder for train.jsonl and val.jsonl (or .txt). Default: next to the input.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Use only the first N examples, or characters of text.
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u64>)]
    limit: Option<u64>,
    /// Replace an earlier split.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Print {"train", "val", "unit", "lines", "train_lines", "val_lines", "bad", "replaced"} as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    seed: u64,
    #[serde(flatten)]
    report: SplitReport,
}

pub(super) fn run(args: &SplitArgs) -> Result<()> {
    if args.file == Path::new(builtin::NAME) {
        bail!(message::BuiltinIsSplit);
    }
    let options = SplitOptions {
        kind: None,
        ratio: args.ratio,
        seed: args.seed,
        limit: args.limit,
        out: args.out.clone(),
        force: args.force,
        read: args.reading.options(),
    };
    let mut bar: Option<Progress> = None;
    let report = split(&args.file, &options, &mut |done, total| {
        bar.get_or_insert_with(|| Progress::of_bytes(message::Splitting.text(), total)).set(done);
    })?;
    if let Some(bar) = bar {
        bar.finish();
    }
    let name = args.file.display().to_string();
    skipped::report(&name, &report.bad);
    minigpt_data::Damage::of(&*name, report.replaced).iter().for_each(|damage| output::note(local(damage)));
    if args.json {
        return output::json(&Answer { seed: args.seed, report });
    }
    output::text(in_words(&report))
}

/// Reads a number from 0 to 1.
fn fraction(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
        _ => Err(message::ExpectedRatio.text().to_owned()),
    }
}

fn in_words(report: &SplitReport) -> String {
    let mut table = Table::new(&[1]);
    table
        .row([&local(&report.unit), &count(report.lines), ""])
        .row([message::Training.text(), &count(report.train_lines), &report.train.display().to_string()])
        .row([message::Validation.text(), &count(report.val_lines), &report.val.display().to_string()]);
    let bad = &report.bad;
    if bad.total + bad.blank > 0 {
        table.row([message::LeftOut.text(), &count(bad.total + bad.blank), &skipped::in_short(bad)]);
    }
    table.draw_within(screen::table_columns())
}
