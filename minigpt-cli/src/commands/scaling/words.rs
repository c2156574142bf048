//! A fit as people read it: a table of numbers with their intervals, and three sentences.

use super::report::{FitReport, largest};
use crate::language::messages::scaling as message;
use crate::screen;
use minigpt_charts::{Table, count, metric};
use minigpt_scaling::{
    DeltaSource, Doubling, Estimate95, FARTHEST, HeldOut, IsoFlop, MUENNIGHOFF, NARROWEST, RepeatedFit,
    ScalingFit, Towards, Undetermined, by_size,
};

/// All of a report.
pub fn describe(report: &FitReport) -> String {
    let fit = &report.fit;
    let columns = screen::table_columns();
    let mut text = String::new();
    if let Some(losses) = losses(fit) {
        text += &format!("{}\n{}\n", message::LossesTitle.text(), losses.draw_within(columns));
    }
    text += &format!("{}\n{}\n", message::LawTitle.text(), numbers(fit).draw_within(columns));
    text += &format!("{}\n{}\n", message::FitTitle.text(), quality(report).draw_within(columns));
    let isoflops = fit.isoflops();
    if !isoflops.is_empty() {
        text += &format!("{}\n{}\n", message::BudgetTitle.text(), best_sizes(&isoflops).draw_within(columns));
    }
    if let Some(repeated) = &report.repeated {
        text += &format!("{}\n{}\n", message::RepeatsTitle.text(), repetition(repeated).draw_within(columns));
    }
    for sentence in sentences(fit) {
        text += &format!("{sentence}\n");
    }
    if !report.pictures.is_empty() {
        let pictures: Vec<String> = report.pictures.iter().map(|path| path.display().to_string()).collect();
        text += &format!("\n{}\n", message::Pictures { pictures: &pictures.join(", ") });
    }
    text
}

/// A row a size, a column a count of tokens, where that is a table that can be read.
fn losses(fit: &ScalingFit) -> Option<Table> {
    let sizes = by_size(&fit.runs);
    let mut tokens: Vec<f64> = fit.runs.iter().map(|run| run.tokens).collect();
    tokens.sort_by(f64::total_cmp);
    tokens.dedup();
    if tokens.len() > 8 || sizes.len() > 12 {
        return None;
    }
    let right: Vec<usize> = (0..=tokens.len()).collect();
    let mut table = Table::new(&right);
    let head = tokens.iter().map(|tokens| metric(*tokens).trim_end().to_owned());
    table.cells(std::iter::once("N".to_owned()).chain(head));
    for runs in &sizes {
        let at = |tokens: &f64| {
            let losses: Vec<String> = runs
                .iter()
                .filter(|run| run.tokens == *tokens)
                .map(|run| format!("{:.3}", run.loss))
                .collect();
            losses.join(" / ")
        };
        let size = count(runs[0].parameters as u64);
        table.cells(std::iter::once(size).chain(tokens.iter().map(at)));
    }
    Some(table)
}

/// The five numbers; those that the runs do not determine are not printed.
fn numbers(fit: &ScalingFit) -> Table {
    let mut table = Table::new(&[1]);
    let meanings = [
        message::AboutE.text(),
        message::AboutA.text(),
        message::AboutB.text(),
        message::AboutAlpha.text(),
        message::AboutBeta.text(),
    ];
    for ((name, estimate, why), meaning) in fit.numbers().into_iter().zip(meanings) {
        let name = greek(name);
        match why {
            None => table.row([name, &short(estimate.value), &range(&estimate), meaning]),
            Some(why) => table.row([name, "–", &undetermined(name, &estimate, why), meaning]),
        };
    }
    table
}

fn undetermined(name: &str, estimate: &Estimate95, why: Undetermined) -> String {
    match why {
        Undetermined::ReachesZero => message::IntervalReachesZero { name: &name }.to_string(),
        Undetermined::TooWide => {
            message::IntervalTooWide { name: &name, estimate: &range(estimate) }.to_string()
        }
        Undetermined::SizesTooNarrow | Undetermined::TokensTooNarrow => {
            message::Undetermined { name: &name, why: &withheld(why) }.to_string()
        }
    }
}

