//! What training takes in one step: rows of ids and, shifted by one, the ids that should follow.

use std::cmp::Reverse;

/// The target of a position that the loss leaves out: padding, or a token that is not to be learned.
///
/// The same as `minigpt_kernels::IGNORE`, which the fused cross-entropy skips. This crate does not know the kernels, so
/// `minigpt-train`, which sees both, asserts that they are equal when it is compiled.
pub const IGNORE: u32 = u32::MAX;

/// No row is wider than this: far beyond any context, and a mistyped length can't exhaust the memory.
pub(crate) const MAX_COLS: usize = 1 << 24;

/// Rows of unlike length are split in so many rounds: more waste less on padding, and more on small products.
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

    /// The same rows in at most `parts` parts for workers that compute side by side, about as much work in each. A
    /// part is one or several batches of rows of like length, so that little of it is padding.
    pub fn split(&self, parts: usize) -> Vec<Vec<Batch>> {
        let parts = parts.clamp(1, self.rows.max(1));
        let mut rows: Vec<usize> = (0..self.rows).collect();
        rows.sort_by_key(|&row| Reverse(self.lengths[row]));
        let alike = rows.iter().all(|&row| self.lengths[row] == self.cols);
        let chunks = if alike { parts } else { (ROUNDS * parts).min(self.rows.max(1)) };
        let mut split = vec![Vec::new(); parts];
        for chunk in 0..chunks {
            // To and fro: the part that got the longest rows in one round gets the shortest in the next.
            let (round, place) = (chunk / parts, chunk % parts);
            let part = if round % 2 == 0 { place } else { parts - 1 - place };
            let range = chunk * self.rows / chunks..(chunk + 1) * self.rows / chunks;
            split[part].push(self.part(&rows[range]));
        }
        split
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

    /// Four rows of lengths 1, 4, 2 and 1.
    fn uneven() -> Batch {
        let mut batch = Batch::with_capacity(4, 4);
        batch.push(&[1, 2], |_| true, 0);
        batch.push(&[5, 6, 7, 8, 9], |_| true, 0);
        batch.push(&[3, 4, 5], |i| i > 1, 0);
        batch.push(&[6, 7], |_| true, 0);
        batch
    }

    #[test]
    fn every_row_is_in_one_part_with_rows_of_like_length() {
        let batch = uneven();
        let parts = batch.split(2);
        let shapes: Vec<Vec<_>> =
            parts.iter().map(|part| part.iter().map(|batch| (batch.rows, batch.cols)).collect()).collect();
        assert_eq!(shapes, [[(1, 4), (1, 1)], [(1, 2), (1, 1)]]);
        assert_eq!(parts[0][0].inputs, [5, 6, 7, 8]);
        assert_eq!((&parts[1][0].inputs[..], &parts[1][0].targets[..]), (&[3, 4][..], &[IGNORE, 5][..]));
        let all = |parts| batch.split(parts).concat().iter().map(Batch::target_count).sum::<usize>();
        assert_eq!([all(1), all(2), all(3), all(9)], [batch.target_count(); 4]);
    }

    #[test]
    fn a_part_says_which_rows_of_the_whole_batch_it_holds() {
        let whole = uneven();
        assert_eq!(whole.row_numbers, [0, 1, 2, 3]);
        for parts in [1, 2, 3, 9] {
            let mut seen = Vec::new();
            // Parts of parts still count the rows of the whole.
            for part in whole.split(parts).concat().iter().flat_map(|part| part.split(2).concat()) {
                for (row, &number) in part.row_numbers.iter().enumerate() {
                    let length = whole.lengths[number];
                    assert_eq!(part.lengths[row], length);
                    let (ours, its) = (row * part.cols, number * whole.cols);
                    assert_eq!(part.inputs[ours..ours + length], whole.inputs[its..its + length]);
                    seen.push(number);
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, whole.row_numbers, "{parts} parts");
        }
    }

    #[test]
    fn rows_of_one_length_are_split_in_one_round() {
        let mut batch = Batch::with_capacity(3, 2);
        (0..3).for_each(|i| batch.push(&[i, i, i], |_| true, 0));
        let parts = batch.split(2);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
        assert_eq!((parts[0][0].rows, parts[1][0].rows), (1, 2));
        assert_eq!(batch.split(0), [[batch]]);
    }
}
