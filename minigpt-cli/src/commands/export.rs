//! `minigpt export`: a model folder becomes what another tool reads.

use super::import::{FILES, Writing, shape};
use crate::output;
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use minigpt_charts::{Table, bytes, count};
use minigpt_files::OutputFolder;
use minigpt_formats::folder::{self, SaveOptions, StoredModel};
use minigpt_formats::gguf;
use minigpt_formats::{ChatTemplate, OnDisk, compare_logits, gguf_tokens, nanogpt_meta};
use minigpt_model::parameters::Count;
use minigpt_model::{Activation, DType};
use minigpt_tokenizer::Tokenizer;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Turn a model folder into what another tool reads.
#[derive(Args)]
pub struct ExportArgs {
    /// The model folder.
    #[arg(long, value_name = "FOLDER")]
    model: PathBuf,
    /// For whom.
    #[arg(long, value_enum)]
    to: Target,
    /// The folder or file to write.
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// How the numbers are written.
    #[arg(long, value_enum, default_value = "f32")]
    dtype: DtypeName,
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
enum Target {
    /// A folder for Hugging Face transformers.
    Hf,
    /// A ckpt.pt for nanoGPT, and beside it a meta.pkl where the vocabulary is one of characters.
    Nanogpt,
    /// A file for llama.cpp.
    Gguf,
    /// The vocabulary alone, as {"word2id", "id2word"}.
    Vocab,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DtypeName {
    F32,
    F16,
    Bf16,
    #[value(name = "q8_0")]
    Q8_0,
    #[value(name = "q4_k")]
    Q4K,
}

/// What is exported.
struct Model<'a> {
    files: &'a OnDisk,
    stored: StoredModel<'a>,
    tokenizer: Option<Tokenizer>,
}

impl Model<'_> {
    fn need_tokenizer(&self) -> Result<&Tokenizer> {
        let path = self.files.path.display();
        self.tokenizer.as_ref().with_context(|| format!("{path} holds no tokenizer (tokenizer.json)"))
    }

    /// The largest difference of a logit between the model and what was written of it. What fewer bits cost is shown, not
    /// judged; where nothing should change, nothing may.
    fn check(&self, written: &Path, exact: bool) -> Result<f32> {
        let written = OnDisk::open(written)?;
        let (difference, largest) = compare_logits(self.stored.source(), written.model()?.source())?;
        ensure!(
            !exact || difference <= 1e-4 * largest.max(1.0),
            "the written model computes something else: a logit differs by {difference}"
        );
        Ok(difference)
    }
}

#[derive(Serialize)]
struct Answer {
    /// How the numbers of the model are written.
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
        args.max_shard_size.is_none() || args.to == Target::Hf,
        "--max-shard-size goes with --to hf only: other targets are one file"
    );
    let files = OnDisk::open(&args.model)?;
    let stored = files.model()?;
    let tokenizer = files.tokenizer(None, stored.config())?.map(|(tokenizer, _)| tokenizer);
    let model = Model { files: &files, stored, tokenizer };
    let mut answer = Answer {
        dtype: model.stored.numbers().join(", "),
        out: args.out.clone(),
        bytes: 0,
        largest_difference: None,
        notes: Vec::new(),
    };
    match args.to {
        Target::Hf => to_hugging_face(args, &model, &mut answer)?,
        Target::Nanogpt => to_nanogpt(args, &model, &mut answer)?,
        Target::Gguf => to_gguf(args, &model, &mut answer)?,
        Target::Vocab => to_vocabulary(args, &model)?,
    }
    answer.bytes = size(&args.out)?;
    if args.json { output::json(&answer) } else { output::text(&describe(&answer, &model)) }
}

fn describe(answer: &Answer, model: &Model) -> String {
    let config = model.stored.config();
    let mut table = Table::default();
    table.row(["model", &model.files.path.display().to_string()]);
    table.row([
        "shape",
        &format!("{}, {} parameters in {}", shape(config), count(Count::of(config).total), answer.dtype),
    ]);
    for note in &answer.notes {
        table.row(["note", note]);
    }
    if let Some(difference) = answer.largest_difference {
        table.row(["checked", &format!("logits before and after differ by {difference:.1e} at most")]);
    }
    table.row(["written", &format!("{}, {}", answer.out.display(), bytes(answer.bytes))]);
    table.draw()
}

