//! Tables of facts as plain text, and templates that are filled from their rows.
//!
//! A table has the names of its columns in the first line and one fact in each line below, with bars between the
//! cells. The text is part of the program, so a malformed table is a bug and panics.

/// Stands for "nothing to say here": a template that needs such a cell is left out for that row.
const NOTHING: &str = "-";

/// Named columns and rows of cells.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads a table written as text; blank lines don't count.
    pub(super) fn parse(text: &str) -> Self {
        let mut lines =
            text.lines().filter(|line| !line.trim().is_empty()).map(|line| line.split('|').map(str::trim));
        let columns: Vec<String> =
            lines.next().expect("a table has a first line with names").map(String::from).collect();
        let rows: Vec<Vec<String>> = lines.map(|cells| cells.map(String::from).collect()).collect();
        for row in &rows {
            assert_eq!(row.len(), columns.len(), "a row has other cells than {columns:?}: {row:?}");
            assert!(row.iter().all(|cell| !cell.is_empty()), "an empty cell (write {NOTHING}): {row:?}");
        }
        Self { columns, rows }
    }

    /// The rows, then the same rows with the cells of each two named columns exchanged.
    pub(super) fn both_ways(mut self, exchanged: &[(String, String)]) -> Self {
        if exchanged.is_empty() {
            return self;
        }
        let mut reversed = self.rows.clone();
        for row in &mut reversed {
            for (one, other) in exchanged {
                row.swap(self.column(one), self.column(other));
            }
        }
        self.rows.extend(reversed);
        self
    }

    pub(super) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Puts a row's cells in the places of a template: `{animal}` as it stands in the table, `{Animal}` with a
    /// capital letter. Nothing comes of it if one of the cells is `-`.
    pub(super) fn fill(&self, template: &str, row: &[String]) -> Option<String> {
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, from_name)) = rest.split_once('{') {
            let (name, after) = from_name.split_once('}').expect("a place in a template ends with }");
            let cell = &row[self.column(&name.to_lowercase())];
            if cell == NOTHING {
                return None;
            }
            text.push_str(before);
            if name.starts_with(char::is_uppercase) {
                text.push_str(&capitalised(cell));
            } else {
                text.push_str(cell);
            }
            rest = after;
        }
        text.push_str(rest);
        Some(text)
    }

    fn column(&self, name: &str) -> usize {
        let found = self.columns.iter().position(|column| column == name);
        found.unwrap_or_else(|| panic!("no column {name:?} among {:?}", self.columns))
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn animals() -> Table {
        Table::parse(
            "
            animal | legs | 动物
            a dog  | four | 狗
            an eel | -    | 鳗鱼
            ",
        )
    }

    #[test]
    fn a_template_takes_cells_by_name() {
        let table = animals();
        let filled = table.fill("{Animal} ({动物}) has {legs} legs.", &table.rows()[0]);
        assert_eq!(filled.as_deref(), Some("A dog (狗) has four legs."));
    }

    #[test]
    fn a_cell_with_nothing_leaves_the_template_out() {
        let table = animals();
        assert_eq!(table.fill("{Animal} has {legs} legs.", &table.rows()[1]), None);
        assert_eq!(table.fill("This is {animal}.", &table.rows()[1]).as_deref(), Some("This is an eel."));
    }

    #[test]
    fn both_ways_adds_the_reverse_of_each_row() {
        let table = Table::parse("word | opposite\nhot | cold\nbig | small")
            .both_ways(&[("word".into(), "opposite".into())]);
        assert_eq!(table.rows(), [["hot", "cold"], ["big", "small"], ["cold", "hot"], ["small", "big"]]);
    }

    #[test]
    #[should_panic(expected = "a row has other cells")]
    fn a_row_with_a_missing_cell_is_refused() {
        Table::parse("word | opposite\nhot");
    }
}
