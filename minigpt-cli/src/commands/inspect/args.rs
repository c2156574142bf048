//! What can be asked of `minigpt inspect`.

use crate::arguments::numbers;
use crate::commands::plot::svg_file;
use crate::device::DeviceKind;
use crate::ids::Ids;
use crate::models::{HELP, NAME, ProductArgs};
use clap::{ArgGroup, Args, ValueEnum};
use minigpt_generate::GenerationConfig;
use minigpt_insight::{Component, RepeatOptions, WalkExample};
use std::path::PathBuf;

/// Look inside a model: tokens, probabilities, attention.
#[derive(Args)]
#[command(group = ArgGroup::new("input").required(true).multiple(true), group = ArgGroup::new("text"))]
pub struct InspectArgs {
    #[arg(value_name = NAME, required_unless_present = "example", help = format!("{HELP}; also as --model"))]
    pub model: Option<PathBuf>,
    /// Text to look at.
    #[arg(short, long, value_name = "TEXT", groups = ["input", "text"])]
    pub prompt: Option<String>,
    /// Text as token ids, such as 1,2,3; needs no tokenizer.
    #[arg(long, value_name = "IDS", groups = ["input", "text"])]
    pub ids: Option<Ids>,
    /// Number of candidates to show for the next token.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = numbers::at_least::<usize>(1))]
    pub top: usize,
    /// With --json: logits of every position; with --lens of every layer, too.
    #[arg(long)]
    pub full: bool,
    /// Show attention weights: of one layer, or all of them with --json; and a summary of each head. Keeps one layer in
    /// memory at a time: 1,024 tokens of a 124M model take less than 2 GB.
    #[arg(long)]
    pub attention: bool,
    /// Walk through the forward pass step by step, from the token ids to the choice of the next token.
    #[arg(long)]
    pub walk: bool,
    /// Layer to show, from 0 [default: the last for --attention, the first for --walk]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<usize>)]
    pub layer: Option<usize>,
    /// Head to show, from 0 [default: the mean of all for --attention, the first for --walk]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<usize>)]
    pub head: Option<usize>,
    /// Position to follow or explain, from 0 [default: the last; all for --lens]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<usize>)]
    pub position: Option<usize>,
    /// Logit lens: the prediction after each layer.
    #[arg(long)]
    pub lens: bool,
    /// Show how much each part of the model contributes to the logit of the most likely next token.
    #[arg(long)]
    pub attribution: bool,
    /// Token id to explain with --attribution; with --patch the answer of the text. Default: the most likely token.
    #[arg(long, value_name = "ID", value_parser = numbers::whole::<u32>)]
    pub token: Option<u32>,
    /// Show what each head does on repeated random tokens, compared with an untrained model.
    #[arg(long, group = "input")]
    pub heads: bool,
    /// Distance at which the tokens of --heads repeat [default: 50, or half of the context if that is less]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<usize>)]
    pub distance: Option<usize>,
    /// Ablate parts and show what changes: 3.1 is head 1 of layer 3; also mlp.4, attn.4, layer.4.
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    pub ablate: Vec<Component>,
    /// Replace ablated parts by their mean over the text instead of zero.
    #[arg(long)]
    pub mean: bool,
    /// Text over which --mean is computed. Default: the text itself.
    #[arg(long, value_name = "TEXT")]
    pub reference: Option<String>,
    /// Activation patching: copy activations of the text into a pass of another text of the same length, one place at a
    /// time, and show how much of the answer is restored. Takes one pass per layer and position, and per layer and head.
    #[arg(long, value_name = "OTHER-TEXT")]
    pub patch: Option<String>,
    /// Other text for --patch, as token ids.
    #[arg(long, value_name = "IDS", conflicts_with = "patch")]
    pub patch_ids: Option<Ids>,
    /// With --patch: token id that the answer is compared with [default: the most likely after the other text]
    #[arg(long, value_name = "ID", value_parser = numbers::whole::<u32>)]
    pub other_token: Option<u32>,
    /// Show which heads look at the ends of sentences, lines and paragraphs. Takes one pass per head.
    #[arg(long)]
    pub boundaries: bool,
    /// Show which heads follow the relations of a CoNLL-U treebank, compared with the best fixed offset.
    #[arg(long, value_name = "FILE.conllu", group = "input")]
    pub relations: Option<PathBuf>,
    /// Repeat for every snapshot of a run (see train.snapshots).
    #[arg(long)]
    pub snapshots: bool,
    /// Plot the result of --heads --snapshots to an SVG file.
    #[arg(long, value_name = "FILE.svg", value_parser = svg_file)]
    pub svg: Option<PathBuf>,
    /// Write all views of the text to a self-contained HTML page.
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// Walk through a worked textbook example; needs no model.
    #[arg(long, value_enum, value_name = "NAME", group = "input", conflicts_with_all = ["prompt", "ids", "heads", "relations", "snapshots", "tensors"])]
    pub example: Option<ExampleName>,
    /// Temperature for the choice at the end of --walk; 0 takes the most likely token.
    #[arg(long, value_name = "T", default_value_t = 0.8, value_parser = numbers::number)]
    pub temperature: f64,
    /// Top-k for the choice at the end of --walk; 0 for all.
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = numbers::whole::<usize>)]
    pub top_k: usize,
    /// Top-p for the choice at the end of --walk.
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = numbers::number)]
    pub top_p: f64,
    /// Show the model's tensors: names, shapes, sizes, and a total per layer.
    #[arg(long, group = "input", conflicts_with_all = ["prompt", "ids", "heads", "relations", "snapshots"])]
    pub tensors: bool,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1337, value_parser = numbers::seed)]
    pub seed: u64,
    /// Device to compute on.
    #[arg(long, value_enum, default_value = "cpu")]
    pub device: DeviceKind,
    #[command(flatten)]
    pub products: ProductArgs,
    /// Print one JSON value.
    #[arg(long)]
    pub json: bool,
}

/// Reads a number of candidates.
impl InspectArgs {
    /// The texts that are given, with their options.
    pub fn texts(&self) -> Vec<(&'static str, &str)> {
        let texts = [("--prompt", &self.prompt), ("--patch", &self.patch), ("--reference", &self.reference)];
        texts.into_iter().filter_map(|(option, text)| Some((option, text.as_deref()?))).collect()
    }

    /// How the walk's choice is made.
    pub fn choice(&self) -> GenerationConfig {
        let Self { temperature, top_k, top_p, seed, .. } = *self;
        GenerationConfig { do_sample: true, temperature, top_k, top_p, seed, ..GenerationConfig::default() }
    }

    /// How heads are tested.
    pub fn repeat<'a>(&self, never: &'a [u32]) -> RepeatOptions<'a> {
        RepeatOptions { never, distance: self.distance, seed: self.seed }
    }
}

/// A worked example.
#[derive(Clone, Copy, ValueEnum)]
pub enum ExampleName {
    /// One causal head over three tokens.
    Attention,
    /// Layer norm of six numbers.
    Layernorm,
    /// A query over three keys: a guest and a menu.
    Restaurant,
    /// GELU in both forms.
    Gelu,
    /// Softmax at three temperatures.
    Softmax,
}

impl From<ExampleName> for WalkExample {
    fn from(name: ExampleName) -> Self {
        match name {
            ExampleName::Attention => Self::Attention,
            ExampleName::Layernorm => Self::LayerNorm,
            ExampleName::Restaurant => Self::Restaurant,
            ExampleName::Gelu => Self::Gelu,
            ExampleName::Softmax => Self::Softmax,
        }
    }
}
