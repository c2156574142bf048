//! `minigpt data split`: question/answer lines in two files.

use super::skipped;
use crate::output;
use crate::progress::Progress;
use anyhow::{Result, bail};
use clap::Args;
use minigpt_charts::{Table, count};
use minigpt_data::{SplitOptions, SplitReport, builtin, split};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct SplitArgs {
    /// The file of lines, or - for standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// The part of the lines that goes to training.
    #[arg(long, value_name = "FRACTION", default_value = "0.8", value_parser = fraction)]
    ratio: f64,
    /// The same seed gives the same split.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// The folder for train.jsonl and val.jsonl.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Only the first N lines.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Replace the split in that folder.
    #[arg(long)]
    force: bool,
    /// Print {"out", "lines", "train_lines", "val_lines", "bad"} as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    out: &'a Path,
    seed: u64,
    #[serde(flatten)]
    report: SplitReport,
}

pub(super) fn run(args: &SplitArgs) -> Result<()> {
    if args.file == Path::new(builtin::NAME) {
        bail!("the built-in set is split already: some of its phrasings are held out");
    }
    let options = SplitOptions { ratio: args.ratio, seed: args.seed, limit: args.limit, force: args.force };
    let mut bar: Option<Progress> = None;
    let report = split(&args.file, &args.out, &options, &mut |done, total| {
        bar.get_or_insert_with(|| Progress::of_bytes("splitting", total)).set(done);
    })?;
    if let Some(bar) = bar {
        bar.finish();
    }
    skipped::report(&args.file.display().to_string(), &report.bad);
    if args.json {
        return output::json(&Answer { out: &args.out, seed: args.seed, report });
    }
    output::text(&in_words(&report, args))
}

/// Reads a number from 0 to 1.
fn fraction(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
        _ => Err("a number from 0 to 1 is needed".to_owned()),
    }
}

fn in_words(report: &SplitReport, args: &SplitArgs) -> String {
    let mut table = Table::new(&[1]);
    table
        .row(["lines", &count(report.lines), ""])
        .row(["train", &count(report.train_lines), &args.out.join("train.jsonl").display().to_string()])
        .row(["val", &count(report.val_lines), &args.out.join("val.jsonl").display().to_string()]);
    let bad = &report.bad;
    if bad.total + bad.blank > 0 {
        let line = format!("{}: kept as they are, each in one of the two", skipped::in_short(bad));
        table.row(["unusable", &count(bad.total + bad.blank), &line]);
    }
    table.draw()
}
