//! A line chart as an SVG file. Thousands of points are thinned to what can be seen, so the file stays small.

use crate::axis::Scale;
use crate::line_chart::{Curve, LineChart, Lines};
use crate::number::decimal;
use crate::plot_svg::{BOTTOM, COLOURS, Legend, Plot, WIDTH, style};
use crate::points::{Point, envelope, lowest};
use crate::svg::{Anchor, Page, Svg, escape};
use crate::width::cut;

const LEFT: f64 = 60.0;
/// Height between the axes.
const PLOT: f64 = 320.0;

/// More curves than this are shown without the noise of each.
const NOISY_CURVES: usize = 4;
/// How many points all curves together may have in their smoothed lines, and how many marked ones.
const SMOOTH_POINTS: usize = 4000;
const MARKED_POINTS: usize = 700;
/// A name with more columns than this is cut.
const NAME: usize = 40;

const STYLE: &str = "\
  .best { font-weight: 600 }
  path { fill: none; stroke-linejoin: round; stroke-linecap: round } circle { stroke: #ffffff; stroke-width: 1 }
  .raw { stroke-width: 1; opacity: .35 } .faint { opacity: .15 } .line { stroke-width: 2 }
  .thin { stroke-width: 1.4; opacity: .75 }
";
const DARK: &str = "    circle { stroke: #1b1f27 }\n";

pub(crate) fn draw(chart: &LineChart) -> String {
    let points = (SMOOTH_POINTS / chart.curves.len().max(1)).clamp(2, 300);
    let lines = chart.lines(points);
    let legend = Legend::new(LEFT, legend_words(chart, &lines));
    let plot = plot(chart, &lines, legend.bottom());
    // A single curve has two colours.
    let (light, dark) = style(STYLE, DARK, chart.curves.len().max(2));
    let mut svg = Svg::new(&Page {
        width: WIDTH,
        height: plot.bottom + BOTTOM,
        left: LEFT,
        title: &chart.title,
        subtitle: &chart.subtitle,
        style: (&light, &dark),
    });
    legend.draw(&mut svg);
    plot.draw_grid(&mut svg);
    plot.draw_axes(&mut svg, plot.across.name);
    draw_curves(&mut svg, &plot, &lines, chart);
    svg.finish()
}

fn legend_words(chart: &LineChart, lines: &[Lines]) -> Vec<(String, String)> {
    let line = |class: &str, i: usize| format!("<path class=\"{class} s{i}\" d=\"M0 -4h24\"/>");
    let points =
        |i: usize| format!("{}<circle class=\"f{i}\" cx=\"12\" cy=\"-4\" r=\"3.5\"/>", line("line", i));
    if let [one] = lines {
        let noisy = chart.noisy;
        let mut words =
            vec![(line("raw", 0), noisy.to_owned()), (line("line", 0), format!("{noisy}, smoothed"))];
        if !one.marked.is_empty() {
            words.push((points(1), chart.marked.to_owned()));
        }
        return words;
    }
    let named = |(i, (curve, lines)): (usize, (&Curve, &Lines))| {
        let (name, i) = (cut(&curve.name, NAME), i % COLOURS.len());
        match lines.best() {
            Some((_, best)) => (points(i), format!("{name} {}", decimal(best, 3))),
            None => (line("thin", i), name),
        }
    };
    chart.curves.iter().zip(lines).enumerate().map(named).collect()
}

fn plot(chart: &LineChart, lines: &[Lines], top: f64) -> Plot {
    let end = lines.iter().map(Lines::end).fold(0.0, f64::max);
    let heights = lines.iter().filter_map(Lines::heights);
    let heights = heights.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let (low, high) = heights.unwrap_or((0.0, 1.0));
    let (across, upward) = (chart.across(end), Scale::upward(low, high));
    Plot { left: LEFT, top, bottom: top + PLOT, across, upward }
}

fn at(plot: &Plot, &(x, y): &Point) -> (f64, f64) {
    (plot.x(x), plot.y(y))
}

fn draw_curves(svg: &mut Svg, plot: &Plot, lines: &[Lines], chart: &LineChart) {
    svg.element(format_args!(
        "<clipPath id=\"plot\"><rect x=\"{}\" y=\"{}\" width=\"{WIDTH}\" height=\"{PLOT}\"/></clipPath>\n\
         <g clip-path=\"url(#plot)\">",
        LEFT - 5.0,
        plot.top
    ));
    let alone = lines.len() == 1;
    for (i, one) in lines.iter().enumerate().filter(|_| lines.len() <= NOISY_CURVES) {
        let class = if alone { "raw" } else { "raw faint" };
        let thinned = envelope(&one.noisy, 400);
        svg.path(&format!("{class} s{i}"), thinned.iter().map(|point| at(plot, point)));
    }
    for (i, one) in lines.iter().enumerate() {
        let class = format!("{} s{}", if alone { "line" } else { "thin" }, i % COLOURS.len());
        svg.path(&class, one.smoothed.iter().map(|point| at(plot, point)));
    }
    let at_most = (MARKED_POINTS / lines.len().max(1)).clamp(3, 140);
    for (i, (one, curve)) in lines.iter().zip(&chart.curves).enumerate() {
        let (colour, name) = if alone { (1, chart.marked) } else { (i % COLOURS.len(), curve.name.as_str()) };
        draw_marked(svg, plot, colour, name, &lowest(&one.marked, at_most));
    }
    svg.element("</g>");
    if let [one] = lines {
        draw_best(svg, plot, one);
    }
}

/// A line with points, which tell their numbers to whoever points at them.
fn draw_marked(svg: &mut Svg, plot: &Plot, colour: usize, name: &str, points: &[Point]) {
    svg.path(&format!("line s{colour}"), points.iter().map(|point| at(plot, point)));
    let radius = if points.len() > 60 { 2.5 } else { 3.5 };
    let name = escape(&cut(name, NAME));
    for point in points {
        let (x, y) = at(plot, point);
        let height = decimal(point.1, 3);
        svg.element(format_args!(
            "<circle class=\"f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\">\
             <title>{name} {height}</title></circle>"
        ));
    }
}

/// Writes the lowest marked height of a single curve at its point.
fn draw_best(svg: &mut Svg, plot: &Plot, lines: &Lines) {
    let Some(best) = lines.best() else { return };
    let (x, y) = at(plot, &best);
    let (x, anchor) = if x > WIDTH - 80.0 { (x + 10.0, Anchor::End) } else { (x, Anchor::Middle) };
    let above = if y - plot.top > 24.0 { -12.0 } else { 22.0 };
    svg.text("best f1", anchor, (x, y + above), &decimal(best.1, 3));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line_chart::tests::{STEPS, TIME, chart, falling, single};

    /// Whether all numbers of a picture are numbers.
    fn assert_sound(svg: &str) {
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
    }

    #[test]
    fn one_curve_shows_both_lines_and_the_best() {
        let svg = chart(STEPS, &[falling("shakespeare", 200, 1.0)]).svg();
        assert_sound(&svg);
        for part in
            [">Loss<", ">of a run<", "training, smoothed", ">validation<", ">step<", ">2,000<", ">1.688<"]
        {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 20 + 1, "each validation, and the legend's");
    }

    #[test]
    fn several_curves_have_a_colour_each_and_their_best_in_the_legend() {
        let svg = chart(TIME, &[falling("a", 50, 1.0), falling("b", 200, 1.5), falling("c", 100, 0.5)]).svg();
        assert_sound(&svg);
        for part in ["class=\"line s2\"", ">minutes<", "<text x=\"31\">b 2."] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
    }

    #[test]
    fn a_long_curve_and_many_curves_make_a_small_file() {
        let long = chart(STEPS, &[falling("long", 100_000, 1.0)]).svg();
        assert!(long.len() < 100_000, "{}", long.len());
        let many: Vec<_> = (0..40).map(|i| falling(&format!("run {i}"), 3000, f64::from(i) / 10.0)).collect();
        let many = chart(STEPS, &many).svg();
        assert_sound(&many);
        assert!(many.len() < 200_000, "{}", many.len());
    }

    #[test]
    fn curves_with_next_to_nothing_in_them_are_drawn_too() {
        let cases = [
            Curve::default(),
            single(4.0, None),
            single(4.0, Some(3.0)),
            single(f64::NAN, Some(f64::NAN)),
            single(f64::NAN, Some(3.0)),
            single(f64::MAX, Some(f64::MIN)),
            Curve { noisy: vec![(0.0, 0.0); 3], ..Curve::default() },
        ];
        for curve in &cases {
            for x in [STEPS, TIME] {
                assert_sound(&chart(x, std::slice::from_ref(curve)).svg());
            }
        }
        assert_sound(&chart(STEPS, &cases).svg());
        assert_sound(&chart(STEPS, &[]).svg());
    }

    #[test]
    fn names_from_outside_can_not_break_the_picture() {
        let svg = chart(STEPS, &[falling("<a & b>\0", 20, 1.0), falling(&"长".repeat(30), 20, 1.0)]).svg();
        assert!(svg.contains("&lt;a &amp; b&gt;\u{fffd}") && !svg.contains("<a"));
        assert!(svg.contains(&format!(">{}… 2.704", "长".repeat(19))), "{svg}");
    }
}
