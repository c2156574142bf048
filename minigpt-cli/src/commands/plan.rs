//! `minigpt plan`: what a model costs before anyone trains it.

use super::cluster;
use super::train::announce_suggestion;
use crate::arguments::numbers;
use crate::config_file::Opened;
use crate::language::messages::counts;
use crate::language::messages::english;
use crate::language::messages::plan as message;
use crate::language::{duration, large, local};
use crate::tensors::TensorTree;
use crate::{config_file, models, output, screen};
use anyhow::{Context, Result, ensure};
use clap::Args;
use minigpt::{ClusterPlan, Network, RunPlan, Suggestion, limit, settings};
use minigpt_charts::{Table, bytes, count, metric};
use minigpt_formats::load_config;
use minigpt_model::plan::{AttentionCost, Plan};
use minigpt_model::{Config, Preset};
use minigpt_scaling::{ExpectedLoss, Withheld, expected_loss};
use minigpt_train::OptimizerKind;
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::{Path, PathBuf};

/// Estimate what a model needs: parameters, memory, compute, time.
#[derive(Args)]
#[command(after_help = presets_help())]
pub struct PlanArgs {
    /// Presets and models to plan for, shown side by side.
    #[arg(value_name = "PRESET|MODEL", conflicts_with_all = ["preset", "model"])]
    models: Vec<String>,
    /// Preset to plan for. Default: gpt2, if nothing else is given.
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    preset: Option<String>,
    #[arg(short, long, value_name = models::NAME, help = models::HELP)]
    model: Option<PathBuf>,
    /// Configuration to plan for: how long it takes on this machine (measured), and whether it fits.
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["models", "preset", "model", "batch_size", "block_size", "tokens", "flops_per_second", "tensors"])]
    config: Option<PathBuf>,
    /// Change a setting of each model, such as n_layer=8 or bias=false.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// Training batch size in rows.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = numbers::at_least::<u32>(1))]
    batch_size: u32,
    /// Tokens per row. Default: the model's context.
    #[arg(long, value_name = "N", value_parser = numbers::at_least::<u32>(1))]
    block_size: Option<u32>,
    /// Tokens to train on. Default: 20 per parameter.
    #[arg(long, value_name = "N", value_parser = numbers::at_least::<u64>(1))]
    tokens: Option<u64>,
    /// Floating-point operations per second to assume, such as 1e14. Default: measured on this machine.
    #[arg(long, value_name = "RATE", value_parser = numbers::number)]
    flops_per_second: Option<f64>,
    /// Number of machines to distribute training over (docs/cluster.md).
    #[arg(long, value_name = "N", value_parser = numbers::within::<u16>(2, 4096), conflicts_with = "tensors")]
    machines: Option<u16>,
    /// Network between them: 1GbE, 10GbE, 100GbE, or bandwidth and latency, such as 25Gbit,10us.
    #[arg(long, value_name = "NETWORK", default_value = "10GbE")]
    network: Network,
    /// Show the tensors: names, shapes, sizes, and a total per layer.
    #[arg(long)]
    tensors: bool,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

fn presets_help() -> String {
    let mut table = Table::default();
    for preset in Preset::ALL {
        table.row([preset.name(), &local(&preset)]);
    }
    format!("{}\n{}", message::PresetsHeading, table.draw_within(screen::table_columns()))
}

/// The plan, and what it means in time.
#[derive(Serialize)]
struct Answer {
    /// What was planned for, with its changes.
    name: ModelName,
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
    /// What the published law expects; nothing where it does not apply.
    expected_loss: Option<f64>,
    /// The same with its terms, its constants and their source.
    expected_loss_terms: Option<ExpectedLoss>,
    /// Why it does not apply.
    expected_loss_withheld: Option<String>,
    #[serde(skip)]
    expected: Result<ExpectedLoss, Withheld>,
    /// What several machines would buy, where that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterPlan>,
}

/// Runs the command.
pub fn run(args: &PlanArgs) -> Result<()> {
    if let Some(config) = &args.config {
        return plan_run(config, args);
    }
    let models = models(args)?;
    if args.tensors {
        return show_tensors(args, &models);
    }
    let rate = match args.flops_per_second {
        Some(rate) => rate,
        None => limit::product_rate(1024)?,
    };
    ensure!(rate > 0.0 && rate.is_finite(), "{}", message::RateNotPositive { rate: &rate });
    let answers = models.into_iter().map(|(name, config)| answer(args, name, config, rate));
    let answers = answers.collect::<Result<Vec<_>>>()?;
    match &answers[..] {
        [one] if args.json => output::json(one),
        [one] => output::text(describe(one)),
        _ if args.json => output::json(&serde_json::json!({ "models": answers })),
        _ => output::text(&(sizes(&answers) + &attention(&answers))),
    }
}

