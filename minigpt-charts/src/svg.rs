//! Writes SVG: one file that needs nothing else, for light and dark pages. Everything that both charts draw is here:
//! the page with its title, texts, straight lines, and the escaping of what comes from outside.

use std::fmt::{Display, Write};

/// Where the first line of text stands.
const TITLE: f64 = 32.0;
const SUBTITLE: f64 = 53.0;

const STYLE: &str = "\
  text { font: 13px system-ui, -apple-system, 'Noto Sans CJK SC', sans-serif; fill: #3b4252 }
  .title { font-size: 17px; font-weight: 600 } .small { font-size: 12px; fill: #6b7280 }
  .page { fill: #ffffff } .grid { stroke: #e5e7eb } .axis { stroke: #9ca3af }
";
const DARK: &str = "\
    text { fill: #d8dee9 } .small { fill: #9ca3af } .page { fill: #1b1f27 } .grid { stroke: #2e3440 }
    .axis { stroke: #6b7280 }
";

/// What a page looks like before anything is drawn on it.
pub(crate) struct Page<'a> {
    pub width: f64,
    pub height: f64,
    /// Where its texts begin.
    pub left: f64,
    pub title: &'a str,
    pub subtitle: &'a str,
    /// Further rules of style, and those for dark pages.
    pub style: (&'a str, &'a str),
}

/// Which part of a text its place is.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// An SVG file in the making. Writing to a string can't fail, so nothing here does.
pub(crate) struct Svg(String);

impl Svg {
    /// A page with its title.
    pub fn new(page: &Page<'_>) -> Self {
        let Page { width, height, left, .. } = page;
        let (light, dark) = page.style;
        let title = escape(page.title);
        let mut svg = Svg(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
             <title>{title}</title>\n<style>\n{STYLE}{light}\
             \u{20} @media (prefers-color-scheme: dark) {{\n{DARK}{dark}  }}\n</style>\n\
             <rect class=\"page\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n"
        ));
        svg.text("title", Anchor::Start, (*left, TITLE), page.title);
        svg.text("small", Anchor::Start, (*left, SUBTITLE), page.subtitle);
        svg
    }

    /// Writes a line of text.
    pub fn text(&mut self, class: &str, anchor: Anchor, (x, y): (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.element(format_args!("<text{class}{anchor} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text)));
    }

    /// Draws a straight line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.element(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// Draws a line through points; a single point is a dot, none is nothing.
    pub fn path(&mut self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let (mut path, mut count) = (String::new(), 0);
        for (x, y) in points {
            let _ = write!(path, " {x:.1} {y:.1}");
            count += 1;
        }
        let dot = if count == 1 { "h0" } else { "" };
        if count > 0 {
            self.element(format_args!("<path class=\"{class}\" d=\"M{}{dot}\"/>", path.trim_start()));
        }
    }

    /// Appends an element, which must be sound XML already.
    pub fn element(&mut self, element: impl Display) {
        let _ = writeln!(self.0, "{element}");
    }

    /// The file.
    pub fn finish(self) -> String {
        self.0 + "</svg>\n"
    }
}

/// A text as XML has it.
pub(crate) fn escape(text: &str) -> String {
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

    #[test]
    fn texts_from_outside_can_not_break_the_picture() {
        assert_eq!(escape("<a & b>\0\u{ffff}"), "&lt;a &amp; b&gt;\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_path_of_one_point_is_a_dot_and_of_none_is_nothing() {
        let path = |points: &[(f64, f64)]| {
            let mut svg = Svg(String::new());
            svg.path("line", points.iter().copied());
            svg.0
        };
        assert_eq!(path(&[]), "");
        assert_eq!(path(&[(1.0, 2.0)]), "<path class=\"line\" d=\"M1.0 2.0h0\"/>\n");
        assert_eq!(path(&[(1.0, 2.0), (3.0, 4.0)]), "<path class=\"line\" d=\"M1.0 2.0 3.0 4.0\"/>\n");
    }
}