/// Why something is not said.
pub fn withheld(why: Undetermined) -> String {
    match why {
        Undetermined::ReachesZero => message::WithheldNoDifference.text().to_owned(),
        Undetermined::TooWide => message::WithheldWideInterval.text().to_owned(),
        Undetermined::SizesTooNarrow => message::SizesTooNarrow { least: &NARROWEST }.to_string(),
        Undetermined::TokensTooNarrow => message::TokensTooNarrow { least: &NARROWEST }.to_string(),
    }
}

fn quality(report: &FitReport) -> Table {
    let fit = &report.fit;
    let mut table = Table::default();
    let left_out = match report.without_loss {
        0 => String::new(),
        n => message::DivergedSuffix { n: &count(n) }.to_string(),
    };
    table.row([message::Runs.text(), &format!("{}{left_out}", count(fit.runs.len() as u64))]);
    table.row([
        message::Residuals.text(),
        &message::ResidualsValue {
            mean_residual: &percent(fit.mean_residual()),
            worst_residual: &percent(fit.worst_residual()),
        }
        .to_string(),
    ]);
    if let Some(noise) = fit.noise {
        table.row([
            message::SeedNoise.text(),
            &message::SeedNoiseValue { noise: &percent(noise) }.to_string(),
        ]);
    }
    let delta_from = match fit.delta_from {
        DeltaSource::Given => message::DeltaGiven.text(),
        DeltaSource::SeedNoise => message::DeltaFromNoise.text(),
        DeltaSource::Usual => message::DeltaDefault.text(),
    };
    table.row([message::Objective.text(), &format!("{:.7e}", fit.objective)]);
    table.row(["δ", &format!("{:.1e}, {delta_from}", fit.delta)]);
    let held = &fit.held_out;
    let rows = [
        (message::HeldOutLargestRuns.text(), held.largest_runs),
        (message::HeldOutLargestSize.text(), held.largest_size),
        (message::HeldOutLongestRuns.text(), held.longest_runs),
    ];
    for (what, held) in rows {
        table.row([what, &error(held)]);
    }
    table
}

fn error(held: Option<HeldOut>) -> String {
    match held {
        None => message::TooFewToHoldOut.text().to_owned(),
        Some(HeldOut { runs, mean_error, worst_error }) => message::HeldOutValue {
            mean_error: &percent(mean_error),
            worst_error: &percent(worst_error),
            runs: &count(runs as u64),
        }
        .to_string(),
    }
}

fn best_sizes(curves: &[IsoFlop]) -> Table {
    let mut table = Table::new(&[0, 1]);
    for curve in curves {
        let (best, words) = match (curve.minimum, curve.towards) {
            (Some(minimum), _) => (
                short(minimum.parameters.value),
                message::ParametersAndLoss { parameters: &range(&minimum.parameters), loss: &minimum.loss }
                    .to_string(),
            ),
            (None, Some(Towards::Smaller)) => ("–".to_owned(), message::BelowSmallest.text().to_owned()),
            (None, Some(Towards::Larger)) => ("–".to_owned(), message::AboveLargest.text().to_owned()),
            _ => ("–".to_owned(), message::NotKnown.text().to_owned()),
        };
        table.row([&format!("{:.1e} FLOP", curve.flops), &best, &words]);
    }
    table
}

