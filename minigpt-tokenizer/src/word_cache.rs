//! Remembers how words were encoded: text repeats itself, merging does not have to.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Words longer than this rarely come twice.
const LONGEST: usize = 64;
/// When the words kept reach this many bytes, all are forgotten and the cache starts again.
const FULL: usize = 4 << 20;

/// Words and their ids, in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct WordCache {
    entries: HashTable<Entry>,
    words: Vec<u8>,
    ids: Vec<u32>,
}

/// Where a word and its ids lie.
#[derive(Debug, Clone, Copy)]
struct Entry {
    word: (u32, u32),
    ids: (u32, u32),
}

impl WordCache {
    /// The ids of a word seen before.
    pub(crate) fn get(&self, hash: u64, word: &[u8]) -> Option<&[u32]> {
        let entry = self.entries.find(hash, |entry| self.word(entry) == word)?;
        Some(&self.ids[entry.ids.0 as usize..entry.ids.1 as usize])
    }

    /// Keeps a word that is not in the cache.
    pub(crate) fn insert(&mut self, hash: u64, word: &[u8], ids: &[u32], hasher: &RandomState) {
        if word.len() > LONGEST {
            return;
        }
        if self.words.len() + word.len() > FULL {
            self.entries.clear();
            self.words.clear();
            self.ids.clear();
        }
        let entry = Entry { word: append(&mut self.words, word), ids: append(&mut self.ids, ids) };
        let words = &self.words;
        self.entries.insert_unique(hash, entry, |entry| hasher.hash_one(slice(words, entry.word)));
    }

    fn word(&self, entry: &Entry) -> &[u8] {
        slice(&self.words, entry.word)
    }
}

fn slice(words: &[u8], (start, end): (u32, u32)) -> &[u8] {
    &words[start as usize..end as usize]
}

/// Appends a slice and says where it lies.
fn append<T: Copy>(to: &mut Vec<T>, items: &[T]) -> (u32, u32) {
    let start = to.len() as u32;
    to.extend_from_slice(items);
    (start, to.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_again_until_the_cache_starts_anew() {
        let hasher = RandomState::default();
        let mut cache = WordCache::default();
        let word = |n: u32| format!("word number {n}").into_bytes();
        for n in 0..500_000 {
            cache.insert(hasher.hash_one(&word(n)[..]), &word(n), &[n, n + 1], &hasher);
        }
        assert!(cache.words.len() <= FULL);
        for n in [0, 1, 499_999] {
            let found = cache.get(hasher.hash_one(&word(n)[..]), &word(n));
            assert_eq!(found, (n == 499_999).then_some(&[n, n + 1][..]));
        }
    }

    #[test]
    fn very_long_words_are_not_kept() {
        let (hasher, mut cache) = (RandomState::default(), WordCache::default());
        let word = [b'a'; LONGEST + 1];
        cache.insert(hasher.hash_one(&word[..]), &word, &[1], &hasher);
        assert_eq!(cache.get(hasher.hash_one(&word[..]), &word), None);
    }
}
