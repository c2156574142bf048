//! A chart of points over a logarithmic axis as an SVG file.

use crate::axis::Scale;
use crate::number::decimal;
use crate::plot_svg::{BOTTOM, COLOURS, Legend, Plot, RIGHT, WIDTH, style};
use crate::points::{Point, ends};
use crate::svg::{Anchor, Page, Svg, escape};
use crate::width::cut;
use crate::xy_chart::{Series, XyChart};

const LEFT: f64 = 64.0;
/// Height between the axes.
const PLOT: f64 = 340.0;
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
    let legend = Legend::new(LEFT, series.iter().enumerate().filter_map(legend_words));
    let plot = plot(&series, &chart.levels, legend.bottom());
    let (light, dark) = style(STYLE, DARK, series.len());
    let mut svg = Svg::new(&Page {
        width: WIDTH,
        height: plot.bottom + BOTTOM,
        left: LEFT,
        title: &chart.title,
        subtitle: &chart.subtitle,
        style: (&light, &dark),
    });
    legend.draw(&mut svg);
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

/// The mark of a series in the legend, and its name if it has one.
fn legend_words((i, series): (usize, &Series)) -> Option<(String, String)> {
    let colour = i % COLOURS.len();
    let line = if series.line.is_empty() {
        String::new()
    } else {
        format!("<path class=\"line s{colour}\" d=\"M0 -4h24\"/>")
    };
    let mark = format!("{line}<circle class=\"f{colour}\" cx=\"12\" cy=\"-4\" r=\"3.5\"/>");
    (!series.name.is_empty()).then(|| (mark, series.name.clone()))
}

fn plot(series: &[Series], levels: &[f64], top: f64) -> Plot {
    let points = || {
        series.iter().flat_map(|one| {
            let callout = one.callout.as_ref().map(|callout| callout.at);
            one.dots.iter().chain(&one.line).chain(&one.dashed).copied().chain(callout)
        })
    };
    let (left, right) = ends(points().map(|point| point.0)).unwrap_or((1.0, 10.0));
    let levels = levels.iter().copied().filter(|level| level.abs() < FINITE);
    let (low, high) = ends(points().map(|point| point.1).chain(levels)).unwrap_or((0.0, 1.0));
    let (across, upward) = (Scale::logarithmic(left, right), Scale::upward(low, high));
    Plot { left: LEFT, top, bottom: top + PLOT, across, upward }
}

fn at(plot: &Plot, &(x, y): &Point) -> (f64, f64) {
    (plot.x(x.ln()), plot.y(y))
}

fn draw_axes(svg: &mut Svg, plot: &Plot, chart: &XyChart) {
    plot.draw_grid(svg);
    for &level in chart.levels.iter().filter(|level| level.abs() < FINITE) {
        let y = plot.y(level);
        svg.line("level", (LEFT, y), (WIDTH - RIGHT, y));
    }
    plot.draw_axes(svg, &chart.x);
    let middle = (plot.top + plot.bottom) / 2.0;
    svg.element(format_args!(
        "<text text-anchor=\"middle\" transform=\"translate(18 {middle:.1}) rotate(-90)\">{}</text>",
        escape(&chart.y)
    ));
}

fn draw_series(svg: &mut Svg, plot: &Plot, colour: usize, series: &Series) {
    svg.path(&format!("line s{colour}"), series.line.iter().map(|point| at(plot, point)));
    svg.path(&format!("dashed s{colour}"), series.dashed.iter().map(|point| at(plot, point)));
    let name = escape(&series.name);
    for point in &series.dots {
        let ((x, y), height) = (at(plot, point), decimal(point.1, 3));
        svg.element(format_args!(
            "<circle class=\"f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{name} {height}</title></circle>"
        ));
    }
}

/// A ring, the range behind it, and a word above it.
fn draw_callout(svg: &mut Svg, plot: &Plot, colour: usize, series: &Series) {
    let Some(callout) = &series.callout else { return };
    let (x, y) = at(plot, &callout.at);
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
