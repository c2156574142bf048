//! What can be asked of `minigpt inspect`.

use crate::commands::plot::svg_file;
use crate::device::DeviceKind;
use crate::ids::Ids;
use crate::language::messages::inspect as message;
use crate::models::{HELP, NAME, ProductArgs};
use clap::{ArgGroup, Args, ValueEnum};
use minigpt_generate::GenerationConfig;
use minigpt_insight::{Component, RepeatOptions, WalkExample};
use std::path::PathBuf;

/// Look inside a model: tokens, probabilities, attention, every number of a pass, and what each part does.
#[derive(Args)]
#[command(group = ArgGroup::new("input").required(true).multiple(true), group = ArgGroup::new("text"))]
pub struct InspectArgs {
    #[arg(value_name = NAME, required_unless_present = "example", help = format!("{HELP}; --model says the same"))]
    pub model: Option<PathBuf>,
    /// The text to look at.
    #[arg(short, long, value_name = "TEXT", groups = ["input", "text"])]
    pub prompt: Option<String>,
    /// Token ids to look at instead, for example 1,2,3; works without a tokenizer.
    #[arg(long, value_name = "IDS", groups = ["input", "text"])]
    pub ids: Option<Ids>,
    /// How many candidates to show for what comes next.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = at_least_one)]
    pub top: usize,
    /// Give the logits of every position (with --json); with --lens those of every layer too.
    #[arg(long)]
    pub full: bool,
    /// Give the attention weights: all of them with --json, those of one layer otherwise; and what each head looks at in a few
    /// numbers. One layer is in memory at a time: 1,024 tokens of a model of 124M parameters take less than 2 GB.
    #[arg(long)]
    pub attention: bool,
    /// Walk through the pass step by step: every number from the ids to the choice of the next token.
    #[arg(long)]
    pub walk: bool,
    /// The layer to show, from 0 [default: of --attention the last, of --walk the first]
    #[arg(long, value_name = "N")]
    pub layer: Option<usize>,
    /// The head to show, from 0 [default: of --attention the mean of all, of --walk the first]
    #[arg(long, value_name = "N")]
    pub head: Option<usize>,
    /// The position to follow or explain, from 0 [default: the last; of --lens all]
    #[arg(long, value_name = "N")]
    pub position: Option<usize>,
    /// Show what the model would say if it stopped after each layer.
    #[arg(long)]
    pub lens: bool,
    /// Show which parts of the model wrote the logit of the likeliest next token.
    #[arg(long)]
    pub attribution: bool,
    /// The token to explain with --attribution instead of the likeliest; with --patch the answer of the text.
    #[arg(long, value_name = "ID")]
    pub token: Option<u32>,
    /// Show what every head does on repeated random tokens, beside a model with fresh weights.
    #[arg(long, group = "input")]
    pub heads: bool,
    /// At what distance the tokens of --heads repeat [default: 50, or half of the context where that is less]
    #[arg(long, value_name = "N")]
    pub distance: Option<usize>,
    /// Switch parts off and show what changes: 3.1 is head 1 of layer 3; mlp.4, attn.4, layer.4.
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    pub ablate: Vec<Component>,
    /// Replace what is switched off by its mean over the text, not by zero.
    #[arg(long)]
    pub mean: bool,
    /// The text over which --mean is taken, instead of the text that is looked at.
    #[arg(long, value_name = "TEXT")]
    pub reference: Option<String>,
    /// Put what stands in the pass of the text into the pass of another text of as many tokens, place by place, and show how
    /// much of the answer comes back. Takes a pass for each layer and position, and each layer and head.
    #[arg(long, value_name = "OTHER-TEXT")]
    pub patch: Option<String>,
    /// The other text as token ids.
    #[arg(long, value_name = "IDS", conflicts_with = "patch")]
    pub patch_ids: Option<Ids>,
    /// The token that the answer is held against with --patch [default: the likeliest behind the other text]
    #[arg(long, value_name = "ID")]
    pub other_token: Option<u32>,
    /// Show which heads look at the ends of sentences, lines and paragraphs. Takes a pass for each head.
    #[arg(long)]
    pub boundaries: bool,
    /// Show which heads follow the relations of a treebank in CoNLL-U, beside the best fixed offset.
    #[arg(long, value_name = "FILE.conllu", group = "input")]
    pub relations: Option<PathBuf>,
    /// Ask the same of every snapshot of a run (see train.snapshots).
    #[arg(long)]
    pub snapshots: bool,
    /// Draw what --heads --snapshots shows as an SVG picture.
    #[arg(long, value_name = "FILE.svg", value_parser = svg_file)]
    pub svg: Option<PathBuf>,
    /// Write all views of the text into a page that stands alone and needs no server.
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// Walk through a worked example of the textbooks instead; needs no model.
    #[arg(long, value_enum, value_name = "NAME", group = "input", conflicts_with_all = ["prompt", "ids", "heads", "relations", "snapshots", "tensors"])]
    pub example: Option<ExampleName>,
    /// Below 1 likely tokens become likelier; 0 takes the likeliest: how the walk's choice is made.
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    pub temperature: f64,
    /// The walk's choice is among the k likeliest tokens; 0 for all.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub top_k: usize,
    /// The walk's choice is among the smallest set of tokens that has this probability.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    pub top_p: f64,
    /// Show the model's tensors instead: names, shapes, sizes, and a total for each layer.
    #[arg(long, group = "input", conflicts_with_all = ["prompt", "ids", "heads", "relations", "snapshots"])]
    pub tensors: bool,
    /// What random tokens are drawn from.
    #[arg(long, value_name = "N", default_value_t = 1337)]
    pub seed: u64,
    /// Where to compute.
    #[arg(long, value_enum, default_value = "cpu")]
    pub device: DeviceKind,
    #[command(flatten)]
    pub products: ProductArgs,
    /// Print one JSON value.
    #[arg(long)]
    pub json: bool,
}

/// Reads a number of candidates.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err(message::AtLeastOne.text().to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err(message::ExpectedWholeNumber.text().to_owned()),
    }
}

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
    /// One head over three tokens, causal.
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
