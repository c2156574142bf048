//! Patching on a terminal: how much of the answer each place brings back, in percent.

use super::tokens::label;
use crate::language::messages::inspect as message;
use crate::screen;
use minigpt_charts::{Table, cut};
use minigpt_insight::Patching;

/// Columns of a position's name.
const NAME: usize = 6;
/// Positions side by side; of a longer text the last ones are shown.
const ACROSS: usize = 14;

pub fn draw(patching: &Patching, labels: &[String]) -> String {
    let from = labels.len().saturating_sub(ACROSS);
    let names = labels.iter().skip(from).map(|label| cut(label, NAME));
    let by_position =
        matrix(message::Layer.text(), names, patching.layers_positions.iter().map(|row| &row[from..]));
    let heads = patching.layers_heads.first().map_or(0, Vec::len);
    let names = (0..heads).map(|head| message::HeadNumber { head: &head }.to_string());
    let by_head = matrix(message::Layer.text(), names, patching.layers_heads.iter().map(Vec::as_slice));
    message::Patching {
        answer: &label(patching.answer_token.as_deref(), patching.answer),
        other: &label(patching.other_token.as_deref(), patching.other),
        clean: &patching.clean,
        corrupt: &patching.corrupt,
        by_position: &by_position,
        by_head: &by_head,
    }
    .to_string()
}

fn matrix<'a>(
    corner: &str,
    names: impl Iterator<Item = String>,
    rows: impl Iterator<Item = &'a [f64]>,
) -> String {
    let names: Vec<String> = names.collect();
    let right: Vec<usize> = (0..=names.len()).collect();
    let mut table = Table::new(&right);
    table.cells(std::iter::once(corner.to_owned()).chain(names));
    for (layer, row) in rows.enumerate() {
        let cells = row.iter().map(|share| format!("{:.0}", 100.0 * share));
        table.cells(std::iter::once(layer.to_string()).chain(cells));
    }
    table.draw_within(screen::table_columns())
}
