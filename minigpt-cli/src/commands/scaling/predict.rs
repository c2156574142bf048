//! `minigpt scaling predict`: the loss of a size and a number of tokens, or the best size for a budget.

use super::report::{FitReport, largest};
use super::runs::RunsArgs;
use super::words::{self, range, short};
use crate::arguments::numbers;
use crate::language::messages::scaling as message;
use crate::{output, screen};
use anyhow::{Result, ensure};
use clap::Args;
use minigpt_charts::Table;
use minigpt_scaling::{BestModel, Doubling, Estimate95, Interval, Prediction, ScalingFit, Undetermined};
use serde::Serialize;

#[derive(Args)]
pub struct ScalingPredictArgs {
    #[command(flatten)]
    runs: RunsArgs,
    /// N: model size in parameters, counted as in the runs.
    #[arg(long, value_name = "N", value_parser = numbers::positive, required_unless_present = "flops")]
    parameters: Option<f64>,
    /// D: training tokens. Default: as many as --flops leaves for that size.
    #[arg(long, value_name = "N", value_parser = numbers::positive, requires = "parameters", required_unless_present = "flops")]
    tokens: Option<f64>,
    /// With --repeated: number of unique tokens.
    #[arg(long, value_name = "N", value_parser = numbers::positive, requires = "repeated")]
    unique: Option<f64>,
    /// Compute budget 6·N·D: predicts the best size and its tokens.
    #[arg(long, value_name = "N", value_parser = numbers::positive)]
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
    /// Why there is no prediction.
    prediction_withheld: Option<Undetermined>,
    best: Option<BestModel>,
    /// Why there is no best size.
    best_withheld: Option<Undetermined>,
    repeated: Option<Estimate95>,
    double_data: Option<Doubling>,
    double_size: Option<Doubling>,
    double_flops: Option<Doubling>,
    held_out: minigpt_scaling::HeldOutErrors,
}

/// Runs the command.
pub fn run(args: &ScalingPredictArgs) -> Result<()> {
    let runs = args.runs.read()?;
    let report = FitReport::new(&runs, &args.runs.options(), args.runs.repeated)?;
    let fit = &report.fit;
    let flops = minigpt_scaling::flops;
    let left = |parameters: f64| args.flops.map(|budget| budget / flops(parameters, 1.0));
    let asked = args.parameters.and_then(|size| Some((size, args.tokens.or_else(|| left(size))?)));
    if let (Some(unique), Some((_, tokens))) = (args.unique, asked) {
        ensure!(unique <= tokens, "{}", message::UniqueBeyondTokens { unique: &unique, tokens: &tokens });
    }
    let best = args.flops.map(|budget| fit.best_model(budget));
    let from = asked.or_else(|| best.and_then(|best| Some(best.ok()?.run())));
    let from = from.unwrap_or_else(|| largest(&fit.runs));
    let repeated = report.repeated.as_ref().zip(asked).map(|(repeated, (parameters, tokens))| {
        repeated.predict(parameters, tokens, args.unique.unwrap_or(tokens))
    });
    let prediction = asked.map(|(parameters, tokens)| fit.predict(parameters, tokens));
    let answer = Answer {
        prediction: prediction.and_then(Result::ok),
        prediction_withheld: prediction.and_then(Result::err),
        best: best.and_then(Result::ok),
        best_withheld: best.and_then(Result::err),
        repeated,
        double_data: fit.gain(from, (1.0, 2.0)).ok(),
        double_size: fit.gain(from, (2.0, 1.0)).ok(),
        double_flops: doubled_budget(fit, from),
        held_out: fit.held_out,
    };
    if args.json { output::json(&answer) } else { output::text(describe(&answer)) }
}

/// Twice the arithmetic, shared out over size and data as the law would.
fn doubled_budget(fit: &ScalingFit, from: (f64, f64)) -> Option<Doubling> {
    let law = &fit.law;
    let size = 2_f64.powf(law.beta / (law.alpha + law.beta));
    fit.gain(from, (size, 2.0 / size)).ok()
}

