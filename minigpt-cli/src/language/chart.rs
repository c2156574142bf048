//! A chart on a terminal in the chosen language. In an SVG file it stays English.

use super::{Language, current, tr};
use minigpt_charts::LineChart;

/// Draws a chart in so many columns.
pub fn picture(mut chart: LineChart, columns: usize, colours: bool) -> String {
    (chart.y, chart.noisy, chart.marked) = (tr(chart.y), tr(chart.noisy), tr(chart.marked));
    let units = chart.x.units;
    let picture = chart.terminal(columns, colours);
    // The name of the axis is all that stands in the last line.
    let foot = picture.trim_end().lines().next_back().unwrap_or_default();
    let unit = units.iter().find(|(_, name)| foot.trim() == *name);
    match (current(), unit) {
        (Language::Zh, Some((_, name))) => {
            let begin = picture.trim_end().len() - name.len();
            format!("{}{}\n", &picture[..begin], tr(name))
        }
        _ => picture,
    }
}
