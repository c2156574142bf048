//! Byte-level BPE: text is cut into pieces, a piece is bytes, and neighbouring tokens merge as they were learnt to.

use crate::byte_level;
use crate::error::{Error, Result};
use crate::files;
use crate::merges::{Merges, Rule, Scratch};
use crate::pretokenize::pieces;
use crate::special::Specials;
use crate::word_cache::WordCache;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::Arc;

/// No token.
const NONE: u32 = u32::MAX;
/// Longer tokens rarely stand alone, and in a file from outside there could be many.
const LONGEST_WHOLE: usize = 128;
/// A piece must fit the links of the merge loop.
const LONGEST_PIECE: usize = 1 << 31;

/// A byte-level BPE with GPT-2's way of cutting text into pieces. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct BpeTokenizer(Arc<Bpe>);

#[derive(Debug)]
struct Bpe {
    tokens: Tokens,
    /// The token of each single byte.
    bytes: [u32; 256],
    merges: Merges,
    /// The tokens that their own bytes encode to, but for very long ones: a piece that is one of them needs no
    /// merging.
    whole: HashTable<u32>,
    hasher: RandomState,
    specials: Specials,
}

/// Where a vocabulary comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Training makes each token from two others, so that its own bytes always encode to it.
    Training,
    /// A file may hold tokens that no merge reaches.
    File,
}

