//! Tables as people read them.

use crate::columns::wrapped;
use crate::printable::printable;
use crate::width::width;

/// What stands before each cell, and before lines that go on with a row.
const GAP: &str = "  ";
const INDENT: &str = "    ";
/// A last column narrower than this can't be read.
const NARROWEST: usize = 16;

/// Rows of cells in columns; the last column is as wide as it is.
#[derive(Debug, Clone, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl Table {
    /// A table whose columns `right` are flush right, as numbers should be.
    pub fn new(right: &[usize]) -> Self {
        Table { rows: Vec::new(), right: right.to_vec() }
    }

    /// Adds a row, made harmless for a terminal.
    pub fn row<const N: usize>(&mut self, cells: [&str; N]) -> &mut Self {
        self.cells(cells)
    }

    /// The same with as many cells as there are.
    pub fn cells(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) -> &mut Self {
        self.rows.push(cells.into_iter().map(|cell| printable(cell.as_ref()).into_owned()).collect());
        self
    }

    /// All rows, each a line that starts with two spaces.
    pub fn draw(&self) -> String {
        self.draw_within(usize::MAX)
    }

    /// The same for a terminal of so many columns. What does not fit goes on under its last column; where there is no
    /// room for that either, a row's cells go on in further lines.
    pub fn draw_within(&self, columns: usize) -> String {
        let widths = self.widths();
        let before: usize = widths.iter().rev().skip(1).map(|width| width + GAP.len()).sum();
        let rest = columns.saturating_sub(before + GAP.len());
        let fits = widths.last().is_none_or(|&last| last <= rest);
        let draw = |row: &Vec<String>| match (fits, rest < NARROWEST) {
            (true, _) => self.line(row, &widths),
            (false, false) => self.wrapped_line(row, &widths, rest),
            (false, true) => folded_line(row, columns),
        };
        self.rows.iter().map(draw).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0)
        };
        (0..columns).map(widest).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let fill = " ".repeat(widths[column].saturating_sub(width(cell)));
            let (before, after) =
                if self.right.contains(&column) { (fill.as_str(), "") } else { ("", fill.as_str()) };
            line.push_str(&format!("{GAP}{before}{cell}{after}"));
        }
        format!("{}\n", line.trim_end())
    }

    /// A row whose last cell goes on in further lines, each under the first.
    fn wrapped_line(&self, row: &[String], widths: &[usize], columns: usize) -> String {
        let Some((last, others)) = row.split_last().filter(|_| row.len() == widths.len()) else {
            return self.line(row, widths);
        };
        let mut text = String::new();
        for (i, part) in wrapped(last, columns).into_iter().enumerate() {
            let mut cells = if i == 0 { others.to_vec() } else { vec![String::new(); others.len()] };
            cells.push(part);
            text += &self.line(&cells, &[&widths[..others.len()], &[columns]].concat());
        }
        text
    }
}

/// A row as text that is broken between its cells, or within one that is wider than a line.
fn folded_line(row: &[String], columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for cell in row.iter().filter(|cell| !cell.is_empty()) {
        match lines.last_mut() {
            Some(line) if width(line) + GAP.len() + width(cell) <= columns => {
                *line += &format!("{GAP}{cell}");
            }
            _ => {
                let indent = if lines.is_empty() { GAP } else { INDENT };
                let parts = wrapped(cell, columns.saturating_sub(INDENT.len()).max(1));
                lines.extend(
                    parts
                        .iter()
                        .enumerate()
                        .map(|(i, part)| format!("{}{part}", if i == 0 { indent } else { INDENT })),
                );
            }
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_commands_a_terminal_lines_up_as_it_is_shown() {
        let mut table = Table::default();
        table.row(["\u{1b}c", "x"]).row(["name", "y"]);
        assert_eq!(table.draw(), "  \\u{1b}c  x\n  name     y\n");
    }

    #[test]
    fn columns_line_up_with_chinese_in_them() {
        let mut table = Table::new(&[1]);
        table.row(["西遊記", "1", "x"]).row(["ab", "1,000", ""]);
        assert_eq!(table.draw(), "  西遊記      1  x\n  ab      1,000\n");
    }

    #[test]
    fn a_narrow_terminal_wraps_the_last_column() {
        let mut table = Table::default();
        table.row(["loss", "2.1"]).row(["try it", "minigpt generate --model runs/novel --prompt \"天空\""]);
        let drawn = table.draw_within(40);
        let want =
            "  loss    2.1\n  try it  minigpt generate --model\n          runs/novel --prompt \"天空\"\n";
        assert_eq!(drawn, want);
        assert_eq!(table.draw_within(80), table.draw());
    }

    #[test]
    fn too_many_columns_are_folded() {
        let mut table = Table::new(&[1, 2, 3]);
        table.row(["model", "parameters", "memory to train", "attention"]);
        table.row(["gpt2", "124,439,808", "2.0 GB", "0.3 GB"]);
        let drawn = table.draw_within(40);
        assert!(drawn.lines().all(|line| width(line) <= 40), "{drawn}");
        assert!(drawn.starts_with("  model  parameters  memory to train\n    attention\n"), "{drawn}");
    }
}
