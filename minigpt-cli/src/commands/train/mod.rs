//! `minigpt train`: from a configuration to a model, watched, and resumable to the bit.

mod company;
mod ending;
mod eval_only;
mod own_data;
mod scores;
mod watch;

use crate::arguments::{self, nanogpt, numbers};
use crate::commands::serve;
use crate::device::DeviceKind;
use crate::language::local;
use crate::language::messages::counts;
use crate::language::messages::train as message;
use crate::{config_file, models, output, stop};
use anyhow::{Result, bail};
use clap::Args;
use clap::error::ErrorKind;
use ending::Ending;
use minigpt::{ModelFolder, Place, Run, RunConfig};
use minigpt_data::CorpusKind;
use minigpt_model::{Config, Device};
use minigpt_train::{BestBy, Change, Ended, Exchange, Launcher};
use scores::Scores;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use watch::Watch;

pub(super) use own_data::announce as announce_suggestion;

/// Train a model, or resume training.
#[derive(Args)]
pub struct TrainArgs {
    /// Training data: text, a folder of texts, JSON lines, CSV, prepared tokens, or - for standard input. Overrides
    /// data.path of --config.
    #[arg(value_name = "DATA", value_parser = nanogpt::data)]
    pub data: Option<PathBuf>,
    /// Configuration: a file, or a built-in one such as shakespeare-cpu (`minigpt config list` lists them). A resumed run
    /// keeps its own.
    #[arg(long, value_name = "NAME|FILE")]
    config: Option<PathBuf>,
    /// Change a setting, such as train.max_iters=100 or data.path=book.txt; --max_iters=100 does the same (`minigpt
    /// config settings` lists all settings). On --resume, only settings for the length of the run and its output can
    /// change.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", value_parser = numbers::change)]
    pub changes: Vec<String>,
    /// Training time in minutes; the number of steps follows from their measured time. Default: 5, or what the
    /// configuration sets.
    #[arg(long, value_name = "N", conflicts_with = "resume", value_parser = numbers::number)]
    pub minutes: Option<f64>,
    /// Run folder. Default: runs/ and the name of the data or configuration.
    #[arg(long, aliases = ["out-dir", "output-dir"], value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Resume the run in that folder, with its own settings and data. If data is given, it must be the same, but may have
    /// moved.
    #[arg(long)]
    pub resume: bool,
    /// Fine-tune this model: start from its weights, shape and tokenizer. Any model that other commands accept, such as
    /// runs/novel.
    #[arg(long, alias = "model-name-or-path", value_name = models::NAME, conflicts_with = "resume")]
    pub from: Option<PathBuf>,
    /// Stop after N minutes, counted from this start.
    #[arg(long, value_name = "N", value_parser = numbers::number)]
    max_minutes: Option<f64>,
    /// Only measure the validation loss of the run, or of the initial model of a new run. Nothing is trained or written.
    #[arg(long, conflicts_with_all = ["minutes", "max_minutes", "ranks", "serve"])]
    eval_only: bool,
    /// Train with N ranks as threads of this process, as N machines would under mpirun. The weights are bit-identical for
    /// any number of ranks with the same train.parts.
    #[arg(long, value_name = "N", value_parser = numbers::within::<u16>(1, 64))]
    ranks: Option<u16>,
    /// Show the training live in a browser (a server for this machine only, until the run ends).
    #[arg(long)]
    serve: bool,
    /// Print nothing until the end.
    #[arg(long)]
    quiet: bool,
    /// Device to compute on.
    #[arg(long, value_enum, default_value = "cpu")]
    device: DeviceKind,
}

/// Runs the command.
pub fn run(args: &TrainArgs) -> Result<()> {
    if args.data.is_none() && args.config.is_none() && !args.resume {
        return Err(arguments::wrong(
            ErrorKind::MissingRequiredArgument,
            message::NothingToTrainOn.to_string(),
        )
        .into());
    }
    let device = args.device.open()?;
    if args.eval_only {
        return eval_only::run(args, &folder(args)?, &device);
    }
    company::run(args.ranks, |exchange| match exchange.rank() {
        0 => lead(args, exchange, &device),
        _ => follow(exchange, &device),
    })
}

/// A run of nanoGPT's is trained further, not resumed.
fn refuse_nanogpt(args: &TrainArgs, out: &Path) -> Result<()> {
    let theirs = out.join("ckpt.pt");
    if args.resume && theirs.is_file() && !out.join("last").exists() {
        bail!("{}", message::NanogptNotResumable { checkpoint: &theirs.display() });
    }
    Ok(())
}

