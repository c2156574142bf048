//! `minigpt plot`: the losses of one or several training runs in one picture.

use crate::language::chart_labels;
use crate::language::messages::plot as message;
use crate::{output, screen};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use minigpt_charts::{Table, count, decimal};
use minigpt_files::write_file;
use minigpt_train::record::{self, Axis, DamagedLine, StepRecord, Summary, labeled_loss_chart, loss_chart};
use serde::Serialize;
use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// What a run folder keeps its records in.
const METRICS: &str = "metrics.jsonl";
/// So many lines that are not records are named one by one.
const MOST_DAMAGES: usize = 3;

/// Plot the losses of one or more training runs.
#[derive(Args)]
pub struct PlotArgs {
    /// Run folders of `minigpt train`, or a folder of run folders.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// SVG file to write. Default: loss.svg in the folder of a single run, plot.svg here for several.
    #[arg(long, value_name = "FILE.svg", value_parser = svg_file)]
    out: Option<PathBuf>,
    /// Quantity on the horizontal axis.
    #[arg(long, value_enum, value_name = "AXIS", default_value_t = X::Step)]
    x: X,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum X {
    /// Steps.
    Step,
    /// Tokens seen, to compare runs with different batch sizes.
    Tokens,
    /// Training time, to compare runs of different speeds.
    Time,
}

impl From<X> for Axis {
    fn from(x: X) -> Self {
        match x {
            X::Step => Axis::Step,
            X::Tokens => Axis::Tokens,
            X::Time => Axis::Time,
        }
    }
}

/// Reads the name of a picture.
pub fn svg_file(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    let svg = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("svg"));
    if svg { Ok(path) } else { Err(message::NotSvg.text().to_owned()) }
}

#[derive(Serialize)]
struct Answer<'a> {
    out: &'a Path,
    runs: Vec<RunAnswer<'a>>,
}

/// One run in numbers.
#[derive(Serialize)]
struct RunAnswer<'a> {
    name: &'a str,
    path: &'a Path,
    records: usize,
    #[serde(flatten)]
    summary: Summary,
}

/// Runs the command.
pub fn run(args: &PlotArgs) -> Result<()> {
    let folders = args.runs.iter().map(|run| runs_in(run)).collect::<Result<Vec<_>>>()?.concat();
    let folders = each_once(folders);
    let names = names(&folders);
    let records = folders.iter().map(|run| read(run)).collect::<Result<Vec<_>>>()?;
    let runs: Vec<(String, Vec<StepRecord>)> = names.into_iter().zip(records).collect();
    let (out, axis) = (args.out.clone().unwrap_or_else(|| default_out(&folders)), args.x.into());
    write_file(&out, loss_chart(&runs, axis).svg().as_bytes()).context(message::CouldNotDraw)?;
    let answers = answers(&folders, &runs);
    if args.json {
        return output::json(&Answer { out: &out, runs: answers });
    }
    let chart = labeled_loss_chart(&runs, axis, chart_labels());
    let picture = chart.terminal(screen::picture_columns(), colours());
    let picture = if picture.is_empty() { picture } else { format!("{picture}\n") };
    output::drawn(&picture)?;
    output::text(message::Drawn { table: &table(&answers), out: &out.display() })
}

/// Whether a person looks at this, on a terminal with colours.
fn colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
}

/// The run that is named, or all runs in a folder of runs.
fn runs_in(run: &Path) -> Result<Vec<PathBuf>> {
    if !run.is_dir() || run.join(METRICS).exists() {
        return Ok(vec![run.to_owned()]);
    }
    let entries =
        std::fs::read_dir(run).with_context(|| message::CouldNotRead { run: &run.display() }.to_string())?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join(METRICS).is_file())
        .collect();
    found.sort();
    if found.is_empty() {
        bail!("{}", message::NotARun { run: &run.display(), file: &METRICS });
    }
    output::note(message::FolderOfRuns { run: &run.display(), runs: &(count(found.len() as u64)) });
    Ok(found)
}

/// Each run once, however often and by whichever of its names it was given.
fn each_once(runs: Vec<PathBuf>) -> Vec<PathBuf> {
    let place = |run: &PathBuf| {
        let run = run.canonicalize().unwrap_or_else(|_| run.clone());
        if run.file_name().is_some_and(|name| name == METRICS) {
            run.with_file_name("")
        } else {
            run.join("")
        }
    };
    let mut seen = HashSet::new();
    runs.into_iter().filter(|run| seen.insert(place(run))).collect()
}

/// The records of a run, given by its folder or by the file itself.
fn read(run: &Path) -> Result<Vec<StepRecord>> {
    if !run.exists() {
        bail!("{}", message::NoSuchFolder { run: &run.display() });
    }
    let file = if run.is_dir() { run.join(METRICS) } else { run.to_owned() };
    let log =
        record::read(&file).with_context(|| message::CouldNotPlot { run: &run.display() }.to_string())?;
    for DamagedLine { line, problem } in log.damaged.iter().take(MOST_DAMAGES) {
        let file = file.display();
        output::note(message::BadLine { file: &file, line: &line, problem: &problem });
    }
    if log.damaged.len() > MOST_DAMAGES {
        let more = log.damaged.len() - MOST_DAMAGES;
        output::note(message::MoreBadLines { file: &file.display(), more: &more });
    }
    Ok(log.records)
}

fn default_out(runs: &[PathBuf]) -> PathBuf {
    match runs {
        [run] if run.is_dir() => run.join("loss.svg"),
        [file] => file.with_file_name("loss.svg"),
        _ => PathBuf::from("plot.svg"),
    }
}

/// The folders' names; their paths, as they were given, where two have the same name.
fn names(runs: &[PathBuf]) -> Vec<String> {
    let names: Vec<String> = runs.iter().map(|run| name(run)).collect();
    let unique = |name: &String| names.iter().filter(|other| *other == name).count() == 1;
    let choose = |(name, run): (&String, &PathBuf)| {
        if unique(name) { name.clone() } else { run.display().to_string() }
    };
    names.iter().zip(runs).map(choose).collect()
}

fn name(run: &Path) -> String {
    // `.` and `..` have no name of their own.
    let whole = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    let folder = if whole.is_file() { whole.parent().unwrap_or(&whole) } else { &whole };
    folder.file_name().map_or_else(|| run.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn answers<'a>(paths: &'a [PathBuf], runs: &'a [(String, Vec<StepRecord>)]) -> Vec<RunAnswer<'a>> {
    let answer = |(path, (name, records)): (&'a PathBuf, &'a (String, Vec<StepRecord>))| RunAnswer {
        name,
        path,
        records: records.len(),
        summary: Summary::of(records),
    };
    paths.iter().zip(runs).map(answer).collect()
}

fn table(runs: &[RunAnswer<'_>]) -> String {
    let mut table = Table::new(&[1, 2, 3, 4, 5, 6]);
    table.row([
        message::Run.text(),
        message::Steps.text(),
        message::LastLoss.text(),
        message::BestValidation.text(),
        message::AtStep.text(),
        message::Tokens.text(),
        message::Time.text(),
    ]);
    let loss = |loss: Option<f64>| loss.map_or("–".to_owned(), |loss| decimal(loss, 4));
    for RunAnswer { name, summary, .. } in runs {
        table.row([
            name,
            &count(summary.steps),
            &loss(summary.last_loss),
            &loss(summary.best_val_loss),
            &summary.best_val_step.map_or("–".to_owned(), count),
            &count(summary.tokens),
            &summary.time(),
        ]);
    }
    table.draw_within(screen::table_columns())
}
