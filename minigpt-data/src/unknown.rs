//! Characters that a vocabulary lacks, and how often they occur.

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

    /// What is done with them, if there are any.
    pub fn note(&self, tokenizer: &Tokenizer) -> Option<UnknownNote> {
        let has_unk = tokenizer.special_id(UNK).is_some();
        (!self.0.is_empty()).then(|| UnknownNote { characters: self.clone(), has_unk })
    }

    /// The most frequent characters with their counts, and how many others there are.
    pub fn most_frequent(&self) -> (Vec<(char, u64)>, usize) {
        /// Characters that are named.
        const NAMED: usize = 5;
        let mut characters: Vec<(char, u64)> = self.0.iter().map(|(c, count)| (*c, *count)).collect();
        characters.sort_by_key(|&(character, count)| (std::cmp::Reverse(count), character));
        let others = characters.len().saturating_sub(NAMED);
        characters.truncate(NAMED);
        (characters, others)
    }
}

/// What is done with characters that a vocabulary lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownNote {
    /// The characters.
    pub characters: Unknown,
    /// Whether the vocabulary has `<unk>` for them; otherwise they are left out.
    pub has_unk: bool,
}

impl fmt::Display for UnknownNote {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (named, others) = self.characters.most_frequent();
        for (i, (character, count)) in named.iter().enumerate() {
            write!(f, "{}{character:?} × {count}", if i == 0 { "" } else { ", " })?;
        }
        if others > 0 {
            write!(f, " and {others} others")?;
        }
        f.write_str(" are not in the vocabulary and ")?;
        if self.has_unk { write!(f, "become {UNK}") } else { f.write_str("are left out") }
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
        let note = unknown.note(&without).unwrap().to_string();
        assert_eq!(note, "'$' × 2, 'é' × 1 are not in the vocabulary and are left out");
        assert!(unknown.note(&tokenizer(&[UNK])).unwrap().to_string().ends_with("become <unk>"));
        assert_eq!(Unknown::of(&without, "ab").note(&without), None);
        let named = tokenizer(&[UNK]);
        assert_eq!(Unknown::beside_special(&named, "a<unk>x<<unk>b").characters(), ['<', 'x']);
    }
}
