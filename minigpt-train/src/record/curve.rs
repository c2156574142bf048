//! The loss of one or several runs as a picture: one SVG file that needs nothing else, for light and dark pages.
//!
//! One run shows every training loss faintly, the smoothed ones as a line, and the validation losses with points.
//! Several runs have a colour each. Thousands of records are thinned to what can be seen, so the file stays small.

use super::axis::{Scale, grouped};
use super::series::{Point, Series, envelope, lowest};
use super::{Axis, Record, Result, Summary};
use std::fmt::Write;
use std::path::Path;

const WIDTH: f64 = 800.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 24.0;
/// Height of the first row of the legend, and of each.
const LEGEND: f64 = 78.0;
const ROW: f64 = 22.0;
/// Height between the axes, and below them.
const PLOT: f64 = 320.0;
const BOTTOM: f64 = 54.0;

/// More runs than this are shown without the noise of each.
const NOISY_RUNS: usize = 4;
/// How many points all runs together may have in their smoothed lines, and in their validations.
const SMOOTH_POINTS: usize = 4000;
const VALIDATION_POINTS: usize = 700;
/// A name longer than this is cut.
const NAME: usize = 40;

/// Run colours on a light and on a dark page.
const COLOURS: [(&str, &str); 8] = [
    ("#2f6db3", "#6ea8e6"),
    ("#d4650b", "#f7a355"),
    ("#2a8a57", "#5fc793"),
    ("#8757c4", "#b999ec"),
    ("#c43a44", "#f2848b"),
    ("#0d8296", "#4fc4d7"),
    ("#876340", "#c8a47c"),
    ("#bd4f94", "#e890c6"),
];

