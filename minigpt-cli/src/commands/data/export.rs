//! `minigpt data export`: the built-in set as files, to look at, to change, and to take along.

use crate::language::messages::data as message;
use crate::{output, screen};
use anyhow::{Context, Result, ensure};
use clap::Args;
use minigpt_charts::{Table, count};
use minigpt_data::builtin;
use minigpt_files::{is_there, write_file};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct ExportArgs {
    /// Data set: `builtin`.
    #[arg(value_name = "NAME", value_parser = [builtin::NAME])]
    set: String,
    /// Training file; the validation file is written next to it, with -val in its name. A name without an extension is a
    /// folder for train.jsonl and val.jsonl, which `train` accepts.
    #[arg(long, value_name = "FILE.jsonl|FOLDER")]
    out: PathBuf,
    /// Replace existing files.
    #[arg(long)]
    force: bool,
    /// Print {"train", "val", "train_lines", "val_lines"} as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    train: PathBuf,
    val: PathBuf,
    train_lines: usize,
    val_lines: usize,
}

pub(super) fn run(args: &ExportArgs) -> Result<()> {
    let [train, val] = targets(&args.out)?;
    for path in [&train, &val] {
        ensure!(args.force || !is_there(path)?, "{}", message::Exists { path: &path.display() });
    }
    if let Some(folder) = train.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .with_context(|| message::CouldNotCreate { folder: &folder.display() }.to_string())?;
    }
    let (trained, held_out) = (builtin::train(), builtin::held_out());
    let answer = Answer { train_lines: trained.len(), val_lines: held_out.len(), train, val };
    write(&answer.val, &held_out)?;
    write(&answer.train, &trained)?;
    if args.json {
        return output::json(&answer);
    }
    let mut table = Table::new(&[1]);
    table
        .row([
            message::Training.text(),
            &count(answer.train_lines as u64),
            &answer.train.display().to_string(),
        ])
        .row([
            message::Validation.text(),
            &count(answer.val_lines as u64),
            &answer.val.display().to_string(),
        ]);
    output::text(table.draw_within(screen::table_columns()))
}

fn targets(out: &Path) -> Result<[PathBuf; 2]> {
    if out.extension().is_none() {
        return Ok(["train", "val"].map(|part| out.join(format!("{part}.jsonl"))));
    }
    let (stem, ending) = (out.file_stem().context(message::OutNotFile)?, out.extension().unwrap_or_default());
    let val = format!("{}-val.{}", stem.to_string_lossy(), ending.to_string_lossy());
    Ok([out.to_owned(), out.with_file_name(val)])
}

fn write(path: &Path, pairs: &[builtin::Pair]) -> Result<()> {
    let lines: Vec<String> = pairs.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    Ok(write_file(path, (lines.join("\n") + "\n").as_bytes())?)
}
