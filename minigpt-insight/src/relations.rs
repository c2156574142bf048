//! Syntax, with an honest baseline: does a head look from a word to the word it depends on, or that depends on it, more often
//! than a rule would that always points so many words back? Of two words in a relation the later one looks, as a causal model
//! can do nothing else. A word of several tokens is looked at by the sum over them and looks with their mean.

use crate::attention::each_layer;
use crate::conllu::ParsedSentence;
use crate::error::{InvalidTreebank, Result};
use crate::subject::{Subject, floats};
use serde::Serialize;
use std::collections::BTreeMap;

/// By how much a head must beat the best fixed offset.
pub const RELATION_MARGIN: f64 = 0.1;
/// Pairs that a relation needs for anything to be said about it.
const FEWEST_PAIRS: usize = 10;
/// Words back that a rule may point to.
const FARTHEST: usize = 10;

/// A sentence as tokens: the ids, and the tokens of each word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizedSentence {
    /// The sentence.
    pub sentence: ParsedSentence,
    /// Its tokens.
    pub ids: Vec<u32>,
    /// Of each word the first token and the one behind its last.
    pub words: Vec<(usize, usize)>,
}

/// Which heads follow which relations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Relations {
    /// By relation, most pairs first.
    pub relations: Vec<RelationScore>,
    /// By how much a head must beat the best fixed offset.
    pub margin: f64,
    /// Sentences that were too long for the model's context, and left out.
    pub too_long: usize,
}

/// How well the best head follows a relation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RelationScore {
    /// `nsubj`, `det`, …
    pub relation: String,
    /// Pairs of words in this relation.
    pub pairs: usize,
    /// The layer of the head that most often looks at the partner more than at any other earlier word.
    pub layer: usize,
    /// That head.
    pub head: usize,
    /// In which share of the pairs it does.
    pub hits: f64,
    /// The share of its attention on the partner, a mean over the pairs.
    pub share: f64,
    /// The fixed offset, in words, that is right most often.
    pub offset: usize,
    /// In which share of the pairs it is.
    pub offset_hits: f64,
    /// Whether the head beats it by the margin, with at least ten pairs to tell.
    pub follows: bool,
}

impl TokenizedSentence {
    /// Lays tokens over the words of a sentence. `ends` are the bytes of the sentence's text up to the end of each token.
    pub fn new(sentence: ParsedSentence, ids: Vec<u32>, ends: &[usize]) -> Self {
        let (_, spans) = sentence.text();
        // A token belongs to the word that has its last byte; BPE's spaces stand before a word.
        let first_behind = |at: usize| ends.iter().position(|&end| end > at).unwrap_or(ends.len());
        let words = spans.iter().map(|&(begin, end)| {
            let first = first_behind(begin);
            (first, (first_behind(end.saturating_sub(1)) + 1).min(ids.len()).max(first))
        });
        Self { words: words.collect(), sentence, ids }
    }

    /// Pairs in a relation: the later word, the earlier one, and how they are related.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize, &str)> {
        self.sentence.words.iter().enumerate().filter_map(|(at, word)| {
            let head = word.head?;
            (head != at).then(|| (at.max(head), at.min(head), word.relation.as_str()))
        })
    }
}

#[derive(Default, Clone)]
struct Tally {
    pairs: usize,
    /// By head of the model.
    hits: Vec<usize>,
    shares: Vec<f64>,
    /// By offset, from 1.
    offsets: Vec<usize>,
}

/// Which heads follow which relations in some sentences.
pub fn relations(subject: &Subject, sentences: &[TokenizedSentence]) -> Result<Relations> {
    let config = subject.config();
    let heads = config.n_layer * config.n_head;
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let fits = |sentence: &&TokenizedSentence| (1..=config.block_size).contains(&sentence.ids.len());
    let fitting: Vec<&TokenizedSentence> = sentences.iter().filter(fits).collect();
    for sentence in &fitting {
        let mut at = 0;
        each_layer(subject, &sentence.ids, |_, patterns| {
            for pattern in floats(patterns)?.chunks(sentence.ids.len().pow(2)) {
                tally_head(sentence, pattern, at, heads, &mut tallies);
                at += 1;
            }
            Ok(())
        })?;
        for (later, earlier, relation) in sentence.pairs() {
            let tally = tallies.entry(relation.to_owned()).or_default();
            tally.pairs += 1;
            tally.offsets.resize(FARTHEST, 0);
            if let Some(count) = tally.offsets.get_mut(later - earlier - 1) {
                *count += 1;
            }
        }
    }
    let mut relations: Vec<RelationScore> =
        tallies.into_iter().map(|(relation, tally)| score(relation, &tally, config.n_head)).collect();
    if relations.is_empty() {
        return Err(InvalidTreebank::NoPairs.into());
    }
    relations.sort_by(|a, b| b.pairs.cmp(&a.pairs).then_with(|| a.relation.cmp(&b.relation)));
    Ok(Relations { relations, margin: RELATION_MARGIN, too_long: sentences.len() - fitting.len() })
}

