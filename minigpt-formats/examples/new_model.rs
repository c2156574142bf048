//! Writes a new, untrained model folder:
//! `cargo run --release -p minigpt-formats --example new_model -- --preset gpt2 --out DIR --set n_layer=2`

use clap::Parser;
use minigpt_formats::hugging_face;
use minigpt_model::{Config, Device, Gpt};
use std::path::PathBuf;

#[derive(Parser)]
struct Args {
    /// The preset to start from.
    #[arg(long)]
    preset: String,
    /// Changes to it, as key=value, where the value is JSON or a plain word.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// What the weights are drawn from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The folder to write.
    #[arg(long)]
    out: PathBuf,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let mut config = serde_json::to_value(Config::preset(&args.preset)?)?;
    for change in &args.changes {
        let (key, value) = change.split_once('=').ok_or("--set takes KEY=VALUE")?;
        config[key] = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    }
    let gpt = Gpt::new(serde_json::from_value(config)?, args.seed, &Device::Cpu)?;
    hugging_face::save(&gpt, &args.out)?;
    Ok(())
}
