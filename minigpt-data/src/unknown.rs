//! Characters that a vocabulary lacks, and how often they came.

use minigpt_tokenizer::{Tokenizer, UNK};
use std::collections::BTreeMap;
use std::fmt;

/// Characters of some text that a vocabulary has no token for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unknown(BTreeMap<char, u64>);

impl Unknown {
    /// Those of one text.
    pub fn of(tokenizer: &Tokenizer, text: &str) -> Self {
        let mut unknown = Self::default();
        unknown.add(tokenizer, text);
        unknown
    }

    /// Those of one text in which the names of special tokens mean those tokens.
    pub fn beside_special(tokenizer: &Tokenizer, text: &str) -> Self {
        let mut unknown = Self::default();
        unknown.count(tokenizer.unknown_beside_special(text));
        unknown
    }

    pub(crate) fn add(&mut self, tokenizer: &Tokenizer, text: &str) {
        self.count(tokenizer.unknown(text));
    }

    fn count(&mut self, characters: Vec<char>) {
        for character in characters {
            *self.0.entry(character).or_default() += 1;
        }
    }

    /// The characters, each once, in code-point order.
    pub fn characters(&self) -> Vec<char> {
        self.0.keys().copied().collect()
    }

    /// How many characters there were in all.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// What becomes of them, in words; none where there are none.
    pub fn in_words(&self, tokenizer: &Tokenizer) -> Option<String> {
        let becomes = match tokenizer.special_id(UNK) {
            Some(_) => format!("stand as {UNK}"),
            None => "are left out".to_owned(),
        };
        (!self.0.is_empty()).then(|| format!("{self} {becomes}: the vocabulary lacks them"))
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        /// Characters that are named.
        const NAMED: usize = 5;
        let mut characters: Vec<(&char, &u64)> = self.0.iter().collect();
        characters.sort_by_key(|&(character, count)| (std::cmp::Reverse(*count), *character));
        let named: Vec<String> = characters
            .iter()
            .take(NAMED)
            .map(|(character, count)| format!("{character:?} × {count}"))
            .collect();
        let more = characters.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} others") } else { String::new() };
        write!(f, "{}{more}", named.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_tokenizer::CharTokenizer;

    #[test]
    fn what_a_vocabulary_lacks_is_counted_and_named() {
        let tokenizer =
            |special: &[&str]| Tokenizer::Char(CharTokenizer::from_text(special, "ab".chars()).unwrap());
        let without = tokenizer(&[]);
        let unknown = Unknown::of(&without, "a$b$é");
        assert_eq!(unknown.total(), 3);
        let words = unknown.in_words(&without).unwrap();
        assert_eq!(words, "'$' × 2, 'é' × 1 are left out: the vocabulary lacks them");
        assert!(unknown.in_words(&tokenizer(&[UNK])).unwrap().contains("stand as <unk>"));
        assert_eq!(Unknown::of(&without, "ab").in_words(&without), None);
        let named = tokenizer(&[UNK]);
        assert_eq!(Unknown::beside_special(&named, "a<unk>x<<unk>b").characters(), ['<', 'x']);
    }
}
