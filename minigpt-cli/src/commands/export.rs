//! `minigpt export`: a model folder becomes what another tool reads.

use super::import::{WriteProgress, shape};
use crate::arguments::numbers;
use crate::dtype::{self, ExportType};
use crate::language::local;
use crate::language::messages::export as message;
use crate::models::ModelArg;
use crate::{models, output, screen};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use minigpt_charts::{Table, bytes, count};
use minigpt_formats::gguf::FileType;
use minigpt_formats::{
    Conversion, ConversionNote, Converted, MappedModel, OnDisk, Target, TypeCount, convert, nanogpt,
};
use minigpt_kernels::ElementType;
use minigpt_model::parameters::Count;
use minigpt_tokenizer::Tokenizer;
use minigpt_train::OptimizerKind;
use minigpt_train::checkpoint::{self, State};
use serde::Serialize;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Export a model for another tool.
#[derive(Args)]
pub struct ExportArgs {
    #[command(flatten)]
    model: ModelArg,
    /// Target format.
    #[arg(long, alias = "format", value_enum)]
    to: To,
    /// Folder or file to write.
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// Type of the written weights. Default: f32. GGUF types with _m and _s are llama.cpp's mixtures.
    #[arg(long, ignore_case = true, value_parser = dtype::to_export())]
    dtype: Option<ExportType>,
    /// With --to hf: maximum size of a weights file in megabytes.
    #[arg(long, value_name = "MB", value_parser = numbers::whole::<u64>)]
    max_shard_size: Option<u64>,
    /// Replace an existing file or folder.
    #[arg(long)]
    force: bool,
    /// Skip the check that the written model computes the same.
    #[arg(long)]
    no_check: bool,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum To {
    /// Folder for Hugging Face transformers.
    Hf,
    /// ckpt.pt for nanoGPT, with a meta.pkl for a character vocabulary.
    Nanogpt,
    /// File for llama.cpp.
    Gguf,
    /// Only the vocabulary, as {"word2id", "id2word"}.
    Vocab,
}

#[derive(Serialize)]
struct Answer {
    /// The element types of the model that was exported.
    dtype: String,
    out: PathBuf,
    bytes: u64,
    /// How many tensors were written in which element type.
    tensors: Vec<TypeCount>,
    /// The largest difference of a logit between before and after, where it was looked for.
    largest_difference: Option<f32>,
    /// What changed on the way.
    notes: Vec<ConversionNote>,
}

/// Runs the command.
pub fn run(args: &ExportArgs) -> Result<()> {
    ensure!(args.max_shard_size.is_none() || args.to == To::Hf, message::ShardsAreForHf);
    ensure!(args.max_shard_size != Some(0), message::ShardSizeZero);
    if args.to == To::Vocab {
        ensure!(args.dtype.is_none(), message::NoDtypeForVocabulary);
        ensure!(!args.no_check, message::NoCheckForVocabulary);
    }
    let target = target(args)?;
    let place = models::find(&args.model.model)?;
    let files = OnDisk::open(&place)?;
    let model = files.model()?;
    let tokenizer = files.tokenizer(None, model.config())?.map(|(tokenizer, _)| tokenizer);
    let converted = match target {
        Some(target) => {
            let (replace, check) = (args.force, !args.no_check);
            let training = if target == Target::NanoGpt { training(&place)? } else { None };
            let conversion =
                Conversion { target, out: &args.out, replace, check, training: training.as_ref() };
            let mut bar = WriteProgress::default();
            convert(&files, &model, tokenizer.as_ref(), conversion, &mut bar.callback())?
        }
        None => {
            to_vocabulary(args, tokenizer.as_ref())?;
            Converted { types: Vec::new(), largest_difference: None, notes: Vec::new() }
        }
    };
    let answer = Answer {
        dtype: model.element_types().join(", "),
        out: args.out.clone(),
        bytes: size(&args.out)?,
        tensors: converted.types,
        largest_difference: converted.largest_difference,
        notes: converted.notes,
    };
    if args.json { output::json(&answer) } else { output::text(describe(&answer, &place, &model)) }
}

/// For whom to write a model; none for its vocabulary alone.
fn target(args: &ExportArgs) -> Result<Option<Target>> {
    let shard = args.max_shard_size.map(|megabytes| megabytes.saturating_mul(1_000_000));
    Ok(match args.to {
        To::Hf => {
            let element_type = args.dtype.as_ref().map_or(Ok(ElementType::F32), ExportType::of_folder)?;
            Some(Target::HuggingFace { element_type: Some(element_type), shard })
        }
        To::Nanogpt => {
            let f32 =
                args.dtype.as_ref().is_none_or(|dtype| dtype.of_folder().ok() == Some(ElementType::F32));
            ensure!(f32, message::NanogptIsF32);
            Some(Target::NanoGpt)
        }
        To::Gguf => Some(Target::Gguf(args.dtype.as_ref().map_or(Ok(FileType::F32), ExportType::of_gguf)?)),
        To::Vocab => None,
    })
}

/// How a model of a run was trained: its own checkpoint says it with the optimizer's state, `last/` says it of `best/`, whose
/// moments it has if both are of the same step.
fn training(model: &Path) -> Result<Option<nanogpt::NanoGptTraining>> {
    let is_best = model.file_name().is_some_and(|name| name == "best");
    let folder = if is_best { model.with_file_name("last") } else { model.to_owned() };
    if !folder.is_dir() || !checkpoint::exists(&folder)? {
        return Ok(None);
    }
    let State { step, best, train, .. } = checkpoint::state(&folder)?;
    let iter_num = match best {
        Some(best) if is_best => best.step,
        _ => step,
    };
    let has_moments = iter_num == step && train.optimizer == OptimizerKind::AdamW;
    let optimizer = Some(nanogpt::OptimizerState {
        moments: has_moments.then(|| folder.join("optimizer.safetensors")),
        learning_rate: train.learning_rate,
        betas: (train.beta1, train.beta2),
        eps: train.eps,
        weight_decay: train.weight_decay,
    });
    let settings = json!({
        "batch_size": train.batch_size, "gradient_accumulation_steps": train.gradient_accumulation_steps,
        "learning_rate": train.learning_rate, "min_lr": train.min_lr, "max_iters": train.max_iters,
        "warmup_iters": train.warmup_iters, "lr_decay_iters": train.lr_decay_iters.unwrap_or(train.max_iters),
        "weight_decay": train.weight_decay, "beta1": train.beta1, "beta2": train.beta2,
        "grad_clip": train.grad_clip, "eval_interval": train.eval_interval, "eval_iters": train.eval_iters,
    });
    Ok(Some(nanogpt::NanoGptTraining {
        iter_num,
        best_val_loss: best.and_then(|best| best.val_loss),
        settings: settings.as_object().cloned().unwrap_or_default(),
        optimizer,
    }))
}

fn describe(answer: &Answer, path: &Path, model: &MappedModel) -> String {
    let config = model.config();
    let mut table = Table::default();
    table.row([message::Model.text(), &path.display().to_string()]);
    table.row([
        message::Shape.text(),
        &message::ParametersIn {
            config: &shape(config),
            parameters: &count(Count::of(config).total),
            dtype: &answer.dtype,
        }
        .to_string(),
    ]);
    for note in &answer.notes {
        table.row([message::Note.text(), &local(note)]);
    }
    if let Some(difference) = answer.largest_difference {
        table.row([message::Checked.text(), &message::LogitsAgree { difference: &difference }.to_string()]);
    }
    table.row([message::Written.text(), &format!("{}, {}", answer.out.display(), bytes(answer.bytes))]);
    let each = answer.tensors.iter().map(|of| format!("{} × {} ({})", of.tensors, of.dtype, bytes(of.bytes)));
    let each = each.collect::<Vec<_>>().join(", ");
    if !each.is_empty() {
        table.row([message::Tensors.text(), &each]);
    }
    table.draw_within(screen::table_columns())
}

fn to_vocabulary(args: &ExportArgs, tokenizer: Option<&Tokenizer>) -> Result<()> {
    let path = args.model.model.display();
    let characters = match tokenizer {
        Some(Tokenizer::Char(characters)) => characters,
        Some(Tokenizer::Bpe(_)) => {
            bail!(message::VocabularyOfBpe)
        }
        Some(Tokenizer::Pipeline(_)) => {
            bail!(message::VocabularyOfOther)
        }
        None => bail!("{}", message::NoTokenizer { path: &path }),
    };
    ensure!(!args.out.is_dir(), "{}", message::OutIsAFolder { out: &args.out.display() });
    ensure!(args.force || !args.out.exists(), "{}", message::OutExists { out: &args.out.display() });
    if let Some(parent) = args.out.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)
            .with_context(|| message::CouldNotCreate { folder: &parent.display() }.to_string())?;
    }
    Ok(characters.save_vocabulary(&args.out)?)
}

/// How many bytes a file, or the files of a folder, take.
fn size(path: &Path) -> Result<u64> {
    let metadata =
        fs::metadata(path).with_context(|| message::CouldNotRead { path: &path.display() }.to_string())?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    let mut total = 0;
    for entry in
        fs::read_dir(path).with_context(|| message::CouldNotRead { path: &path.display() }.to_string())?
    {
        total += entry?.metadata()?.len();
    }
    Ok(total)
}
