//! Learning a byte-level BPE: join the pair of neighbours that is seen most often, and again, until there are enough
//! tokens.
//!
//! Text is kept only as its distinct words with their counts. Learning then costs no more than one pass over their
//! bytes in all: each pair knows where it occurs, and every place where two tokens are joined is visited once.

mod corpus;
mod words;

use crate::bpe::{BpeTokenizer, Origin, Tokens};
use crate::byte_level;
use crate::error::{Error, Result};
use crate::merges::{Merges, Rule};
use crate::piece_stream::PieceStream;
use crate::special;
use corpus::Corpus;
use words::Words;

/// Learns a byte-level BPE from text that may come in pieces.
#[derive(Debug)]
pub struct BpeTrainer {
    vocab_size: usize,
    specials: Vec<String>,
    min_frequency: u64,
    pieces: PieceStream,
    words: Words,
}

/// Progress of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainProgress {
    /// Merges learned.
    pub done: usize,
    /// Merges to learn, if the text has enough pairs.
    pub total: usize,
}

impl BpeTrainer {
    /// Trains a vocabulary of `vocab_size` tokens: the special ones, then the 256 bytes, then the learned ones.
    pub fn new(vocab_size: usize, special: &[&str]) -> Result<Self> {
        let specials: Vec<String> = special.iter().map(|&name| name.to_owned()).collect();
        special::check_names(special.iter().copied())?;
        let least = 256 + specials.len();
        if vocab_size < least || u32::try_from(vocab_size).is_err() {
            return Err(Error::VocabularyTooSmall { vocab_size, specials: specials.len(), least });
        }
        Ok(Self {
            vocab_size,
            specials,
            min_frequency: 1,
            pieces: PieceStream::default(),
            words: Words::default(),
        })
    }

    /// Learns only pairs that occur at least this often. Default: once.
    #[must_use]
    pub fn min_frequency(mut self, min_frequency: u64) -> Self {
        self.min_frequency = min_frequency.max(1);
        self
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, text: &str) {
        let words = &mut self.words;
        let Ok(()) = self.pieces.push(text, |piece, _| words.add(piece));
    }

    /// Ends a text: what comes next does not continue its last word.
    pub fn end_of_text(&mut self) {
        let words = &mut self.words;
        let Ok(()) = self.pieces.finish(|piece, _| words.add(piece));
    }

    /// How many distinct words were seen so far.
    pub fn distinct_words(&self) -> usize {
        self.words.len()
    }

