//! `minigpt scaling run`: the whole sweep, from a text to the law.

use super::plan::{PlanOptions, describe, warn};
use super::report::FitReport;
use super::runs::Runs;
use crate::language::duration;
use crate::language::messages::scaling as message;
use crate::{output, screen, shell, stop};
use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use minigpt::sweep::{PlannedRun, Sweep, SweepEnd, SweepEvent, SweepObserver, SweepPlan};
use minigpt_charts::count;
use minigpt_scaling::FitOptions;
use serde_json::json;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

#[derive(Args)]
pub struct ScalingRunArgs {
    /// Training data: text, a folder of texts, questions and answers, prepared tokens, or builtin.
    #[arg(value_name = "DATA", required_unless_present = "resume")]
    data: Option<String>,
    #[command(flatten)]
    options: PlanOptions,
    /// Folder of the sweep. Default: runs/scaling- and the name of the data.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Resume the sweep in that folder.
    #[arg(long)]
    resume: bool,
    /// Print nothing until the end.
    #[arg(long)]
    quiet: bool,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &ScalingRunArgs) -> Result<()> {
    if args.resume
        && args.out.is_some()
        && let Some(data) = &args.data
    {
        bail!("{}", message::SweepHasData { data: &data });
    }
    let out = folder(args)?;
    let sweep = match (args.resume, &args.data) {
        (true, _) => Sweep::open(&out)?,
        (false, Some(data)) => {
            let plan = args.options.plan(data)?;
            if !args.quiet {
                warn(&plan);
                output::note(describe(&plan));
            }
            Sweep::create(&out, plan)?
        }
        (false, None) => bail!(message::NameAText),
    };
    stop::watch(Some(stop::note()))?;
    let watch = Watch::new(&sweep, args.quiet);
    let ended = sweep.run(&watch, stop::requested());
    watch.bar.finish_and_clear();
    if ended? == SweepEnd::Stopped {
        let again = message::Stopped { out: &shell::path(&out) }.to_string();
        output::note(&again);
        return if args.json { output::json(&json!({ "stopped": true, "out": out })) } else { Ok(()) };
    }
    let repeated = sweep.plan.repeated;
    drop(sweep);
    let runs = Runs { runs: Sweep::observations(&out)?, sweep: Some(out.clone()), without_loss: 0 };
    let mut report = FitReport::new(&runs, &FitOptions::default(), repeated)?;
    report.draw(&out)?;
    report.keep(&out)?;
    report.print(args.json)
}

/// The folder of the sweep. One that is named after data is a new one each time.
fn folder(args: &ScalingRunArgs) -> Result<PathBuf> {
    if let Some(out) = &args.out {
        return Ok(out.clone());
    }
    let data = args.data.as_deref().context(message::WhichSweep)?;
    let path = Path::new(data);
    let whole = path.canonicalize().unwrap_or(path.to_owned());
    let name = if path.is_dir() { whole.file_name() } else { whole.file_stem() };
    let name = name.context(message::NameTheFolder)?.to_string_lossy().into_owned();
    let first = Path::new("runs").join(format!("scaling-{name}"));
    if args.resume {
        return Ok(first);
    }
    let numbered = (2..10_000).map(|i| Path::new("runs").join(format!("scaling-{name}-{i}")));
    std::iter::once(first).chain(numbered).find(|folder| !folder.exists()).context(message::NamesTaken)
}

/// Parts of the bar.
const PARTS: u64 = 1000;

/// One bar for all runs, with the time that is left.
struct Watch<'a> {
    bar: ProgressBar,
    plan: &'a SweepPlan,
    quiet: bool,
    began: Instant,
    state: Mutex<State>,
}

/// How far every run is.
struct State {
    parts: HashMap<String, f64>,
    /// What was done before this start, in seconds of the plan.
    before: Option<f64>,
    done: usize,
}

impl<'a> Watch<'a> {
    fn new(sweep: &'a Sweep, quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(PARTS) };
        let style = ProgressStyle::with_template("{wide_bar} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let done: Vec<&PlannedRun> = sweep.plan.runs.iter().filter(|run| sweep.is_done(run)).collect();
        let parts = done.iter().map(|run| (run.name.clone(), 1.0)).collect();
        let state = State { parts, before: None, done: done.len() };
        Self { bar, plan: &sweep.plan, quiet, began: Instant::now(), state: Mutex::new(state) }
    }

    /// The seconds that a run takes of the whole: one that has others beside it takes a part.
    fn weight(&self, run: &PlannedRun) -> f64 {
        let beside = self.plan.sizes[run.size].side_by_side;
        if beside { run.seconds / self.plan.threads as f64 } else { run.seconds }
    }

    /// Draws the bar; gives the time that is left, once it is known.
    fn draw(&self, state: &mut State) -> Option<f64> {
        let weights = |part: &dyn Fn(&PlannedRun) -> f64| -> f64 {
            self.plan.runs.iter().map(|run| self.weight(run) * part(run)).sum()
        };
        let all = weights(&|_| 1.0);
        let done = weights(&|run| state.parts.get(&run.name).copied().unwrap_or(0.0));
        let before = *state.before.get_or_insert(done);
        let passed = done - before;
        let left = (passed > 0.01 * all).then(|| self.began.elapsed().as_secs_f64() * (all - done) / passed);
        self.bar.set_position((PARTS as f64 * done / all.max(f64::MIN_POSITIVE)) as u64);
        let left_words = left.map_or_else(
            || "…".to_owned(),
            |left| message::TimeLeft { left: &duration(left.round()) }.to_string(),
        );
        let runs =
            message::RunsDone { done: &count(state.done as u64), all: &(count(self.plan.runs.len() as u64)) }
                .to_string();
        let room = screen::progress_columns().saturating_sub(12);
        self.bar.set_message(screen::fitting(&[&left_words, &runs], room));
        left
    }
}

impl SweepObserver for Watch<'_> {
    fn event(&self, event: &SweepEvent) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            SweepEvent::Progress { run, part } => {
                // Where a run goes on is not what this start has done.
                let began = !state.parts.contains_key(&run.name);
                state.parts.insert(run.name.clone(), *part);
                if began && let Some(before) = &mut state.before {
                    *before += self.weight(run) * part;
                }
                self.draw(&mut state);
            }
            SweepEvent::Done { run, row } => {
                state.parts.insert(run.name.clone(), 1.0);
                state.done += 1;
                let left = self.draw(&mut state);
                if self.quiet {
                    return;
                }
                let (width, tokens) = (count(self.plan.sizes[run.size].n_embd as u64), count(row.tokens));
                let loss = row.loss.map_or_else(
                    || message::DivergedLeftOut.to_string(),
                    |loss| message::LossValue { loss: &loss }.to_string(),
                );
                let (done, all) = (state.done, self.plan.runs.len());
                let left = left.map_or_else(String::new, |left| {
                    message::TimeLeftSuffix { time: &duration(left.round()) }.to_string()
                });
                let line = message::RunDone {
                    width: &width,
                    tokens: &tokens,
                    loss: &loss,
                    done: &done,
                    all: &all,
                    left: &left,
                }
                .to_string();
                self.bar.suspend(|| output::note(&line));
            }
        }
    }
}
