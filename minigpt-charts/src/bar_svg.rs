//! Bars as an SVG file.

use crate::bar_chart::{BarChart, Mark};
use crate::number::count;
use crate::svg::{Anchor, Page, Svg, escape};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 72.0;
const BOTTOM: f64 = 52.0;

const STYLE: &str = "\
  .bar { fill: #4c78a8 } .tail { fill: #a8bdd4 } .mark { stroke: #c2410c; stroke-dasharray: 5 4 }
  .marked { fill: #c2410c; font-weight: 600 }
";
const DARK: &str = "\
    .bar { fill: #6ea0d6 } .tail { fill: #46648a } .mark { stroke: #fb923c } .marked { fill: #fb923c }
";

pub(crate) fn draw(chart: &BarChart) -> String {
    let plot = Plot::of(chart);
    let mut svg = Svg::new(&Page {
        width: WIDTH,
        height: HEIGHT,
        left: LEFT,
        title: &chart.title,
        subtitle: &chart.subtitle,
        style: (STYLE, DARK),
    });
    draw_axes(&mut svg, &plot);
    draw_bars(&mut svg, &plot);
    if let Some(mark) = &chart.mark {
        draw_mark(&mut svg, mark, &plot);
    }
    svg.finish()
}

/// Where sizes and counts are on the page.
struct Plot<'a> {
    chart: &'a BarChart,
    /// How wide a bar is.
    bar: f64,
    /// Counts between two grid lines, and at the highest one.
    grid: u64,
    top: u64,
}

impl<'a> Plot<'a> {
    fn of(chart: &'a BarChart) -> Self {
        let highest = chart.highest();
        let grid = round_step(highest);
        let bar = (WIDTH - LEFT - RIGHT) / chart.counts.len().max(1) as f64;
        Plot { chart, bar, grid, top: highest.div_ceil(grid).saturating_mul(grid) }
    }

    /// How many bars have an end.
    fn closed(&self) -> usize {
        self.chart.counts.len().saturating_sub(usize::from(self.chart.open_ended))
    }

    /// Where so many bars end.
    fn x(&self, bars: f64) -> f64 {
        LEFT + bars * self.bar
    }

    fn y(&self, count: u64) -> f64 {
        HEIGHT - BOTTOM - count as f64 / self.top as f64 * (HEIGHT - TOP - BOTTOM)
    }
}

/// The smallest of 1, 2, 5, 10, 20, 50, … of which at most five reach `highest`.
fn round_step(highest: u64) -> u64 {
    let powers = (0..20).map(|power| 10_u64.saturating_pow(power));
    let mut steps = powers.flat_map(|power| [1, 2, 5].map(|factor| power.saturating_mul(factor)));
    steps.find(|&step| highest.div_ceil(step) <= 5).unwrap_or(u64::MAX)
}

fn draw_axes(svg: &mut Svg, plot: &Plot<'_>) {
    for line in 0..=plot.top / plot.grid {
        let number = line * plot.grid;
        let y = plot.y(number);
        svg.line(if number == 0 { "axis" } else { "grid" }, (LEFT, y), (WIDTH - RIGHT, y));
        svg.text("small", Anchor::End, (LEFT - 8.0, y + 4.0), &count(number));
    }
    let every = if plot.chart.counts.len() > 11 { 2 } else { 1 };
    for i in (0..=plot.closed()).step_by(every) {
        let more = if plot.chart.open_ended && i == plot.closed() { "+" } else { "" };
        let label = format!("{}{more}", count((i as u64).saturating_mul(plot.chart.step)));
        svg.text("small", Anchor::Middle, (plot.x(i as f64), HEIGHT - BOTTOM + 18.0), &label);
    }
    svg.text("", Anchor::Middle, ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0), &plot.chart.x);
}

/// The bars, which tell their numbers to whoever points at them.
fn draw_bars(svg: &mut Svg, plot: &Plot<'_>) {
    for (i, &number) in plot.chart.counts.iter().enumerate() {
        let (x, y) = (plot.x(i as f64), plot.y(number));
        svg.element(format_args!(
            "<rect class=\"{}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\">\
             <title>{}: {}</title></rect>",
            if plot.chart.is_open(i) { "tail" } else { "bar" },
            x + 1.0,
            (plot.bar - 2.0).max(1.0),
            plot.y(0) - y,
            escape(&plot.chart.label(i)),
            count(number)
        ));
    }
}

fn draw_mark(svg: &mut Svg, mark: &Mark, plot: &Plot<'_>) {
    let bars = (mark.after as f64 + 1.0) / plot.chart.step.max(1) as f64;
    if bars > plot.closed() as f64 {
        return;
    }
    let x = plot.x(bars);
    svg.line("mark", (x, TOP - 4.0), (x, plot.y(0)));
    let (anchor, x) = if x > WIDTH / 2.0 { (Anchor::End, x - 8.0) } else { (Anchor::Start, x + 8.0) };
    svg.text("marked", anchor, (x, TOP + 10.0), &mark.text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(counts: &[u64]) -> BarChart {
        BarChart { step: 5, counts: counts.to_vec(), ..BarChart::default() }
    }

    #[test]
    fn names_from_outside_can_not_break_the_picture() {
        let text = "<a & b>\0".to_owned();
        let mark = Some(Mark { after: 4, text: text.clone() });
        let svg = BarChart { title: text.clone(), x: text, mark, ..chart(&[3, 4]) }.svg();
        assert_eq!(svg.matches("&lt;a &amp; b&gt;\u{fffd}").count(), 4, "{svg}");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn a_mark_is_drawn_where_there_is_a_bar_with_an_end() {
        let marked = |after, open_ended| {
            let mark = Some(Mark { after, text: "here".to_owned() });
            BarChart { mark, open_ended, ..chart(&[7, 2]) }.svg().contains(">here<")
        };
        assert_eq!(
            [marked(9, false), marked(10, false), marked(4, true), marked(9, true)],
            [true, false, true, false]
        );
    }

    #[test]
    fn nothing_is_drawn_as_nothing() {
        for counts in [&[][..], &[0], &[u64::MAX]] {
            let svg = chart(counts).svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn the_scale_ends_just_above_the_highest_bar() {
        let svg = chart(&[8144]).svg();
        assert!(svg.contains(">10,000<") && !svg.contains(">12,000<"), "{svg}");
    }
}
