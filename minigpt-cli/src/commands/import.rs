//! `minigpt import`: a model that another tool wrote becomes a model folder.

use crate::language::local;
use crate::language::messages::counts;
use crate::language::messages::english;
use crate::language::messages::import as message;
use crate::progress::Progress;
use crate::{dtype, models, output, screen, shell};
use anyhow::{Context, Result, bail};
use clap::Args;
use minigpt::settings::{self, Assignment};
use minigpt::{TokenizerMismatch, tokenizer_mismatch};
use minigpt_charts::{Table, count};
use minigpt_formats::{
    Architecture, Conversion, FileFormat, OnDisk, StateDictNote, Target, TokenizerOrigin, convert,
};
use minigpt_kernels::ElementType;
use minigpt_model::Config;
use minigpt_model::parameters::Count;
use serde::{Serialize, Serializer};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Import a model from another tool.
#[derive(Args)]
pub struct ImportArgs {
    /// Model to import: a Hugging Face GPT-2 folder (safetensors or pytorch_model.bin, also sharded), nanoGPT's ckpt.pt,
    /// a llama.cpp GGUF file, a state dict (.pth) of the question answering or the textbook model, or hf:owner/model from
    /// the hub (HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE work as usual).
    #[arg(value_name = "FOLDER|ckpt.pt|FILE.gguf|FILE.pth|hf:NAME", required_unless_present = "from")]
    source: Option<String>,
    /// Model to import; same as by position.
    #[arg(long, value_name = "SOURCE", conflicts_with = "source")]
    from: Option<String>,
    /// Model folder to write.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Tokenizer: `gpt2`, a tokenizer.json, a vocabulary file, or nanoGPT's meta.pkl. Default: the files next to the
    /// model.
    #[arg(long, visible_alias = "vocab", value_name = "gpt2|PATH")]
    tokenizer: Option<String>,
    /// Setting of a state dict's model that the file does not contain, such as n_head=8 or activation_function=relu.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// Type of the written weights. Default: f32; quantized weights stay as they are.
    #[arg(long, ignore_case = true, value_parser = dtype::among(dtype::TO_IMPORT))]
    dtype: Option<ElementType>,
    /// Replace the model in that folder.
    #[arg(long)]
    force: bool,
    /// Skip the check that the written model computes the same.
    #[arg(long)]
    no_check: bool,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    kind: FileFormat,
    out: PathBuf,
    parameters: u64,
    vocab_size: usize,
    /// The element types of the weights, and those that they have now.
    dtype: String,
    dtype_written: String,
    tokenizer: Option<TokenizerOrigin>,
    /// The largest difference of a logit between before and after, where it was looked for.
    largest_difference: Option<f32>,
    /// What the file does not say, and was assumed.
    notes: Vec<Note>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Note {
    StateDict(StateDictNote),
    Tokenizer(TokenizerMismatch),
    Assumed(Assumed),
}

/// Settings that the file does not contain, as `key=value`, and whether `--set` gave them.
struct Assumed(Vec<(String, bool)>);

impl Assumed {
    fn new(config: &Config, changes: &[String]) -> Self {
        let values = serde_json::to_value(config).unwrap_or_default();
        let is_given = |key: &str| {
            let names =
                |change: &String| Assignment::parse(change).is_ok_and(|change| change.setting.key == key);
            changes.iter().any(names)
        };
        let setting = |key: &str| {
            let value = values[key].to_string();
            (format!("{key}={}", value.trim_matches('"')), is_given(key))
        };
        Self(Architecture::ASSUMED.map(setting).to_vec())
    }

    fn text(&self) -> String {
        let suffix = |given: bool| if given { message::AsAskedSuffix.text() } else { "" };
        message::Assumed { settings: self.settings(suffix) }.to_string()
    }

    fn settings<S: Display>(&self, suffix: impl Fn(bool) -> S) -> String {
        let settings = self.0.iter().map(|(setting, given)| format!("{setting}{}", suffix(*given)));
        settings.collect::<Vec<_>>().join(", ")
    }
}

impl Serialize for Assumed {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let suffix = |given| if given { english(&message::AsAskedSuffix) } else { String::new() };
        serializer.serialize_str(&english(&message::Assumed { settings: self.settings(suffix) }))
    }
}

