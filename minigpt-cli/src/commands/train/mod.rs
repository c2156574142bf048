//! `minigpt train`: from a configuration to a model, watched, and resumable to the bit.

mod watch;

use crate::device::DeviceKind;
use crate::{output, stop};
use anyhow::{Context, Result, bail};
use clap::Args;
use minigpt::{Place, Run, RunConfig};
use minigpt_charts::{Table, count, counted};
use minigpt_data::CorpusKind;
use minigpt_model::Config;
use minigpt_train::{Change, Ended, Report};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use watch::Watch;

/// Train a model.
#[derive(Args)]
pub struct TrainArgs {
    /// The run's configuration, for example configs/shakespeare-cpu.toml. A run that is resumed has its own.
    #[arg(long, value_name = "FILE", required_unless_present = "resume")]
    config: Option<PathBuf>,
    /// Change a setting, for example train.max_iters=100 or data.path=book.txt. When a run is resumed: how long it is and
    /// how it is watched, nothing that would make it another run.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    changes: Vec<String>,
    /// The run's folder; runs/ and the configuration's name when absent.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Go on with the run in that folder, with its own settings.
    #[arg(long)]
    resume: bool,
    /// Start from the weights and the tokenizer of this model (fine-tuning).
    #[arg(long, value_name = "FOLDER", conflicts_with = "resume")]
    from: Option<PathBuf>,
    /// Stop after so many minutes, counted from this start.
    #[arg(long, value_name = "N")]
    max_minutes: Option<f64>,
    /// Say nothing until the end.
    #[arg(long)]
    quiet: bool,
    /// Where to compute.
    #[arg(long, value_enum, default_value = "cpu")]
    device: DeviceKind,
}

/// Set by Ctrl-C and its like: the step under way is finished and saved.
static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Runs the command.
pub fn run(args: &TrainArgs) -> Result<()> {
    let (out, device) = (folder(args)?, args.device.open()?);
    let mut run = match &args.config {
        Some(config) if !args.resume => {
            let place = Place { out: &out, from: args.from.as_deref() };
            Run::start(RunConfig::read(config, &args.changes)?, &args.changes, place, &device)?
        }
        _ => Run::resume(&out, &args.changes, &device)?,
    };
    if let Some(minutes) = args.max_minutes {
        run.trainer.stop_after(minutes)?;
    }
    announce(&run.changes);
    if let (true, Some(config)) = (args.resume, &args.config) {
        announce_unused(config, &run.config);
    }
    ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        output::note("stopping after this step; press Ctrl-C again to stop at once");
    })
    .context("Ctrl-C could not be watched")?;
    stop::on_termination(&STOP)?;
    let Run { mut trainer, config, tokenizer, bad_lines, kind, notes, .. } = run;
    if !args.quiet {
        notes.iter().for_each(|note| output::note(note));
    }
    let speaks = tokenizer.is_some();
    if bad_lines.total > 0 {
        let skipped = counted(bad_lines.total, "bad line");
        output::note(&format!("{skipped} were skipped: see `minigpt data stats`"));
    }
    let mut watch = Watch::new(args.quiet, &config, tokenizer);
    let report = trainer.run(&mut watch, &STOP);
    watch.finish();
    output::text(&describe(&report?, kind, speaks))
}

/// The run's folder: the one that was named, or one with the configuration's name.
fn folder(args: &TrainArgs) -> Result<PathBuf> {
    match (&args.out, &args.config) {
        (Some(out), _) => Ok(out.clone()),
        (None, Some(config)) => {
            Ok(Path::new("runs").join(config.file_stem().context("--config is not a file")?))
        }
        (None, None) => bail!("which run? name its folder with --out"),
    }
}

/// Says what was changed in the settings of a run that goes on.
pub fn announce(changes: &[Change]) {
    for change in changes {
        output::note(&format!("from here on {change}"));
    }
}

/// Says in what a configuration file differs from the settings of the run that goes on without it.
fn announce_unused(file: &Path, config: &RunConfig) {
    let file_config = match RunConfig::read(file, &[]) {
        Ok(file_config) => file_config,
        Err(error) => return output::note(&format!("the run's own settings are used ({error})")),
    };
    // The vocabulary's size comes from the data, in both.
    let vocab_size = config.model.vocab_size;
    let file_config = RunConfig { model: Config { vocab_size, ..file_config.model }, ..file_config };
    let unused = file_config.changes(config, 0);
    if !unused.is_empty() {
        let unused: Vec<String> = unused.iter().map(Change::to_string).collect();
        let file = file.display();
        output::note(&format!(
            "the run goes on with its own settings; {file} differs (file → run): {}",
            unused.join(", ")
        ));
    }
}

/// How a run went and what to type next; a model that does not `speak` has no tokenizer and is given ids.
fn describe(report: &Report, kind: CorpusKind, speaks: bool) -> String {
    let mut table = Table::default();
    let why = match report.ended {
        Ended::Finished => "all steps made",
        Ended::Patience => "no better for too long (patience)",
        Ended::TimeLimit => "time limit",
        Ended::Stopped => "stopped; go on with --resume",
    };
    table.row(["ended", &format!("step {}: {why}", count(report.step))]);
    if let Some(last) = &report.last {
        table.row(["loss", &format!("{:.4}", last.loss)]);
    }
    if let Some(best) = report.best {
        table.row(["best validation", &format!("{:.4} at step {}", best.val_loss, count(best.step))]);
    }
    table.row(["tokens", &count(report.tokens)]);
    table.row(["time", &format!("{:.1} s", report.seconds)]);
    table.row(["model", &report.model.display().to_string()]);
    let model = report.model.display();
    table.row([
        "try it",
        &match kind {
            _ if !speaks => format!("minigpt generate --model {model} --ids …"),
            CorpusKind::Qa => format!("minigpt chat --model {model}"),
            CorpusKind::Text => format!("minigpt generate --model {model} --prompt …"),
        },
    ]);
    format!("\n{}", table.draw())
}
