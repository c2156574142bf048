//! Tables as people read them.

use crate::printable::printable;
use crate::width::width;

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
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        self.rows.iter().map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let fill = " ".repeat(widths[column] - width(cell));
            let (before, after) =
                if self.right.contains(&column) { (fill.as_str(), "") } else { ("", fill.as_str()) };
            line.push_str(&format!("  {before}{cell}{after}"));
        }
        format!("{}\n", line.trim_end())
    }
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
}
