//! A line chart as text: a small picture for a terminal, of braille dots.

use crate::axis::Scale;
use crate::line_chart::{Curve, LineChart, Lines};
use crate::points::{Point, ends};
use crate::printable::printable;
use crate::width::width;

/// Characters across at most and at least, and upward; each has 2 × 4 dots.
const WIDEST: usize = 66;
const NARROWEST: usize = 16;
const ROWS: usize = 15;
/// Columns of the axis, of the space before it, and of half of the last number under it.
const FRAME: usize = 6;
/// The dots of a braille character, by row and column.
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
/// Escape sequences of colours that can be read on light and dark terminals.
const COLOURS: [&str; 6] = ["\x1b[34m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[31m", "\x1b[36m"];
const PLAIN: &str = "\x1b[0m";

pub(crate) fn draw(chart: &LineChart, columns: usize, colours: bool) -> String {
    let all = chart.lines(2 * WIDEST);
    let (what, lines) = match &all[..] {
        [one] => (chart.y.to_owned(), both(chart, one)),
        _ => compared(chart, &all, colours),
    };
    let Some(ceiling) = all.iter().filter_map(Lines::ceiling).reduce(f64::max) else {
        return String::new();
    };
    let points = || lines.iter().flat_map(|line| line.points);
    let Some((low, high)) = ends(points().map(|point| point.1.min(ceiling))) else { return String::new() };
    let across = chart.across(points().map(|point| point.0).fold(0.0, f64::max));
    let upward = Scale::upward(low, high);
    let margin = 2 + upward.ticks.iter().map(|tick| tick.label.len()).max().unwrap_or(0);
    let wide = columns.saturating_sub(margin + FRAME).clamp(NARROWEST, WIDEST);
    let mut canvas = Canvas { columns: wide, cells: vec![Cell::default(); wide * ROWS] };
    lines.iter().enumerate().for_each(|(i, line)| canvas.draw(i, line, &across, &upward));
    let rows = canvas.rows(&upward, margin, colours);
    let head =
        head(&what, &lines, columns.saturating_sub(margin + 1), colours).join(&format!("\n{:margin$} ", ""));
    format!("{:margin$} {head}\n{rows}{}", "", foot(&across, margin, wide))
}

/// One line of the picture.
struct Line<'a> {
    name: &'a str,
    points: &'a [Point],
    /// What it is made of; `None` is dots.
    mark: Option<char>,
    /// Whether there is something between its points.
    connected: bool,
}

/// The two lines of a single curve.
fn both<'a>(chart: &LineChart, lines: &'a Lines) -> Vec<Line<'a>> {
    let noisy = Line { name: chart.noisy, points: &lines.smoothed, mark: None, connected: true };
    let marked = Line { name: chart.marked, points: &lines.marked, mark: Some('o'), connected: false };
    [noisy, marked].into_iter().filter(|line| !line.points.is_empty()).collect()
}

/// One line of each curve, and what they are.
fn compared<'a>(chart: &'a LineChart, all: &'a [Lines], colours: bool) -> (String, Vec<Line<'a>>) {
    let marked = all.iter().all(|lines| lines.marked.len() > 1);
    let line = |((curve, lines), letter): ((&'a Curve, &'a Lines), char)| Line {
        name: &curve.name,
        points: if marked { &lines.marked } else { &lines.smoothed },
        mark: (!colours).then_some(letter),
        connected: true,
    };
    let lines = chart.curves.iter().zip(all).zip(('a'..='z').cycle()).map(line);
    (format!("{} {}", if marked { chart.marked } else { chart.noisy }, chart.y), lines.collect())
}