/// How long a run takes here, and whether it fits.
fn plan_run(config: &Path, args: &PlanArgs) -> Result<()> {
    let Opened { text, changes } = config_file::open(config, &args.changes)?;
    let suggestion = Suggestion::new(&text, &changes, None, None)?;
    announce_suggestion(&suggestion, false);
    let config = suggestion.config;
    minigpt::damage(&config).iter().for_each(|damage| output::note(local(damage)));
    let plan = RunPlan::measure(&config)?;
    let cluster = args.machines.map(|machines| {
        let (train, model) = (&config.train, &config.model);
        let rows = train.batch_size * train.gradient_accumulation_steps;
        let a_row = plan.seconds_per_step / rows as f64;
        let model = Config { vocab_size: plan.vocab_size, ..model.clone() };
        let shape = (rows, model.block_size);
        ClusterPlan::new(&model, train.optimizer, shape, a_row, machines.into(), args.network)
    });
    if args.json {
        let mut answer = serde_json::to_value(plan)?;
        if let Some(cluster) = cluster {
            answer["cluster"] = serde_json::to_value(cluster)?;
        }
        return output::json(&answer);
    }
    let mut table = Table::new(&[1]);
    let fits = match plan.free_bytes {
        Some(free) => message::OfFreeMemory { free: &bytes(free) }.to_string(),
        None => String::new(),
    };
    let epochs =
        plan.epochs.map_or_else(String::new, |epochs| message::Passes { epochs: &epochs }.to_string());
    let evaluation = message::EvaluationTime { each: &duration(plan.seconds_per_evaluation) }.to_string();
    let tokens = message::TokensPerStep { tokens: &count(plan.tokens_per_step) }.to_string();
    table.row([message::Parameters.text(), &count(plan.parameters), ""]);
    table.row([message::Memory.text(), &bytes(plan.train_bytes), &fits]);
    table.row([message::Steps.text(), &count(plan.steps), &epochs]);
    table.row([
        message::TimePerStep.text(),
        &duration(plan.seconds_per_step),
        &message::MeasuredHere { tokens: &tokens }.to_string(),
    ]);
    table.row([message::Evaluations.text(), &count(plan.evaluations), &evaluation]);
    table.row([message::WholeRun.text(), &duration(plan.seconds), message::IfAsBusy.text()]);
    let cluster = cluster.as_ref().map_or_else(String::new, cluster::describe);
    output::text(&(table.draw_within(screen::table_columns()) + &cluster))
}

/// The name of a model, and the changes to it. JSON has both in one English text.
#[derive(Clone)]
struct ModelName {
    name: String,
    changes: String,
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { name, changes } = self;
        if changes.is_empty() { f.write_str(name) } else { message::NameWithChanges { name, changes }.fmt(f) }
    }
}

impl Serialize for ModelName {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Self { name, changes } = self;
        if changes.is_empty() {
            return serializer.serialize_str(name);
        }
        serializer.serialize_str(&english(&message::NameWithChanges { name, changes }))
    }
}

/// The models to plan for, with the changes from the command line.
fn models(args: &PlanArgs) -> Result<Vec<(ModelName, Config)>> {
    let open = |name: &Path| load_config(&models::find(name)?).context(message::ConfigurationUnreadable);
    let named = match (&args.model, &args.preset, &args.models[..]) {
        (Some(folder), ..) => vec![(folder.display().to_string(), open(folder)?)],
        (None, Some(name), _) => vec![(name.clone(), Config::preset(name)?)],
        (None, None, []) => vec![("gpt2".to_owned(), Config::preset("gpt2")?)],
        (None, None, names) => {
            let is_preset = |name: &str| Preset::named(name).is_some();
            let model = |name: &String| match Path::new(name) {
                path if !is_preset(name) && models::is_named(path) => Ok((name.clone(), open(path)?)),
                _ => Ok((name.clone(), Config::preset(name)?)),
            };
            names.iter().map(model).collect::<Result<_>>()?
        }
    };
    let changed = |(name, config): (String, Config)| {
        let config = settings::change(config, &args.changes)?;
        config.validate()?;
        let changes = args.changes.join(", ");
        Ok((ModelName { name, changes }, config))
    };
    named.into_iter().map(changed).collect()
}

