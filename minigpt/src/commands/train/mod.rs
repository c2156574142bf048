//! `minigpt train`: from a configuration to a model, watched, and resumable to the bit.

mod data;
mod watch;

use crate::device::DeviceKind;
use crate::output;
use crate::run_config::RunConfig;
use crate::table::{Table, bytes, count};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use minigpt::OnDisk;
use minigpt_data::Kind;
use minigpt_model::plan::Plan;
use minigpt_model::{Config, Device, Gpt, folder};
use minigpt_tokenizer::Tokenizer;
use minigpt_train::{Ended, Report, RunFolder, Trainer, TrainingData, checkpoint};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use watch::Watch;

/// Train a model.
#[derive(Args)]
pub struct TrainArgs {
    /// The run's configuration, for example configs/shakespeare-cpu.toml.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Change a setting, for example train.max_iters=100 or data.path=book.txt.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    changes: Vec<String>,
    /// The run's folder; runs/ and the configuration's name when absent.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Go on with the run in that folder.
    #[arg(long)]
    resume: bool,
    /// Start from the weights and the tokenizer of this model (fine-tuning).
    #[arg(long, value_name = "FOLDER", conflicts_with = "resume")]
    from: Option<PathBuf>,
    /// Stop after so many minutes of training.
    #[arg(long, value_name = "N")]
    max_minutes: Option<f64>,
    /// Say nothing until the end.
    #[arg(long)]
    quiet: bool,
    /// Where to compute.
    #[arg(long, value_enum, default_value = "cpu")]
    device: DeviceKind,
}

/// Set by Ctrl-C: the step under way is finished and saved.
static STOP: AtomicBool = AtomicBool::new(false);

/// Runs the command.
pub fn run(args: &TrainArgs) -> Result<()> {
    let mut config = RunConfig::read(&args.config, &args.changes)?;
    if let Some(minutes) = args.max_minutes {
        config.train.max_minutes = minutes;
        config.train.validate()?;
    }
    let out = match &args.out {
        Some(out) => out.clone(),
        None => Path::new("runs").join(args.config.file_stem().context("--config is not a file")?),
    };
    let place = Place { out: &out, resume: args.resume, from: args.from.as_deref() };
    let run = start(config, &args.changes, place, &args.device.open()?)?;
    ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        output::note("stopping after this step; press Ctrl-C again to stop at once");
    })
    .context("Ctrl-C could not be watched")?;
    let Run { mut trainer, config, tokenizer } = run;
    let mut watch = Watch::new(args.quiet, &config, tokenizer);
    let report = trainer.run(&mut watch, &STOP);
    watch.finish();
    output::text(&describe(&report?, &config))
}

/// Where a run happens, and what it begins with.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The run's folder.
    pub out: &'a Path,
    /// Whether to go on with the run in it.
    pub resume: bool,
    /// A model to start from.
    pub from: Option<&'a Path>,
}

/// A run that is ready for its first step, or its next.
pub struct Run {
    /// What trains.
    pub trainer: Trainer,
    /// The configuration as it was resolved.
    pub config: RunConfig,
    /// What made the ids.
    pub tokenizer: Option<Tokenizer>,
}

/// Opens all that a run needs: its data, its folder, its model or its checkpoint.
pub fn start(mut config: RunConfig, changes: &[String], place: Place, device: &Device) -> Result<Run> {
    let Place { out, resume, from } = place;
    let last = out.join("last");
    ensure!(!resume || checkpoint::exists(&last), "{}: there is no run to resume", out.display());
    let base = if resume { Some(last.as_path()) } else { from };
    let tokenizer = match base {
        Some(base) => OnDisk::open(base)?.own_tokenizer()?,
        None => None,
    };
    let data = data::open(&config, tokenizer, block_size(&config, base)?)?;
    config.model = shape(&config, &data, base, changes)?;
    check_memory(&config)?;
    let run = RunFolder::open(out)?;
    let tokenizer = data.tokenizer.clone();
    let text = toml::to_string(&config).context("the configuration could not be written")?;
    minigpt_data::write_file(&run.join("config.toml"), text.as_bytes())?;
    let trainer = match resume {
        true => Trainer::resume(data, config.train.clone(), run, device)?,
        false => Trainer::new(model(&config, from, device)?, data, config.train.clone(), run)?,
    };
    Ok(Run { trainer, config, tokenizer })
}

fn block_size(config: &RunConfig, base: Option<&Path>) -> Result<usize> {
    match base {
        Some(base) => Ok(folder::load_config(base)?.block_size),
        None => Ok(config.model.block_size),
    }
}

/// The model's shape: the base's where there is one, otherwise the configuration's with the data's vocabulary.
fn shape(config: &RunConfig, data: &TrainingData, base: Option<&Path>, changes: &[String]) -> Result<Config> {
    let tokens = data.tokenizer.as_ref().map(Tokenizer::vocab_size);
    let Some(base) = base else {
        let vocab_size = tokens.unwrap_or(config.model.vocab_size);
        let model = Config { vocab_size, ..config.model.clone() };
        model.validate()?;
        return Ok(model);
    };
    let model = folder::load_config(base)?;
    let (then, now) = (serde_json::to_value(&model)?, serde_json::to_value(&config.model)?);
    for change in changes.iter().filter_map(|change| change.split_once('=')?.0.trim().strip_prefix("model."))
    {
        if then.get(change) != now.get(change) {
            let (then, now) = (&then[change], &now[change]);
            bail!("model.{change} is {now}, but the model in {} has {then}", base.display());
        }
    }
    if tokens.is_some_and(|tokens| tokens > model.vocab_size) {
        bail!("the tokenizer has {} tokens, the model {}", tokens.unwrap_or(0), model.vocab_size);
    }
    // Dropout is how one trains, not what a model is.
    let [embd_pdrop, attn_pdrop, resid_pdrop] =
        [config.model.embd_pdrop, config.model.attn_pdrop, config.model.resid_pdrop];
    Ok(Config { embd_pdrop, attn_pdrop, resid_pdrop, ..model })
}

fn model(config: &RunConfig, from: Option<&Path>, device: &Device) -> Result<Gpt> {
    match from {
        Some(from) => Ok(folder::load(from, device)?.with_dropout(&config.model)?),
        None => Ok(Gpt::new(config.model.clone(), config.train.seed, device)?),
    }
}

/// Refuses what this machine's memory can't hold, before it is asked for.
fn check_memory(config: &RunConfig) -> Result<()> {
    let Some(available) = crate::machine::available_memory() else { return Ok(()) };
    let needed = Plan::new(&config.model, config.train.batch_size, config.model.block_size).train_bytes;
    ensure!(
        needed <= available,
        "training this model takes about {}, but only {} of memory are free; try a smaller train.batch_size \
         (with more train.gradient_accumulation_steps), model.block_size or model.n_embd",
        bytes(needed),
        bytes(available)
    );
    Ok(())
}

fn describe(report: &Report, config: &RunConfig) -> String {
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
    let kind = config.data.kind.unwrap_or_else(|| Kind::of(Path::new(&config.data.path)));
    table.row([
        "try it",
        &match kind {
            Kind::Qa => format!("minigpt chat --model {model}"),
            Kind::Text => format!("minigpt generate --model {model} --prompt …"),
        },
    ]);
    format!("\n{}", table.draw())
}