/// What is drawn, and each line's look and name, in as many lines as that takes.
fn head(what: &str, lines: &[Line<'_>], columns: usize, colours: bool) -> Vec<String> {
    let (mut head, mut used) = (vec![what.to_owned()], width(what));
    for (i, line) in lines.iter().enumerate() {
        let look = line.mark.map_or("⠒⠒".to_owned(), String::from);
        let name = printable(line.name);
        let wide = width(&look) + 1 + width(&name);
        let entry = format!("{} {name}", painted(&look, i, colours));
        match head.last_mut() {
            Some(last) if used + 3 + wide <= columns => {
                *last += &format!("   {entry}");
                used += 3 + wide;
            }
            _ => {
                head.push(entry);
                used = wide;
            }
        }
    }
    head
}

fn painted(text: &str, line: usize, colours: bool) -> String {
    if colours { format!("{}{text}{PLAIN}", COLOURS[line % COLOURS.len()]) } else { text.to_owned() }
}

/// One character of the picture.
#[derive(Clone, Copy, Default)]
struct Cell {
    dots: u8,
    mark: Option<char>,
    line: usize,
}

impl Cell {
    fn shown(self) -> char {
        match (self.mark, self.dots) {
            (Some(mark), _) => mark,
            (None, 0) => ' ',
            (None, dots) => char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' '),
        }
    }
}

/// Rows of characters, the highest first.
struct Canvas {
    columns: usize,
    cells: Vec<Cell>,
}

impl Canvas {
    fn draw(&mut self, i: usize, line: &Line<'_>, across: &Scale, upward: &Scale) {
        let columns = self.columns;
        let dot = |&(x, y): &Point| {
            let right = across.part(x) * (2 * columns - 1) as f64;
            let down = (1.0 - upward.part(y).clamp(-1.0, 2.0)) * (4 * ROWS - 1) as f64;
            (right, down)
        };
        line.points.iter().map(dot).for_each(|at| self.set(at, i, line.mark));
        for pair in line.points.windows(2).filter(|_| line.connected) {
            let (from, to) = (dot(&pair[0]), dot(&pair[1]));
            let dots = (to.0 - from.0).abs().max((to.1 - from.1).abs()).ceil();
            for j in 1..dots as usize {
                let part = j as f64 / dots;
                self.set((from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1)), i, line.mark);
            }
        }
    }

    /// Sets a dot, if it is in the picture.
    fn set(&mut self, (right, down): (f64, f64), line: usize, mark: Option<char>) {
        if !(-0.5..(4 * ROWS) as f64 - 0.5).contains(&down) {
            return;
        }
        let (right, down) = (right.round() as usize, down.round() as usize);
        let cell = &mut self.cells[down / 4 * self.columns + right / 2];
        cell.dots |= DOTS[down % 4][right % 2];
        cell.line = line;
        cell.mark = mark.or(cell.mark);
    }

    /// All rows beside their axis.
    fn rows(&self, upward: &Scale, margin: usize, colours: bool) -> String {
        let row_of = |value: f64| ((1.0 - upward.part(value)) * (4 * ROWS - 1) as f64).round() as usize / 4;
        let row = |(i, cells): (usize, &[Cell])| {
            let tick = upward.ticks.iter().find(|tick| row_of(tick.at) == i);
            let (label, axis) = tick.map_or(("", '│'), |tick| (&tick.label, '┤'));
            let line = format!("{label:>margin$} {axis}{}", row_of_cells(cells, colours));
            format!("{}\n", line.trim_end())
        };
        self.cells.chunks(self.columns).enumerate().map(row).collect()
    }
}

/// Neighbours of one line are painted together.
fn row_of_cells(cells: &[Cell], colours: bool) -> String {
    let same = |a: &Cell, b: &Cell| a.line == b.line && (a.shown() == ' ') == (b.shown() == ' ');
    let paint = |part: &[Cell]| {
        let text: String = part.iter().map(|cell| cell.shown()).collect();
        if text.trim().is_empty() { text } else { painted(&text, part[0].line, colours) }
    };
    cells.chunk_by(same).map(paint).collect()
}

