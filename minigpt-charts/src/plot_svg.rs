//! What line charts and XY charts draw alike: a legend, and two axes with their grid.

use crate::axis::Scale;
use crate::svg::{Anchor, Svg, escape};
use crate::width::width;
use std::fmt::Write;

pub(crate) const WIDTH: f64 = 800.0;
pub(crate) const RIGHT: f64 = 24.0;
/// The height that the tick labels and the name of the horizontal axis take below it.
pub(crate) const BOTTOM: f64 = 54.0;
/// The baseline of the legend's first row, and the height of each row.
const LEGEND: f64 = 78.0;
const ROW: f64 = 22.0;

/// Colours of curves on a light and on a dark page.
pub(crate) const COLOURS: [(&str, &str); 8] = [
    ("#2f6db3", "#6ea8e6"),
    ("#d4650b", "#f7a355"),
    ("#2a8a57", "#5fc793"),
    ("#8757c4", "#b999ec"),
    ("#c43a44", "#f2848b"),
    ("#0d8296", "#4fc4d7"),
    ("#876340", "#c8a47c"),
    ("#bd4f94", "#e890c6"),
];

/// Style rules for light and for dark pages, followed by the classes `s0`, `f0`, … of this many colours.
pub(crate) fn style(light: &str, dark: &str, colours: usize) -> (String, String) {
    let (mut light, mut dark) = (light.to_owned(), dark.to_owned());
    for (i, (on_light, on_dark)) in COLOURS.iter().enumerate().take(colours) {
        // Writing to a string can't fail.
        let _ = writeln!(light, "  .s{i} {{ stroke: {on_light} }} .f{i} {{ fill: {on_light} }}");
        let _ = writeln!(dark, "    .s{i} {{ stroke: {on_dark} }} .f{i} {{ fill: {on_dark} }}");
    }
    (light, dark)
}

/// The legend stands above the axes, where no curve can hide it.
pub(crate) struct Legend(Vec<Entry>);

struct Entry {
    row: usize,
    x: f64,
    mark: String,
    text: String,
}

impl Legend {
    /// Arranges marks and their texts in rows that begin at `left`.
    pub fn new(left: f64, entries: impl IntoIterator<Item = (String, String)>) -> Self {
        let (mut row, mut x) = (0, left);
        let place = |(mark, text): (String, String)| {
            let wide = 48.0 + 7.2 * width(&text) as f64;
            if x > left && x + wide > WIDTH - RIGHT + 20.0 {
                (row, x) = (row + 1, left);
            }
            let entry = Entry { row, x, mark, text };
            x += wide;
            entry
        };
        Self(entries.into_iter().map(place).collect())
    }

    /// The top of the plot below the legend.
    pub fn bottom(&self) -> f64 {
        LEGEND + ROW * self.0.last().map_or(0, |entry| entry.row + 1) as f64
    }

    pub fn draw(&self, svg: &mut Svg) {
        for Entry { row, x, mark, text } in &self.0 {
            let y = LEGEND + ROW * *row as f64;
            svg.element(format_args!(
                "<g transform=\"translate({x:.1} {y:.1})\">{mark}<text x=\"31\">{}</text></g>",
                escape(text)
            ));
        }
    }
}

/// The area between the axes.
pub(crate) struct Plot {
    pub left: f64,
    pub top: f64,
    pub bottom: f64,
    pub across: Scale,
    pub upward: Scale,
}

impl Plot {
    /// Values far outside of the plot are drawn a little outside, where they are clipped.
    pub fn x(&self, value: f64) -> f64 {
        self.left + self.across.part(value).clamp(-0.5, 1.5) * (WIDTH - self.left - RIGHT)
    }

    pub fn y(&self, value: f64) -> f64 {
        self.bottom - self.upward.part(value).clamp(-0.5, 1.5) * (self.bottom - self.top)
    }

    /// Draws the grid and the labels of the ticks.
    pub fn draw_grid(&self, svg: &mut Svg) {
        for tick in &self.upward.ticks {
            let y = self.y(tick.at);
            svg.line("grid", (self.left, y), (WIDTH - RIGHT, y));
            svg.text("small", Anchor::End, (self.left - 9.0, y + 4.0), &tick.label);
        }
        for tick in &self.across.ticks {
            let x = self.x(tick.at);
            svg.line("grid", (x, self.top), (x, self.bottom));
            svg.text("small", Anchor::Middle, (x, self.bottom + 19.0), &tick.label);
        }
    }

    /// Draws the axes, and the name of the horizontal one.
    pub fn draw_axes(&self, svg: &mut Svg, name: &str) {
        let (left, right) = (self.left, WIDTH - RIGHT);
        svg.path("axis", [(left, self.top), (left, self.bottom), (right, self.bottom)]);
        svg.text("", Anchor::Middle, ((left + right) / 2.0, self.bottom + 42.0), name);
    }
}
