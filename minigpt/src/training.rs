//! The shortest way from a configuration to a model: `minigpt::train("run.toml", "runs/novel")`.

use crate::error::Result;
use crate::run::{Place, Run};
use crate::run_config::RunConfig;
use crate::suggestion::Suggestion;
use minigpt_model::Device;
use minigpt_train::Report;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Trains a model as a file says, on the CPU and watched by nobody, in the new run folder `out`. The report says where the
/// model is. A file that names its data alone gets a small model that suits it and about five minutes, as with
/// [`Suggestion`]. [`Run`] is the same step by step: with an observer, from another model, or going on with a run.
pub fn train(config: impl AsRef<Path>, out: impl AsRef<Path>) -> Result<Report> {
    let text = RunConfig::read_open(config.as_ref(), &[])?;
    let config = Suggestion::new(&text, &[], None, None)?.config;
    let mut run = Run::start(config, &[], Place { out: out.as_ref(), from: None }, &Device::Cpu)?;
    Ok(run.trainer.run(&mut (), &AtomicBool::new(false))?)
}
