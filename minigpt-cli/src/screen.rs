//! How much room there is for pictures, bars and tables.

use console::Term;

/// Nothing is drawn narrower than this.
const NARROWEST: usize = 40;
/// What is drawn where nobody's terminal sets a limit.
const ORDINARY: usize = 80;

/// Columns for tables on standard output: those of the terminal, or as many as they need.
pub fn table_columns() -> usize {
    columns(&Term::stdout()).unwrap_or(usize::MAX)
}

/// Columns for pictures on standard output.
pub fn picture_columns() -> usize {
    columns(&Term::stdout()).unwrap_or(ORDINARY)
}

/// Columns for progress, which is on standard error.
pub fn progress_columns() -> usize {
    columns(&Term::stderr()).unwrap_or(ORDINARY)
}

fn columns(terminal: &Term) -> Option<usize> {
    if !terminal.is_term() {
        return None;
    }
    terminal.size_checked().map(|(_, columns)| usize::from(columns).max(NARROWEST))
}

/// As many of the parts as fit into so many columns, the first ones first.
pub fn fitting(parts: &[&str], columns: usize) -> String {
    let mut text = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let gap = if text.is_empty() { "" } else { "  " };
        if minigpt_charts::width(&text) + gap.len() + minigpt_charts::width(part) > columns {
            break;
        }
        text += gap;
        text += part;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_most_is_shown_where_there_is_little_room() {
        let parts = ["loss 1.2", "", "3 s left", "100 tokens/s"];
        assert_eq!(fitting(&parts, 80), "loss 1.2  3 s left  100 tokens/s");
        assert_eq!(fitting(&parts, 20), "loss 1.2  3 s left");
        assert_eq!(fitting(&parts, 4), "");
    }
}
