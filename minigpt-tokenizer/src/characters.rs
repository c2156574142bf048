//! The simplest tokenizer: one token a character (a Unicode scalar value), special tokens first.

use crate::error::{Error, Quote, Result};
use crate::files;
use crate::special::{self, Specials};
use foldhash::fast::RandomState;
use hashbrown::HashSet;
use std::path::Path;

/// The special token that stands for characters outside the vocabulary, where there is one.
pub const UNK: &str = "<unk>";
/// Fills the rows of a batch.
pub const PAD: &str = "<pad>";
/// Ends a question, and an answer.
pub const SEP: &str = "<sep>";

/// No token: what the table holds for characters outside the vocabulary.
const NONE: u32 = u32::MAX;

/// One token a character.
#[derive(Debug, Clone)]
pub struct CharTokenizer {
    tokens: Vec<String>,
    table: Table,
    specials: Specials,
    unk: Option<u32>,
    /// Whether a character that has no token, where there is no `<unk>` either, is left out instead of refused.
    leaves_out: bool,
}

/// Collects the characters of a text that may come in pieces.
#[derive(Debug, Clone)]
pub struct CharBuilder {
    specials: Vec<String>,
    /// A bit for each code point.
    seen: Vec<u64>,
}

impl CharBuilder {
    /// Starts a vocabulary whose first ids are these special tokens.
    pub fn new(special: &[&str]) -> Self {
        let specials = special.iter().map(|&name| name.to_owned()).collect();
        Self { specials, seen: vec![0; 0x11_0000 / 64] }
    }

    /// Adds the characters of one piece of text.
    pub fn push(&mut self, text: &str) {
        text.chars().for_each(|character| self.insert(character));
    }

    /// The vocabulary: special tokens, then the characters in code-point order.
    pub fn finish(self) -> Result<CharTokenizer> {
        let has =
            |&character: &char| self.seen[character as usize / 64] >> (character as usize % 64) & 1 == 1;
        let characters = ('\0'..=char::MAX).filter(has).map(String::from);
        let tokens = self.specials.iter().cloned().chain(characters).collect();
        CharTokenizer::from_tokens(tokens, &self.specials)
    }

    fn insert(&mut self, character: char) {
        self.seen[character as usize / 64] |= 1 << (character as usize % 64);
    }
}

impl CharTokenizer {
    /// Special tokens first, then the distinct characters in code-point order.
    pub fn from_text(special: &[&str], characters: impl Iterator<Item = char>) -> Result<Self> {
        let mut builder = CharBuilder::new(special);
        characters.for_each(|character| builder.insert(character));
        builder.finish()
    }

    /// A vocabulary whose ids are the positions of the words: characters, and special tokens such as `<sep>`,
    /// `<|endoftext|>` or `[PAD]`, which their form tells apart.
    pub fn from_words(words: Vec<String>) -> Result<Self> {
        let specials: Vec<String> = words.iter().filter(|word| is_special(word)).cloned().collect();
        let other = words.iter().find(|word| !is_special(word) && word.chars().count() != 1);
        match other {
            Some(word) => Err(Error::NotAWord { word: Quote::new(word) }),
            None => Self::from_tokens(words, &specials),
        }
    }

    /// A vocabulary whose ids are the positions in `tokens`; those in `specials` are names, the rest characters.
    pub(crate) fn from_tokens(tokens: Vec<String>, specials: &[String]) -> Result<Self> {
        special::check_names(specials.iter().map(String::as_str))?;
        let specials: HashSet<&str, RandomState> = specials.iter().map(String::as_str).collect();
        let mut table = Table::default();
        let mut named = Vec::new();
        for (token, id) in tokens.iter().zip(0..) {
            let mut characters = token.chars();
            match (characters.next(), characters.next()) {
                (Some(character), None) if table.insert(character, id) => {}
                (Some(_), None) => {
                    return Err(Error::DuplicateCharacter { token: Quote::new(token) });
                }
                _ if specials.contains(token.as_str()) => named.push((token.clone(), id)),
                _ => return Err(Error::NotACharacter { token: Quote::new(token), id }),
            }
        }
        let specials = Specials::new(named)?;
        let unk = specials.id(UNK);
        Ok(Self { tokens, table, specials, unk, leaves_out: false })
    }

    /// The same, but a character that has no token, where there is no `<unk>` either, is left out instead of refused.
    pub fn leaving_out(self) -> Self {
        Self { leaves_out: true, ..self }
    }

