//! The distinct words of a text and how often each was seen.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::convert::Infallible;

/// Words with their counts.
#[derive(Debug, Default)]
pub(super) struct Words(HashMap<Box<[u8]>, u64, RandomState>);

impl Words {
    /// Counts one more.
    pub(super) fn add(&mut self, word: &str) -> Result<(), Infallible> {
        match self.0.get_mut(word.as_bytes()) {
            Some(count) => *count += 1,
            None => {
                self.0.insert(word.as_bytes().into(), 1);
            }
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Words in which there is something to join, by count and then by their bytes.
    pub(super) fn in_order(self) -> Vec<(u64, Box<[u8]>)> {
        let mut words: Vec<_> = self
            .0
            .into_iter()
            .filter(|(word, _)| word.len() > 1)
            .map(|(word, count)| (count, word))
            .collect();
        words.sort_unstable();
        words
    }
}