/// The horizontal axis, its numbers, and what they count.
fn foot(across: &Scale, margin: usize, columns: usize) -> String {
    let mut axis: Vec<char> = "─".repeat(columns).chars().collect();
    let mut labels = String::new();
    for tick in &across.ticks {
        let column =
            ((across.part(tick.at) * (2 * columns - 1) as f64).round() as usize / 2).min(columns - 1);
        let start = (column + 1).saturating_sub(tick.label.len().div_ceil(2));
        if start >= labels.len() + usize::from(!labels.is_empty()) {
            labels.push_str(&" ".repeat(start - labels.len()));
            labels.push_str(&tick.label);
            axis[column] = '┬';
        }
    }
    let axis: String = axis.into_iter().collect();
    let before = columns.saturating_sub(width(across.name)) / 2;
    let name = format!("{}{}", " ".repeat(before), across.name);
    format!("{:margin$} └{axis}\n{:margin$}  {labels}\n{:margin$}  {name}\n", "", "", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line_chart::tests::{STEPS, TIME, chart, falling, single};

    /// Columns of an ordinary terminal.
    const TERMINAL: usize = 80;

    #[test]
    fn a_narrow_terminal_gets_a_narrow_picture() {
        let curves = [falling("a first run", 100, 1.0), falling("a second one", 100, 2.0)];
        for columns in [40, 60] {
            let picture = chart(STEPS, &curves).terminal(columns, false);
            let widest = picture.lines().map(width).max().unwrap();
            assert!((columns - 8..=columns).contains(&widest), "{widest} of {columns}\n{picture}");
            assert!(picture.contains("a first run") && picture.contains("a second one"), "{picture}");
        }
    }

    fn no_wider_than_a_terminal(picture: &str) {
        assert!(picture.lines().all(|line| width(line) < 80), "{picture}");
    }

    fn unmarked(name: &str) -> Curve {
        Curve { marked: Vec::new(), ..falling(name, 100, 1.0) }
    }

    #[test]
    fn one_curve_is_a_falling_line_with_marks() {
        let picture = chart(STEPS, &[falling("a", 100, 1.0)]).terminal(TERMINAL, false);
        no_wider_than_a_terminal(&picture);
        let rows: Vec<&str> = picture.lines().collect();
        assert_eq!(rows.len(), 1 + ROWS + 3, "{picture}");
        assert!(rows[0].contains("training") && rows[0].contains("o validation"));
        assert!(rows[1].contains("4.0 ┤⢀"), "it starts at the top: {picture}");
        assert_eq!(rows[1..=ROWS].concat().matches('o').count(), 10, "{picture}");
        assert!(rows[ROWS + 1].contains('┬') && rows[ROWS + 2].contains("1,000"), "{picture}");
    }

    #[test]
    fn curves_are_told_apart_by_letters_or_colours() {
        let both = chart(STEPS, &[falling("first", 100, 1.0), falling("second", 100, 1.5)]);
        let plain = both.terminal(TERMINAL, false);
        no_wider_than_a_terminal(&plain);
        assert!(plain.contains("validation loss   a first   b second") && !plain.contains('\x1b'), "{plain}");
        let painted = both.terminal(TERMINAL, true);
        assert!(painted.contains("\x1b[33m⠒⠒\x1b[0m second"), "{painted}");
        let mixed = chart(STEPS, &[falling("first", 100, 1.0), unmarked("second")]);
        assert!(mixed.terminal(TERMINAL, false).contains("training loss   a first"));
    }

    #[test]
    fn next_to_nothing_does_not_break_it() {
        let drawn = |curves: &[Curve]| chart(TIME, curves).terminal(TERMINAL, true);
        assert_eq!(drawn(&[]), "");
        assert_eq!(drawn(&[single(f64::NAN, None)]), "");
        assert!(drawn(&[single(2.0, None)]).contains("training"));
        assert!(drawn(&[single(2.0, None), single(f64::NAN, None), Curve::default()]).contains("run"));
    }
}
