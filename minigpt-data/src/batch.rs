//! What training takes in one step: rows of ids and, shifted by one, the ids that should follow.

use std::cmp::Reverse;

/// The target of a position that the loss leaves out.
pub const IGNORE: u32 = u32::MAX;

/// No row is wider than this: far beyond any context, and a mistyped length can't exhaust the memory.
pub(crate) const MAX_COLS: usize = 1 << 24;

/// Rows of unlike length are dealt in so many rounds: more waste less on padding, and more on small products.
const ROUNDS: usize = 2;

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
    /// Which row of the whole batch each row is: 0, 1, 2, … unless this is a part of one.
    pub row_numbers: Vec<usize>,
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
            row_numbers: Vec::with_capacity(rows),
        }
    }

    /// Appends a row, padded to the width with `pad`. `sequence` has one id more than the row has positions;
    /// `learned` says of each id whether predicting it counts.
    pub(crate) fn push(&mut self, sequence: &[u32], learned: impl Fn(usize) -> bool, pad: u32) {
        let length = sequence.len() - 1;
        assert!(length <= self.cols, "{length} positions don't fit {}", self.cols);
        self.row_numbers.push(self.rows);
        self.rows += 1;
        self.lengths.push(length);
        self.inputs.extend_from_slice(&sequence[..length]);
        self.inputs.resize(self.rows * self.cols, pad);
        self.targets.extend((1..sequence.len()).map(|i| if learned(i) { sequence[i] } else { IGNORE }));
        self.targets.resize(self.rows * self.cols, IGNORE);
    }

    /// The same rows dealt to at most `hands` that compute side by side, about as much to each. Rows of like length go
    /// together, so that little of it is padding.
    pub fn deal(&self, hands: usize) -> Vec<Vec<Batch>> {
        let hands = hands.clamp(1, self.rows.max(1));
        let mut rows: Vec<usize> = (0..self.rows).collect();
        rows.sort_by_key(|&row| Reverse(self.lengths[row]));
        let alike = rows.iter().all(|&row| self.lengths[row] == self.cols);
        let parts = if alike { hands } else { (ROUNDS * hands).min(self.rows.max(1)) };
        let mut dealt = vec![Vec::new(); hands];
        for part in 0..parts {
            // To and fro: whoever got the longest rows in one round gets the shortest in the next.
            let (round, place) = (part / hands, part % hands);
            let hand = if round % 2 == 0 { place } else { hands - 1 - place };
            let range = part * self.rows / parts..(part + 1) * self.rows / parts;
            dealt[hand].push(self.part(&rows[range]));
        }
        dealt
    }

    fn part(&self, rows: &[usize]) -> Batch {
        let lengths: Vec<usize> = rows.iter().map(|&row| self.lengths[row]).collect();
        let cols = lengths.iter().copied().max().unwrap_or(self.cols);
        let narrowed = |ids: &[u32]| -> Vec<u32> {
            rows.iter().flat_map(|row| &ids[row * self.cols..][..cols]).copied().collect()
        };
        let (inputs, targets) = (narrowed(&self.inputs), narrowed(&self.targets));
        let row_numbers = rows.iter().map(|&row| self.row_numbers[row]).collect();
        Batch { inputs, targets, rows: rows.len(), cols, lengths, row_numbers }
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
    fn every_row_is_dealt_once_with_rows_of_like_length() {
        let mut batch = Batch::with_capacity(4, 4);
        batch.push(&[1, 2], |_| true, 0);
        batch.push(&[5, 6, 7, 8, 9], |_| true, 0);
        batch.push(&[3, 4, 5], |i| i > 1, 0);
        batch.push(&[6, 7], |_| true, 0);
        let dealt = batch.deal(2);
        let shapes: Vec<Vec<_>> =
            dealt.iter().map(|hand| hand.iter().map(|part| (part.rows, part.cols)).collect()).collect();
        assert_eq!(shapes, [[(1, 4), (1, 1)], [(1, 2), (1, 1)]]);
        assert_eq!(dealt[0][0].inputs, [5, 6, 7, 8]);
        assert_eq!((&dealt[1][0].inputs[..], &dealt[1][0].targets[..]), (&[3, 4][..], &[IGNORE, 5][..]));
        let all = |hands| batch.deal(hands).concat().iter().map(Batch::target_count).sum::<usize>();
        assert_eq!([all(1), all(2), all(3), all(9)], [batch.target_count(); 4]);
    }

    #[test]
    fn rows_of_one_length_are_dealt_in_one_round() {
        let mut batch = Batch::with_capacity(3, 2);
        (0..3).for_each(|i| batch.push(&[i, i, i], |_| true, 0));
        let dealt = batch.deal(2);
        assert_eq!(dealt.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
        assert_eq!((dealt[0][0].rows, dealt[1][0].rows), (1, 2));
        assert_eq!(batch.deal(0), [[batch]]);
    }
}