fn show_tensors(args: &PlanArgs, models: &[(ModelName, Config)]) -> Result<()> {
    let trees: Vec<_> = models.iter().map(|(name, config)| (name, TensorTree::of(config))).collect();
    match &trees[..] {
        [(_, one)] if args.json => output::json(one),
        [(_, one)] => output::text(one.draw()),
        _ if args.json => {
            let named = trees.iter().map(|(name, tree)| serde_json::json!({ "name": name, "tree": tree }));
            output::json(&serde_json::json!({ "models": named.collect::<Vec<_>>() }))
        }
        _ => {
            let drawn = trees.iter().map(|(name, tree)| format!("{}\n{}", name, tree.draw()));
            output::text(drawn.collect::<Vec<_>>().join("\n"))
        }
    }
}

fn answer(args: &PlanArgs, name: ModelName, config: Config, rate: f64) -> Result<Answer> {
    let block_size = args.block_size.map_or(config.block_size, |n| n as usize);
    ensure!(
        block_size <= config.block_size,
        "{}",
        message::BlockSizeTooLarge { block_size: &block_size, most: &config.block_size }
    );
    let plan = Plan::new(&config, args.batch_size as usize, block_size);
    let tokens = args.tokens.unwrap_or(plan.optimal_tokens);
    let expected = expected_loss(plan.parameters.total, tokens, config.vocab_size as u64);
    let seconds_per_step = plan.train_flops_per_step as f64 / rate;
    let cluster = args.machines.map(|machines| {
        let (rows, a_row) = (args.batch_size as usize, seconds_per_step / f64::from(args.batch_size));
        let shape = (rows, block_size);
        ClusterPlan::new(&config, OptimizerKind::AdamW, shape, a_row, machines.into(), args.network)
    });
    Ok(Answer {
        name,
        attention: [1, 2, 4].map(|times| AttentionCost::new(&config, times * block_size)),
        tokens,
        flops_per_second: rate,
        measured: args.flops_per_second.is_none(),
        seconds_per_step,
        seconds: plan.train_flops_per_token as f64 * tokens as f64 / rate,
        expected_loss: expected.ok().map(|expected| expected.loss),
        expected_loss_terms: expected.ok(),
        expected_loss_withheld: expected.err().map(|withheld| withheld.to_string()),
        expected,
        plan,
        config,
        cluster,
    })
}

/// Several models side by side.
fn sizes(answers: &[Answer]) -> String {
    let mut table = Table::new(&[1, 2, 3, 4, 5, 6, 7, 8]);
    table.row([
        "",
        message::Layers.text(),
        message::Heads.text(),
        message::Width.text(),
        message::Context.text(),
        message::Parameters.text(),
        message::ToRun.text(),
        message::Training.text(),
        message::ExpectedLoss.text(),
    ]);
    for Answer { name, plan, config, expected_loss, .. } in answers {
        table.row([
            &name.to_string(),
            &count(config.n_layer as u64),
            &count(config.n_head as u64),
            &count(config.n_embd as u64),
            &count(config.block_size as u64),
            &count(plan.parameters.total),
            &bytes(plan.inference_bytes),
            &bytes(plan.train_bytes),
            &expected_loss.map_or_else(|| "–".to_owned(), |loss| format!("{loss:.2}")),
        ]);
    }
    let batch = answers.first().map_or(0, |answer| answer.plan.batch_size);
    message::Sizes { batch: &count(batch as u64), table: &table.draw_within(screen::table_columns()) }
        .to_string()
}

/// How attention grows with the context.
fn attention(answers: &[Answer]) -> String {
    let mut table = Table::new(&[1, 2, 3, 4]);
    table.row([
        "",
        message::ContextT.text(),
        message::Attention.text(),
        message::ShareOfForward.text(),
        message::TByTWeights.text(),
    ]);
    for Answer { name, attention, .. } in answers {
        let name = name.to_string();
        for (i, cost) in attention.iter().enumerate() {
            table.row([
                if i == 0 { &name } else { "" },
                &count(cost.block_size as u64),
                &format!("{}FLOP", metric(cost.flops as f64)),
                &format!("{:.1} %", 100.0 * cost.share),
                &bytes(cost.weights_bytes),
            ]);
        }
    }
    message::AttentionGrowth { table: &table.draw_within(screen::table_columns()) }.to_string()
}