/// Trains as the rank that has the run's folder and speaks to the person: the only one, or the first of several.
fn lead(args: &TrainArgs, exchange: &Arc<dyn Exchange>, device: &Device) -> Result<()> {
    let exchange = Arc::clone(exchange);
    let out = if args.resume { folder(args)? } else { own_data::folder(args)? };
    let from = args.from.as_deref().map(models::find).transpose()?;
    refuse_nanogpt(args, &out)?;
    let (mut run, planned) = if args.resume {
        (Run::resume_on(exchange, &out, &own_data::changes(args)?, device)?, false)
    } else {
        let input = own_data::standard_input(args, &out)?;
        let suggestion = own_data::suggest(args, input.as_deref())?;
        let place = Place { out: &out, from: from.as_deref(), input: input.as_deref() };
        let run = Run::start_on(exchange, suggestion.config.clone(), place, device)?;
        own_data::announce(&suggestion, args.quiet);
        (run, suggestion.seconds.is_some())
    };
    if let Some(minutes) = args.max_minutes {
        run.trainer.stop_after(minutes)?;
    }
    announce(&run.changes);
    if let (true, Some(config)) = (args.resume, &args.config) {
        announce_unused(config, &run.config);
    }
    stop::watch(Some(stop::note()))?;
    if !args.quiet {
        run.notes.iter().for_each(|note| output::note(local(note)));
    }
    let is_scored = from.is_some() || run.config.train.best_by == BestBy::Answers;
    let mut scores = if is_scored { Some(Scores::new(&run, from.as_deref(), args.quiet)?) } else { None };
    let Run { mut trainer, config, tokenizer, bad_lines, kind, .. } = run;
    if bad_lines.total > 0 {
        let skipped = counts::BadLines { n: bad_lines.total }.to_string();
        output::note(message::Skipped { skipped: &skipped });
    }
    let _shown = args.serve.then(|| serve::show_run(&out)).transpose()?;
    let shows_end = planned && !args.quiet;
    let mut watch = Watch::new(args.quiet, &config, tokenizer.clone(), shows_end);
    let report = trainer.run(&mut watch, stop::requested());
    stop::nothing_to_save();
    watch.finish();
    let ending = Ending { report: report?, config: &config, kind, tokenizer: tokenizer.as_ref() };
    if shows_end {
        ending.sample(&mut watch, trainer.gpt());
    }
    let mut table = ending.table();
    let mut forgotten = None;
    if let Some(scores) = scores.as_mut().filter(|_| ending.report.ended != Ended::Stopped) {
        let gpt = ModelFolder::open_on(&ending.report.model, device)?.gpt;
        forgotten = scores.describe(&gpt, &mut table)?;
    }
    output::text(ending.describe(table))?;
    if let Some(forgotten) = forgotten {
        output::note(&forgotten);
    }
    if kind == CorpusKind::Text && !args.quiet {
        output::note(message::Prose);
    }
    Ok(())
}

/// Trains as any other rank: in silence, unless something goes wrong.
fn follow(exchange: &Arc<dyn Exchange>, device: &Device) -> Result<()> {
    let mut run = Run::join(Arc::clone(exchange), device)?;
    // A thread of the first rank's process is stopped with it.
    if Launcher::of_this_process().is_some() {
        stop::watch(None)?;
    }
    run.trainer.run(&mut (), stop::requested())?;
    Ok(())
}

/// The folder of a run that goes on: the one that was named, or one with the name of the configuration or of the data.
fn folder(args: &TrainArgs) -> Result<PathBuf> {
    match (&args.out, args.config.as_ref().or(args.data.as_ref())) {
        (Some(out), _) => Ok(out.clone()),
        (None, Some(named)) => Ok(Path::new("runs").join(own_data::name(named)?)),
        (None, None) => bail!(message::WhichRun),
    }
}

/// Says what was changed in the settings of a run that goes on.
pub fn announce(changes: &[Change]) {
    for change in changes {
        output::note(message::ChangedFromHere { change: &local(change) });
    }
}

/// Says in what a configuration file differs from the settings of the run that goes on without it.
fn announce_unused(file: &Path, config: &RunConfig) {
    let unused = match unused_settings(file, config) {
        Ok(unused) => unused,
        Err(error) => return output::note(message::ResumedSettingsUsed { error: &error }),
    };
    if !unused.is_empty() {
        let unused: Vec<String> = unused.iter().map(Change::to_string).collect();
        let file = file.display();
        output::note(message::ResumedSettingsDiffer { file: &file, unused: &unused.join(", ") });
    }
}

/// Where a configuration file and a run have different settings.
fn unused_settings(file: &Path, config: &RunConfig) -> Result<Vec<Change>> {
    let text = config_file::open(file, &[])?.text;
    let said: toml::Table = text.parse()?;
    let of_file = RunConfig::parse_open(&text, &[])?;
    // The vocabulary's size comes from the data, in both.
    let vocab_size = config.model.vocab_size;
    let of_file = RunConfig { model: Config { vocab_size, ..of_file.model }, ..of_file };
    let mut unused = of_file.changes(config, 0);
    // What a file without a model leaves out was chosen for the data.
    if !said.contains_key("model") {
        let says = |(section, key): (&str, &str)| said.get(section).is_some_and(|s| s.get(key).is_some());
        unused.retain(|change| change.setting.split_once('.').is_some_and(says));
    }
    Ok(unused)
}