fn describe(answer: &Answer) -> String {
    let mut table = Table::new(&[1]);
    if let Some(prediction) = &answer.prediction {
        let terms = &prediction.terms;
        table.row([
            message::Loss.text(),
            &format!("{:.3}", prediction.loss.value),
            &interval(&prediction.loss),
        ]);
        let sum = format!("{:.3} + {:.3} + {:.3}", terms.floor, terms.size, terms.data);
        table.row([message::MadeOf.text(), "", &message::LossTerms { sum: &sum }.to_string()]);
        far(&mut table, prediction.times_largest, prediction.extrapolation);
    }
    if let Some(why) = answer.prediction_withheld {
        table.row([message::Loss.text(), "–", &words::withheld(why)]);
    }
    if let Some(loss) = &answer.repeated {
        let repeated = message::LossWithRepeats.text();
        table.row([repeated, &format!("{:.3}", loss.value), &interval(loss)]);
    }
    if let Some(why) = answer.best_withheld {
        table.row([message::BestSize.text(), "–", &words::withheld(why)]);
    }
    if let Some(best) = &answer.best {
        table.row([message::BestSize.text(), &short(best.parameters.value), &range(&best.parameters)]);
        table.row([message::TokensOfBest.text(), &short(best.tokens.value), &range(&best.tokens)]);
        table.row([message::LossOfBest.text(), &format!("{:.3}", best.loss.value), &interval(&best.loss)]);
        if !best.measured_size {
            table.row([message::Note.text(), "", message::SizeOutsideRuns.text()]);
        }
        far(&mut table, best.times_largest, best.extrapolation);
    }
    let doublings = [
        (message::TwiceData.text(), &answer.double_data),
        (message::TwiceSize.text(), &answer.double_size),
        (message::TwiceFlops.text(), &answer.double_flops),
    ];
    for (what, doubling) in doublings {
        let Some(doubling) = doubling else { continue };
        let far = if doubling.extrapolation { message::Extrapolated.text() } else { "" };
        let change = change(&doubling.gain);
        table.row([what, &signed(change.value), &format!("{}{far}", interval_of(&change, signed))]);
    }
    if let Some(held) = answer.held_out.largest_runs {
        let error = format!("{:.1} %", 100.0 * held.mean_error);
        table.row([message::HeldOut.text(), &error, message::HeldOutError.text()]);
    }
    table.draw_within(screen::table_columns())
}

/// Says how far a prediction is from the runs.
fn far(table: &mut Table, times: f64, extrapolation: bool) {
    if extrapolation {
        let far = if times < 1e15 {
            message::TooFar { factor: &times }.to_string()
        } else {
            message::FarExtrapolation.text().to_owned()
        };
        table.row([message::Warning.text(), "", &far]);
    }
}

/// What a gain does to the loss: it takes that much away.
fn change(gain: &Estimate95) -> Estimate95 {
    let Estimate95 { value, interval: Interval { low, high } } = *gain;
    Estimate95 { value: -value, interval: Interval { low: -high, high: -low } }
}

/// A change, with its sign.
fn signed(change: f64) -> String {
    let digits = format!("{:.3}", change.abs());
    match change {
        _ if digits.bytes().all(|byte| matches!(byte, b'0' | b'.')) => digits,
        change if change < 0.0 => format!("−{digits}"),
        _ => format!("+{digits}"),
    }
}

fn interval(estimate: &Estimate95) -> String {
    interval_of(estimate, |value| format!("{value:.3}"))
}

fn interval_of(estimate: &Estimate95, shown: impl Fn(f64) -> String) -> String {
    let [low, high]: [f64; 2] = estimate.interval.into();
    if low.is_finite() && high.is_finite() {
        message::Interval { low: &shown(low), high: &shown(high) }.to_string()
    } else {
        message::IntervalUndetermined.text().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loss that falls by 0.023 was shown as "−0.023, 95 %: 0.022 to 0.025".
    #[test]
    fn a_change_and_its_interval_have_the_same_sign() {
        let gain = Estimate95 { value: 0.023, interval: Interval { low: 0.022, high: 0.025 } };
        let change = change(&gain);
        assert_eq!(signed(change.value), "−0.023");
        assert_eq!(interval_of(&change, signed), "95 %: −0.025 to −0.022");
        assert_eq!([signed(-0.0001), signed(0.0), signed(0.01)], ["0.000", "0.000", "+0.010"]);
    }
}