    /// Learns; the same text always gives the same tokenizer. A text with too few pairs gives fewer tokens.
    pub fn train(mut self, mut progress: impl FnMut(TrainProgress)) -> Result<BpeTokenizer> {
        self.end_of_text();
        let first_byte = self.specials.len() as u32;
        let mut tokens = Tokens::default();
        self.specials.iter().for_each(|name| tokens.push(name.as_bytes()));
        byte_level::alphabet().iter().for_each(|&byte| tokens.push(&[byte]));
        let total = self.vocab_size - tokens.len();
        let mut merges = Merges::with_capacity(total.min(1 << 16));
        let mut corpus = Corpus::new(self.words, first_byte)?;
        while merges.rules().len() < total {
            let Some((left, right)) = corpus.best_pair(self.min_frequency) else { break };
            let joined = tokens.len() as u32;
            tokens.push_joined(left, right);
            // A file could not tell a token from a special one of the same name, so such a pair stays apart.
            let spelt = byte_level::spell(tokens.get(joined).unwrap_or_default());
            if self.specials.contains(&spelt) {
                tokens.pop();
                corpus.forget(left, right);
                continue;
            }
            let rule = Rule { left, right, joined };
            corpus.join(rule);
            merges.push(rule);
            progress(TrainProgress { done: merges.rules().len(), total });
        }
        BpeTokenizer::new(tokens, merges, self.specials.into_iter().zip(0..).collect(), Origin::Training)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::Tokenizer;
    use proptest::prelude::*;
    use std::cmp::Reverse;

    fn train(text: &str, vocab_size: usize, special: &[&str]) -> BpeTokenizer {
        let mut trainer = BpeTrainer::new(vocab_size, special).unwrap();
        trainer.push(text);
        trainer.train(|_| {}).unwrap()
    }

    fn learnt(tokenizer: &BpeTokenizer) -> Vec<String> {
        let joined = tokenizer.rules().iter().map(|rule| tokenizer.token(rule.joined).unwrap());
        joined.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    /// The worked example of the Wikipedia article on byte-pair encoding, where "aa" is joined first.
    #[test]
    fn the_textbook_example_is_learnt_in_order() {
        let tokenizer = train("aaabdaaabac", 256 + 3, &[]);
        assert_eq!(learnt(&tokenizer), ["aa", "ab", "aaab"]);
        let ids = Tokenizer::Bpe(tokenizer).encode("aaabdaaabac").unwrap();
        let [a, c, d] = [b'a', b'c', b'd'].map(|byte| u32::from(byte) - 33);
        assert_eq!(ids, [258, d, 258, a, c]);
    }

    #[test]
    fn special_tokens_come_first_then_the_bytes() {
        let tokenizer = train("ab ab ab", 261, &["<pad>", "<unk>", "<sep>"]);
        assert_eq!(tokenizer.vocab_size(), 261);
        assert_eq!(tokenizer.token(2), Some(&b"<sep>"[..]));
        assert_eq!(tokenizer.token(3), Some(&b"!"[..]));
        assert_eq!(learnt(&tokenizer), ["ab", " ab"]);
    }

    #[test]
    fn a_text_with_too_few_pairs_gives_fewer_tokens() {
        assert_eq!(train("ab", 1000, &[]).vocab_size(), 257);
        assert_eq!(train("", 1000, &[]).vocab_size(), 256);
        let mut trainer = BpeTrainer::new(1000, &[]).unwrap().min_frequency(2);
        trainer.push("ab ac ad");
        assert_eq!(learnt(&trainer.train(|_| {}).unwrap()), [" a"]);
    }

    #[test]
    fn a_vocabulary_too_small_for_the_bytes_is_refused() {
        let error = BpeTrainer::new(257, &["<a>", "<b>"]).unwrap_err().to_string();
        assert!(error.contains("need at least 258"), "{error}");
        assert!(BpeTrainer::new(1 << 40, &[]).is_err());
    }

    #[test]
    fn the_name_of_a_special_token_is_not_learnt_as_text() {
        let tokenizer = train("<a> <a> <a>", 300, &["<a>"]);
        assert!(!learnt(&tokenizer).contains(&"<a>".to_owned()), "{:?}", learnt(&tokenizer));
    }

    #[test]
    fn texts_do_not_run_into_each_other() {
        let mut trainer = BpeTrainer::new(300, &[]).unwrap();
        for text in ["a", "b", "a", "b"] {
            trainer.push(text);
            trainer.end_of_text();
        }
        assert_eq!(trainer.distinct_words(), 2);
        assert!(learnt(&trainer.train(|_| {}).unwrap()).is_empty());
    }

    #[test]
    fn progress_counts_merges() {
        let mut seen = Vec::new();
        let mut trainer = BpeTrainer::new(258, &[]).unwrap();
        trainer.push("abcabc");
        trainer.train(|progress| seen.push((progress.done, progress.total))).unwrap();
        assert_eq!(seen, [(1, 2), (2, 2)]);
    }

    /// Counts pairs from scratch before each merge, as the idea says.
    fn train_plainly(text: &str, merges: usize) -> Vec<String> {
        let mut words: Vec<Vec<String>> = crate::pretokenize::pieces(text)
            .map(|piece| byte_level::spell(piece.as_bytes()).chars().map(String::from).collect())
            .collect();
        let mut ids: Vec<String> =
            byte_level::alphabet().iter().map(|&byte| byte_level::spell(&[byte])).collect();
        let mut joined = Vec::new();
        for _ in 0..merges {
            let mut counts = std::collections::HashMap::new();
            words
                .iter()
                .flat_map(|word| word.windows(2))
                .for_each(|two| *counts.entry(two.to_vec()).or_insert(0) += 1);
            let id = |token: &String| ids.iter().position(|known| known == token).unwrap();
            let best = counts.into_iter().max_by_key(|(two, n)| (*n, Reverse((id(&two[0]), id(&two[1])))));
            let Some((two, _)) = best else { break };
            words.iter_mut().for_each(|word| join_plainly(word, &two));
            ids.push(two.concat());
            joined.push(String::from_utf8_lossy(&byte_level::unspell(&two.concat()).unwrap()).into_owned());
        }
        joined
    }

    fn join_plainly(word: &mut Vec<String>, two: &[String]) {
        let mut at = 0;
        while at + 1 < word.len() {
            if word[at..at + 2] == *two {
                word.splice(at..at + 2, [two.concat()]);
            }
            at += 1;
        }
    }

    proptest! {
        #[test]
        fn learning_equals_its_plain_definition(text in "[ab你 ]{0,60}") {
            prop_assert_eq!(learnt(&train(&text, 256 + 20, &[])), train_plainly(&text, 20));
        }

        #[test]
        fn a_trained_tokenizer_gives_back_any_text(text in any::<String>(), sample in "[a-d ]{0,40}") {
            let tokenizer = Tokenizer::Bpe(train(&sample, 280, &[]));
            let ids = tokenizer.encode(&text).unwrap();
            prop_assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        }
    }
}
