//! Attention on a terminal: which token looked at which, with names and numbers.

use crate::language::messages::inspect as message;
use crate::screen;
use minigpt_charts::{Table, cut};
use minigpt_insight::{AttentionSummary, HeadSummary};

/// Attention weights of a layer by head, query and key.
pub type Heads = Vec<Vec<Vec<f32>>>;

/// Tokens whose weights all fit a page as numbers.
const NUMBERS: usize = 14;
/// Tokens that a picture in shades can show.
const SHADES: usize = 48;
/// Columns of a key's name.
const NAME: usize = 6;
/// Keys that are named beside a picture.
const MOST: usize = 3;

/// One head, or the mean of all: a row a query, a column a key. Numbers are percent; where there are too many tokens for
/// that, shades, and the keys that a query looked at most.
pub fn draw(heads: &Heads, layer: usize, head: Option<usize>, labels: &[String]) -> String {
    let which = head.map_or_else(
        || message::MeanAllHeads.text().to_owned(),
        |head| message::HeadNumber { head: &head }.to_string(),
    );
    let title = message::AttentionMap { layer: &layer, which: &which }.to_string();
    let weight = |i: usize, j: usize| match head {
        Some(head) => heads[head][i][j],
        None => heads.iter().map(|head| head[i][j]).sum::<f32>() / heads.len() as f32,
    };
    match labels.len() {
        ..=NUMBERS => message::InPercent { title: &title, map: &numbers(labels, weight) }.to_string(),
        _ => format!("{title}\n{}", shades(labels, weight)),
    }
}

/// What each head looks at in three numbers, and what of the text reaches the last token through all layers.
pub fn summary(summary: &AttentionSummary, labels: &[String]) -> String {
    let mut table = Table::new(&[0, 1, 2, 3, 4]);
    table.row([
        message::Layer.text(),
        message::Head.text(),
        message::EntropyBits.text(),
        message::MeanDistance.text(),
        message::FirstToken.text(),
    ]);
    for &HeadSummary { layer, head, entropy, distance, first } in &summary.heads {
        table.row([
            &layer.to_string(),
            &head.to_string(),
            &format!("{entropy:.2}"),
            &format!("{distance:.2}"),
            &format!("{:.1} %", 100.0 * first),
        ]);
    }
    let reached = summary.rollout.last().map_or(&[][..], Vec::as_slice);
    let mut keys: Vec<usize> = (0..reached.len()).collect();
    keys.sort_by(|&a, &b| reached[b].total_cmp(&reached[a]));
    let most = keys
        .iter()
        .take(2 * MOST)
        .map(|&j| format!("{} ({j}) {:.0} %", cut(&labels[j], NAME), 100.0 * reached[j]));
    message::AttentionSummary {
        table: &table.draw_within(screen::table_columns()),
        rollout: &(most.collect::<Vec<_>>().join("  ")),
    }
    .to_string()
}

fn numbers(labels: &[String], weight: impl Fn(usize, usize) -> f32) -> String {
    let right: Vec<usize> = (0..=labels.len()).collect();
    let mut table = Table::new(&right);
    let names = labels.iter().map(|label| cut(label, NAME));
    table.cells(std::iter::once(String::new()).chain(names));
    for (i, label) in labels.iter().enumerate() {
        let weights = (0..=i).map(|j| weight(i, j));
        let cells = weights.map(|weight| format!("{} {:.0}", shade(weight), 100.0 * weight));
        table.cells(std::iter::once(label.clone()).chain(cells));
    }
    table.draw_within(screen::table_columns())
}

fn shades(labels: &[String], weight: impl Fn(usize, usize) -> f32) -> String {
    let from = labels.len().saturating_sub(SHADES);
    let note = match from {
        0 => String::new(),
        _ => message::LastTokens { shown: &SHADES, all: &labels.len() }.to_string(),
    };
    let mut table = Table::new(&[0]);
    for (i, label) in labels.iter().enumerate().skip(from) {
        // Two columns, so that a picture is about as wide as it is high.
        let picture: String = (from..=i).map(|j| shade(weight(i, j)).repeat(2)).collect();
        let mut keys: Vec<usize> = (0..=i).collect();
        keys.sort_by(|&a, &b| weight(i, b).total_cmp(&weight(i, a)));
        let most = keys
            .iter()
            .take(MOST)
            .map(|&j| format!("{} ({j}) {:.0} %", cut(&labels[j], NAME), 100.0 * weight(i, j)));
        table.row([label, &i.to_string(), &picture, &most.collect::<Vec<_>>().join("  ")]);
    }
    format!("{note}{}", table.draw_within(screen::table_columns()))
}

fn shade(weight: f32) -> &'static str {
    match weight {
        w if w < 0.02 => "·",
        w if w < 0.15 => "░",
        w if w < 0.4 => "▒",
        w if w < 0.7 => "▓",
        _ => "█",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_charts::width;

    fn labels(n: usize) -> Vec<String> {
        (0..n).map(|i| ["你", "ab", "·the", "understanding"][i % 4].to_owned()).collect()
    }

    /// Two heads, of which the first looks at itself alone and the second at the first token alone.
    fn heads(n: usize) -> Heads {
        let row = |i: usize, at: usize| (0..n).map(|j| f32::from(u8::from(j == at && j <= i))).collect();
        vec![(0..n).map(|i| row(i, i)).collect(), (0..n).map(|i| row(i, 0)).collect()]
    }

    #[test]
    fn few_tokens_have_names_and_numbers_that_line_up() {
        let shown = draw(&heads(4), 1, None, &labels(4));
        let want = "\n\
            Attention of layer 1, mean of all heads: each row attends to its columns, in percent\n                    你    ab  ·the  under…\n             你  █ 100\n             ab   ▓ 50  ▓ 50\n           ·the   ▓ 50   · 0  ▓ 50\n  understanding   ▓ 50   · 0   · 0    ▓ 50\n";
        assert_eq!(shown, want);
        assert!(draw(&heads(4), 0, Some(1), &labels(4)).contains("head 1"));
    }

    #[test]
    fn many_tokens_are_shaded_beside_what_they_looked_at_most() {
        let shown = draw(&heads(60), 0, Some(0), &labels(60));
        assert!(shown.contains("(the last 48 of 60 tokens)"), "{shown}");
        let rows: Vec<&str> = shown.lines().skip(3).collect();
        assert_eq!(rows.len(), 48);
        assert!(rows[47].contains("··██  under… (59) 100 %  你 (0) 0 %"), "{}", rows[47]);
        let picture = |row: &str| width(&row[..row.find(['·', '█']).unwrap()]);
        assert!(rows.iter().filter(|row| !row.contains("·the")).all(|row| picture(row) == picture(rows[1])));
    }
}
