//! `minigpt inspect`: what a model makes of a text: its tokens, how likely each was, what may come next, and which
//! token looked at which.

mod attention;

use crate::device::DeviceKind;
use crate::ids::Ids;
use crate::output;
use crate::tensors::TensorTree;
use anyhow::{Context, Result, bail, ensure};
use clap::{ArgGroup, Args};
use minigpt::ModelFolder;
use minigpt_charts::{Table, count};
use minigpt_formats::OnDisk;
use minigpt_generate::{Candidate, candidates, log_softmax};
use minigpt_model::{BlockSite, Pass, Recording, Site, Tensor};
use serde::Serialize;
use std::path::PathBuf;

/// Look inside a model: tokens, probabilities, attention.
#[derive(Args)]
#[command(group = ArgGroup::new("input").required(true))]
pub struct InspectArgs {
    /// The model folder.
    #[arg(long, value_name = "FOLDER")]
    model: PathBuf,
    /// The text to look at.
    #[arg(long, value_name = "TEXT", group = "input")]
    prompt: Option<String>,
    /// Token ids to look at instead, for example 1,2,3; works without a tokenizer.
    #[arg(long, value_name = "IDS", group = "input")]
    ids: Option<Ids>,
    /// How many candidates to show for what comes next.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Give the logits of every position (with --json).
    #[arg(long)]
    full: bool,
    /// Give the attention weights: all of them with --json, those of one layer otherwise.
    #[arg(long)]
    attention: bool,
    /// The layer to draw, from 0; the last one when absent.
    #[arg(long, value_name = "N", requires = "attention")]
    layer: Option<usize>,
    /// The head to draw, from 0; the mean of all when absent.
    #[arg(long, value_name = "N", requires = "attention")]
    head: Option<usize>,
    /// Show the model's tensors instead: names, shapes, sizes, and a total for each layer.
    #[arg(long, group = "input")]
    tensors: bool,
    /// Where to compute.
    #[arg(long, value_enum, default_value = "cpu")]
    device: DeviceKind,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

/// Attention weights by layer, head, query and key.
type Attention = Vec<attention::Heads>;

#[derive(Serialize)]
struct Answer {
    ids: Vec<u32>,
    tokens: Option<Vec<String>>,
    text: Option<String>,
    /// The logarithm of the probability of all tokens behind the first; none for a single token.
    logprob: Option<f64>,
    /// The mean negative log-likelihood of the tokens behind the first; none for a single token.
    loss: Option<f64>,
    perplexity: Option<f64>,
    positions: Vec<Position>,
    top: Vec<Next>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logits: Option<Vec<Vec<f32>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attention: Option<Attention>,
}

/// How likely a token was after those before it. The first comes out of nowhere.
#[derive(Serialize)]
struct Position {
    id: u32,
    logprob: Option<f64>,
    /// 1 if it was the likeliest of all.
    rank: Option<usize>,
}

#[derive(Serialize)]
struct Next {
    #[serde(flatten)]
    candidate: Candidate,
    token: Option<String>,
}

/// Runs the command.
pub fn run(args: &InspectArgs) -> Result<()> {
    if args.tensors {
        let files = OnDisk::open(&args.model)?;
        let tree = TensorTree::of(files.model()?.config());
        return if args.json { output::json(&tree) } else { output::text(&tree.draw()) };
    }
    let model = ModelFolder::open(&args.model, &args.device.open()?)?;
    let ids = match (&args.ids, &args.prompt) {
        (Some(ids), _) => ids.0.clone(),
        (None, Some(prompt)) => model.encode(prompt).context("--prompt can't be encoded")?,
        (None, None) => bail!("give --prompt or --ids"),
    };
    ensure!(!ids.is_empty(), "there is no token to look at: the prompt is empty");
    let config = model.gpt.config();
    let (layer, heads) = (args.layer.unwrap_or(config.n_layer - 1), config.n_head);
    ensure!(layer < config.n_layer, "--layer {layer}: the model has the layers 0 to {}", config.n_layer - 1);
    ensure!(args.head.is_none_or(|head| head < heads), "--head: the model has the heads 0 to {}", heads - 1);
    let answer = answer(args, &model, ids)?;
    if args.json {
        return output::json(&answer);
    }
    output::text(&summary(&model))?;
    output::text(&positions(&answer))?;
    output::text(&next(&answer))?;
    if let Some(attention) = &answer.attention {
        output::text(&attention::draw(&attention[layer], layer, args.head, &labels(&answer)))?;
    }
    Ok(())
}

fn answer(args: &InspectArgs, model: &ModelFolder, ids: Vec<u32>) -> Result<Answer> {
    let layers = if args.attention { model.gpt.config().n_layer } else { 0 };
    let mut patterns = Recording::of((0..layers).map(|layer| Site::Block(layer, BlockSite::Pattern)));
    let input = model.gpt.ids(&[&ids])?;
    let logits = model.gpt.forward(&input, &Pass::new().with_hook(&mut patterns))?;
    let logits: Vec<Vec<f32>> = logits.get(0)?.to_vec2()?;
    if let Some(logit) = logits.iter().flatten().find(|logit| !logit.is_finite()) {
        bail!("{}: a logit is {logit}: the model's weights are broken", model.path.display());
    }
    let positions: Vec<Position> = judge(&ids, &logits);
    let logprobs: Vec<f64> = positions.iter().filter_map(|position| position.logprob).collect();
    let logprob = (!logprobs.is_empty()).then(|| logprobs.iter().sum::<f64>());
    let loss = logprob.map(|logprob| -logprob / logprobs.len() as f64);
    let token = |id| model.tokenizer.as_ref().and_then(|tokenizer| tokenizer.token(id));
    let last = logits.last().context("the model gave no logits")?;
    let text = match &model.tokenizer {
        Some(tokenizer) => Some(tokenizer.decode(&ids).context("--ids can't be decoded")?),
        None => None,
    };
    Ok(Answer {
        tokens: model
            .tokenizer
            .as_ref()
            .map(|_| ids.iter().map(|&id| token(id).unwrap_or_default()).collect()),
        text,
        logprob,
        loss,
        perplexity: loss.map(f64::exp),
        positions,
        top: candidates(last, args.top)
            .into_iter()
            .map(|candidate| Next { token: token(candidate.id), candidate })
            .collect(),
        logits: args.full.then_some(logits),
        attention: args
            .attention
            .then(|| weights(&patterns.into_kept().into_values().collect::<Vec<_>>()))
            .transpose()?,
        ids,
    })
}

/// How likely each token was, by the logits before it.
fn judge(ids: &[u32], logits: &[Vec<f32>]) -> Vec<Position> {
    let mut positions = vec![Position { id: ids[0], logprob: None, rank: None }];
    for (&id, logits) in ids[1..].iter().zip(logits) {
        let chosen = logits[id as usize];
        let rank = 1 + logits.iter().filter(|&&other| other > chosen).count();
        positions.push(Position { id, logprob: Some(log_softmax(logits)[id as usize]), rank: Some(rank) });
    }
    positions
}

fn weights(layers: &[Tensor]) -> Result<Attention> {
    let layer = |weights: &Tensor| Ok(weights.get(0)?.to_vec3::<f32>()?);
    layers.iter().map(layer).collect()
}

fn summary(model: &ModelFolder) -> String {
    let config = model.gpt.config();
    let parameters = minigpt_model::parameters::Count::of(config).total;
    format!(
        "{}: {} parameters, {} layers, {} heads, width {}, context {}, vocabulary {}\n",
        model.path.display(),
        count(parameters),
        config.n_layer,
        config.n_head,
        config.n_embd,
        count(config.block_size as u64),
        count(config.vocab_size as u64),
    )
}

/// What to call each token: its text with spaces and line ends made visible, or its id.
fn labels(answer: &Answer) -> Vec<String> {
    match &answer.tokens {
        Some(tokens) => tokens.iter().map(|token| output::visible(token)).collect(),
        None => answer.ids.iter().map(u32::to_string).collect(),
    }
}

fn positions(answer: &Answer) -> String {
    let mut table = Table::new(&[0, 1, 3, 4, 5]);
    table.row(["position", "id", "token", "log p", "probability", "rank", ""]);
    for (i, (position, label)) in answer.positions.iter().zip(labels(answer)).enumerate() {
        let probability = position.logprob.map(f64::exp);
        table.row([
            &i.to_string(),
            &position.id.to_string(),
            &label,
            &position.logprob.map_or_else(|| "–".to_owned(), |logprob| format!("{logprob:.4}")),
            &probability.map_or_else(|| "–".to_owned(), percent),
            &position.rank.map_or_else(|| "–".to_owned(), |rank| count(rank as u64)),
            &probability.map_or_else(String::new, output::bar),
        ]);
    }
    let sum = match (answer.logprob, answer.loss, answer.perplexity) {
        (Some(logprob), Some(loss), Some(perplexity)) => format!(
            "  log P of the text, given its first token: {logprob:.4}; loss (minus its mean) {loss:.4}, perplexity {perplexity:.2}\n"
        ),
        _ => String::new(),
    };
    format!("\nHow likely each token was after those before it\n{}{sum}", table.draw())
}

fn next(answer: &Answer) -> String {
    let mut table = Table::new(&[0, 2]);
    for Next { candidate, token } in &answer.top {
        let label = token.as_deref().map_or_else(String::new, output::visible);
        table.row([
            &candidate.id.to_string(),
            &label,
            &percent(candidate.probability),
            &output::bar(candidate.probability),
        ]);
    }
    format!("\nWhat may come next\n{}", table.draw())
}

fn percent(probability: f64) -> String {
    if probability >= 0.0001 { format!("{:.2} %", 100.0 * probability) } else { format!("{probability:.1e}") }
}
