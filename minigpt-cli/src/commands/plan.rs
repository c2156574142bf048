//! `minigpt plan`: what a model costs before anyone trains it.

use crate::output;
use crate::tensors::TensorTree;
use anyhow::{Context, Result, ensure};
use clap::Args;
use minigpt::{limit, settings};
use minigpt_charts::{Table, bytes, count, duration, metric};
use minigpt_formats::load_config;
use minigpt_model::plan::{AttentionCost, Plan, expected_loss};
use minigpt_model::{Config, PRESETS};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Say what a model costs: parameters, memory, arithmetic, time.
#[derive(Args)]
#[command(after_help = presets_help())]
pub struct PlanArgs {
    /// Presets and model folders to plan for; several are shown side by side.
    #[arg(value_name = "PRESET|FOLDER", conflicts_with_all = ["preset", "model"])]
    models: Vec<String>,
    /// The preset to plan for; gpt2 when nothing else is named.
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    preset: Option<String>,
    /// A model folder to plan for instead.
    #[arg(long, value_name = "FOLDER")]
    model: Option<PathBuf>,
    /// Change a setting of each model, for example n_layer=8 or bias=false.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// Rows in a training batch.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,
    /// Tokens in a row; the model's context when absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    block_size: Option<u32>,
    /// Tokens to train on; 20 a parameter when absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    tokens: Option<u64>,
    /// Multiplications and additions a second to reckon with, for example 1e14; measured on this machine when absent.
    #[arg(long, value_name = "RATE")]
    flops_per_second: Option<f64>,
    /// Show the tensors instead: names, shapes, sizes, and a total for each layer.
    #[arg(long)]
    tensors: bool,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

fn presets_help() -> String {
    let mut table = Table::default();
    for (name, what) in PRESETS {
        table.row([name, what]);
    }
    format!("Presets:\n{}", table.draw())
}

/// The plan, and what it means in time.
#[derive(Serialize)]
struct Answer {
    /// What was planned for, with its changes.
    name: String,
    #[serde(flatten)]
    plan: Plan,
    /// What attention costs in this context, in twice and in four times of it.
    attention: [AttentionCost; 3],
    config: Config,
    tokens: u64,
    flops_per_second: f64,
    /// Whether that rate was measured on this machine.
    measured: bool,
    seconds_per_step: f64,
    seconds: f64,
}

/// Runs the command.
pub fn run(args: &PlanArgs) -> Result<()> {
    let models = models(args)?;
    if args.tensors {
        return show_tensors(args, &models);
    }
    let rate = match args.flops_per_second {
        Some(rate) => rate,
        None => limit::product_rate(1024)?,
    };
    ensure!(rate > 0.0 && rate.is_finite(), "--flops-per-second {rate}: it must be a positive number");
    let answers = models.into_iter().map(|(name, config)| answer(args, name, config, rate));
    let answers = answers.collect::<Result<Vec<_>>>()?;
    match &answers[..] {
        [one] if args.json => output::json(one),
        [one] => output::text(&describe(one)),
        _ if args.json => output::json(&serde_json::json!({ "models": answers })),
        _ => output::text(&(sizes(&answers) + &attention(&answers))),
    }
}

/// The models to plan for, by name, with the changes that were asked for.
fn models(args: &PlanArgs) -> Result<Vec<(String, Config)>> {
    let open = |folder: &Path| load_config(folder).context("the model's configuration could not be read");
    let named = match (&args.model, &args.preset, &args.models[..]) {
        (Some(folder), ..) => vec![(folder.display().to_string(), open(folder)?)],
        (None, Some(name), _) => vec![(name.clone(), Config::preset(name)?)],
        (None, None, []) => vec![("gpt2".to_owned(), Config::preset("gpt2")?)],
        (None, None, names) => {
            let is_preset = |name: &str| PRESETS.iter().any(|(preset, _)| *preset == name);
            let model = |name: &String| match Path::new(name) {
                path if path.exists() && !is_preset(name) => Ok((name.clone(), open(path)?)),
                _ => Ok((name.clone(), Config::preset(name)?)),
            };
            names.iter().map(model).collect::<Result<_>>()?
        }
    };
    let changed = |(name, config): (String, Config)| {
        let config = settings::change(config, &args.changes)?;
        config.validate()?;
        let changes = args.changes.join(", ");
        Ok((if changes.is_empty() { name } else { format!("{name} with {changes}") }, config))
    };
    named.into_iter().map(changed).collect()
}

fn show_tensors(args: &PlanArgs, models: &[(String, Config)]) -> Result<()> {
    let trees: Vec<_> = models.iter().map(|(name, config)| (name, TensorTree::of(config))).collect();
    match &trees[..] {
        [(_, one)] if args.json => output::json(one),
        [(_, one)] => output::text(&one.draw()),
        _ if args.json => {
            let named = trees.iter().map(|(name, tree)| serde_json::json!({ "name": name, "tree": tree }));
            output::json(&serde_json::json!({ "models": named.collect::<Vec<_>>() }))
        }
        _ => {
            let drawn = trees.iter().map(|(name, tree)| format!("{name}\n{}", tree.draw()));
            output::text(&drawn.collect::<Vec<_>>().join("\n"))
        }
    }
}

fn answer(args: &PlanArgs, name: String, config: Config, rate: f64) -> Result<Answer> {
    let block_size = args.block_size.map_or(config.block_size, |n| n as usize);
    ensure!(
        block_size <= config.block_size,
        "--block-size {block_size} is more than the model's context of {}; change that with --set block_size={block_size}",
        config.block_size
    );
    let mut plan = Plan::new(&config, args.batch_size as usize, block_size);
    let tokens = args.tokens.unwrap_or(plan.optimal_tokens);
    plan.expected_loss = expected_loss(plan.parameters.total, tokens);
    Ok(Answer {
        name,
        attention: [1, 2, 4].map(|times| AttentionCost::new(&config, times * block_size)),
        tokens,
        flops_per_second: rate,
        measured: args.flops_per_second.is_none(),
        seconds_per_step: plan.train_flops_per_step as f64 / rate,
        seconds: plan.train_flops_per_token as f64 * tokens as f64 / rate,
        plan,
        config,
    })
}

/// Several models side by side.
fn sizes(answers: &[Answer]) -> String {
    let mut table = Table::new(&[1, 2, 3, 4, 5, 6, 7, 8]);
    table.row([
        "",
        "layers",
        "heads",
        "width",
        "context",
        "parameters",
        "to run",
        "to train",
        "expected loss",
    ]);
    for Answer { name, plan, config, .. } in answers {
        table.row([
            name,
            &count(config.n_layer as u64),
            &count(config.n_head as u64),
            &count(config.n_embd as u64),
            &count(config.block_size as u64),
            &count(plan.parameters.total),
            &bytes(plan.inference_bytes),
            &bytes(plan.train_bytes),
            &format!("{:.2}", plan.expected_loss),
        ]);
    }
    let batch = answers.first().map_or(0, |answer| answer.plan.batch_size);
    format!("Sizes; training with {} rows in a batch, f32\n{}", count(batch as u64), table.draw())
}

/// How attention grows with the context.
fn attention(answers: &[Answer]) -> String {
    let mut table = Table::new(&[1, 2, 3, 4]);
    table.row(["", "context T", "attention", "of the forward pass", "T × T weights of a layer"]);
    for Answer { name, attention, .. } in answers {
        for (i, cost) in attention.iter().enumerate() {
            table.row([
                if i == 0 { name } else { "" },
                &count(cost.block_size as u64),
                &format!("{}FLOP", metric(cost.flops as f64)),
                &format!("{:.1} %", 100.0 * cost.share),
                &bytes(cost.weights_bytes),
            ]);
        }
    }
    format!("\nAttention over one row grows with T²; its weights are not kept\n{}", table.draw())
}

fn describe(answer: &Answer) -> String {
    let Answer { name: title, plan, config, .. } = answer;
    let shape = format!(
        "{title}: {} layers, {} heads, width {}, context {}, vocabulary {}\n",
        count(config.n_layer as u64),
        count(config.n_head as u64),
        count(config.n_embd as u64),
        count(config.block_size as u64),
        count(config.vocab_size as u64),
    );
    let training = format!(
        "\nTraining memory, f32, {} rows of {} tokens\n",
        count(plan.batch_size as u64),
        count(plan.block_size as u64)
    );
    let rate = format!("{}FLOP/s", metric(answer.flops_per_second));
    let where_from = if answer.measured { "measured here on matrix products" } else { "as given" };
    let time = format!("\nTime at {rate} ({where_from}); real training reaches a part of that rate\n");
    let attention = attention(std::slice::from_ref(answer));
    [shape, parameters(plan), training, memory(plan), attention, time, times(answer)].concat()
}

fn parameters(plan: &Plan) -> String {
    let p = &plan.parameters;
    let mut table = Table::new(&[1, 2]);
    let parts = [
        ("token embedding", p.token_embedding),
        ("position embedding", p.position_embedding),
        ("attention", p.attention),
        ("MLP", p.mlp),
        ("norms", p.norm),
        ("output head", p.head),
    ];
    for (name, n) in parts.into_iter().filter(|(_, n)| *n > 0) {
        table.row([name, &count(n), &format!("{:.1} %", 100.0 * n as f64 / p.total as f64)]);
    }
    table.row(["all", &count(p.total), ""]);
    format!("\nParameters\n{}", table.draw())
}

fn memory(plan: &Plan) -> String {
    let m = &plan.train_memory;
    let mut table = Table::new(&[1]);
    table.row(["weights", &bytes(m.weights), ""]);
    table.row(["gradients", &bytes(m.gradients), ""]);
    table.row(["AdamW's moments", &bytes(m.moments), ""]);
    table.row(["activations", &bytes(m.activations), "(an estimate)"]);
    table.row(["all", &bytes(plan.train_bytes), ""]);
    let cache = format!("(with {} of cache for one full context)", bytes(plan.cache_bytes));
    table.row(["to run it", &bytes(plan.inference_bytes), &cache]);
    table.draw()
}

fn times(answer: &Answer) -> String {
    let Answer { plan, .. } = answer;
    let mut table = Table::new(&[1]);
    table.row([
        "a token",
        &format!("{}FLOP", metric(plan.train_flops_per_token as f64)),
        "forward and backward",
    ]);
    table.row([
        "a step",
        &duration(answer.seconds_per_step),
        &format!("{}FLOP", metric(plan.train_flops_per_step as f64)),
    ]);
    let tokens = format!("{} tokens", metric(answer.tokens as f64));
    table.row([&tokens, &duration(answer.seconds), ""]);
    let loss = format!("{:.2}", plan.expected_loss);
    table.row([
        "expected loss",
        &loss,
        "by the scaling law of Hoffmann et al. 2022, for web text and BPE tokens",
    ]);
    table.draw()
}