fn to_hugging_face(args: &ExportArgs, model: &Model, answer: &mut Answer) -> Result<()> {
    let dtype = match args.dtype {
        DtypeName::F32 => DType::F32,
        DtypeName::F16 => DType::F16,
        DtypeName::Bf16 => DType::BF16,
        DtypeName::Q8_0 | DtypeName::Q4K => bail!("transformers has no q8_0 or q4_k; use f32, f16 or bf16"),
    };
    ensure!(args.max_shard_size != Some(0), "--max-shard-size is 0; it must be at least 1");
    let shard = args.max_shard_size.map(|megabytes| megabytes.saturating_mul(1_000_000));
    let target = OutputFolder::create(&args.out, args.force, FILES)?;
    let options = SaveOptions { dtype, shard };
    folder::save_as(model.stored.source(), target.path(), options, &mut Writing::default().hears())?;
    if let Some(tokenizer) = &model.tokenizer {
        tokenizer.save(target.path())?;
    }
    if let Some(template) = ChatTemplate::of(model.files)? {
        template.save(target.path())?;
    }
    if !args.no_check {
        answer.largest_difference = Some(model.check(target.path(), dtype == DType::F32)?);
    }
    Ok(target.finish()?)
}

/// The folder under nanoGPT's `data/` where its `sample.py` looks for the characters.
const DATASET: &str = "minigpt";

fn to_nanogpt(args: &ExportArgs, model: &Model, answer: &mut Answer) -> Result<()> {
    ensure!(args.dtype == DtypeName::F32, "nanoGPT's checkpoints are f32");
    in_the_way(args)?;
    let characters = match &model.tokenizer {
        Some(Tokenizer::Char(characters)) => Some(characters),
        _ => None,
    };
    let mut bar = Writing::default();
    let dataset = characters.map(|_| DATASET);
    folder::save_nanogpt(model.stored.source(), dataset, &args.out, &mut bar.hears())?;
    if let Some(characters) = characters {
        let meta = args.out.with_file_name("meta.pkl");
        ensure!(args.force || !meta.exists(), "{} exists; --force replaces it", meta.display());
        minigpt_files::write_file(&meta, &nanogpt_meta(characters.tokens()))?;
        answer.notes.push(format!("put {} into nanoGPT's data/{DATASET}/", meta.display()));
    }
    if model.stored.config().activation_function == Activation::GeluNew {
        answer
            .notes
            .push("nanoGPT computes the exact GELU; this model was trained with its tanh formula".to_owned());
    }
    if !args.no_check {
        let exact = model.stored.config().activation_function == Activation::Gelu;
        answer.largest_difference = Some(model.check(&args.out, exact)?);
    }
    Ok(())
}

fn to_gguf(args: &ExportArgs, model: &Model, answer: &mut Answer) -> Result<()> {
    let dtype = match args.dtype {
        DtypeName::F32 => gguf::Dtype::F32,
        DtypeName::F16 => gguf::Dtype::F16,
        DtypeName::Q8_0 => gguf::Dtype::Q8_0,
        DtypeName::Q4K => gguf::Dtype::Q4K,
        DtypeName::Bf16 => bail!("bf16 is not offered for GGUF; use f16"),
    };
    if let Some(reason) = gguf::refusal(model.stored.config()) {
        bail!("{}: {reason}", model.files.path.display());
    }
    in_the_way(args)?;
    answer.notes.extend(gguf::approximation(model.stored.config()).map(str::to_owned));
    let mut metadata = gguf_tokens(model.need_tokenizer()?, model.stored.config().vocab_size)?;
    if let Some(template) = ChatTemplate::of(model.files)? {
        metadata.push(("tokenizer.chat_template".to_owned(), gguf::Meta::Str(template.source)));
    }
    gguf::save(model.stored.source(), metadata, dtype, &args.out, &mut Writing::default().hears())?;
    if !args.no_check {
        let exact = dtype == gguf::Dtype::F32 && gguf::approximation(model.stored.config()).is_none();
        answer.largest_difference = Some(model.check(&args.out, exact)?);
    }
    Ok(())
}

fn to_vocabulary(args: &ExportArgs, model: &Model) -> Result<()> {
    let Tokenizer::Char(characters) = model.need_tokenizer()? else {
        bail!("a vocabulary file lists characters; this model has a BPE: use its tokenizer.json");
    };
    in_the_way(args)?;
    Ok(characters.save_vocabulary(&args.out)?)
}

fn in_the_way(args: &ExportArgs) -> Result<()> {
    ensure!(!args.out.is_dir(), "{} is a folder; name a file", args.out.display());
    ensure!(args.force || !args.out.exists(), "{} exists; --force replaces it", args.out.display());
    if let Some(parent) = args.out.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).with_context(|| format!("{}: can't be made", parent.display()))?;
    }
    Ok(())
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
