//! A walk on a terminal: a sentence and a formula a step, its shape, and numbers rounded so that a person can follow.

use crate::language::Language;
use crate::language::messages::inspect as message;
use crate::screen;
use minigpt_charts::{Table, count};
use minigpt_insight::WalkStep;

/// Numbers of a vector that are shown; all of them with --json.
const SHOWN: usize = 8;
/// Rows of a matrix that are shown.
const ROWS: usize = 8;
/// Tokens of the vocabulary that are shown, the likeliest ones.
const LIKELIEST: usize = 5;

/// Steps whose numbers stand for the tokens of the vocabulary.
const VOCABULARY: [&str; 4] = ["logits", "logits.temperature", "logits.filtered", "probabilities"];

/// All steps. `name` says what a token is called.
pub fn draw(steps: &[WalkStep], lang: Language, name: &dyn Fn(u32) -> Option<String>) -> String {
    let steps = steps.iter().enumerate();
    steps.map(|(number, step)| draw_step(number + 1, step, lang, name)).collect()
}

fn draw_step(number: usize, step: &WalkStep, lang: Language, name: &dyn Fn(u32) -> Option<String>) -> String {
    let place = match (step.layer, step.head) {
        (Some(layer), Some(head)) => message::LayerAndHeadLine { layer: &layer, head: &head }.to_string(),
        (Some(layer), None) => message::LayerLine { layer: &layer }.to_string(),
        _ => String::new(),
    };
    let text = if lang == Language::Zh { step.text_zh } else { step.text };
    let statistics = match (step.mean, step.deviation) {
        (Some(mean), Some(deviation)) => {
            message::MeanAndDeviation { mean: &rounded(mean), deviation: &rounded(deviation) }.to_string()
        }
        _ => String::new(),
    };
    format!(
        "\n{number}. {}  {}{place}\n   {}\n   {text}\n{statistics}{}",
        step.site,
        shape(&step.tensor_shape),
        step.formula,
        values(step, name)
    )
}

fn shape(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(|&size| count(size as u64)).collect();
    format!("({})", sizes.join(" × "))
}

fn values(step: &WalkStep, name: &dyn Fn(u32) -> Option<String>) -> String {
    let right: Vec<usize> = (0..=SHOWN + 1).collect();
    let mut table = Table::new(&right);
    if step.site == "choice" {
        let id = step.values.first().map_or(0, |&id| id as u32);
        return format!("    {id} {}\n", name(id).unwrap_or_default());
    }
    if VOCABULARY.contains(&step.site.as_str()) {
        return likeliest(step, name);
    }
    if let Some(before) = &step.before {
        table.cells(std::iter::once(message::Before.text().to_owned()).chain(cells(before)));
    }
    match step.shape[..] {
        [rows, width] if width > 0 => {
            for (row, values) in step.values.chunks(width).enumerate().take(ROWS) {
                table.cells(std::iter::once(format!("{row}:")).chain(cells(values)));
            }
            let rest = rows.saturating_sub(ROWS);
            let more = if rest > 0 {
                message::MoreRows { left: &count(rest as u64) }.to_string()
            } else {
                String::new()
            };
            return table.draw_within(screen::table_columns()) + &more;
        }
        _ => {
            let label = if step.before.is_some() { message::After.text() } else { "" };
            table.cells(std::iter::once(label.to_owned()).chain(cells(&step.values)));
        }
    }
    table.draw_within(screen::table_columns())
}

fn cells(values: &[f32]) -> Vec<String> {
    let mut cells: Vec<String> = values.iter().take(SHOWN).map(|&value| rounded(f64::from(value))).collect();
    if values.len() > SHOWN {
        cells.push(message::OfValues { values: &(count(values.len() as u64)) }.to_string());
    }
    cells
}

/// The likeliest tokens with their numbers.
fn likeliest(step: &WalkStep, name: &dyn Fn(u32) -> Option<String>) -> String {
    let mut ids: Vec<usize> = (0..step.values.len()).collect();
    ids.sort_by(|&a, &b| step.values[b].total_cmp(&step.values[a]));
    let mut table = Table::new(&[0, 2]);
    for &id in ids.iter().take(LIKELIEST) {
        let label = name(id as u32).unwrap_or_default();
        table.row([&id.to_string(), &label, &rounded(f64::from(step.values[id]))]);
    }
    let left = step.values.iter().filter(|value| value.is_finite()).count();
    let left = message::TokensLeft { left: &count(left as u64), all: &(count(step.values.len() as u64)) }
        .to_string();
    table.draw_within(screen::table_columns()) + &left
}

/// Four digits behind the point, or the form with an exponent where that would say nothing.
fn rounded(value: f64) -> String {
    match value.abs() {
        _ if value == f64::NEG_INFINITY => "−∞".to_owned(),
        size if size != 0.0 && size < 0.0005 => format!("{value:.1e}"),
        size if size >= 10_000.0 => format!("{value:.0}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_insight::WalkExample;

    #[test]
    fn a_worked_example_reads_as_in_a_book() {
        let steps = WalkExample::LayerNorm.walk().unwrap();
        let shown = draw(&steps, Language::En, &|_| None);
        for part in ["1. x  (6)", "mean 70.6833, deviation 76.9729", "before", "-0.9170", "1.6969"] {
            assert!(shown.contains(part), "{part}:\n{shown}");
        }
        assert!(draw(&steps, Language::Zh, &|_| None).contains("层归一化"));
        let masked = draw(&WalkExample::Restaurant.walk().unwrap(), Language::En, &|_| None);
        assert!(masked.contains("−∞"), "{masked}");
    }

    #[test]
    fn numbers_are_rounded_so_that_they_say_something() {
        let want = ["0.1235", "1.2e-5", "−∞", "123457", "0.0000"];
        assert_eq!([0.12345678, 0.000012, f64::NEG_INFINITY, 123456.7, 0.0].map(rounded), want);
    }
}
