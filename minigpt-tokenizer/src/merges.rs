//! The heart of byte-pair encoding: joining neighbours, always the pair learnt first, until no pair is known.
//!
//! Short pieces scan for the best pair after each merge, which is quadratic but runs in registers and cache; long
//! ones keep the candidates in a heap, so that a line of ten megabytes without a space stays near-linear.

use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No pair: later than any rank.
const NEVER: u32 = u32::MAX;
/// Beyond the end of a piece.
const END: u32 = u32::MAX;
/// Up to this many bytes scanning is faster than the heap.
const SHORT: usize = 128;

/// What two neighbours become, and in which order pairs were learnt.
#[derive(Debug, Clone, Default)]
pub(crate) struct Merges {
    ranks: HashMap<u64, u32, foldhash::fast::RandomState>,
    /// By rank: left, right, and the token they become.
    rules: Vec<Rule>,
}

/// `left` and `right` become `joined`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) left: u32,
    pub(crate) right: u32,
    pub(crate) joined: u32,
}

/// Memory that one merge after another reuses.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    ids: Vec<u32>,
    ranks: Vec<u32>,
}

impl Merges {
    pub(crate) fn with_capacity(rules: usize) -> Self {
        let ranks = HashMap::with_capacity_and_hasher(rules, foldhash::fast::RandomState::default());
        Self { ranks, rules: Vec::with_capacity(rules) }
    }

    /// Adds the next rule; false where the pair has one already.
    pub(crate) fn push(&mut self, rule: Rule) -> bool {
        let rank = self.rules.len() as u32;
        let new = self.ranks.insert(pair(rule.left, rule.right), rank).is_none();
        self.rules.push(rule);
        new
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Merges the ids of one piece and appends what remains.
    pub(crate) fn apply(&self, ids: impl Iterator<Item = u32>, scratch: &mut Scratch, out: &mut Vec<u32>) {
        scratch.ids.clear();
        scratch.ids.extend(ids);
        if scratch.ids.len() <= SHORT {
            self.apply_scanning(scratch);
            out.extend_from_slice(&scratch.ids);
        } else {
            self.apply_with_heap(&mut scratch.ids, out);
        }
    }

    fn rank(&self, left: u32, right: u32) -> u32 {
        self.ranks.get(&pair(left, right)).copied().unwrap_or(NEVER)
    }

    /// `ranks[i]` is the rank of the pair that starts at `ids[i]`; the last id starts none.
    fn apply_scanning(&self, Scratch { ids, ranks }: &mut Scratch) {
        ranks.clear();
        ranks.extend(ids.windows(2).map(|two| self.rank(two[0], two[1])));
        while let Some(best) = ranks.iter().copied().min().filter(|&best| best != NEVER) {
            let Some(at) = ranks.iter().position(|&rank| rank == best) else { break };
            ids[at] = self.rules[best as usize].joined;
            ids.remove(at + 1);
            ranks.remove(at);
            if at < ranks.len() {
                ranks[at] = self.rank(ids[at], ids[at + 1]);
            }
            if at > 0 {
                ranks[at - 1] = self.rank(ids[at - 1], ids[at]);
            }
        }
    }

    /// The same over a linked list; a candidate whose pair has changed since is dropped when it comes up.
    fn apply_with_heap(&self, ids: &mut [u32], out: &mut Vec<u32>) {
        let length = ids.len() as u32;
        let mut links: Vec<(u32, u32)> =
            (0..length).map(|at| (at.wrapping_sub(1), if at + 1 < length { at + 1 } else { END })).collect();
        let candidate = |left: u32, right: u32, at: u32| {
            let rank = self.rank(left, right);
            (rank != NEVER).then_some(Reverse((rank, at)))
        };
        let starts = ids.windows(2).zip(0..);
        let mut heap: BinaryHeap<_> = starts.filter_map(|(two, at)| candidate(two[0], two[1], at)).collect();
        while let Some(Reverse((rank, at))) = heap.pop() {
            let rule = self.rules[rank as usize];
            let (before, next) = links[at as usize];
            if next == END || ids[at as usize] != rule.left || ids[next as usize] != rule.right {
                continue;
            }
            let after = links[next as usize].1;
            ids[at as usize] = rule.joined;
            ids[next as usize] = NEVER;
            links[at as usize].1 = after;
            if after != END {
                links[after as usize].0 = at;
                heap.extend(candidate(rule.joined, ids[after as usize], at));
            }
            if before != END {
                heap.extend(candidate(ids[before as usize], rule.joined, before));
            }
        }
        let mut at = 0;
        while at != END {
            out.push(ids[at as usize]);
            at = links[at as usize].1;
        }
    }
}

fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn merges(rules: &[(u32, u32, u32)]) -> Merges {
        let mut merges = Merges::default();
        for &(left, right, joined) in rules {
            merges.push(Rule { left, right, joined });
        }
        merges
    }

    fn scanned(merges: &Merges, ids: &[u32]) -> Vec<u32> {
        let mut scratch = Scratch { ids: ids.to_vec(), ranks: Vec::new() };
        merges.apply_scanning(&mut scratch);
        scratch.ids
    }

    fn heaped(merges: &Merges, ids: &[u32]) -> Vec<u32> {
        let mut out = Vec::new();
        merges.apply_with_heap(&mut ids.to_vec(), &mut out);
        out
    }

    #[test]
    fn the_pair_learnt_first_is_joined_first_and_the_leftmost_of_equals() {
        let merges = merges(&[(1, 1, 2), (0, 1, 3), (2, 1, 4)]);
        assert_eq!(scanned(&merges, &[0, 1, 1, 1]), [0, 4]);
        assert_eq!(scanned(&merges, &[0, 1, 0, 1, 1]), [3, 0, 2]);
    }

    #[test]
    fn a_pair_can_be_given_once_only() {
        let mut merges = merges(&[(0, 1, 2)]);
        assert!(!merges.push(Rule { left: 0, right: 1, joined: 3 }));
    }

    proptest! {
        /// Rules need not be such as training makes: files may hold any.
        #[test]
        fn both_ways_of_merging_agree(
            rules in prop::collection::btree_map((0_u32..6, 0_u32..6), 0_u32..6, 0..12),
            ids in prop::collection::vec(0_u32..4, 1..80),
        ) {
            let rules: Vec<_> = rules.into_iter().map(|((left, right), joined)| (left, right, joined)).collect();
            let merges = merges(&rules);
            prop_assert_eq!(scanned(&merges, &ids), heaped(&merges, &ids));
        }
    }
}
