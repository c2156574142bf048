//! `minigpt config show`: a configuration that is built in, as a file.

use crate::{config_file, output};
use anyhow::{Result, bail};
use clap::Args;
use minigpt::ReadyConfig;
use std::path::Path;

#[derive(Args)]
pub(super) struct ShowArgs {
    /// Configuration; `minigpt config list` lists them.
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn run(args: &ShowArgs) -> Result<()> {
    match ReadyConfig::find(&args.name) {
        Some(config) => output::text(config.text),
        None => bail!("{}", config_file::unknown(Path::new(&args.name))),
    }
}
