//! The logit lens on a terminal: layers down, tokens across, in each cell what the model would say there.

use super::tokens::label;
use crate::language::{t, tr};
use crate::screen;
use minigpt_charts::{Table, cut};
use minigpt_insight::Lens;

/// Columns of a cell's token.
const NAME: usize = 8;
/// Positions side by side; of a longer text the last ones are shown.
const ACROSS: usize = 8;

pub fn draw(lens: &Lens, labels: &[String]) -> String {
    let from = labels.len().saturating_sub(ACROSS);
    let note = match from {
        0 => String::new(),
        _ => t!("  (the last {ACROSS} of {} positions; all with --json)\n", labels.len()),
    };
    let mut table = Table::new(&[0]);
    let heads = labels.iter().skip(from).map(|label| cut(label, NAME));
    table.cells(std::iter::once(tr("after layer").to_owned()).chain(heads));
    for (layer, positions) in lens.lens.iter().enumerate() {
        let name = match layer {
            0 => tr("embedding").to_owned(),
            layer => (layer - 1).to_string(),
        };
        let cells = positions.iter().skip(from).map(|candidates| match candidates.first() {
            Some(first) => {
                let name = cut(&label(first.token.as_deref(), first.id), NAME);
                format!("{name} {:.0}%", 100.0 * first.probability)
            }
            None => String::new(),
        });
        table.cells(std::iter::once(name).chain(cells));
    }
    let won = answer_wins(lens).map_or_else(String::new, |layer| match layer {
        0 => tr("  behind the last token the answer is the likeliest from the embedding on\n").to_owned(),
        layer => t!("  behind the last token the answer is the likeliest from layer {} on\n", layer - 1),
    });
    t!(
        "\nLogit lens: what the model would say after each layer, and how sure it would be\n{note}{}{won}",
        table.draw_within(screen::table_columns())
    )
}

/// The first row from which on the last position's final answer stays the likeliest.
fn answer_wins(lens: &Lens) -> Option<usize> {
    let best = |row: &Vec<Vec<_>>| row.last()?.first().map(|first: &minigpt_insight::LikelyToken| first.id);
    let answer = best(lens.lens.last()?)?;
    let other = lens.lens.iter().rposition(|row| best(row) != Some(answer));
    Some(other.map_or(0, |row| row + 1))
}