    /// The characters of a text that have no token of their own.
    pub fn unknown<'a>(&'a self, text: &'a str) -> impl Iterator<Item = char> + 'a {
        text.chars().filter(|&character| self.table.get(character) == NONE)
    }

    /// How many tokens there are.
    pub fn vocab_size(&self) -> usize {
        self.tokens.len()
    }

    /// Writes the vocabulary as a `{"word2id", "id2word"}` file.
    pub fn save_vocabulary(&self, path: &Path) -> Result<()> {
        files::save_vocabulary(self, path)
    }

    pub(crate) fn specials(&self) -> &Specials {
        &self.specials
    }

    /// The text of one token.
    pub(crate) fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(id as usize).map(String::as_str)
    }

    /// Tokens in the order of their ids.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Appends one id a character.
    pub(crate) fn encode_into(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let start = ids.len();
        ids.reserve(text.len() / 3);
        for character in text.chars() {
            let id = self.table.get(character);
            if id != NONE {
                ids.push(id);
            } else if let Some(unk) = self.unk {
                ids.push(unk);
            } else if !self.leaves_out {
                return Err(Error::UnknownCharacter { character, position: ids.len() - start });
            }
        }
        Ok(())
    }
}

/// Code point to id in two steps: pages of 256 code points, of which only those in use exist.
#[derive(Debug, Clone)]
struct Table {
    page_of: Vec<u16>,
    pages: Vec<[u32; 256]>,
}

impl Default for Table {
    /// Page 0 is the empty one, shared by all blocks without a character.
    fn default() -> Self {
        Self { page_of: vec![0; 0x1100], pages: vec![[NONE; 256]] }
    }
}

impl Table {
    fn get(&self, character: char) -> u32 {
        let code = character as usize;
        self.pages[usize::from(self.page_of[code >> 8])][code & 0xFF]
    }

    /// False where the character has an id already.
    fn insert(&mut self, character: char, id: u32) -> bool {
        let code = character as usize;
        let page = &mut self.page_of[code >> 8];
        if *page == 0 {
            *page = self.pages.len() as u16;
            self.pages.push([NONE; 256]);
        }
        let slot = &mut self.pages[usize::from(*page)][code & 0xFF];
        std::mem::replace(slot, id) == NONE
    }
}

fn is_special(word: &str) -> bool {
    let inner = word.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    let inner = inner.or_else(|| word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')));
    inner.is_some_and(|name| !name.is_empty() && !name.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_tokens_come_first_then_characters_in_code_point_order() {
        let tokenizer = CharTokenizer::from_text(&["<pad>", "<unk>"], "ba你\n好a".chars()).unwrap();
        assert_eq!(tokenizer.tokens(), ["<pad>", "<unk>", "\n", "a", "b", "你", "好"]);
    }

    #[test]
    fn text_in_pieces_gives_the_same_vocabulary() {
        let mut builder = CharBuilder::new(&[]);
        ["b你", "", "a好"].iter().for_each(|piece| builder.push(piece));
        assert_eq!(builder.finish().unwrap().tokens(), ["a", "b", "你", "好"]);
    }

    #[test]
    fn an_unknown_character_can_be_left_out() {
        let tokenizer = CharTokenizer::from_text(&[], "ab".chars()).unwrap().leaving_out();
        let mut ids = Vec::new();
        tokenizer.encode_into("aéb", &mut ids).unwrap();
        assert_eq!(ids, [0, 1]);
        assert_eq!(tokenizer.unknown("aéb$").collect::<String>(), "é$");
    }

    #[test]
    fn an_unknown_character_is_unk_where_there_is_one() {
        let tokenizer = CharTokenizer::from_text(&["<unk>"], "ab".chars()).unwrap();
        let mut ids = Vec::new();
        tokenizer.encode_into("a你b", &mut ids).unwrap();
        assert_eq!(ids, [1, 0, 2]);
    }

    #[test]
    fn an_unknown_character_is_otherwise_an_error_that_names_it_and_its_position() {
        let tokenizer = CharTokenizer::from_text(&[], "ab".chars()).unwrap();
        let error = tokenizer.encode_into("ab\u{7}", &mut Vec::new()).unwrap_err().to_string();
        assert!(error.starts_with("character 3 of the text is '\\u{7}' (U+0007)"), "{error}");
    }
}
