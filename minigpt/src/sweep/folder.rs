//! A sweep's folder: its plan (`sweep.json`), the results of its runs (`runs.csv`), and the runs.

use super::SweepError;
use super::plan::{PlannedRun, SweepPlan};
use crate::error::Result;
use minigpt_data::{PrepareOptions, Prepared, ReadOptions, Source, TokenizerChoice, prepare};
use minigpt_files::Lock;
use minigpt_scaling::{Observation, RunColumns, RunTable};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The plan of a sweep.
const DESCRIPTION: &str = "sweep.json";
/// Results of the runs.
const ROWS: &str = "runs.csv";
/// Its text, as tokens: every run reads the same.
const DATA: &str = "data";
/// Where the runs are.
const RUNS: &str = "runs";
const FORMAT: &str = "minigpt-sweep";
const VERSION: u32 = 1;
/// Neither file is longer than this.
const LARGEST: u64 = 1 << 24;
/// The names on top of `runs.csv`.
const COLUMNS: &str = "run,n_layer,n_head,n_embd,parameters,parameters_total,tokens,unique_tokens,loss,seed,learning_rate,steps,seconds";

/// The contents of `sweep.json`.
#[derive(Serialize, Deserialize)]
struct Description {
    format: String,
    version: u32,
    #[serde(flatten)]
    plan: SweepPlan,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepRow {
    /// The run's name.
    pub run: String,
    /// Tokens that it learned from.
    pub tokens: u64,
    /// Loss on the whole validation part. `None` if the run diverged.
    pub loss: Option<f64>,
    /// Seconds of training.
    pub seconds: f64,
}

/// A sweep in its folder, which belongs to this process as long as this lives.
pub struct Sweep {
    folder: PathBuf,
    /// The plan.
    pub plan: SweepPlan,
    rows: Mutex<Vec<String>>,
    _lock: Lock,
}

impl Sweep {
    /// Whether a folder holds a sweep.
    pub fn is_at(folder: &Path) -> bool {
        folder.join(DESCRIPTION).is_file()
    }

    /// Begins a sweep: a text is made into tokens once, and the plan is written.
    ///
    /// # Errors
    /// A folder with a sweep in it, data that can't be read, a place that can't be written.
    pub fn create(folder: &Path, mut plan: SweepPlan) -> Result<Self> {
        let lock = Lock::take(folder)?;
        if Self::is_at(folder) {
            return Err(SweepError::Exists(folder.to_owned()).into());
        }
        keep_data(folder, &mut plan)?;
        let description = Description { format: FORMAT.to_owned(), version: VERSION, plan };
        let path = folder.join(DESCRIPTION);
        let text = serde_json::to_string_pretty(&description)
            .map_err(|problem| SweepError::Malformed { path: path.clone(), problem })?;
        minigpt_files::write_file(&folder.join(ROWS), format!("{COLUMNS}\n").as_bytes())?;
        // Last: a folder with this file is a sweep.
        minigpt_files::write_file(&path, (text + "\n").as_bytes())?;
        let plan = description.plan;
        Ok(Self { folder: folder.to_owned(), plan, rows: Mutex::default(), _lock: lock })
    }

    /// Goes on with the sweep in a folder.
    ///
    /// # Errors
    /// A folder without one, or one that another process works on.
    pub fn open(folder: &Path) -> Result<Self> {
        let plan = Self::read(folder)?;
        let lock = Lock::take(folder)?;
        let text = minigpt_files::read_text(&folder.join(ROWS), LARGEST)?;
        let rows = text.lines().skip(1).filter(|line| !line.is_empty()).map(str::to_owned).collect();
        Ok(Self { folder: folder.to_owned(), plan, rows: Mutex::new(rows), _lock: lock })
    }