fn describe(answer: &Answer) -> String {
    let Answer { plan, config, .. } = answer;
    let title = answer.name.to_string();
    let shape = message::ModelTitle {
        title: &title,
        n_layer: &(counts::Layers { n: config.n_layer as u64 }.to_string()),
        n_head: &(counts::Heads { n: config.n_head as u64 }.to_string()),
        n_embd: &count(config.n_embd as u64),
        block_size: &count(config.block_size as u64),
        vocab_size: &count(config.vocab_size as u64),
    }
    .to_string();
    let training = message::TrainingMemory {
        batch_size: &count(plan.batch_size as u64),
        block_size: &count(plan.block_size as u64),
    }
    .to_string();
    let rate = format!("{}FLOP/s", metric(answer.flops_per_second));
    let where_from =
        if answer.measured { message::MeasuredOnProducts.text() } else { message::AsGiven.text() };
    let time = message::TimeAtRate { rate: &rate, source: &where_from }.to_string();
    let attention = attention(std::slice::from_ref(answer));
    let cluster = answer.cluster.as_ref().map_or_else(String::new, cluster::describe);
    [shape, parameters(plan), training, memory(plan), attention, time, times(answer), cluster].concat()
}

fn parameters(plan: &Plan) -> String {
    let p = &plan.parameters;
    let mut table = Table::new(&[1, 2]);
    let parts = [
        (message::TokenEmbedding.text(), p.token_embedding),
        (message::PositionEmbedding.text(), p.position_embedding),
        (message::Attention.text(), p.attention),
        ("MLP", p.mlp),
        (message::Norms.text(), p.norm),
        (message::OutputHead.text(), p.head),
    ];
    for (name, n) in parts.into_iter().filter(|(_, n)| *n > 0) {
        table.row([name, &count(n), &format!("{:.1} %", 100.0 * n as f64 / p.total as f64)]);
    }
    table.row([message::All.text(), &count(p.total), ""]);
    message::ParametersTable { table: &table.draw_within(screen::table_columns()) }.to_string()
}

fn memory(plan: &Plan) -> String {
    let m = &plan.train_memory;
    let mut table = Table::new(&[1]);
    table.row([message::Weights.text(), &bytes(m.weights), ""]);
    table.row([message::Gradients.text(), &bytes(m.gradients), ""]);
    table.row([message::AdamwsMoments.text(), &bytes(m.moments), ""]);
    table.row([message::Activations.text(), &bytes(m.activations), message::Estimate.text()]);
    table.row([message::All.text(), &bytes(plan.train_bytes), ""]);
    let cache = message::WithCache { cache: &bytes(plan.cache_bytes) }.to_string();
    table.row([message::ToRunIt.text(), &bytes(plan.inference_bytes), &cache]);
    table.draw_within(screen::table_columns())
}

fn times(answer: &Answer) -> String {
    let Answer { plan, .. } = answer;
    let mut table = Table::new(&[1]);
    table.row([
        message::PerToken.text(),
        &format!("{}FLOP", metric(plan.train_flops_per_token as f64)),
        message::ForwardBackward.text(),
    ]);
    table.row([
        message::TimePerStep.text(),
        &duration(answer.seconds_per_step),
        &format!("{}FLOP", metric(plan.train_flops_per_step as f64)),
    ]);
    let tokens = message::TokenCount { tokens: &large(answer.tokens as f64) }.to_string();
    table.row([&tokens, &duration(answer.seconds), ""]);
    match &answer.expected {
        Ok(expected) => {
            let terms = &expected.terms;
            let sum = format!("{:.2} + {:.2} + {:.2}", terms.floor, terms.size, terms.data);
            table.row([
                message::ExpectedLoss.text(),
                &format!("{:.2}", expected.loss),
                &message::LossTerms { sum: &sum }.to_string(),
            ]);
            table.row(["", "", &local(&expected.source)]);
            if expected.extrapolation {
                table.row(["", "", message::FarExtrapolation.text()]);
            }
        }
        Err(withheld) => {
            table.row([message::ExpectedLoss.text(), "–", &local(withheld)]);
        }
    }
    table.draw_within(screen::table_columns())
}