const STYLE: &str = "\
  text { font: 13px system-ui, -apple-system, 'Noto Sans CJK SC', sans-serif; fill: #3b4252 }
  .title { font-size: 17px; font-weight: 600 } .small { font-size: 12px; fill: #6b7280 }
  .page { fill: #ffffff } .grid { stroke: #e5e7eb } .axis { stroke: #9ca3af } .best { font-weight: 600 }
  path { fill: none; stroke-linejoin: round; stroke-linecap: round } circle { stroke: #ffffff; stroke-width: 1 }
  .raw { stroke-width: 1; opacity: .35 } .faint { opacity: .15 } .line { stroke-width: 2 }
  .thin { stroke-width: 1.4; opacity: .75 }
";
const DARK: &str = "\
    text { fill: #d8dee9 } .small { fill: #9ca3af } .page { fill: #1b1f27 } .grid { stroke: #2e3440 }
    .axis { stroke: #6b7280 } circle { stroke: #1b1f27 }
";

/// Draws runs by their names; `axis` says what is to the right.
pub fn svg(runs: &[(String, Vec<Record>)], axis: Axis) -> String {
    let points = (SMOOTH_POINTS / runs.len().max(1)).clamp(2, 300);
    let series: Vec<Series> = runs.iter().map(|(_, records)| Series::of(records, axis, points)).collect();
    let legend = legend(runs, &series);
    let rows = legend.last().map_or(0, |entry| entry.row + 1);
    let page = Page::new(&series, axis, LEGEND + ROW * rows as f64);
    let height = page.bottom + BOTTOM;
    let title = escape(&title(runs));
    // Writing to a string can't fail.
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>\n{}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"32\">{title}</text>\n\
         <text class=\"small\" x=\"{LEFT}\" y=\"53\">{}</text>\n",
        style(runs.len()),
        escape(&subtitle(runs))
    );
    draw_legend(&mut svg, &legend);
    draw_axes(&mut svg, &page);
    draw_runs(&mut svg, &page, &series, runs);
    svg.push_str("</svg>\n");
    svg
}

/// Draws runs into a file, which is replaced in one step.
///
/// # Errors
/// A place that can't be written.
pub fn write(path: &Path, runs: &[(String, Vec<Record>)], axis: Axis) -> Result<()> {
    Ok(minigpt_files::write_file(path, svg(runs, axis).as_bytes())?)
}

fn style(runs: usize) -> String {
    let (mut light, mut dark) = (STYLE.to_owned(), DARK.to_owned());
    for (i, (on_light, on_dark)) in COLOURS.iter().enumerate().take(runs.max(2)) {
        let _ = writeln!(light, "  .s{i} {{ stroke: {on_light} }} .f{i} {{ fill: {on_light} }}");
        let _ = writeln!(dark, "    .s{i} {{ stroke: {on_dark} }} .f{i} {{ fill: {on_dark} }}");
    }
    format!("{light}  @media (prefers-color-scheme: dark) {{\n{dark}  }}\n")
}

fn title(runs: &[(String, Vec<Record>)]) -> String {
    match runs {
        [(name, _)] => format!("Loss of {}", short(name)),
        runs => format!("Loss of {} runs", runs.len()),
    }
}

/// One run in numbers; of several, how to read the lines.
fn subtitle(runs: &[(String, Vec<Record>)]) -> String {
    let [(_, records)] = runs else {
        return "with points: validation, its best beside the name · without: training, smoothed".to_owned();
    };
    let summary = Summary::of(records);
    let Some(loss) = summary.last_loss else { return "no step recorded yet".to_owned() };
    let (steps, tokens) = (grouped(summary.steps as i64), grouped(summary.tokens as i64));
    let mut text = format!("{steps} steps · {tokens} tokens · {} · training {}", summary.time(), told(loss));
    if let (Some(best), Some(step)) = (summary.best_val_loss, summary.best_val_step) {
        let _ = write!(text, " · best validation {} at step {}", told(best), grouped(step as i64));
    }
    text
}

/// A line of the legend: what is drawn before which words, and where.
struct Entry {
    row: usize,
    x: f64,
    mark: String,
    text: String,
}

/// The legend stands above the axes, where no curve can hide it.
fn legend(runs: &[(String, Vec<Record>)], series: &[Series]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let (mut row, mut x) = (0, LEFT);
    for (mark, text) in legend_words(runs, series) {
        let width = 48.0 + 7.2 * columns(&text) as f64;
        if x > LEFT && x + width > WIDTH - RIGHT + 20.0 {
            (row, x) = (row + 1, LEFT);
        }
        entries.push(Entry { row, x, mark, text });
        x += width;
    }
    entries
}

fn legend_words(runs: &[(String, Vec<Record>)], series: &[Series]) -> Vec<(String, String)> {
    let line = |class: &str, i: usize| format!("<path class=\"{class} s{i}\" d=\"M0 -4h24\"/>");
    let points =
        |i: usize| format!("{}<circle class=\"f{i}\" cx=\"12\" cy=\"-4\" r=\"3.5\"/>", line("line", i));
    if let ([_], [series]) = (runs, series) {
        let mut words = vec![(line("raw", 0), "training"), (line("line", 0), "training, smoothed")];
        if !series.validation.is_empty() {
            words.push((points(1), "validation"));
        }
        return words.into_iter().map(|(mark, text)| (mark, text.to_owned())).collect();
    }
    let named = |(i, (name, records)): (usize, &(String, Vec<Record>))| {
        let (name, i) = (short(name), i % COLOURS.len());
        match Summary::of(records).best_val_loss {
            Some(best) => (points(i), format!("{name} {}", told(best))),
            None => (line("thin", i), name),
        }
    };
    runs.iter().enumerate().map(named).collect()
}

fn draw_legend(svg: &mut String, legend: &[Entry]) {
    for Entry { row, x, mark, text } in legend {
        let y = LEGEND + ROW * *row as f64;
        let _ = writeln!(
            svg,
            "<g transform=\"translate({x:.1} {y:.1})\">{mark}<text x=\"31\">{}</text></g>",
            escape(text)
        );
    }
}

/// Where steps and losses are on the page.
struct Page {
    across: Scale,
    upward: Scale,
    top: f64,
    bottom: f64,
}

impl Page {
    fn new(series: &[Series], axis: Axis, top: f64) -> Self {
        let end = series.iter().map(Series::end).fold(0.0, f64::max);
        let heights = series.iter().filter_map(Series::heights);
        let heights = heights.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (low, high) = heights.unwrap_or((0.0, 1.0));
        Page { across: Scale::across(axis, end), upward: Scale::upward(low, high), top, bottom: top + PLOT }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.across.part(value) * (WIDTH - LEFT - RIGHT)
    }

    /// What is far outside is drawn a little outside, where it is cut off.
    fn y(&self, loss: f64) -> f64 {
        self.bottom - self.upward.part(loss).clamp(-0.5, 1.5) * PLOT
    }

    /// A line through points; a single point is a dot.
    fn path(&self, points: &[Point]) -> String {
        let mut path = String::from("M");
        for (x, y) in points {
            let _ = write!(path, "{:.1} {:.1} ", self.x(*x), self.y(*y));
        }
        path.truncate(path.trim_end().len());
        if points.len() == 1 { path + "h0" } else { path }
    }
}

fn draw_axes(svg: &mut String, page: &Page) {
    let right = WIDTH - RIGHT;
    for tick in &page.upward.ticks {
        let y = page.y(tick.at);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>\
             <text class=\"small\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 9.0,
            y + 4.0,
            tick.label
        );
    }
    for tick in &page.across.ticks {
        let x = page.x(tick.at);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{x:.1} {}V{}\"/>\
             <text class=\"small\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{}\">{}</text>",
            page.top,
            page.bottom,
            page.bottom + 19.0,
            tick.label
        );
    }
    let _ = writeln!(
        svg,
        "<path class=\"axis\" d=\"M{LEFT} {}V{}H{right}\"/>\
         <text text-anchor=\"middle\" x=\"{:.1}\" y=\"{}\">{}</text>",
        page.top,
        page.bottom,
        (LEFT + right) / 2.0,
        page.bottom + 42.0,
        page.across.name
    );
}

fn draw_runs(svg: &mut String, page: &Page, series: &[Series], runs: &[(String, Vec<Record>)]) {
    let _ = writeln!(
        svg,
        "<clipPath id=\"plot\"><rect x=\"{}\" y=\"{}\" width=\"{WIDTH}\" height=\"{PLOT}\"/></clipPath>\n\
         <g clip-path=\"url(#plot)\">",
        LEFT - 5.0,
        page.top
    );
    let alone = series.len() == 1;
    for (i, one) in series.iter().enumerate().filter(|_| series.len() <= NOISY_RUNS) {
        let class = if alone { "raw" } else { "raw faint" };
        draw_line(svg, page, &format!("{class} s{i}"), &envelope(&one.training, 400));
    }
    for (i, one) in series.iter().enumerate() {
        let class = if alone { "line" } else { "thin" };
        draw_line(svg, page, &format!("{class} s{}", i % COLOURS.len()), &one.smoothed);
    }
    let at_most = (VALIDATION_POINTS / series.len().max(1)).clamp(3, 140);
    for (i, (one, (name, _))) in series.iter().zip(runs).enumerate() {
        let (colour, name) = if alone { (1, "validation") } else { (i % COLOURS.len(), name.as_str()) };
        draw_validation(svg, page, colour, name, &lowest(&one.validation, at_most));
    }
    svg.push_str("</g>\n");
    if let [one] = series {
        draw_best(svg, page, one);
    }
}

fn draw_line(svg: &mut String, page: &Page, class: &str, points: &[Point]) {
    if !points.is_empty() {
        let _ = writeln!(svg, "<path class=\"{class}\" d=\"{}\"/>", page.path(points));
    }
}

/// A line with points, which tell their numbers to whoever points at them.
fn draw_validation(svg: &mut String, page: &Page, colour: usize, name: &str, points: &[Point]) {
    draw_line(svg, page, &format!("line s{colour}"), points);
    let radius = if points.len() > 60 { 2.5 } else { 3.5 };
    let name = escape(&short(name));
    for (at, loss) in points {
        let _ = writeln!(
            svg,
            "<circle class=\"f{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"><title>{name} {}</title></circle>",
            page.x(*at),
            page.y(*loss),
            told(*loss)
        );
    }
}

/// Writes the best validation loss of a single run at its point.
fn draw_best(svg: &mut String, page: &Page, series: &Series) {
    let Some((at, loss)) = series.validation.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)) else {
        return;
    };
    let (x, y) = (page.x(at), page.y(loss));
    let anchor = if x > WIDTH - 80.0 { "end" } else { "middle" };
    let above = if y - page.top > 24.0 { -12.0 } else { 22.0 };
    let _ = writeln!(
        svg,
        "<text class=\"best f1\" text-anchor=\"{anchor}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        if anchor == "end" { x + 10.0 } else { x },
        y + above,
        told(loss)
    );
}