    /// Reads the plan of the sweep in a folder.
    ///
    /// # Errors
    /// A folder without one.
    pub fn read(folder: &Path) -> Result<SweepPlan> {
        let path = folder.join(DESCRIPTION);
        if !Self::is_at(folder) {
            return Err(SweepError::NoSweep(folder.to_owned()).into());
        }
        let text = minigpt_files::read_text(&path, LARGEST)?;
        let description: Description = serde_json::from_str(&text)
            .map_err(|problem| SweepError::Malformed { path: path.clone(), problem })?;
        if description.format != FORMAT || description.version != VERSION {
            return Err(SweepError::OtherVersion { path, version: VERSION }.into());
        }
        let plan = description.plan;
        let safe = |run: &PlannedRun| {
            run.size < plan.sizes.len() && run.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        if plan.threads == 0 || plan.sizes.is_empty() || !plan.runs.iter().all(safe) {
            return Err(SweepError::MalformedRuns(path).into());
        }
        Ok(plan)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a run of it is.
    pub fn run_folder(&self, run: &PlannedRun) -> PathBuf {
        self.folder.join(RUNS).join(&run.name)
    }

    /// Where the table of its runs is.
    pub fn table(folder: &Path) -> PathBuf {
        folder.join(ROWS)
    }

    /// The runs that are done, as a law sees them.
    ///
    /// # Errors
    /// None is done, or the table was changed so that it can't be read.
    pub fn observations(folder: &Path) -> Result<Vec<Observation>> {
        let text = minigpt_files::read_text(&folder.join(ROWS), LARGEST)?;
        let columns = RunColumns { unique_tokens: Some("unique_tokens".to_owned()), ..RunColumns::default() };
        Ok(RunTable::parse(&text, &columns, &[])?.runs)
    }

    /// Whether a run is done.
    pub fn is_done(&self, run: &PlannedRun) -> bool {
        let start = format!("{},", run.name);
        self.rows.lock().map(|rows| rows.iter().any(|row| row.starts_with(&start))).unwrap_or(false)
    }

    /// Adds the result of a run to the table, which is replaced atomically.
    pub(super) fn keep(&self, row: &SweepRow, run: &PlannedRun) -> Result<()> {
        let size = &self.plan.sizes[run.size];
        let loss = row.loss.map_or_else(String::new, |loss| loss.to_string());
        let line = format!(
            "{},{},{},{},{},{},{},{},{loss},{},{},{},{:.3}",
            row.run,
            size.n_layer,
            size.n_head,
            size.n_embd,
            size.parameters,
            size.parameters_total,
            row.tokens,
            self.plan.unique_tokens,
            run.seed,
            size.learning_rate,
            run.steps,
            row.seconds,
        );
        let mut rows = self.rows.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        rows.push(line);
        let text = format!("{COLUMNS}\n{}\n", rows.join("\n"));
        Ok(minigpt_files::write_file(&self.folder.join(ROWS), text.as_bytes())?)
    }
}

/// Tokenizes a text into the sweep's folder, and replaces estimated counts of the plan by exact ones.
fn keep_data(folder: &Path, plan: &mut SweepPlan) -> Result<()> {
    let mut config = crate::run_config::RunConfig::parse(&plan.config, &[])?;
    let data = &mut config.data;
    let read = ReadOptions { encoding: data.encoding, columns: data.columns.clone() };
    let path = PathBuf::from(&data.path);
    match Source::open(&path, data.kind, &read)? {
        Source::Text(_) if data.val_path.is_none() => {
            let choice = data.tokenizer.as_deref().map_or(Ok(TokenizerChoice::Char), str::parse);
            let options = PrepareOptions {
                tokenizer: choice.unwrap_or(TokenizerChoice::Char),
                val_fraction: data.val_fraction,
                read,
                limit: data.limit,
                force: true,
            };
            let out = std::path::absolute(folder.join(DATA)).unwrap_or(folder.join(DATA));
            let meta = prepare(&path, &out, &options, &mut |_, _, _| {})?;
            plan.unique_tokens = meta.train.tokens;
            plan.validation_tokens = meta.val.tokens;
            plan.vocab_size = meta.tokenizer.vocab_size;
            let not_unicode = || SweepError::NotUnicode(folder.to_owned());
            data.path = out.to_str().ok_or_else(not_unicode)?.to_owned();
            data.tokenizer = None;
            data.limit = None;
        }
        Source::Tokens(folder) => plan.unique_tokens = Prepared::open(&folder)?.train.len(),
        _ => {}
    }
    if plan.vocab_size != config.model.vocab_size {
        config.model.vocab_size = plan.vocab_size;
        for size in &mut plan.sizes {
            let exact = super::sizes::SweepSize::new(size.n_embd, &config.model, config.train.batch_size);
            (size.parameters, size.parameters_total) = (exact.parameters, exact.parameters_total);
        }
    }
    plan.config = config.to_toml()?;
    Ok(())
}
