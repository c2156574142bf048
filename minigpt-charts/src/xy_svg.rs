//! A chart of points over a logarithmic axis as an SVG file.

use crate::axis::Scale;
use crate::line_svg::COLOURS;
use crate::number::decimal;
use crate::points::{Point, ends};
use crate::svg::{Anchor, Page, Svg, escape};
use crate::width::{cut, width};
use crate::xy_chart::{Series, XyChart};
use std::fmt::Write;

const WIDTH: f64 = 800.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
/// Height of the first row of the legend, and of each.
const LEGEND: f64 = 78.0;
const ROW: f64 = 22.0;
/// Height between the axes, and below them.
const PLOT: f64 = 340.0;
const BOTTOM: f64 = 54.0;
/// A name with more columns than this is cut.
const NAME: usize = 32;
/// Beyond this a number is as good as infinite.
const FINITE: f64 = 1e30;

const STYLE: &str = "\
  path { fill: none; stroke-linejoin: round; stroke-linecap: round } circle { stroke: #ffffff; stroke-width: 1 }
  .line { stroke-width: 1.8 } .dashed { stroke-width: 1.8; stroke-dasharray: 2 5; opacity: .8 }
  .range { stroke-width: 6; opacity: .3 } .ring { fill: none; stroke-width: 2.2 } .level { stroke: #6b7280; stroke-width: 1.2 }
";
const DARK: &str = "    circle { stroke: #1b1f27 }\n";

pub(crate) fn draw(chart: &XyChart) -> String {
    let series: Vec<Series> = chart.series.iter().map(shown).collect();
    let legend = legend(&series);
    let rows = legend.last().map_or(0, |entry| entry.row + 1);
    let plot = Plot::new(&series, &chart.levels, LEGEND + ROW * rows as f64);
    let (mut light, mut dark) = (STYLE.to_owned(), DARK.to_owned());
    for (i, (on_light, on_dark)) in COLOURS.iter().enumerate().take(series.len()) {
        // Writing to a string can't fail.
        let _ = writeln!(light, "  .s{i} {{ stroke: {on_light} }} .f{i} {{ fill: {on_light} }}");
        let _ = writeln!(dark, "    .s{i} {{ stroke: {on_dark} }} .f{i} {{ fill: {on_dark} }}");
    }
    let mut svg = Svg::new(&Page {
        width: WIDTH,
        height: plot.bottom + BOTTOM,
        left: LEFT,
        title: &chart.title,
        subtitle: &chart.subtitle,
        style: (&light, &dark),
    });
    draw_legend(&mut svg, &legend);
    draw_axes(&mut svg, &plot, chart);
    for (i, one) in series.iter().enumerate() {
        draw_series(&mut svg, &plot, i % COLOURS.len(), one);
    }
    // On top of all lines, so that none goes through a word.
    for (i, one) in series.iter().enumerate() {
        draw_callout(&mut svg, &plot, i % COLOURS.len(), one);
    }
    svg.finish()
}

/// A series without what can't be shown.
fn shown(series: &Series) -> Series {
    let can = |&&(x, y): &&Point| x > 1.0 / FINITE && x < FINITE && y.abs() < FINITE;
    let points = |points: &[Point]| points.iter().filter(can).copied().collect();
    let callout = series.callout.clone().filter(|callout| can(&&callout.at));
    Series {
        name: cut(&series.name, NAME),
        dots: points(&series.dots),
        line: points(&series.line),
        dashed: points(&series.dashed),
        callout,
    }
}

/// A line of the legend: what is drawn before which words, and where.
struct Entry {
    row: usize,
    x: f64,
    mark: String,
    text: String,
}

fn legend(series: &[Series]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let (mut row, mut x) = (0, LEFT);
    for (i, one) in series.iter().enumerate().filter(|(_, one)| !one.name.is_empty()) {
        let colour = i % COLOURS.len();
        let line = if one.line.is_empty() {
            String::new()
        } else {
            format!("<path class=\"line s{colour}\" d=\"M0 -4h24\"/>")
        };
        let mark = format!("{line}<circle class=\"f{colour}\" cx=\"12\" cy=\"-4\" r=\"3.5\"/>");
        let wide = 48.0 + 7.2 * width(&one.name) as f64;
        if x > LEFT && x + wide > WIDTH - RIGHT + 20.0 {
            (row, x) = (row + 1, LEFT);
        }
        entries.push(Entry { row, x, mark, text: one.name.clone() });
        x += wide;
    }
    entries
}

fn draw_legend(svg: &mut Svg, legend: &[Entry]) {
    for Entry { row, x, mark, text } in legend {
        let y = LEGEND + ROW * *row as f64;
        svg.element(format_args!(
            "<g transform=\"translate({x:.1} {y:.1})\">{mark}<text x=\"31\">{}</text></g>",
            escape(text)
        ));
    }
}

/// Where points are on the page.
struct Plot {
    across: Scale,
    upward: Scale,
    top: f64,
    bottom: f64,
}

impl Plot {
    fn new(series: &[Series], levels: &[f64], top: f64) -> Self {
        let points = || {
            let all = |one: &Series| {
                let callout = one.callout.as_ref().map(|callout| callout.at);
                one.dots
                    .iter()
                    .chain(&one.line)
                    .chain(&one.dashed)
                    .copied()
                    .chain(callout)
                    .collect::<Vec<_>>()
            };
            series.iter().flat_map(all)
        };
        let (left, right) = ends(points().map(|point| point.0)).unwrap_or((1.0, 10.0));
        let levels = levels.iter().copied().filter(|level| level.abs() < FINITE);
        let (low, high) = ends(points().map(|point| point.1).chain(levels)).unwrap_or((0.0, 1.0));
        let upward = Scale::upward(low, high);
        Plot { across: Scale::logarithmic(left, right), upward, top, bottom: top + PLOT }
    }

    fn x(&self, log: f64) -> f64 {
        LEFT + self.across.part(log).clamp(-0.5, 1.5) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, height: f64) -> f64 {
        self.bottom - self.upward.part(height).clamp(-0.5, 1.5) * PLOT
    }

    fn at(&self, &(x, y): &Point) -> (f64, f64) {
        (self.x(x.ln()), self.y(y))
    }
}

fn draw_axes(svg: &mut Svg, plot: &Plot, chart: &XyChart) {
    let (right, top, bottom) = (WIDTH - RIGHT, plot.top, plot.bottom);
    for tick in &plot.upward.ticks {
        let y = plot.y(tick.at);
        svg.line("grid", (LEFT, y), (right, y));
        svg.text("small", Anchor::End, (LEFT - 9.0, y + 4.0), &tick.label);
    }
    for tick in &plot.across.ticks {
        let x = plot.x(tick.at);
        svg.line("grid", (x, top), (x, bottom));
        svg.text("small", Anchor::Middle, (x, bottom + 19.0), &tick.label);
    }
    for &level in chart.levels.iter().filter(|level| level.abs() < FINITE) {
        let y = plot.y(level);
        svg.line("level", (LEFT, y), (right, y));
    }
    svg.path("axis", [(LEFT, top), (LEFT, bottom), (right, bottom)]);
    svg.text("", Anchor::Middle, ((LEFT + right) / 2.0, bottom + 42.0), &chart.x);
    let middle = (top + bottom) / 2.0;
    svg.element(format_args!(
        "<text text-anchor=\"middle\" transform=\"translate(18 {middle:.1}) rotate(-90)\">{}</text>",
        escape(&chart.y)
    ));
}

fn draw_series(svg: &mut Svg, plot: &Plot, colour: usize, series: &Series) {
    svg.path(&format!("line s{colour}"), series.line.iter().map(|point| plot.at(point)));
    svg.path(&format!("dashed s{colour}"), series.dashed.iter().map(|point| plot.at(point)));
    let name = escape(&series.name);
    for point in &series.dots {
        let ((x, y), height) = (plot.at(point), decimal(point.1, 3));
        svg.element(format_args!(
            "<circle class=\"f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{name} {height}</title></circle>"
        ));
    }
}

/// A ring, the range behind it, and a word above it.
fn draw_callout(svg: &mut Svg, plot: &Plot, colour: usize, series: &Series) {
    let Some(callout) = &series.callout else { return };
    let (x, y) = plot.at(&callout.at);
    if let Some((from, to)) =
        callout.range.filter(|(from, to)| *from > 1.0 / FINITE && *to < FINITE && from <= to)
    {
        let inside = |x: f64| x.clamp(LEFT, WIDTH - RIGHT);
        let (from, to) = (inside(plot.x(from.ln())), inside(plot.x(to.ln())));
        svg.path(&format!("range s{colour}"), [(from, y), (to, y)]);
    }
    svg.element(format_args!(
        "<circle class=\"ring s{colour}\" style=\"fill:none\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"7\"/>"
    ));
    let anchor = if x > WIDTH - 120.0 { Anchor::End } else { Anchor::Middle };
    let below = if plot.bottom - y > 34.0 { 24.0 } else { -14.0 };
    svg.text("small", anchor, (x, y + below), &callout.text);
}
