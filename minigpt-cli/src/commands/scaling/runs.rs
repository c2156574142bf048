//! Which runs a law is fitted to: those of a sweep, or of any table.

use crate::arguments::numbers;
use crate::language::messages::scaling as message;
use anyhow::{Context, Result, bail};
use clap::Args;
use minigpt::sweep::Sweep;
use minigpt_scaling::{Condition, FitOptions, Observation, RunColumns, RunTable};
use std::path::{Path, PathBuf};

/// No table is longer than this.
const LARGEST: u64 = 1 << 28;

#[derive(Args)]
pub struct RunsArgs {
    /// Folder of a sweep, or a CSV file of runs.
    #[arg(value_name = "SWEEP|CSV", required_unless_present = "csv")]
    sweep: Option<PathBuf>,
    /// CSV file with one run per row and column names in the first row.
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    csv: Option<PathBuf>,
    /// Column names, such as parameters=N,tokens=D,loss=loss; unique= is the number of unique tokens.
    #[arg(long, value_name = "NAME=COLUMN,…", value_delimiter = ',', value_parser = pair)]
    columns: Vec<Condition>,
    /// Use only rows with this value in a column, such as dataset=c4_original; can be repeated.
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = pair)]
    conditions: Vec<Condition>,
    /// Residual of ln L above which the Huber loss is linear. Default: from repeated runs, or 0.001.
    #[arg(long, value_name = "N", value_parser = numbers::positive)]
    delta: Option<f64>,
    /// Also fit the law for repeated data (Muennighoff et al. 2023).
    #[arg(long)]
    pub repeated: bool,
}

fn pair(text: &str) -> Result<Condition, String> {
    let (name, value) = text.split_once('=').ok_or(message::ExpectedNameValue.text())?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Runs, and the folder of the sweep that they are of.
pub struct Runs {
    pub runs: Vec<Observation>,
    pub sweep: Option<PathBuf>,
    /// Rows of the table without a loss.
    pub without_loss: u64,
}

impl RunsArgs {
    pub fn options(&self) -> FitOptions {
        FitOptions { delta: self.delta, ..FitOptions::default() }
    }

    pub fn read(&self) -> Result<Runs> {
        let path = self.sweep.as_ref().or(self.csv.as_ref()).context(message::WhichRuns)?;
        let sweep = Sweep::is_at(path).then(|| path.clone());
        if path.is_dir() && sweep.is_none() {
            bail!("{}", message::NotASweep { path: &path.display() });
        }
        let file = if sweep.is_some() { Sweep::table(path) } else { path.clone() };
        let table = self.table(&file, sweep.is_some())?;
        Ok(Runs { runs: table.runs, sweep, without_loss: table.without_loss })
    }

    fn table(&self, file: &Path, of_sweep: bool) -> Result<RunTable> {
        let mut columns = RunColumns::default();
        let mut unique = (of_sweep || self.repeated).then(|| "unique_tokens".to_owned());
        for (name, column) in &self.columns {
            match name.as_str() {
                "parameters" => columns.parameters.clone_from(column),
                "tokens" => columns.tokens.clone_from(column),
                "loss" => columns.loss.clone_from(column),
                "unique" | "unique_tokens" => unique = Some(column.clone()),
                other => bail!("{}", message::UnknownColumn { name: &other }),
            }
        }
        columns.unique_tokens = unique;
        let text = minigpt_files::read_text(file, LARGEST)?;
        RunTable::parse(&text, &columns, &self.conditions)
            .with_context(|| message::TableUnusable { file: &file.display() }.to_string())
    }
}