/// Runs the command.
pub fn run(args: &ImportArgs) -> Result<()> {
    let source = args.source.as_ref().or(args.from.as_ref()).context(message::NameAModel)?;
    let source = match source.strip_prefix("hf:") {
        Some(name) => models::fetch(name)?,
        None => models::find(Path::new(source))?,
    };
    let files = OnDisk::open(&source)?;
    let (model, mut notes) = match files.assumed()? {
        Some((config, notes)) => {
            let config = settings::change(config, &args.changes)?;
            let assumed = Note::Assumed(Assumed::new(&config, &args.changes));
            let notes = std::iter::once(assumed).chain(notes.into_iter().map(Note::StateDict)).collect();
            (files.model_as(config)?, notes)
        }
        None if args.changes.is_empty() => (files.model()?, Vec::new()),
        None => {
            bail!("{}", message::SetForStateDictionaries { name: &local(&files.format()) })
        }
    };
    if let Some(name) = args.tokenizer.as_deref().filter(|name| *name == "char" || name.starts_with("bpe:")) {
        bail!("{}", message::KeepItsTokenizer { name: &name });
    }
    let tokenizer = files.tokenizer(args.tokenizer.as_deref(), model.config())?;
    let conversion = Conversion {
        target: Target::HuggingFace { element_type: args.dtype, shard: None },
        out: &args.out,
        replace: args.force,
        check: !args.no_check,
        training: None,
    };
    let (tokenizer, name) = tokenizer.unzip();
    let mismatch =
        tokenizer.as_ref().and_then(|tokenizer| tokenizer_mismatch(&source, tokenizer, model.config()));
    notes.extend(mismatch.map(Note::Tokenizer));
    let mut bar = WriteProgress::default();
    let converted = convert(&files, &model, tokenizer.as_ref(), conversion, &mut bar.callback())?;
    let answer = Answer {
        kind: files.format(),
        out: args.out.clone(),
        parameters: Count::of(model.config()).total,
        vocab_size: model.config().vocab_size,
        dtype: model.element_types().join(", "),
        dtype_written: converted.types.into_iter().map(|count| count.dtype).collect::<Vec<_>>().join(", "),
        tokenizer: name,
        largest_difference: converted.largest_difference,
        notes,
    };
    let prompt = shell::prompt(tokenizer.as_ref(), "The");
    if args.json { output::json(&answer) } else { output::text(describe(&answer, model.config(), &prompt)) }
}

/// The shape of a model: `12 layers, 12 heads, width 768`.
pub fn shape(config: &Config) -> String {
    let (layers, heads) = (
        counts::Layers { n: config.n_layer as u64 }.to_string(),
        counts::Heads { n: config.n_head as u64 }.to_string(),
    );
    message::ShapeOf { layers: &layers, heads: &heads, n_embd: &config.n_embd }.to_string()
}

fn describe(answer: &Answer, config: &Config, prompt: &str) -> String {
    let mut table = Table::default();
    table.row([
        message::Found.text(),
        &message::KindAndParameters { kind: &local(&answer.kind), parameters: &count(answer.parameters) }
            .to_string(),
    ]);
    table.row([message::Shape.text(), &shape(config)]);
    table.row([message::Context.text(), &count(config.block_size as u64)]);
    for note in &answer.notes {
        let note = match note {
            Note::StateDict(note) => local(note),
            Note::Tokenizer(note) => local(note),
            Note::Assumed(assumed) => assumed.text(),
        };
        table.row([message::Note.text(), &note]);
    }
    let numbers = if answer.dtype == answer.dtype_written {
        answer.dtype.clone()
    } else {
        message::DtypeWritten { dtype: &answer.dtype, written: &answer.dtype_written }.to_string()
    };
    table.row([message::Dtype.text(), &numbers]);
    let none = message::NoTokenizerFound.text().to_owned();
    let tokens = count(answer.vocab_size as u64);
    let tokenizer = answer.tokenizer.as_ref();
    table.row([
        message::Tokenizer.text(),
        &tokenizer.map_or(none, |name| {
            message::TokenizerAndSize { name: &local(name), tokens: &tokens }.to_string()
        }),
    ]);
    if let Some(difference) = answer.largest_difference {
        table.row([message::Checked.text(), &message::LogitsAgree { difference: &difference }.to_string()]);
    }
    table.row([message::Written.text(), &answer.out.display().to_string()]);
    table.row([message::TryIt.text(), &format!("minigpt generate {} {prompt}", shell::path(&answer.out))]);
    table.draw_within(screen::table_columns())
}

/// The bar that shows how much of a model is written.
#[derive(Default)]
pub struct WriteProgress(Option<Progress>);

impl WriteProgress {
    /// What the library calls after each tensor.
    pub fn callback(&mut self) -> impl FnMut(u64, u64) {
        |written, total| {
            self.0.get_or_insert_with(|| Progress::of_bytes(message::Writing.text(), total)).set(written);
            if written == total
                && let Some(bar) = self.0.take()
            {
                bar.finish();
            }
        }
    }
}
