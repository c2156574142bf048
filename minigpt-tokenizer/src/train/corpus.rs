//! All distinct words as tokens in one array, and for each pair of neighbours how often and where it occurs.
//!
//! A token of n bytes takes n cells; its first and its last hold its id, so that both neighbours can be read from
//! where it starts. Joining two tokens writes three cells and moves nothing.

use super::words::Words;
use crate::byte_level;
use crate::error::{Error, Result};
use crate::merges::Rule;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Between words.
const EDGE: u32 = u32::MAX;
/// Where a token started that has been joined to the one before it.
const JOINED: u32 = u32::MAX - 1;

/// Two neighbours.
type Pair = (u32, u32);

/// Words as tokens, and their pairs.
#[derive(Debug)]
pub(super) struct Corpus {
    cells: Vec<u32>,
    /// The length of each token in bytes.
    lengths: Vec<u32>,
    /// From this cell on, words were seen so often. Words are in the order of their counts, so there are few of these.
    counts: Vec<(u32, u64)>,
    pairs: HashMap<Pair, Places, RandomState>,
    /// Pairs by count, and the smaller ids first where it is equal. Counts that have since fallen are corrected when
    /// they come up.
    queue: BinaryHeap<(u64, Reverse<Pair>)>,
}

/// How often a pair is seen, and the cells where it starts; some may have been joined otherwise since.
#[derive(Debug, Default)]
struct Places {
    count: u64,
    starts: Vec<u32>,
}

impl Corpus {
    /// Lays out the words; the id of a byte is its place in the alphabet plus `first_byte`.
    pub(super) fn new(words: Words, first_byte: u32) -> Result<Self> {
        let mut ids = [0; 256];
        byte_level::alphabet().iter().zip(first_byte..).for_each(|(&byte, id)| ids[usize::from(byte)] = id);
        let words = words.in_order();
        let size = words.iter().map(|(_, word)| word.len() + 1).sum::<usize>() + 1;
        if size >= JOINED as usize {
            return Err(Error::TooManyWords { bytes: size });
        }
        let mut cells = Vec::with_capacity(size);
        let mut counts: Vec<(u32, u64)> = Vec::new();
        cells.push(EDGE);
        for (count, word) in words {
            if counts.last().is_none_or(|&(_, last)| last != count) {
                counts.push((cells.len() as u32, count));
            }
            cells.extend(word.iter().map(|&byte| ids[usize::from(byte)]));
            cells.push(EDGE);
        }
        let lengths = vec![1; first_byte as usize + 256];
        let mut corpus = Self { cells, lengths, counts, pairs: HashMap::default(), queue: BinaryHeap::new() };
        corpus.count_pairs();
        Ok(corpus)
    }

    /// The pair seen most often, if often enough.
    pub(super) fn best_pair(&mut self, min_frequency: u64) -> Option<Pair> {
        while let Some((count, Reverse(pair))) = self.queue.pop() {
            let now = self.pairs.get(&pair).map_or(0, |places| places.count);
            if now == count && now >= min_frequency {
                return Some(pair);
            }
            if now < count && now >= min_frequency {
                self.queue.push((now, Reverse(pair)));
            }
        }
        None
    }

    /// Never offers this pair again.
    pub(super) fn forget(&mut self, left: u32, right: u32) {
        self.pairs.remove(&(left, right));
    }

    /// Joins a pair wherever it occurs, from left to right.
    pub(super) fn join(&mut self, rule: Rule) {
        self.lengths.push(self.length(rule.left) + self.length(rule.right));
        let places = self.pairs.remove(&(rule.left, rule.right)).unwrap_or_default();
        let mut grown = Vec::new();
        for start in places.starts {
            self.join_at(start, rule, &mut grown);
        }
        grown.sort_unstable();
        grown.dedup();
        for pair in grown {
            if let Some(places) = self.pairs.get(&pair) {
                self.queue.push((places.count, Reverse(pair)));
            }
        }
    }

    fn join_at(&mut self, start: u32, Rule { left, right, joined }: Rule, grown: &mut Vec<Pair>) {
        let middle = start + self.length(left);
        if self.cell(start) != left || self.cell(middle) != right {
            return;
        }
        let count = self.count_at(start);
        let end = middle + self.length(right);
        let (before, after) = (self.cell(start - 1), self.cell(end));
        if before != EDGE {
            self.less((before, left), count);
            self.more((before, joined), count, start - self.length(before), grown);
        }
        if after != EDGE {
            self.less((right, after), count);
            self.more((joined, after), count, start, grown);
        }
        self.cells[middle as usize] = JOINED;
        self.cells[start as usize] = joined;
        self.cells[end as usize - 1] = joined;
    }

    fn count_pairs(&mut self) {
        let mut counts = self.counts.iter().copied().peekable();
        let mut count = 0;
        for (two, start) in self.cells.windows(2).zip(0..) {
            while let Some((_, next)) = counts.next_if(|&(from, _)| from <= start) {
                count = next;
            }
            if two[0] != EDGE && two[1] != EDGE {
                let places = self.pairs.entry((two[0], two[1])).or_default();
                places.count += count;
                places.starts.push(start);
            }
        }
        self.queue = self.pairs.iter().map(|(&pair, places)| (places.count, Reverse(pair))).collect();
    }

    fn less(&mut self, pair: Pair, count: u64) {
        let Some(places) = self.pairs.get_mut(&pair) else { return };
        places.count = places.count.saturating_sub(count);
        if places.count == 0 {
            self.pairs.remove(&pair);
        }
    }

    fn more(&mut self, pair: Pair, count: u64, start: u32, grown: &mut Vec<Pair>) {
        let places = self.pairs.entry(pair).or_default();
        places.count += count;
        places.starts.push(start);
        grown.push(pair);
    }

    fn cell(&self, at: u32) -> u32 {
        self.cells[at as usize]
    }

    fn length(&self, token: u32) -> u32 {
        self.lengths[token as usize]
    }

    /// How often the word around a cell was seen.
    fn count_at(&self, at: u32) -> u64 {
        let after = self.counts.partition_point(|&(from, _)| from <= at);
        self.counts[after - 1].1
    }
}
