//! `minigpt export`: a model folder becomes what another tool reads.

use super::import::{WriteProgress, shape};
use crate::language::{t, tr, translated};
use crate::models::ModelArg;
use crate::{dtype, models, output, screen};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use minigpt_charts::{Table, bytes, count};
use minigpt_formats::{Conversion, Converted, MappedModel, OnDisk, Target, convert};
use minigpt_kernels::ElementType;
use minigpt_model::parameters::Count;
use minigpt_tokenizer::Tokenizer;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Turn a model folder into what another tool reads.
#[derive(Args)]
pub struct ExportArgs {
    #[command(flatten)]
    model: ModelArg,
    /// For whom.
    #[arg(long, alias = "format", value_enum)]
    to: To,
    /// The folder or file to write.
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// How the weights are written.
    #[arg(long, default_value = "f32", value_parser = dtype::among(dtype::TO_EXPORT))]
    dtype: ElementType,
    /// With --to hf: the most megabytes of weights in one file.
    #[arg(long, value_name = "MB")]
    max_shard_size: Option<u64>,
    /// Replace what is there.
    #[arg(long)]
    force: bool,
    /// Leave out the test that the written model computes the same.
    #[arg(long)]
    no_check: bool,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum To {
    /// A folder for Hugging Face transformers.
    Hf,
    /// A ckpt.pt for nanoGPT, and beside it a meta.pkl where the vocabulary is one of characters.
    Nanogpt,
    /// A file for llama.cpp.
    Gguf,
    /// The vocabulary alone, as {"word2id", "id2word"}.
    Vocab,
}

#[derive(Serialize)]
struct Answer {
    /// The element types of the model that was exported.
    dtype: String,
    out: PathBuf,
    bytes: u64,
    /// The largest difference of a logit between before and after, where it was looked for.
    largest_difference: Option<f32>,
    /// What changed on the way.
    notes: Vec<String>,
}

/// Runs the command.
pub fn run(args: &ExportArgs) -> Result<()> {
    ensure!(
        args.max_shard_size.is_none() || args.to == To::Hf,
        "--max-shard-size goes with --to hf only: other targets are one file"
    );
    ensure!(args.max_shard_size != Some(0), "--max-shard-size is 0; it must be at least 1");
    let place = models::find(&args.model.model)?;
    let files = OnDisk::open(&place)?;
    let model = files.model()?;
    let tokenizer = files.tokenizer(None, model.config())?.map(|(tokenizer, _)| tokenizer);
    let shard = args.max_shard_size.map(|megabytes| megabytes.saturating_mul(1_000_000));
    let target = match args.to {
        To::Hf => Some(Target::HuggingFace { shard }),
        To::Nanogpt => Some(Target::NanoGpt),
        To::Gguf => Some(Target::Gguf),
        To::Vocab => None,
    };
    let converted = match target {
        Some(target) => {
            let (element_type, check) = (Some(args.dtype), !args.no_check);
            let conversion = Conversion { target, out: &args.out, element_type, replace: args.force, check };
            let mut bar = WriteProgress::default();
            Some(convert(&files, &model, tokenizer.as_ref(), conversion, &mut bar.callback())?)
        }
        None => {
            to_vocabulary(args, tokenizer.as_ref())?;
            None
        }
    };
    let (largest_difference, notes) = match converted {
        Some(Converted { largest_difference, notes, .. }) => (largest_difference, notes),
        None => (None, Vec::new()),
    };
    let dtype = model.element_types().join(", ");
    let answer = Answer { dtype, out: args.out.clone(), bytes: size(&args.out)?, largest_difference, notes };
    if args.json { output::json(&answer) } else { output::text(&describe(&answer, &place, &model)) }
}

fn describe(answer: &Answer, path: &Path, model: &MappedModel) -> String {
    let config = model.config();
    let mut table = Table::default();
    table.row([tr("model"), &path.display().to_string()]);
    table.row([
        tr("shape"),
        &t!("{}, {} parameters in {}", shape(config), count(Count::of(config).total), answer.dtype),
    ]);
    for note in &answer.notes {
        table.row([tr("note"), &translated(note)]);
    }
    if let Some(difference) = answer.largest_difference {
        table.row([tr("checked"), &t!("logits before and after differ by {difference:.1e} at most")]);
    }
    table.row([tr("written"), &format!("{}, {}", answer.out.display(), bytes(answer.bytes))]);
    table.draw_within(screen::table_columns())
}

fn to_vocabulary(args: &ExportArgs, tokenizer: Option<&Tokenizer>) -> Result<()> {
    let path = args.model.model.display();
    let characters = match tokenizer {
        Some(Tokenizer::Char(characters)) => characters,
        Some(Tokenizer::Bpe(_)) => {
            bail!("a vocabulary file lists characters; this model has a BPE: use its tokenizer.json")
        }
        None => bail!("{path} holds no tokenizer (tokenizer.json)"),
    };
    ensure!(!args.out.is_dir(), "{} is a folder; name a file", args.out.display());
    ensure!(args.force || !args.out.exists(), "{} exists; --force replaces it", args.out.display());
    if let Some(parent) = args.out.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).with_context(|| format!("{}: can't be made", parent.display()))?;
    }
    Ok(characters.save_vocabulary(&args.out)?)
}

/// How many bytes a file, or the files of a folder, take.
fn size(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path).with_context(|| format!("{}: can't be read", path.display()))?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    let mut total = 0;
    for entry in fs::read_dir(path).with_context(|| format!("{}: can't be read", path.display()))? {
        total += entry?.metadata()?.len();
    }
    Ok(total)
}
