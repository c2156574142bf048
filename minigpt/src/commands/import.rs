//! `minigpt import`: a model that another tool wrote becomes a model folder.

use crate::output;
use crate::progress::Progress;
use crate::table::{Table, count};
use anyhow::{Result, ensure};
use clap::Args;
use minigpt::{Foreign, Hub, ModelFolder, compare_logits};
use minigpt_data::{DownloadEvent, OutputFolder};
use minigpt_model::parameters::Count;
use minigpt_model::{Device, folder};
use serde::Serialize;
use std::path::PathBuf;

/// Turn a model that another tool wrote into a model folder.
#[derive(Args)]
pub struct ImportArgs {
    /// A Hugging Face GPT-2 folder (safetensors or pytorch_model.bin, whole or in shards), nanoGPT's ckpt.pt, or
    /// hf:owner/model to fetch one from the hub (HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE mean what they mean elsewhere).
    #[arg(value_name = "FOLDER|ckpt.pt|hf:NAME")]
    source: String,
    /// The model folder to write.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// `gpt2`, a tokenizer.json, a vocabulary file, nanoGPT's meta.pkl; what lies beside the model when absent.
    #[arg(long, value_name = "gpt2|PATH")]
    tokenizer: Option<String>,
    /// Replace the model in that folder.
    #[arg(long)]
    force: bool,
    /// Leave out the test that the written model computes the same.
    #[arg(long)]
    no_check: bool,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

/// What a model folder may hold, and `--force` may replace.
pub const FILES: &[&str] = &[
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocabulary.json",
    "chat_template.jinja",
];

#[derive(Serialize)]
struct Answer {
    kind: &'static str,
    out: PathBuf,
    parameters: u64,
    vocab_size: usize,
    tokenizer: Option<String>,
    /// The largest difference of a logit between before and after, where it was looked for.
    largest_difference: Option<f32>,
}

/// Runs the command.
pub fn run(args: &ImportArgs) -> Result<()> {
    let source = match args.source.strip_prefix("hf:") {
        Some(name) => fetch(name)?,
        None => PathBuf::from(&args.source),
    };
    let Foreign { kind, gpt, tokenizer } = Foreign::open(&source, args.tokenizer.as_deref(), &Device::Cpu)?;
    let target = OutputFolder::create(&args.out, args.force, FILES)?;
    folder::save(&gpt, target.path())?;
    if let Some((tokenizer, _)) = &tokenizer {
        tokenizer.save(target.path())?;
    }
    let largest_difference = match args.no_check {
        true => None,
        false => {
            let written = ModelFolder::open(target.path(), &Device::Cpu)?;
            let (difference, largest) = compare_logits(&gpt, &written.gpt)?;
            ensure!(
                difference <= 1e-4 * largest.max(1.0),
                "the written model computes something else: a logit differs by {difference}; nothing was kept"
            );
            Some(difference)
        }
    };
    target.finish()?;
    let tokenizer = tokenizer.map(|(_, name)| name);
    let parameters = Count::of(gpt.config()).total;
    let vocab_size = gpt.config().vocab_size;
    if args.json {
        return output::json(&Answer {
            kind,
            out: args.out.clone(),
            parameters,
            vocab_size,
            tokenizer,
            largest_difference,
        });
    }
    let config = gpt.config();
    let mut table = Table::default();
    table.row(["found", &format!("{kind}, {} parameters", count(parameters))]);
    table.row([
        "shape",
        &format!("{} layers, {} heads, width {}", config.n_layer, config.n_head, config.n_embd),
    ]);
    table.row(["context", &count(config.block_size as u64)]);
    let none = "none found: name one with --tokenizer, or use token ids".to_owned();
    let tokens = count(vocab_size as u64);
    table
        .row(["tokenizer", &tokenizer.map_or(none, |name| format!("{name} ({tokens} tokens in the model)"))]);
    if let Some(difference) = largest_difference {
        table.row(["checked", &format!("logits before and after differ by {difference:.1e} at most")]);
    }
    table.row(["written", &args.out.display().to_string()]);
    table.row(["try it", &format!("minigpt generate --model {} --prompt …", args.out.display())]);
    output::text(&table.draw())
}

/// Fetches a model from the hub, or finds it in the cache.
fn fetch(name: &str) -> Result<PathBuf> {
    let mut progress: Option<Progress> = None;
    let folder = Hub::from_environment()?.fetch(name, &mut |file, event| match event {
        DownloadEvent::Started { total, have, .. } => {
            output::note(&format!("fetching {file}"));
            let mut bar = Progress::of_bytes("fetching", total.unwrap_or(0));
            bar.set(have);
            progress = Some(bar);
        }
        DownloadEvent::Progress { have } => {
            if let Some(bar) = &mut progress {
                bar.set(have);
            }
        }
        DownloadEvent::Retrying { problem } => output::note(&format!("{file}: {problem}; trying again")),
    })?;
    if let Some(bar) = progress {
        bar.finish();
    }
    Ok(folder)
}
