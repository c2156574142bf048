//! With and without a part of the model, side by side.

use super::tokens::{label, percent};
use crate::language::messages::inspect as message;
use crate::{output, screen};
use minigpt_charts::Table;
use minigpt_insight::{AblationOutcome, AblationReport};

pub fn draw(report: &AblationReport, labels: &[String]) -> String {
    let off: Vec<String> = report.off.iter().map(ToString::to_string).collect();
    let number = |loss: Option<f64>| loss.map_or_else(|| "–".to_owned(), |loss| format!("{loss:.4}"));
    let mut table = Table::new(&[1, 2]);
    table.row(["", message::WithAll.text(), message::Without.text()]);
    let (before, after) = (&report.before, &report.after);
    table.row([message::Loss.text(), &number(before.reading.loss), &number(after.reading.loss)]);
    for (at, label) in labels.iter().enumerate().skip(1) {
        let bits = |outcome: &AblationOutcome| number(outcome.reading.tokens[at].surprisal);
        table.row([&message::BitsOf { label: &label }.to_string(), &bits(before), &bits(after)]);
    }
    let mut next = Table::new(&[1, 3]);
    next.row([message::WithAll.text(), "", message::Without.text(), ""]);
    for (a, b) in before.reading.top.iter().zip(&after.reading.top) {
        next.row([
            &label(a.token.as_deref(), a.id),
            &percent(a.probability),
            &label(b.token.as_deref(), b.id),
            &percent(b.probability),
        ]);
    }
    let text = |outcome: &AblationOutcome| match &outcome.continuation_text {
        Some(text) => output::visible(text),
        None => format!("{:?}", outcome.continuation),
    };
    let replaced_by = match report.replaced_by {
        "mean" => message::ReplacedByMean.text(),
        _ => message::ReplacedByZero.text(),
    };
    message::Ablation {
        parts: &off.join(", "),
        replaced_by: &replaced_by,
        table: &table.draw_within(screen::table_columns()),
        candidates: &next.draw_within(screen::table_columns()),
        text_before: &text(before),
        text_after: &text(after),
    }
    .to_string()
}