/// A loss with three decimals; one that left all bounds in short.
fn told(loss: f64) -> String {
    if loss.abs() < 1e5 { format!("{loss:.3}") } else { format!("{loss:.1e}") }
}

/// A name of at most as many columns as the legend has for one.
fn short(name: &str) -> String {
    if columns(name) <= NAME {
        return name.to_owned();
    }
    let mut room = NAME - 1;
    let fits = |c: &char| {
        let left = room.checked_sub(width(*c));
        room = left.unwrap_or(room);
        left.is_some()
    };
    name.chars().take_while(fits).chain(['…']).collect()
}

fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// Chinese, Japanese and Korean characters are twice as wide as others.
fn width(c: char) -> usize {
    if c >= '\u{1100}' && !matches!(c, '\u{2000}'..='\u{2bff}') { 2 } else { 1 }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // Not allowed in XML at all.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::terminal;
    use proptest::prelude::*;

    /// A run that learns, with some noise and a validation every tenth record.
    fn run(name: &str, records: u64, floor: f64) -> (String, Vec<Record>) {
        let record = |i: u64| {
            let noise = ((i * 7919) % 101) as f64 / 500.0;
            let loss = floor + 3.0 / (1.0 + i as f64 / 8.0).sqrt();
            Record {
                step: i * 10,
                loss: loss + noise,
                tokens: i * 7680,
                seconds: i as f64 / 2.0,
                val_loss: i.is_multiple_of(10).then_some(loss + 0.1),
                ..Record::default()
            }
        };
        (name.to_owned(), (1..=records).map(record).collect())
    }

    /// Whether all numbers of a picture are numbers.
    fn assert_sound(svg: &str) {
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
    }

    #[test]
    fn one_run_shows_training_validation_and_the_best() {
        let svg = svg(&[run("shakespeare", 200, 1.0)], Axis::Step);
        assert_sound(&svg);
        for part in [
            "Loss of shakespeare",
            "2,000 steps",
            "training, smoothed",
            "best validation",
            ">step<",
            ">2,000<",
        ] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 20 + 1, "each validation, and the legend's");
    }

    #[test]
    fn several_runs_have_a_colour_each_and_their_best_in_the_legend() {
        let runs = [run("a", 50, 1.0), run("b", 200, 1.5), run("c", 100, 0.5)];
        let svg = svg(&runs, Axis::Time);
        assert_sound(&svg);
        for part in ["Loss of 3 runs", "class=\"line s2\"", "seconds of training", "<text x=\"31\">b 2."] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
    }

    #[test]
    fn a_long_run_and_many_runs_make_a_small_file() {
        let long = run("long", 100_000, 1.0);
        let long_svg = svg(std::slice::from_ref(&long), Axis::Step);
        assert!(long_svg.len() < 100_000, "{}", long_svg.len());
        let many: Vec<_> = (0..40).map(|i| run(&format!("run {i}"), 3000, f64::from(i) / 10.0)).collect();
        let many_svg = svg(&many, Axis::Tokens);
        assert_sound(&many_svg);
        assert!(many_svg.len() < 200_000, "{}", many_svg.len());
    }

    #[test]
    fn runs_with_next_to_nothing_in_them_are_drawn_too() {
        let one = |loss, val_loss| vec![Record { step: 1, loss, val_loss, ..Record::default() }];
        let cases = [
            vec![],
            one(4.0, None),
            one(4.0, Some(3.0)),
            one(f64::NAN, Some(f64::NAN)),
            one(f64::NAN, Some(3.0)),
            one(f64::MAX, Some(f64::MIN)),
            vec![Record::default(); 3],
        ];
        for records in &cases {
            for axis in [Axis::Step, Axis::Tokens, Axis::Time] {
                assert_sound(&svg(&[("run".to_owned(), records.clone())], axis).replace("training NaN", ""));
            }
        }
        let all: Vec<_> = cases.into_iter().map(|records| ("run".to_owned(), records)).collect();
        assert_sound(&svg(&all, Axis::Step));
        assert_sound(&svg(&[], Axis::Step));
    }

    #[test]
    fn names_from_outside_can_not_break_the_picture() {
        let name = "<a & b>\0";
        for runs in [vec![run(name, 20, 1.0)], vec![run(name, 20, 1.0), run("b", 20, 1.0)]] {
            let svg = svg(&runs, Axis::Step);
            assert!(svg.contains("&lt;a &amp; b&gt;\u{fffd}") && !svg.contains("<a"));
        }
        assert_eq!(short(&"长".repeat(30)), format!("{}…", "长".repeat(19)));
    }

    #[test]
    fn the_file_is_written_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("loss.svg");
        let runs = [run("a", 20, 1.0)];
        write(&path, &runs, Axis::Step).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), svg(&runs, Axis::Step));
        assert!(write(&folder.path().join("no/such/loss.svg"), &runs, Axis::Step).is_err());
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let number = || prop_oneof![any::<f64>(), 0.0..12.0_f64, Just(2.0)];
        (any::<u64>(), number(), number(), any::<u64>(), proptest::option::of(number())).prop_map(
            |(step, loss, seconds, tokens, val_loss)| Record {
                step,
                loss,
                seconds,
                tokens,
                val_loss,
                ..Record::default()
            },
        )
    }

    proptest! {
        #[test]
        fn any_numbers_at_all_make_a_sound_picture(
            records in proptest::collection::vec(any_record(), 0..40),
            axis in prop_oneof![Just(Axis::Step), Just(Axis::Tokens), Just(Axis::Time)],
        ) {
            let run = ("run".to_owned(), records);
            for runs in [vec![run.clone()], vec![run.clone(), run]] {
                let drawn = svg(&runs, axis);
                prop_assert!(drawn.len() < 200_000);
                let curves = drawn.split("class=\"page\"").nth(1).unwrap().split("y=\"53\">").nth(1).unwrap();
                let curves = curves.split_once('\n').unwrap().1;
                prop_assert!(!curves.contains("NaN") && !curves.contains("inf"), "{drawn}");
                terminal::picture(&runs, axis, false);
            }
        }
    }
}
