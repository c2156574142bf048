//! Windows of a text: `block_size` ids and the ids that follow each.

use crate::batch::{Batch, MAX_COLS};
use crate::error::{Error, OptionError, Result};
use crate::loader::Dataset;
use crate::tokens::{Tokens, check_ids};

/// Data up to this many ids is checked against the vocabulary when it is opened; more, only as it is read.
const CHECKED_AT_ONCE: u64 = 1 << 29;

/// A text as numbered windows.
#[derive(Debug, Clone)]
pub struct TextDataset {
    tokens: Tokens,
    block_size: usize,
    vocab_size: usize,
    overlapping: bool,
}

impl TextDataset {
    /// A window from every position, as nanoGPT draws them: for [`Order::Random`](crate::Order::Random).
    ///
    /// # Errors
    /// Too few tokens for one window, or ids beyond the vocabulary.
    pub fn overlapping(tokens: Tokens, block_size: usize, vocab_size: usize) -> Result<Self> {
        Self::new(tokens, block_size, vocab_size, true)
    }

    /// Windows one after another, the last perhaps short, so that every id but the first is predicted exactly
    /// once: for epochs, and for the loss on a whole text.
    ///
    /// # Errors
    /// Fewer than two tokens, or ids beyond the vocabulary.
    pub fn consecutive(tokens: Tokens, block_size: usize, vocab_size: usize) -> Result<Self> {
        Self::new(tokens, block_size, vocab_size, false)
    }

    fn new(tokens: Tokens, block_size: usize, vocab_size: usize, overlapping: bool) -> Result<Self> {
        if block_size == 0 || block_size > MAX_COLS {
            return Err(OptionError::BlockSize { size: block_size, most: MAX_COLS }.into());
        }
        let needed = if overlapping { block_size as u64 + 1 } else { 2 };
        if tokens.len() < needed {
            let (name, tokens) = (tokens.name().clone(), tokens.len());
            return Err(Error::TooShort { name, tokens, needed });
        }
        if tokens.len() <= CHECKED_AT_ONCE {
            tokens.check(vocab_size)?;
        }
        Ok(TextDataset { tokens, block_size, vocab_size, overlapping })
    }

    /// The tokens.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Windows that cover the text once.
    fn windows(&self) -> u64 {
        (self.tokens.len() - 1).div_ceil(self.block_size as u64)
    }
}

impl Dataset for TextDataset {
    fn examples(&self) -> u64 {
        if self.overlapping { self.tokens.len() - self.block_size as u64 } else { self.windows() }
    }

    fn epoch_examples(&self) -> u64 {
        self.windows()
    }

    fn cols(&self) -> usize {
        self.block_size
    }

    fn collate(&self, examples: &[u64]) -> Result<Batch> {
        let width = self.block_size as u64;
        let mut batch = Batch::with_capacity(examples.len(), self.block_size);
        let mut ids = Vec::with_capacity(self.block_size + 1);
        for &example in examples {
            let start = if self.overlapping { example } else { example * width };
            let end = self.tokens.len().min(start + width + 1);
            ids.clear();
            self.tokens.read(start..end, &mut ids)?;
            check_ids(self.tokens.name(), start, &ids, self.vocab_size)?;
            batch.push(&ids, |_| true, 0);
        }
        Ok(batch)
    }

    fn fingerprint(&self) -> Result<String> {
        self.tokens.fingerprint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::IGNORE;
    use crate::loader::{Loader, Order, Sampling};
    use proptest::prelude::*;

    fn counting(n: u32) -> Tokens {
        Tokens::from((0..n).collect::<Vec<u32>>())
    }

    #[test]
    fn windows_start_anywhere_that_nanogpt_starts_them() {
        let data = TextDataset::overlapping(counting(10), 4, 10).unwrap();
        // torch.randint(len(data) - block_size) gives 0..=5.
        assert_eq!(data.examples(), 6);
        let batch = data.collate(&[0, 5]).unwrap();
        assert_eq!(batch.inputs, [0, 1, 2, 3, 5, 6, 7, 8]);
        assert_eq!(batch.targets, [1, 2, 3, 4, 6, 7, 8, 9]);
    }

    #[test]
    fn an_epoch_of_random_windows_reads_as_many_tokens_as_there_are() {
        let data = TextDataset::overlapping(counting(1001), 10, 1001).unwrap();
        let sampling = Sampling { batch_size: 4, order: Order::Random, seed: 1, drop_last: false };
        assert_eq!(Loader::new(data, sampling).unwrap().batches_per_epoch(), 25);
    }

    #[test]
    fn too_little_text_and_foreign_ids_are_refused() {
        let error = TextDataset::overlapping(counting(4), 4, 10).unwrap_err().to_string();
        assert!(error.contains("has 4 tokens, 5 are needed"), "{error}");
        assert!(TextDataset::consecutive(counting(1), 4, 10).is_err());
        for block_size in [0, usize::MAX] {
            assert!(TextDataset::consecutive(counting(9), block_size, 10).is_err());
        }
        let error = TextDataset::overlapping(counting(9), 4, 8).unwrap_err().to_string();
        assert!(error.contains("token 8 is 8, but the vocabulary has 8 entries"), "{error}");
    }

    proptest! {
        #[test]
        fn consecutive_windows_predict_every_token_once(len in 2_u32..60, block in 1_usize..20, batch_size in 1_usize..5) {
            let data = TextDataset::consecutive(counting(len), block, len as usize).unwrap();
            let sampling = Sampling { batch_size, order: Order::Sequential, seed: 0, drop_last: false };
            let mut loader = Loader::new(data, sampling).unwrap();
            let (mut inputs, mut targets) = (Vec::new(), Vec::new());
            for _ in 0..loader.batches_per_epoch() {
                let batch = loader.next_batch().unwrap();
                prop_assert_eq!(batch.cols, block);
                let mask = batch.mask();
                inputs.extend(batch.inputs.iter().zip(&mask).filter(|(_, real)| **real).map(|(id, _)| *id));
                targets.extend(batch.targets.iter().copied().filter(|&id| id != IGNORE));
            }
            prop_assert!(inputs.into_iter().eq(0..len - 1));
            prop_assert!(targets.into_iter().eq(1..len));
        }
    }
}