/// The bytes of every token, one after another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tokens {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Tokens {
    /// Adds the next token.
    pub(crate) fn push(&mut self, token: &[u8]) {
        self.bytes.extend_from_slice(token);
        self.ends.push(self.bytes.len());
    }

    /// Adds the token that two others make.
    pub(crate) fn push_joined(&mut self, left: u32, right: u32) {
        for id in [left, right] {
            let (start, end) = self.range(id as usize);
            self.bytes.extend_from_within(start..end);
        }
        self.ends.push(self.bytes.len());
    }

    /// Takes the last token away.
    pub(crate) fn pop(&mut self) {
        self.ends.pop();
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    pub(crate) fn get(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        (id < self.ends.len()).then(|| {
            let (start, end) = self.range(id);
            &self.bytes[start..end]
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn range(&self, id: usize) -> (usize, usize) {
        (if id == 0 { 0 } else { self.ends[id - 1] }, self.ends[id])
    }
}

/// State kept between the texts to encode.
#[derive(Debug, Default)]
pub(crate) struct BpeState {
    cache: WordCache,
    scratch: Scratch,
}

impl BpeTokenizer {
    /// Puts a tokenizer together; ids are positions in `tokens`, and special tokens take no part in merging.
    pub(crate) fn new(
        tokens: Tokens,
        merges: Merges,
        specials: Vec<(String, u32)>,
        origin: Origin,
    ) -> Result<Self> {
        let specials = Specials::new(specials)?;
        let is_special: hashbrown::HashSet<u32, RandomState> = specials.iter().map(|(_, id)| id).collect();
        let mut bytes = [NONE; 256];
        let ordinary = (0..tokens.len() as u32).filter(|id| !is_special.contains(id));
        for id in ordinary.clone() {
            if let Some(&[byte]) = tokens.get(id) {
                bytes[usize::from(byte)] = id;
            }
        }
        let (whole, hasher) = (HashTable::with_capacity(tokens.len()), RandomState::default());
        let mut bpe = Bpe { tokens, bytes, merges, whole, hasher, specials };
        let mut scratch = Scratch::default();
        for id in ordinary {
            if origin == Origin::Training || bpe.is_whole(id, &mut scratch) {
                bpe.note_whole(id);
            }
        }
        Ok(Self(Arc::new(bpe)))
    }

    /// A tokenizer from what [`Self::spelt_tokens`] and [`Self::spelt_merges`] give, as a file may hold it; `path` is for
    /// messages. Special tokens are among the tokens.
    pub fn from_spelt(
        path: &Path,
        tokens: &[String],
        merges: &[String],
        specials: &[String],
    ) -> Result<Self> {
        files::bpe_from_spelt(path, tokens, merges, specials)
    }

    /// Every token as GPT-2's files spell it, in the order of the ids: printable letters for bytes, special tokens by name.
    pub fn spelt_tokens(&self) -> Vec<String> {
        let special: HashMap<u32, &str> = self.specials().iter().map(|(name, id)| (id, name)).collect();
        let spelt = |id: u32| match special.get(&id) {
            Some(name) => (*name).to_owned(),
            None => byte_level::spell(self.token(id).unwrap_or_default()),
        };
        (0..self.vocab_size() as u32).map(spelt).collect()
    }

    /// Every merge as GPT-2's files spell it, the first learnt first: two tokens with a space between.
    pub fn spelt_merges(&self) -> Vec<String> {
        let spell = |id: u32| byte_level::spell(self.token(id).unwrap_or_default());
        self.rules().iter().map(|rule| format!("{} {}", spell(rule.left), spell(rule.right))).collect()
    }

    /// How many tokens there are, special ones included.
    pub fn vocab_size(&self) -> usize {
        self.0.tokens.len()
    }

    /// The bytes of one token.
    pub(crate) fn token(&self, id: u32) -> Option<&[u8]> {
        self.0.tokens.get(id)
    }

    pub(crate) fn specials(&self) -> &Specials {
        &self.0.specials
    }

    /// The merge rules, in the order in which they were learned.
    pub(crate) fn rules(&self) -> &[Rule] {
        self.0.merges.rules()
    }

    /// Appends the ids of a text.
    pub(crate) fn encode_into(&self, text: &str, state: &mut BpeState, ids: &mut Vec<u32>) -> Result<()> {
        let mut position = 0;
        for piece in pieces(text) {
            self.encode_piece(piece, position, state, ids)?;
            position += piece.len();
        }
        Ok(())
    }

    /// Appends the ids of one piece, which starts at byte `position` of the text.
    pub(crate) fn encode_piece(
        &self,
        piece: &str,
        position: usize,
        state: &mut BpeState,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        self.0.encode_piece(piece, state, ids).map_err(|error| error.moved(position, 0))
    }
}

impl Bpe {
    fn encode_piece(&self, piece: &str, state: &mut BpeState, ids: &mut Vec<u32>) -> Result<()> {
        let piece = piece.as_bytes();
        let hash = self.hasher.hash_one(piece);
        if let Some(&id) = self.whole.find(hash, |&id| self.tokens.get(id) == Some(piece)) {
            ids.push(id);
            return Ok(());
        }
        if let Some(known) = state.cache.get(hash, piece) {
            ids.extend_from_slice(known);
            return Ok(());
        }
        self.check(piece)?;
        let start = ids.len();
        self.merge(piece, &mut state.scratch, ids);
        state.cache.insert(hash, piece, &ids[start..], &self.hasher);
        Ok(())
    }

    fn merge(&self, piece: &[u8], scratch: &mut Scratch, ids: &mut Vec<u32>) {
        let bytes = piece.iter().map(|&byte| self.bytes[usize::from(byte)]);
        self.merges.apply(bytes, scratch, ids);
    }

    fn check(&self, piece: &[u8]) -> Result<()> {
        if let Some(position) = piece.iter().position(|&byte| self.bytes[usize::from(byte)] == NONE) {
            return Err(Error::UnknownByte { byte: piece[position], position });
        }
        if piece.len() > LONGEST_PIECE {
            return Err(Error::WordTooLong { bytes: piece.len() });
        }
        Ok(())
    }

    /// Whether the bytes of a token encode to it.
    fn is_whole(&self, id: u32, scratch: &mut Scratch) -> bool {
        let token = self.tokens.get(id).unwrap_or_default();
        let mut ids = Vec::new();
        if token.len() <= LONGEST_WHOLE && self.check(token).is_ok() {
            self.merge(token, scratch, &mut ids);
        }
        ids == [id]
    }

    fn note_whole(&mut self, id: u32) {
        let (tokens, hasher) = (&self.tokens, &self.hasher);
        let hash = |id: u32| hasher.hash_one(tokens.get(id).unwrap_or_default());
        self.whole.insert_unique(hash(id), id, |&id| hash(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::BpeTrainer;

    /// What `Origin::Training` relies on.
    #[test]
    fn every_token_that_training_made_is_what_its_bytes_encode_to() {
        let mut trainer = BpeTrainer::new(600, &["<a>"]).unwrap();
        trainer.push("aaaa aaaaaaa abababa bababab <a><a> 你好世界你好 the then there three\n\n\n\n\n");
        for BpeTokenizer(bpe) in [crate::gpt2::gpt2(), trainer.train(|_| {}).unwrap()] {
            let special: Vec<u32> = bpe.specials.iter().map(|(_, id)| id).collect();
            let mut scratch = Scratch::default();
            for id in (0..bpe.tokens.len() as u32).filter(|id| !special.contains(id)) {
                assert!(bpe.is_whole(id, &mut scratch), "{:?}", bpe.tokens.get(id));
            }
        }
    }
}
