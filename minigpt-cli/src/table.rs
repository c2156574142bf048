//! Tables as people read them.

/// Rows of cells in columns; the last column is as wide as it is.
#[derive(Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl Table {
    /// A table whose columns `right` are flush right, as numbers should be.
    pub fn new(right: &[usize]) -> Self {
        Table { rows: Vec::new(), right: right.to_vec() }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [&str; N]) -> &mut Self {
        self.rows.push(cells.iter().map(|&cell| cell.to_owned()).collect());
        self
    }

    /// All rows, each a line that starts with two spaces.
    pub fn draw(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| columns_of(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        self.rows.iter().map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let fill = " ".repeat(widths[column] - columns_of(cell));
            let (before, after) =
                if self.right.contains(&column) { (fill.as_str(), "") } else { ("", fill.as_str()) };
            line.push_str(&format!("  {before}{cell}{after}"));
        }
        format!("{}\n", line.trim_end())
    }
}

/// A text cut to so many columns of a terminal, with … where something is missing.
pub fn cut(text: &str, columns: usize) -> String {
    if columns_of(text) <= columns {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 0);
    for c in text.chars() {
        used += width(c);
        if used >= columns {
            break;
        }
        kept.push(c);
    }
    kept + "…"
}

/// How many columns of a terminal a text takes.
pub fn columns_of(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// Chinese, Japanese and Korean characters take two columns.
fn width(c: char) -> usize {
    let wide = matches!(c as u32, 0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd);
    if wide { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_by_their_columns() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("西遊記", 6), "西遊記");
        assert_eq!(cut("西遊記", 5), "西遊…");
        assert_eq!(cut("西遊記", 4), "西…");
    }

    #[test]
    fn columns_line_up_with_chinese_in_them() {
        let mut table = Table::new(&[1]);
        table.row(["西遊記", "1", "x"]).row(["ab", "1,000", ""]);
        assert_eq!(table.draw(), "  西遊記      1  x\n  ab      1,000\n");
    }
}
