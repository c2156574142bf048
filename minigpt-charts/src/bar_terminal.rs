//! Bars for a terminal.

use crate::bar_chart::BarChart;
use crate::number::count;
use crate::width::width;

/// Columns of the longest bar: no more than this, and no less however narrow the terminal.
const WIDEST: usize = 50;
const NARROWEST: usize = 8;
/// A column filled from one to seven eighths.
const EIGHTHS: [&str; 7] = ["▏", "▎", "▍", "▌", "▋", "▊", "▉"];

pub(crate) fn draw(chart: &BarChart, columns: usize) -> String {
    let labels: Vec<String> = (0..chart.counts.len()).map(|i| chart.label(i)).collect();
    let widest = labels.iter().map(|label| width(label)).max().unwrap_or(0);
    let numbers = count(chart.highest()).len();
    let bar = columns.saturating_sub(widest + numbers + 5).clamp(NARROWEST, WIDEST);
    let line = |(&number, label): (&u64, String)| {
        let space = if number > 0 { " " } else { "" };
        format!("  {label:>widest$} │{}{space}{}\n", blocks(number, chart.highest(), bar), count(number))
    };
    chart.counts.iter().zip(labels).map(line).collect()
}

/// A bar in proportion; whatever is not zero shows.
fn blocks(number: u64, highest: u64, columns: usize) -> String {
    let eighths = (u128::from(number) * columns as u128 * 8 / u128::from(highest)) as usize;
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
        assert_eq!(blocks(0, 100, 50), "");
        assert_eq!(blocks(1, 100_000, 50), "▏");
        assert_eq!(blocks(100, 100, 50).chars().count(), 50);
        assert_eq!(blocks(1, 100, 50), "▌");
    }

    #[test]
    fn labels_line_up() {
        let counts = vec![2, 0, 1, 7];
        let chart = BarChart { step: 500, counts, open_ended: true, ..BarChart::default() };
        let drawn = chart.terminal(80);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[..2], ["        0–499 │██████████████▎ 2", "      500–999 │0"], "{drawn}");
        assert!(lines[3].starts_with("       1,500… │█"), "{drawn}");
        let columns: Vec<usize> =
            drawn.lines().map(|line| line.chars().position(|c| c == '│').unwrap()).collect();
        assert!(columns.iter().all(|&column| column == columns[0]), "{drawn}");
    }
}
