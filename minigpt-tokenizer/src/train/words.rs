//! The distinct words of a text and how often each was seen.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::convert::Infallible;

/// Bytes of a word that are looked at together; no language has longer ones.
const LONGEST: usize = 1 << 14;

/// Words with their counts.
#[derive(Debug, Default)]
pub(super) struct Words(HashMap<Box<[u8]>, u64, RandomState>);

impl Words {
    /// Counts one more. A word that is longer than any word takes the memory of its parts.
    pub(super) fn add(&mut self, word: &str) -> Result<(), Infallible> {
        for part in word.as_bytes().chunks(LONGEST) {
            match self.0.get_mut(part) {
                Some(count) => *count += 1,
                None => {
                    self.0.insert(part.into(), 1);
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_without_end_is_counted_by_its_parts() {
        let mut words = Words::default();
        let Ok(()) = words.add(&"a".repeat(1000 * LONGEST + 7));
        let counted: Vec<_> = words.in_order().into_iter().map(|(count, word)| (count, word.len())).collect();
        assert_eq!(counted, [(1, 7), (1000, LONGEST)]);
    }
}
