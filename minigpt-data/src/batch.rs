//! What training takes in one step: rows of ids and, shifted by one, the ids that should follow.

use std::ops::Range;

/// The target of a position that the loss leaves out.
pub const IGNORE: u32 = u32::MAX;

/// No row is wider than this: far beyond any context, and a mistyped length can't exhaust the memory.
pub(crate) const MAX_COLS: usize = 1 << 24;

/// Examples of equal width, row after row.
///
/// `targets[i]` is what should follow `inputs[i]`, or [`IGNORE`] where that is padding or not to be learned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// `rows × cols` ids.
    pub inputs: Vec<u32>,
    /// `rows × cols` ids or [`IGNORE`].
    pub targets: Vec<u32>,
    /// Examples (B).
    pub rows: usize,
    /// Positions of each (T).
    pub cols: usize,
    /// How many positions of each row are real; the rest, at its end, is padding.
    pub lengths: Vec<usize>,
}

impl Batch {
    /// An empty batch of a width, with room for `rows`.
    pub(crate) fn with_capacity(rows: usize, cols: usize) -> Self {
        Batch {
            inputs: Vec::with_capacity(rows * cols),
            targets: Vec::with_capacity(rows * cols),
            rows: 0,
            cols,
            lengths: Vec::with_capacity(rows),
        }
    }

    /// Appends a row, padded to the width with `pad`. `sequence` has one id more than the row has positions;
    /// `learned` says of each id whether predicting it counts.
    pub(crate) fn push(&mut self, sequence: &[u32], learned: impl Fn(usize) -> bool, pad: u32) {
        let length = sequence.len() - 1;
        assert!(length <= self.cols, "{length} positions don't fit {}", self.cols);
        self.rows += 1;
        self.lengths.push(length);
        self.inputs.extend_from_slice(&sequence[..length]);
        self.inputs.resize(self.rows * self.cols, pad);
        self.targets.extend((1..sequence.len()).map(|i| if learned(i) { sequence[i] } else { IGNORE }));
        self.targets.resize(self.rows * self.cols, IGNORE);
    }

    /// The same rows as at most `parts` batches of about equal size, each as wide as its longest row.
    pub fn split(&self, parts: usize) -> Vec<Batch> {
        let parts = parts.clamp(1, self.rows.max(1));
        (0..parts).map(|part| self.part(part * self.rows / parts..(part + 1) * self.rows / parts)).collect()
    }

    fn part(&self, rows: Range<usize>) -> Batch {
        let lengths = self.lengths[rows.clone()].to_vec();
        let cols = lengths.iter().copied().max().unwrap_or(self.cols);
        let narrowed = |ids: &[u32]| -> Vec<u32> {
            rows.clone().flat_map(|row| &ids[row * self.cols..][..cols]).copied().collect()
        };
        let (inputs, targets) = (narrowed(&self.inputs), narrowed(&self.targets));
        Batch { inputs, targets, rows: rows.len(), cols, lengths }
    }

    /// `rows × cols`: true where there is a token, false where there is padding (the attention mask).
    pub fn mask(&self) -> Vec<bool> {
        self.lengths.iter().flat_map(|&length| (0..self.cols).map(move |at| at < length)).collect()
    }

    /// How many targets count: what the loss is a mean over.
    pub fn target_count(&self) -> usize {
        self.targets.iter().filter(|&&target| target != IGNORE).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_inputs_shifted_by_one_and_padding_is_ignored() {
        let mut batch = Batch::with_capacity(2, 3);
        batch.push(&[5, 6, 7, 8], |_| true, 0);
        batch.push(&[9, 4], |_| true, 0);
        assert_eq!(batch.inputs, [5, 6, 7, 9, 0, 0]);
        assert_eq!(batch.targets, [6, 7, 8, 4, IGNORE, IGNORE]);
        assert_eq!(batch.mask(), [true, true, true, true, false, false]);
        assert_eq!((batch.rows, batch.cols, batch.target_count()), (2, 3, 4));
        assert_eq!(batch.lengths, [3, 1]);
    }

    #[test]
    fn parts_hold_every_row_once_and_no_needless_padding() {
        let mut batch = Batch::with_capacity(3, 4);
        batch.push(&[5, 6, 7, 8, 9], |_| true, 0);
        batch.push(&[1, 2], |_| true, 0);
        batch.push(&[3, 4, 5], |i| i > 1, 0);
        let parts = batch.split(2);
        assert_eq!(parts.len(), 2);
        assert_eq!((parts[0].rows, parts[0].cols, &parts[0].inputs[..]), (1, 4, &[5, 6, 7, 8][..]));
        assert_eq!((parts[1].rows, parts[1].cols, &parts[1].inputs[..]), (2, 2, &[1, 0, 3, 4][..]));
        assert_eq!(parts[1].targets, [2, IGNORE, IGNORE, 5]);
        assert_eq!(parts[1].lengths, [1, 2]);
        assert_eq!(batch.split(9).len(), 3);
        assert_eq!(batch.split(0), batch.split(1));
    }
}