fn repetition(fit: &RepeatedFit) -> Table {
    let mut table = Table::new(&[1, 3]);
    table.row(["", message::Here.text(), "", message::Published.text()]);
    let rows = [
        ("R*_D", &fit.data_half_life, MUENNIGHOFF.data_half_life),
        ("R*_N", &fit.size_half_life, MUENNIGHOFF.size_half_life),
    ];
    for (name, estimate, published) in rows {
        match estimate.undetermined(0.2) {
            None => table.row([name, &short(estimate.value), &range(estimate), &short(published)]),
            Some(_) => table.row([
                name,
                "–",
                &message::NotDetermined { estimate: &range(estimate) }.to_string(),
                &short(published),
            ]),
        };
    }
    for ((name, ours, why), (_, theirs)) in fit.once.numbers().into_iter().zip(MUENNIGHOFF.law.named()) {
        let value = if why.is_none() { short(ours.value) } else { "–".to_owned() };
        table.row([greek(name), &value, &range(&ours), &short(theirs)]);
    }
    let left_out = message::ClippedRuns { left_out: &count(fit.left_out as u64) }.to_string();
    table.row([message::Runs.text(), &count(fit.runs as u64), &left_out, ""]);
    table.row([message::MedianResidual.text(), &percent(fit.median_residual), "", ""]);
    table
}

/// What the next doubling of data or size would buy, and what can't be known.
pub fn sentences(fit: &ScalingFit) -> [String; 3] {
    let from = largest(&fit.runs);
    let data = bought(fit.gain(from, (1.0, 2.0)));
    let size = bought(fit.gain(from, (2.0, 1.0)));
    let (parameters, tokens) = (metric(from.0), metric(from.1));
    let (parameters, tokens) = (parameters.trim_end(), tokens.trim_end());
    [
        message::AdviceData { tokens: &tokens, data: &data }.to_string(),
        message::AdviceSize { parameters: &parameters, size: &size }.to_string(),
        unknown(fit),
    ]
}

fn bought(doubling: Result<Doubling, Undetermined>) -> String {
    let Doubling { before, after, gain, .. } = match doubling {
        Ok(doubling) => doubling,
        Err(why) => return withheld(why),
    };
    let interval = gain.interval;
    if interval.low > 0.0005 {
        message::LossFalls {
            by: &gain.value,
            low: &interval.low,
            high: &interval.high,
            before: &before,
            after: &after,
        }
        .to_string()
    } else {
        message::LossFallsAtMost { high: &interval.high }.to_string()
    }
}

/// What these runs do not say.
fn unknown(fit: &ScalingFit) -> String {
    let names: Vec<&str> = fit
        .numbers()
        .into_iter()
        .filter(|(_, _, why)| why.is_some())
        .map(|(name, _, _)| greek(name))
        .collect();
    let numbers = match &names[..] {
        [] => String::new(),
        names => message::UndeterminedNames { names: &names.join(", ") }.to_string(),
    };
    let farthest = format!("{:.1e}", FARTHEST * fit.largest_flops());
    message::Limits { numbers: &numbers, farthest: &farthest }.to_string()
}

/// The name of a number as the formula has it.
fn greek(name: &str) -> &str {
    match name {
        "alpha" => "α",
        "beta" => "β",
        name => name,
    }
}

/// A number with three digits that count.
pub fn short(number: f64) -> String {
    let size = number.abs();
    if number.is_nan() {
        "–".to_owned()
    } else if !number.is_finite() {
        if number > 0.0 { "∞" } else { "−∞" }.to_owned()
    } else if size >= 1e5 {
        metric(number).trim_end().to_owned()
    } else if size >= 100.0 || size == 0.0 {
        format!("{number:.0}")
    } else if size >= 1.0 {
        format!("{number:.2}")
    } else if size >= 1e-3 {
        format!("{number:.3}")
    } else {
        format!("{number:.1e}")
    }
}

/// An interval in words.
pub fn range(estimate: &Estimate95) -> String {
    message::FromTo { low: &short(estimate.interval.low), high: &short(estimate.interval.high) }.to_string()
}

fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_count() {
        let numbers = [0.0, 0.25257, 1.62002, 122.55, 795_712.0, 1e-5, f64::INFINITY];
        assert_eq!(numbers.map(short), ["0", "0.253", "1.62", "123", "796 k", "1.0e-5", "∞"]);
    }
}