/// Counts what one head, the `at`-th of the model, does in one sentence.
fn tally_head(
    sentence: &TokenizedSentence,
    pattern: &[f32],
    at: usize,
    heads: usize,
    tallies: &mut BTreeMap<String, Tally>,
) {
    let t = sentence.ids.len();
    for (later, earlier, relation) in sentence.pairs() {
        let (from, to) = sentence.words[later];
        let queries = (to - from).max(1) as f64;
        let on = |word: usize| {
            let (first, behind) = sentence.words[word];
            let row =
                |query: usize| pattern[query * t..][first..behind].iter().map(|&a| f64::from(a)).sum::<f64>();
            (from..to).map(row).sum::<f64>() / queries
        };
        let share = on(earlier);
        let tally = tallies.entry(relation.to_owned()).or_default();
        tally.hits.resize(heads, 0);
        tally.shares.resize(heads, 0.0);
        tally.shares[at] += share;
        let most = (0..later).map(on).fold(0.0, f64::max);
        tally.hits[at] += usize::from(share > 0.0 && share >= most);
    }
}

fn score(relation: String, tally: &Tally, n_head: usize) -> RelationScore {
    let pairs = tally.pairs.max(1) as f64;
    let best = (0..tally.hits.len()).max_by_key(|&at| (tally.hits[at], std::cmp::Reverse(at))).unwrap_or(0);
    let (offset, right) = (1..)
        .zip(&tally.offsets)
        .max_by_key(|(offset, count)| (**count, std::cmp::Reverse(*offset)))
        .unwrap_or((1, &0));
    let (hits, offset_hits) = (tally.hits[best] as f64 / pairs, *right as f64 / pairs);
    RelationScore {
        relation,
        pairs: tally.pairs,
        layer: best / n_head,
        head: best % n_head,
        hits,
        share: tally.shares[best] / pairs,
        offset,
        offset_hits,
        follows: tally.pairs >= FEWEST_PAIRS && hits - offset_hits >= RELATION_MARGIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conllu::parse;
    use minigpt_model::{Config, Device, Gpt};

    fn dog() -> ParsedSentence {
        let text = "1\tThe\t_\t_\t_\t_\t2\tdet\t_\t_\n2\tdog\t_\t_\t_\t_\t3\tnsubj\t_\t_\n\
            3\tbarks\t_\t_\t_\t_\t0\troot\t_\tSpaceAfter=No\n4\t.\t_\t_\t_\t_\t3\tpunct\t_\t_\n";
        parse(text).unwrap().remove(0)
    }

    #[test]
    fn tokens_are_laid_over_words() {
        // "The| do|g| barks|."
        let sentence = TokenizedSentence::new(dog(), vec![1, 2, 3, 4, 5], &[3, 6, 7, 13, 14]);
        assert_eq!(sentence.words, [(0, 1), (1, 3), (3, 4), (4, 5)]);
        let pairs: Vec<_> = sentence.pairs().collect();
        assert_eq!(pairs, [(1, 0, "det"), (2, 1, "nsubj"), (3, 2, "punct")]);
    }

    #[test]
    fn a_head_that_looks_one_word_back_hits_no_more_than_the_rule() {
        let sentence = TokenizedSentence::new(dog(), vec![1, 2, 3, 4], &[3, 7, 13, 14]);
        let mut pattern = vec![0f32; 16];
        for (query, key) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
            pattern[query * 4 + key] = 1.0;
        }
        let mut tallies = BTreeMap::new();
        tally_head(&sentence, &pattern, 0, 1, &mut tallies);
        let tally = Tally { pairs: 1, offsets: vec![1], ..tallies["nsubj"].clone() };
        let RelationScore { hits, offset_hits, follows, .. } = score("nsubj".to_owned(), &tally, 1);
        assert_eq!((hits, offset_hits, follows), (1.0, 1.0, false));
    }

    #[test]
    fn relations_of_a_fresh_model_are_counted_and_none_is_claimed() {
        let shape =
            Config { n_layer: 1, n_head: 2, n_embd: 8, block_size: 4, vocab_size: 10, ..Config::default() };
        let gpt = Gpt::new(shape, 1, &Device::Cpu).unwrap();
        let sentence = TokenizedSentence::new(dog(), vec![1, 2, 3, 4], &[3, 7, 13, 14]);
        let long = TokenizedSentence::new(dog(), vec![1, 2, 3, 4, 5], &[3, 6, 7, 13, 14]);
        let found = relations(&Subject::new(&gpt), &[sentence, long.clone()]).unwrap();
        assert_eq!((found.relations.len(), found.too_long), (3, 1));
        assert!(found.relations.iter().all(|relation| !relation.follows && relation.offset == 1));
        assert!(relations(&Subject::new(&gpt), &[long]).is_err());
    }
}
