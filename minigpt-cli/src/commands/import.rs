//! `minigpt import`: a model that another tool wrote becomes a model folder.

use crate::output;
use crate::progress::Progress;
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use minigpt::Hub;
use minigpt_charts::{Table, count, counted};
use minigpt_data::DownloadEvent;
use minigpt_files::OutputFolder;
use minigpt_formats::folder::{self, Kind, SaveOptions, StoredModel};
use minigpt_formats::{ChatTemplate, OnDisk, compare_logits};
use minigpt_model::parameters::Count;
use minigpt_model::{Config, DType};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Turn a model that another tool wrote into a model folder.
#[derive(Args)]
pub struct ImportArgs {
    /// A Hugging Face GPT-2 folder (safetensors or pytorch_model.bin, whole or in shards), nanoGPT's ckpt.pt, a GGUF file
    /// of llama.cpp's, or hf:owner/model to fetch one from the hub (HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE mean what
    /// they mean elsewhere).
    #[arg(value_name = "FOLDER|ckpt.pt|FILE.gguf|hf:NAME")]
    source: String,
    /// The model folder to write.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// `gpt2`, a tokenizer.json, a vocabulary file, nanoGPT's meta.pkl; what lies beside the model when absent.
    #[arg(long, value_name = "gpt2|PATH")]
    tokenizer: Option<String>,
    /// How the numbers are written: f32 when absent, but quantised ones stay as they are.
    #[arg(long, value_enum)]
    dtype: Option<PlainDtype>,
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

/// Numbers that a safetensors file has.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlainDtype {
    F32,
    F16,
    Bf16,
}

/// What a model folder may hold, and `--force` may replace.
pub const FILES: &[&str] = &[
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",
    "model.gguf",
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
    /// How the numbers were written, and how they are now.
    dtype: String,
    dtype_written: String,
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
    let files = OnDisk::open(&source)?;
    let model = files.model()?;
    if let Some(name) = args.tokenizer.as_deref().filter(|name| *name == "char" || name.starts_with("bpe:")) {
        bail!("--tokenizer {name}: a model that is there needs the tokenizer that it was trained with");
    }
    let tokenizer = files.tokenizer(args.tokenizer.as_deref(), model.config())?;
    let target = OutputFolder::create(&args.out, args.force, FILES)?;
    let dtype_written = write(args, &files, &model, target.path())?;
    if let Some((tokenizer, _)) = &tokenizer {
        tokenizer.save(target.path())?;
    }
    if let Some(template) = ChatTemplate::of(&files)? {
        template.save(target.path())?;
    }
    let largest_difference = match args.no_check {
        true => None,
        false => Some(check(&model, target.path(), args.dtype)?),
    };
    target.finish()?;
    let answer = Answer {
        kind: files.kind().name(),
        out: args.out.clone(),
        parameters: Count::of(model.config()).total,
        vocab_size: model.config().vocab_size,
        dtype: model.numbers().join(", "),
        dtype_written,
        tokenizer: tokenizer.map(|(_, name)| name),
        largest_difference,
    };
    if args.json { output::json(&answer) } else { output::text(&describe(&answer, model.config())) }
}

/// Writes the weights and the configuration, and says how the numbers are written.
fn write(args: &ImportArgs, files: &OnDisk, model: &StoredModel, folder: &Path) -> Result<String> {
    if model.is_packed() && args.dtype.is_none() {
        let gguf =
            if files.kind() == Kind::Gguf { files.path.clone() } else { files.path.join("model.gguf") };
        let to = folder.join("model.gguf");
        fs::copy(&gguf, &to).with_context(|| format!("{} could not be copied", gguf.display()))?;
        folder::save_config(model.source(), folder, DType::F32)?;
        return Ok(model.numbers().join(", "));
    }
    let dtype = match args.dtype {
        None | Some(PlainDtype::F32) => DType::F32,
        Some(PlainDtype::F16) => DType::F16,
        Some(PlainDtype::Bf16) => DType::BF16,
    };
    let mut bar = Writing::default();
    folder::save_as(model.source(), folder, SaveOptions { dtype, shard: None }, &mut bar.hears())?;
    Ok(dtype.as_str().to_owned())
}

/// The largest difference of a logit between the model and what was written of it.
fn check(model: &StoredModel, folder: &Path, dtype: Option<PlainDtype>) -> Result<f32> {
    let written = OnDisk::open(folder)?;
    let (difference, largest) = compare_logits(model.source(), written.model()?.source())?;
    // What fewer bits cost is shown, not judged; otherwise nothing may change.
    let exact = matches!(dtype, None | Some(PlainDtype::F32));
    ensure!(
        !exact || difference <= 1e-4 * largest.max(1.0),
        "the written model computes something else: a logit differs by {difference}; nothing was kept"
    );
    Ok(difference)
}

/// A model's size in words.
pub fn shape(config: &Config) -> String {
    let (layers, heads) = (counted(config.n_layer as u64, "layer"), counted(config.n_head as u64, "head"));
    format!("{layers}, {heads}, width {}", config.n_embd)
}

fn describe(answer: &Answer, config: &Config) -> String {
    let mut table = Table::default();
    table.row(["found", &format!("{}, {} parameters", answer.kind, count(answer.parameters))]);
    table.row(["shape", &shape(config)]);
    table.row(["context", &count(config.block_size as u64)]);
    let numbers = match answer.dtype == answer.dtype_written {
        true => answer.dtype.clone(),
        false => format!("{}, written as {}", answer.dtype, answer.dtype_written),
    };
    table.row(["numbers", &numbers]);
    let none = "none found: name one with --tokenizer, or use token ids".to_owned();
    let tokens = count(answer.vocab_size as u64);
    let tokenizer = answer.tokenizer.as_ref();
    table
        .row(["tokenizer", &tokenizer.map_or(none, |name| format!("{name} ({tokens} tokens in the model)"))]);
    if let Some(difference) = answer.largest_difference {
        table.row(["checked", &format!("logits before and after differ by {difference:.1e} at most")]);
    }
    table.row(["written", &answer.out.display().to_string()]);
    table.row(["try it", &format!("minigpt generate --model {} --prompt …", answer.out.display())]);
    table.draw()
}

/// The bar that shows how much of a model is written.
#[derive(Default)]
pub struct Writing(Option<Progress>);

impl Writing {
    /// What hears of each tensor.
    pub fn hears(&mut self) -> impl FnMut(u64, u64) {
        |written, total| {
            self.0.get_or_insert_with(|| Progress::of_bytes("writing", total)).set(written);
            if written == total
                && let Some(bar) = self.0.take()
            {
                bar.finish();
            }
        }
    }
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
