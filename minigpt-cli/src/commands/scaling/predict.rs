//! `minigpt scaling predict`: the loss of a size and a number of tokens, or the best size for a budget.

use super::positive;
use super::report::{FitReport, largest};
use super::runs::RunsArgs;
use super::words::{range, short};
use crate::language::{t, tr};
use crate::{output, screen};
use anyhow::Result;
use clap::Args;
use minigpt_charts::Table;
use minigpt_scaling::{BestModel, Doubling, Estimate95, Prediction, ScalingFit};
use serde::Serialize;

#[derive(Args)]
pub struct ScalingPredictArgs {
    #[command(flatten)]
    runs: RunsArgs,
    /// N: the size of the model, counted as in the runs.
    #[arg(long, value_name = "N", value_parser = positive, required_unless_present = "flops")]
    parameters: Option<f64>,
    /// D: the tokens that it learns from.
    #[arg(long, value_name = "N", value_parser = positive, requires = "parameters", required_unless_present = "flops")]
    tokens: Option<f64>,
    /// How many of these tokens are different, with --repeated.
    #[arg(long, value_name = "N", value_parser = positive, requires = "repeated")]
    unique: Option<f64>,
    /// A budget of 6·N·D: the best size for it, and the tokens that it leaves.
    #[arg(long, value_name = "N", value_parser = positive)]
    flops: Option<f64>,
    /// Print one JSON value.
    #[arg(long)]
    json: bool,
}

/// What was asked, and what the next doubling of it buys.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    prediction: Option<Prediction>,
    best: Option<BestModel>,
    repeated: Option<Estimate95>,
    double_data: Doubling,
    double_size: Doubling,
    double_flops: Doubling,
    held_out: minigpt_scaling::HeldOutErrors,
}

/// Runs the command.
pub fn run(args: &ScalingPredictArgs) -> Result<()> {
    let runs = args.runs.read()?;
    let report = FitReport::new(&runs, &args.runs.options(), args.runs.repeated)?;
    let fit = &report.fit;
    let asked = args.parameters.zip(args.tokens);
    let best = args.flops.map(|flops| fit.best_model(flops));
    let from = asked.or(best.map(|best| (best.parameters.value, best.tokens.value)));
    let from = from.unwrap_or_else(|| largest(&fit.runs));
    let repeated = report.repeated.as_ref().zip(asked).map(|(repeated, (parameters, tokens))| {
        repeated.predict(parameters, tokens, args.unique.unwrap_or(tokens))
    });
    let answer = Answer {
        prediction: asked.map(|(parameters, tokens)| fit.predict(parameters, tokens)),
        best,
        repeated,
        double_data: fit.gain(from, (1.0, 2.0)),
        double_size: fit.gain(from, (2.0, 1.0)),
        double_flops: doubled_budget(fit, from),
        held_out: fit.held_out,
    };
    if args.json { output::json(&answer) } else { output::text(&describe(&answer)) }
}

/// Twice the arithmetic, shared out over size and data as the law would.
fn doubled_budget(fit: &ScalingFit, from: (f64, f64)) -> Doubling {
    let law = &fit.law;
    let size = 2_f64.powf(law.beta / (law.alpha + law.beta));
    fit.gain(from, (size, 2.0 / size))
}

fn describe(answer: &Answer) -> String {
    let mut table = Table::new(&[1]);
    if let Some(prediction) = &answer.prediction {
        let terms = &prediction.terms;
        table.row([tr("loss"), &format!("{:.3}", prediction.loss.value), &interval(&prediction.loss)]);
        let sum = format!("{:.3} + {:.3} + {:.3}", terms.floor, terms.size, terms.data);
        table.row([tr("made of"), "", &t!("{sum}: what stays, what size and what data would take away")]);
        far(&mut table, prediction.times_largest, prediction.extrapolation);
    }
    if let Some(loss) = &answer.repeated {
        let repeated = tr("loss with data seen again");
        table.row([repeated, &format!("{:.3}", loss.value), &interval(loss)]);
    }
    if let Some(best) = &answer.best {
        row(&mut table, tr("best size N"), &best.parameters);
        row(&mut table, tr("its tokens D"), &best.tokens);
        if best.parameters.value.is_finite() {
            table.row([tr("its loss"), &format!("{:.3}", best.loss.value), &interval(&best.loss)]);
        }
        if !best.measured_size {
            table.row([tr("note"), "", tr("no run has had a size that small or that large")]);
        }
        far(&mut table, best.times_largest, best.extrapolation);
    }
    let doublings = [
        (tr("twice the data"), &answer.double_data),
        (tr("twice the size"), &answer.double_size),
        (tr("twice the FLOPs"), &answer.double_flops),
    ];
    for (what, doubling) in doublings {
        let far = if doubling.extrapolation { tr(" (extrapolated)") } else { "" };
        let words = format!("{}{far}", interval(&doubling.gain));
        table.row([what, &format!("−{:.3}", doubling.gain.value), &words]);
    }
    if let Some(held) = answer.held_out.largest_runs {
        let error = format!("{:.1} %", 100.0 * held.mean_error);
        table.row([tr("held out"), &error, tr("mean error on the largest runs, predicted from the rest")]);
    }
    table.draw_within(screen::table_columns())
}

/// A number that is only printed where the runs determine it.
fn row(table: &mut Table, what: &str, estimate: &Estimate95) {
    match estimate.undetermined(0.0) {
        None => table.row([what, &short(estimate.value), &range(estimate)]),
        Some(_) => table.row([what, "–", &t!("not determined: {}", range(estimate))]),
    };
}

/// Says how far a prediction is from the runs.
fn far(table: &mut Table, times: f64, extrapolation: bool) {
    if extrapolation {
        let far = t!("extrapolated: {:.0} times the arithmetic of the largest run; not to be trusted", times);
        table.row([tr("warning"), "", &far]);
    }
}

fn interval(estimate: &Estimate95) -> String {
    t!("95 %: {:.3} to {:.3}", estimate.interval.low, estimate.interval.high)
}
