//! The histogram as a picture: one SVG file that needs nothing else, for light and dark pages.

use crate::histogram::{Histogram, round_step};
use crate::lengths::Lengths;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 72.0;
const BOTTOM: f64 = 52.0;

const STYLE: &str = "\
  text { font: 13px system-ui, -apple-system, 'Noto Sans CJK SC', sans-serif; fill: #3b4252 }
  .title { font-size: 17px; font-weight: 600 } .small { font-size: 12px; fill: #6b7280 }
  .page { fill: #ffffff } .grid { stroke: #e5e7eb } .axis { stroke: #9ca3af }
  .bar { fill: #4c78a8 } .tail { fill: #a8bdd4 } .mark { stroke: #c2410c; stroke-dasharray: 5 4 }
  .marked { fill: #c2410c; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    text { fill: #d8dee9 } .small { fill: #9ca3af } .page { fill: #1b1f27 } .grid { stroke: #2e3440 }
    .axis { stroke: #6b7280 } .bar { fill: #6ea0d6 } .tail { fill: #46648a }
    .mark { stroke: #fb923c } .marked { fill: #fb923c }
  }
";

/// Draws the lengths under a title; `axis` says what they are lengths in, and a line marks `max_length`.
pub fn histogram_svg(lengths: &Lengths, title: &str, axis: &str, max_length: Option<u64>) -> String {
    let histogram = Histogram::of(lengths);
    let scale = Scale::of(&histogram);
    let mut svg = String::new();
    // Writing to a string can't fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
         <title>{0}</title>\n<style>\n{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"32\">{0}</text>\n",
        escape(title)
    );
    let summary = lengths.summary();
    let _ = writeln!(
        svg,
        "<text class=\"small\" x=\"{LEFT}\" y=\"52\">n = {} · mean {:.1} · 50 % {} · 90 % {} · 95 % {} · \
         99 % {} · longest {}</text>",
        grouped(summary.count),
        summary.mean,
        summary.p50,
        summary.p90,
        summary.p95,
        summary.p99,
        summary.max
    );
    draw_grid(&mut svg, axis, &scale);
    draw_bars(&mut svg, &histogram, &scale);
    if let Some(max_length) = max_length {
        draw_mark(&mut svg, lengths, max_length, &scale);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Where lengths and counts are on the page.
struct Scale {
    bar: f64,
    step: f64,
    bars: usize,
    tail: bool,
    /// Counts between two grid lines, and at the highest one.
    grid: u64,
    top: u64,
}

impl Scale {
    fn of(histogram: &Histogram) -> Self {
        let (bars, highest) = (histogram.bars.len(), histogram.highest().max(1));
        let grid = round_step(highest, 5);
        Scale {
            bar: (WIDTH - LEFT - RIGHT) / bars as f64,
            step: histogram.step as f64,
            bars,
            tail: histogram.bars.last().is_some_and(|bar| bar.to.is_none()),
            grid,
            top: highest.div_ceil(grid) * grid,
        }
    }

    fn x(&self, length: f64) -> f64 {
        LEFT + length / self.step * self.bar
    }

    fn y(&self, count: f64) -> f64 {
        HEIGHT - BOTTOM - count / self.top as f64 * (HEIGHT - TOP - BOTTOM)
    }
}

fn draw_grid(svg: &mut String, axis: &str, scale: &Scale) {
    for count in (0..=scale.top).step_by(scale.grid as usize) {
        let y = scale.y(count as f64);
        let class = if count == 0 { "axis" } else { "grid" };
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"small\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            grouped(count)
        );
    }
    let every = if scale.bars > 11 { 2 } else { 1 };
    let labelled = scale.bars - usize::from(scale.tail);
    for i in (0..=labelled).step_by(every) {
        let length = i as f64 * scale.step;
        let more = if scale.tail && i == labelled { "+" } else { "" };
        let _ = writeln!(
            svg,
            "<text class=\"small\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}{more}</text>",
            scale.x(length),
            HEIGHT - BOTTOM + 18.0,
            grouped(length as u64)
        );
    }
    let _ = writeln!(
        svg,
        "<text text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 12.0,
        escape(axis)
    );
}

fn draw_bars(svg: &mut String, histogram: &Histogram, scale: &Scale) {
    for bar in &histogram.bars {
        let (x, y) = (scale.x(bar.from as f64), scale.y(bar.count as f64));
        let (class, label) = match bar.to {
            Some(to) if to == bar.from => ("bar", format!("{to}")),
            Some(to) => ("bar", format!("{}–{to}", bar.from)),
            None => ("tail", format!("{} and more", bar.from)),
        };
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\">\
             <title>{label}: {}</title></rect>",
            x + 1.0,
            (scale.bar - 2.0).max(1.0),
            scale.y(0.0) - y,
            bar.count
        );
    }
}

fn draw_mark(svg: &mut String, lengths: &Lengths, max_length: u64, scale: &Scale) {
    let shown = (scale.bars - usize::from(scale.tail)) as f64 * scale.step;
    let at = max_length as f64 + 1.0;
    if at > shown {
        return;
    }
    let x = scale.x(at);
    let (anchor, label) = if x > WIDTH / 2.0 { ("end", x - 8.0) } else { ("start", x + 8.0) };
    let whole = 100.0 * (1.0 - lengths.beyond(max_length).0 as f64 / lengths.count().max(1) as f64);
    let _ = writeln!(
        svg,
        "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
         <text class=\"marked\" text-anchor=\"{anchor}\" x=\"{label:.1}\" y=\"{:.1}\">max_length {max_length}: \
         {whole:.1} % whole</text>",
        TOP - 4.0,
        scale.y(0.0),
        TOP + 10.0
    );
}

/// 14652 as `14,652`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, tail) = digits.split_at(first);
    let groups = tail.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let all: Vec<String> = (!head.is_empty()).then(|| head.to_owned()).into_iter().chain(groups).collect();
    all.join(",")
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // Not allowed in XML at all.
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_outside_can_not_break_the_picture() {
        let svg = histogram_svg(&[3, 4, 5].into_iter().collect(), "<a & b>\0", "tokens", Some(4));
        assert!(svg.contains("&lt;a &amp; b&gt;\u{fffd}"));
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn the_mark_says_how_much_stays_whole() {
        let with = |max| histogram_svg(&(1..=100).collect(), "lengths", "tokens", max);
        assert!(with(Some(95)).contains("max_length 95: 95.0 % whole"));
        assert!(!with(Some(1000)).contains("max_length"));
        assert!(!with(None).contains("max_length"));
    }

    #[test]
    fn nothing_is_drawn_as_nothing() {
        let svg = histogram_svg(&Lengths::default(), "none", "tokens", Some(0));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn the_scale_ends_just_above_the_highest_bar() {
        let svg = histogram_svg(&std::iter::repeat_n(1, 8144).collect(), "one", "tokens", None);
        assert!(svg.contains(">10,000<") && !svg.contains(">12,000<"), "{svg}");
        assert_eq!([0, 12, 999, 1000, 1_234_567].map(grouped), ["0", "12", "999", "1,000", "1,234,567"]);
    }
}
