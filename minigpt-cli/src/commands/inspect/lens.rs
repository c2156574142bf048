//! The logit lens on a terminal: layers down, tokens across, in each cell what the model would say there.

use super::tokens::label;
use crate::language::messages::inspect as message;
use crate::screen;
use minigpt_charts::{Table, cut};
use minigpt_insight::{Lens, LikelyToken};

/// Columns of a cell's token.
const NAME: usize = 8;
/// Positions side by side; of a longer text the last ones are shown.
const ACROSS: usize = 8;

/// Candidates side by side behind one position.
const CANDIDATES: usize = 5;

/// One candidate at every position, or several at the one that was asked for.
pub fn draw(lens: &Lens, labels: &[String], position: Option<usize>) -> String {
    if let Some(position) = position {
        return draw_position(lens, labels, position);
    }
    let from = labels.len().saturating_sub(ACROSS);
    let note = match from {
        0 => String::new(),
        _ => message::LastPositions { shown: &ACROSS, all: &labels.len() }.to_string(),
    };
    let mut table = Table::new(&[0]);
    let heads = labels.iter().skip(from).map(|label| cut(label, NAME));
    table.cells(std::iter::once(message::AfterLayer.text().to_owned()).chain(heads));
    for (layer, positions) in lens.lens.iter().enumerate() {
        let cells =
            positions.iter().skip(from).map(|candidates| candidates.first().map_or_else(String::new, cell));
        table.cells(std::iter::once(layer_name(layer)).chain(cells));
    }
    let won = answer_wins(lens).map_or_else(String::new, |layer| match layer {
        0 => message::AnswerFromEmbedding.text().to_owned(),
        layer => message::AnswerFromLayer { layer: &(layer - 1) }.to_string(),
    });
    message::Lens { note: &note, table: &table.draw_within(screen::table_columns()), won: &won }.to_string()
}

/// The likeliest candidates behind one position, which may be the only one that the lens has.
fn draw_position(lens: &Lens, labels: &[String], position: usize) -> String {
    let mut table = Table::new(&[0]);
    for (layer, positions) in lens.lens.iter().enumerate() {
        let candidates = positions.get(position).or_else(|| positions.last()).into_iter().flatten();
        table.cells(std::iter::once(layer_name(layer)).chain(candidates.take(CANDIDATES).map(cell)));
    }
    message::LensAtPosition {
        position: &position,
        token: &(labels[position]),
        table: &table.draw_within(screen::table_columns()),
    }
    .to_string()
}

fn layer_name(layer: usize) -> String {
    match layer {
        0 => message::Embedding.text().to_owned(),
        layer => (layer - 1).to_string(),
    }
}

fn cell(candidate: &LikelyToken) -> String {
    let name = cut(&label(candidate.token.as_deref(), candidate.id), NAME);
    format!("{name} {:.0}%", 100.0 * candidate.probability)
}

/// The first row from which on the last position's final answer stays the likeliest.
fn answer_wins(lens: &Lens) -> Option<usize> {
    let best = |row: &Vec<Vec<_>>| row.last()?.first().map(|first: &LikelyToken| first.id);
    let answer = best(lens.lens.last()?)?;
    let other = lens.lens.iter().rposition(|row| best(row) != Some(answer));
    Some(other.map_or(0, |row| row + 1))
}
