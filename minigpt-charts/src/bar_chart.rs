//! What a bar chart is: how many there are of each size, in bars of equal width from 0 on.

use crate::number::count;
use crate::{bar_svg, bar_terminal};

/// Bars of equal width, the first of which begins at 0.
#[derive(Debug, Clone, Default)]
pub struct BarChart {
    /// Stands on top.
    pub title: String,
    /// Stands below the title.
    pub subtitle: String,
    /// What is to the right.
    pub x: String,
    /// How many whole numbers share a bar.
    pub step: u64,
    /// How many there are in each bar.
    pub counts: Vec<u64>,
    /// Whether the last bar holds everything beyond the others.
    pub open_ended: bool,
    /// A place to mark.
    pub mark: Option<Mark>,
}

/// A line across the bars with its text. One that is beyond the bars, or in an open-ended one, is not drawn.
#[derive(Debug, Clone)]
pub struct Mark {
    /// The line is behind this number.
    pub after: u64,
    /// What it means.
    pub text: String,
}

impl BarChart {
    /// One SVG file that needs nothing else, for light and dark pages.
    pub fn svg(&self) -> String {
        bar_svg::draw(self)
    }

    /// One line a bar for a terminal of so many columns: its numbers, the bar, the count.
    pub fn terminal(&self, columns: usize) -> String {
        bar_terminal::draw(self, columns)
    }

    /// The count of the highest bar, at least 1.
    pub(crate) fn highest(&self) -> u64 {
        self.counts.iter().copied().max().unwrap_or(0).max(1)
    }

    /// Whether bar `i` holds everything from its begin on.
    pub(crate) fn is_open(&self, i: usize) -> bool {
        self.open_ended && i + 1 == self.counts.len()
    }

    /// The numbers that bar `i` holds.
    pub(crate) fn label(&self, i: usize) -> String {
        let from = (i as u64).saturating_mul(self.step);
        match self.step {
            _ if self.is_open(i) => format!("{}…", count(from)),
            0 | 1 => count(from),
            step => format!("{}–{}", count(from), count(from.saturating_add(step - 1))),
        }
    }
}
