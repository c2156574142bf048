//! A histogram for a terminal.

use minigpt_charts::count;
use minigpt_data::{Bar, Histogram};

/// Columns of the longest bar.
const WIDTH: u64 = 50;
/// A column filled from one to seven eighths.
const EIGHTHS: [&str; 7] = ["▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// One line a bar: the lengths, the bar, the count.
pub(super) fn draw(histogram: &Histogram) -> String {
    let labels: Vec<String> = histogram.bars.iter().map(label).collect();
    let width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let highest = histogram.highest().max(1);
    let line = |(bar, label): (&Bar, String)| {
        let space = if bar.count > 0 { " " } else { "" };
        format!("  {label:>width$} │{}{space}{}\n", blocks(bar.count, highest), count(bar.count))
    };
    histogram.bars.iter().zip(labels).map(line).collect()
}

fn label(bar: &Bar) -> String {
    match bar.to {
        Some(to) if to == bar.from => count(to),
        Some(to) => format!("{}–{}", count(bar.from), count(to)),
        None => format!("{}…", count(bar.from)),
    }
}

/// A bar in proportion; whatever is not zero shows.
fn blocks(number: u64, highest: u64) -> String {
    let eighths = (u128::from(number) * u128::from(WIDTH) * 8 / u128::from(highest)) as usize;
    let eighths = if number > 0 { eighths.max(1) } else { 0 };
    let mut bar = "█".repeat(eighths / 8);
    if eighths % 8 > 0 {
        bar.push_str(EIGHTHS[eighths % 8 - 1]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_and_nothing_that_is_there_is_invisible() {
        assert_eq!(blocks(0, 100), "");
        assert_eq!(blocks(1, 100_000), "▏");
        assert_eq!(blocks(100, 100).chars().count(), 50);
        assert_eq!(blocks(1, 100), "▌");
    }

    #[test]
    fn labels_line_up() {
        let histogram = Histogram::of(&[1, 1, 7, 99, 99, 500].into_iter().collect());
        let drawn = draw(&histogram);
        let columns: Vec<usize> =
            drawn.lines().map(|line| line.chars().position(|c| c == '│').unwrap()).collect();
        assert!(columns.iter().all(|&column| column == columns[0]), "{drawn}");
    }
}
